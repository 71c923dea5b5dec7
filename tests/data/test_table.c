/* Tables as examples: what columns are found to be, rows as numbers, parts by content, messages
 * with file and line. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <math.h>

#include <tilth/data/table.h>
#include <tilth/desc/config.h>

static tl_arena *arena;
static tl_table_schema schema;
static tl_table_findings found;

static int begin(void **state)
{
    (void)state;
    assert_ok(tl_arena_new(&arena));
    return 0;
}

static int end(void **state)
{
    (void)state;
    tl_arena_free(&arena);
    return 0;
}

/* Writes a table, and finds out about it. */
static tl_status look(const char *text, tl_table_find_args args)
{
    const char *path = tl_arena_strdup(arena, in_folder("t.csv"));
    put_bytes(path, text, strlen(text));
    const char **paths = tl_arena_array(arena, 1, sizeof *paths);
    paths[0] = path;
    args.paths = paths;
    args.path_count = 1;
    args.arena = arena;
    return tl_table_schema_find(&schema, &found, &args);
}
#define LOOK(text, ...) look(text, (tl_table_find_args){__VA_ARGS__})
#define LOOK_PLAINLY(text) LOOK(text, .held_out = 0)

static void says(const char *part)
{
    if (!strstr(found.report, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, found.report);
}

static const char *joined(tl_strings names)
{
    tl_str s = TL_STR_INIT;
    for (int64_t i = 0; i < names.count; i++) tl_str_addf(&s, "%s%s", i ? " " : "", names.items[i]);
    const char *copy = tl_arena_strdup(arena, tl_str_text(&s));
    tl_str_deinit(&s);
    return copy;
}

static const char houses[] = "id,area,rooms,city,built,heated,notes,always,empty,price\n"
                             "1,50.5,2,Rome,1990-05-01,yes,warm,x,,100\n"
                             "2,,3,Oslo,2000-01-01,no,cold,x,,205.5\n"
                             "3,70,4,Rome,2010-12-31,yes,old,x,,300\n"
                             "4,90,NA,Paris,1970-01-01,?,new,x,,401\n"
                             "5,55,2,Rome,1990-05-01,yes,loud,x,,122\n"
                             "6,60,3,Oslo,2000-01-01,no,quiet,x,,222\n"
                             "7,70,4,Rome,2010-12-31,yes,high,x,,333\n"
                             "8,90,5,Paris,1970-01-01,no,low,x,,410\n"
                             "9,90,5,Paris,1970-01-01,no,wide,x,,-\n";

static void columns_are_told_apart(void **state)
{
    (void)state;
    const tl_table_category *k;
    assert_ok(LOOK(houses, .target = "price"));
    k = schema.categories.items;
    assert_string_equal(schema.target, "price");
    assert_int_equal(schema.kind, TL_TABLE_REGRESSION);
    assert_int_equal(found.rows, 8);
    assert_true(found.has_header);
    assert_string_equal(joined(schema.numbers), "area rooms built");
    assert_string_equal(joined(schema.dates), "built");
    assert_string_equal(joined(schema.gaps), "area rooms");
    assert_string_equal(joined(schema.ignored), "id notes always empty");
    assert_int_equal(schema.categories.count, 2);
    assert_string_equal(k[0].name, "city");
    // the most frequent first, then by name
    assert_string_equal(joined(k[0].values), "Rome Oslo Paris");
    assert_string_equal(joined(k[1].values), "yes no");
    assert_near(schema.mean.items[0], 485.5 / 7, 1e-12);
    assert_near(schema.target_mean, 2093.5 / 8, 1e-12);
    says("t.csv: 8 rows, 10 columns, separated by ',', named by the first line; 1 row without a "
         "target left out");
    says("target: price, regression: from 100 to 410, mean 261.688");
    says("numbers: area (12.5 % missing), rooms (12.5 % missing), built (date, as days)");
    says("categories: city (3 values), heated (2 values, 12.5 % missing)");
    says("left out: id (it counts the rows), notes (different in every row), always (always the "
         "same), empty (it is empty)");
    tl_table_widths w = tl_table_schema_widths(&schema);
    assert_int_equal(w.numbers, 5);
    assert_int_equal(w.categories, 2);
    assert_int_equal(w.entries, 5 + 4);
    assert_int_equal(w.largest, 5);
}

static void targets_are_told_apart(void **state)
{
    (void)state;
    assert_ok(LOOK_PLAINLY("x,y\n1,b\n2,a\n3,b\n4,a\n"));
    assert_int_equal(schema.kind, TL_TABLE_CLASSIFICATION);
    assert_string_equal(joined(schema.class_names), "a b");
    says("target: y (the last column; task.target=NAME for another), classification: 2 classes: a "
         "50.0 %, b 50.0 %");
    assert_ok(LOOK_PLAINLY("x,y\n1,10\n2,9\n3,10\n4,9\n"));
    assert_string_equal(joined(schema.class_names), "9 10"); // numbers by their size
    says("(task.kind=regression for numbers)");
    assert_ok(LOOK("x,y\n1,10\n2,9\n3,10\n4,9\n", .kind = TL_TABLE_REGRESSION));
    assert_int_equal(schema.kind, TL_TABLE_REGRESSION);
    assert_ok(LOOK_PLAINLY("x,y\n1,0.5\n2,1\n3,0.5\n4,1\n"));
    assert_int_equal(schema.kind, TL_TABLE_REGRESSION);
    assert_ok(LOOK("x,y\n1,0.5\n2,1\n3,0.5\n4,1\n", .kind = TL_TABLE_CLASSIFICATION));
    assert_string_equal(joined(schema.class_names), "0.5 1");
    assert_ok(LOOK("x,y\n1,5\n2,4\n1,3\n2,2\n", .target = "0"));
    assert_string_equal(schema.target, "x");
    assert_fails(LOOK_PLAINLY("x,y\n1,a\n2,b\n3,c\n"), TL_EINVAL,
                 "the column 'y', the target, has 3 different values in 3 rows");
    assert_fails(LOOK_PLAINLY("x,y\n1,a\n2,a\n3,a\n"), TL_EINVAL, "always says 'a'");
    assert_fails(LOOK_PLAINLY("x,y\n1,\n2,?\n"), TL_EINVAL,
                 "has no row with a value in the column 'y'");
    assert_fails(LOOK("x,y\n1,5\n2,a\n3,6\n", .kind = TL_TABLE_REGRESSION), TL_EINVAL,
                 "t.csv:3: column 'y': regression needs a number");
    assert_fails(LOOK("x,y\n1,5\n", .target = "z"), TL_ENOTFOUND, "task.target: '");
    assert_fails(LOOK_PLAINLY("x,y\nk,1\nk,2\n"), TL_EINVAL, "has no column to learn 'y' from");
    assert_fails(LOOK_PLAINLY("x,y\n1,2\n3\n"), TL_EDATA, "t.csv:3: the row has 1 cell");
}

static void columns_are_what_they_are_asked_to_be(void **state)
{
    (void)state;
    const char *const zip[] = {"zip"}, *const wrong[] = {"zop"};
    static const char text[] = "zip,x,y\n10,1,1.5\n20,2,2.5\n10,3,3.5\n20,4,4.5\n";
    assert_ok(LOOK(text, .categories = {zip, 1}));
    const tl_table_category *k = schema.categories.items;
    assert_string_equal(joined(k[0].values), "10 20");
    assert_ok(LOOK(text, .ignore = {zip, 1}));
    assert_string_equal(joined(schema.ignored), "zip");
    says("left out: zip (as it was asked for)");
    assert_fails(LOOK(text, .ignore = {wrong, 1}), TL_ENOTFOUND, "task.ignore: ");
    const char *const all[] = {"zip", "x", "y"};
    assert_fails(LOOK(text, .ignore = {all, 3}), TL_EINVAL,
                 "task.ignore: 'y' is the target, which is learned");
    assert_fails(LOOK(text, .ignore = {all, 2}), TL_EINVAL,
                 "to learn 'y' from: all others are left out by task.ignore");
}

static void warns(const char *part)
{
    if (!found.warnings || !strstr(found.warnings, part))
        fail_msg("nobody is warned:\n%s\nin:\n%s", part,
                 found.warnings ? found.warnings : "(nothing)");
}

/* What may be meant otherwise is told as a warning. */
static void what_is_taken_otherwise_is_told(void **state)
{
    (void)state;
    assert_ok(LOOK_PLAINLY("x,y\n1,a\n2,b\n3,a\n4,b\n"));
    assert_null(found.warnings);
    assert_fails(LOOK_PLAINLY("id,2019,kind\n1,5,a\n2,6,b\n3,7,a\n4,8,b\n"), TL_EINVAL,
                 "classes occur more often. Name another column as target, or kind=regression. The "
                 "first line was taken for a row, though 'id' stands above numbers in it; "
                 "task.train_data.header=first_line takes it for names");
    assert_ok(LOOK_PLAINLY("id,2019,kind\n1,5,a\n2,6,b\n3,7,a\n4,8,b\n5,7,a\n6,8,b\n"));
    warns("t.csv:1: the first line is taken for a row, though 'id' stands above numbers in it; "
          "task.train_data.header=first_line takes it for names of columns");
    assert_ok(LOOK("id,2019,kind\n1,5,a\n2,6,b\n3,7,a\n4,8,b\n", .table.header = TL_HEADER_YES));
    assert_null(found.warnings);
    assert_ok(LOOK_PLAINLY("x,y\n1,a\n2,none\n3,b\n4,none\n5,a\n6,b\n7,-\n8,\n"));
    assert_string_equal(joined(schema.class_names), "a b");
    warns("t.csv: 3 rows are left out, as 'none' or '-' in the column 'y', the target, counts as "
          "missing; a class needs another name");
}

static void equal_numbers_are_one_class(void **state)
{
    (void)state;
    static const char text[] = "x,y\n1,0\n2,0.0\n3,1\n4,1.0\n5,1\n6,0\n7,-0\n8,01\n";
    tl_table *t;
    tl_table_coder *c;
    const tl_cell *cells;
    bool more = true, missing;
    double target;
    assert_ok(LOOK_PLAINLY(text));
    assert_string_equal(joined(schema.class_names), "0 1"); // as they are written most often
    says("2 classes: 0 50.0 %, 1 50.0 %");
    assert_ok(tl_table_from_memory(&t, "t.csv", text, sizeof text - 1, NULL));
    assert_ok(tl_table_coder_new(&c, &schema));
    assert_ok(tl_table_coder_bind(c, t, true));
    for (int i = 0; i < 8; i++) {
        assert_ok(tl_table_next(t, &cells, &more));
        assert_ok(tl_table_coder_target(c, t, cells, &target, &missing));
        assert_true(target == (i >= 2 && i != 5 && i != 6));
    }
    tl_table_coder_free(&c);
    tl_table_free(&t);
    assert_ok(LOOK_PLAINLY("x;y\n1;0,5\n2;0,50\n3;1\n4;1,0\n")); // fractions
    assert_int_equal(schema.kind, TL_TABLE_REGRESSION);
    assert_ok(LOOK("x;y\n1;0,5\n2;0,50\n3;1\n4;1,0\n", .kind = TL_TABLE_CLASSIFICATION));
    assert_string_equal(joined(schema.class_names), "0,5 1");
    assert_ok(LOOK_PLAINLY("x,y\n1,0\n2,0.0\n3,a\n4,0\n5,a\n6,0.0\n")); // texts are what they are
    assert_string_equal(joined(schema.class_names), "0 0.0 a");
}

static void columns_that_count_the_rows(void **state)
{
    (void)state;
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "PassengerId,customer_id,day,y\n");
    for (int i = 0; i < 20; i++)
        tl_str_addf(&s, "%d,%d,%d,%s\n", i + 1, i * 7 % 20, i + 100, i % 3 ? "a" : "b");
    assert_ok(LOOK_PLAINLY(tl_str_text(&s)));
    assert_string_equal(joined(schema.ignored), "PassengerId");
    says("numbers: customer_id, day (counts the rows)");
    tl_str_deinit(&s);
}

/* Numbers that lean far to the right become logarithms, rare values one; texts among numbers are
 * gaps. */
static void many_rows_are_looked_at_closely(void **state)
{
    (void)state;
    tl_str s = TL_STR_INIT;
    tl_str_add(&s, "money,even,kind,mixed,y\n");
    for (int i = 0; i < 200; i++)
        tl_str_addf(&s, "%.3f,%d,%s%d,%s,%d\n", exp(i * 0.06), i % 17, i < 195 ? "k" : "rare",
                    i < 195 ? i % 3 : i,
                    i == 7  ? "broken"
                    : i % 2 ? ".25"
                            : "3.25",
                    i % 2);
    assert_ok(LOOK(tl_str_text(&s), .max_categories = 2));
    const tl_table_category *k = schema.categories.items;
    assert_string_equal(joined(schema.logarithms), "money");
    assert_string_equal(joined(schema.numbers), "money even mixed");
    assert_string_equal(joined(schema.gaps), "mixed");
    assert_string_equal(joined(k[0].values), "k0 k1");
    says("money (logarithm)");
    says("mixed (1 text taken as missing, line 9)");
    says("kind (8 values, 6 rare ones as one)");
    assert_ok(LOOK(tl_str_text(&s), .max_categories = 50));
    k = schema.categories.items;
    assert_string_equal(joined(k[0].values), "k0 k1 k2");
    tl_str_deinit(&s);
}

static void a_schema_is_written_and_read(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    assert_ok(
        LOOK_PLAINLY("x,\"odd: [name]\",y\n1.25,\"a\nb\",yes\n2,'k',no\n3,\"a\nb\",no\n4,'k',\"a, "
                     "b\"\n5,'k',yes\n1,'k',\"a, b\"\n"));
    assert_ok(tl_desc_check(&tl_table_schema_desc, &schema));
    assert_ok(tl_yaml_write(&text, &tl_table_schema_desc, &schema));
    tl_config *c;
    assert_ok(tl_config_new(&c, NULL, &tl_table_schema_desc));
    assert_ok(tl_config_yaml(c, tl_str_text(&text), "schema.yaml"));
    assert_ok(tl_config_finish(c));
    assert_true(tl_desc_equal(&tl_table_schema_desc, &schema, tl_config_value(c)));
    tl_config_free(&c);
    tl_str_deinit(&text);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void rows_become_numbers(void **state)
{
    (void)state;
    tl_table_coder *c;
    tl_table *t;
    const tl_cell *cells;
    bool more = true, missing;
    float numbers[5];
    int32_t categories[2];
    double target;
    assert_ok(LOOK_PLAINLY(houses));
    assert_ok(tl_table_coder_new(&c, &schema));
    // Other columns in another order, and no target.
    static const char text[] =
        "heated;city;built;rooms;more;area\nno;Bonn;1970-01-02;NA;1;1e9\n;Rome;x;3;2;70\n";
    assert_ok(tl_table_from_memory(&t, "new.csv", text, sizeof text - 1, NULL));
    assert_ok(tl_table_coder_bind(c, t, false));
    assert_ok(tl_table_next(t, &cells, &more));
    tl_table_coder_row(c, t, cells, numbers, categories);
    assert_true(numbers[0] == 10); // far away, but not without bounds
    assert_true(numbers[1] == 0 && numbers[3] == 0 && numbers[4] == 1);
    assert_near(numbers[2], (1 - schema.mean.items[2]) / schema.stddev.items[2], 1e-6);
    assert_int_equal(categories[0], TL_CATEGORY_OTHER);
    assert_int_equal(categories[1], 5 + TL_CATEGORY_VALUES + 1);
    assert_ok(tl_table_coder_target(c, t, cells, &target, &missing));
    assert_true(missing);
    assert_ok(tl_table_next(t, &cells, &more));
    tl_table_coder_row(c, t, cells, numbers, categories);
    assert_near(numbers[0], (70 - schema.mean.items[0]) / schema.stddev.items[0], 1e-6);
    assert_true(numbers[2] == 0);
    assert_int_equal(categories[0], TL_CATEGORY_VALUES);
    assert_int_equal(categories[1], 5 + TL_CATEGORY_MISSING);
    assert_fails(tl_table_coder_bind(c, t, true), TL_ENOTFOUND,
                 "'new.csv' has no column 'price', which the model needs");
    tl_table_free(&t);
    assert_ok(tl_table_from_memory(&t, "new.csv", "aera;city\n1;2\n", 14, NULL));
    assert_fails(tl_table_coder_bind(c, t, false), TL_ENOTFOUND,
                 "has no column 'area', which the model needs; is it called 'aera' now?");
    tl_table_free(&t);
    tl_table_coder_free(&c);
}

static tl_status load(tl_table_rows *out, const char *text, tl_table_part part)
{
    const char *path = in_folder("l.csv");
    put_bytes(path, text, strlen(text));
    return tl_table_rows_load(
        out, &schema,
        &(tl_table_load_args){.paths = &path, .path_count = 1, .part = part, .held_out = 0.3});
}

static void targets_that_cannot_be_are_told(void **state)
{
    (void)state;
    tl_table_rows r;
    assert_ok(LOOK_PLAINLY("x,y\n1,b\n2,a\n3,b\n4,a\n"));
    assert_ok(load(&r, "y,x\na,1\n,2\nb,3\n", TL_PART_ALL));
    assert_int_equal(r.count, 2);
    assert_int_equal(r.missing, 1);
    assert_true(r.classes[0] == 0 && r.classes[1] == 1 && r.places[1] == 4);
    tl_table_rows_deinit(&r);
    assert_fails(load(&r, "x,y\n1,b\n2,c\n", TL_PART_ALL), TL_EINVAL,
                 "l.csv:3: column 'y': 'c' is no class of those that the training data has");
    assert_ok(LOOK_PLAINLY("x,y\n1,1.5\n2,2.5\n3,3.5\n"));
    assert_fails(load(&r, "x,y\n1,b\n", TL_PART_ALL), TL_EINVAL,
                 "l.csv:2: column 'y': 'b' is no number");
    assert_fails(load(&r, "x,y\n1,1e300\n", TL_PART_ALL), TL_EINVAL,
                 "l.csv:2: column 'y': '1e300' is too far from the numbers of the training data");
    assert_ok(load(&r, "x,y\n1,2.5\n", TL_PART_ALL));
    assert_near(r.targets[0], 0, 1e-7);
    tl_table_rows_deinit(&r);
}

/* Rows that are held out have no part in the mean and the deviation, and are coded by them. */
static void held_out_targets_lie_near_the_others(void **state)
{
    (void)state;
    int refused = 0;
    for (int far = 1; far < 20; far++) {
        tl_str text = TL_STR_INIT;
        tl_table_rows r;
        tl_str_add(&text, "x,y\n");
        for (int i = 1; i < 20; i++)
            tl_str_addf(&text, i == far ? "%d,1e100\n" : "%d,0.5%d\n", i, i);
        if (LOOK(tl_str_text(&text), .held_out = 0.3) == TL_OK) {
            assert_ok(load(&r, tl_str_text(&text), TL_PART_HELD_OUT));
            for (int64_t i = 0; i < r.count; i++) assert_true(isfinite(r.targets[i]));
            tl_table_rows_deinit(&r);
        } else {
            assert_fails(LOOK(tl_str_text(&text), .held_out = 0.3), TL_EINVAL,
                         "the column 'y', the target, has the number 1e+100, too far");
            refused++;
        }
        tl_str_deinit(&text);
    }
    assert_in_range(refused, 1, 18);
}

/* A row is in one part, in the same one wherever it stands, and so is its double. */
static void parts_are_chosen_by_content(void **state)
{
    (void)state;
    tl_str forth = TL_STR_INIT, back = TL_STR_INIT;
    tl_table_rows training, held_out, all, again;
    tl_str_add(&forth, "x,y\n");
    tl_str_add(&back, "\"x\" ; y\r\n");
    for (int i = 0; i < 1000; i++) {
        tl_str_addf(&forth, "%d,%d\n", i / 2, i / 2 % 2);
        tl_str_addf(&back, "%d;%d\r\n", (999 - i) / 2, (999 - i) / 2 % 2);
    }
    assert_ok(LOOK(tl_str_text(&forth), .held_out = 0.3));
    assert_ok(load(&training, tl_str_text(&forth), TL_PART_TRAINING));
    assert_ok(load(&held_out, tl_str_text(&forth), TL_PART_HELD_OUT));
    assert_ok(load(&all, tl_str_text(&forth), TL_PART_ALL));
    assert_ok(load(&again, tl_str_text(&back), TL_PART_HELD_OUT));
    assert_int_equal(all.count, 1000);
    assert_int_equal(training.count + held_out.count, 1000);
    assert_int_equal(held_out.count, found.held_out);
    assert_int_equal(held_out.count % 2, 0);
    assert_in_range(held_out.count, 230, 370);
    assert_int_equal(again.count, held_out.count);
    for (int64_t i = 0; i < again.count; i++)
        assert_true(again.numbers[i] == held_out.numbers[again.count - 1 - i]);
    tl_table_rows_deinit(&training);
    tl_table_rows_deinit(&held_out);
    tl_table_rows_deinit(&all);
    tl_table_rows_deinit(&again);
    tl_str_deinit(&forth);
    tl_str_deinit(&back);
}

static void files_that_belong_together_are_alike(void **state)
{
    (void)state;
    const char *const paths[] = {tl_arena_strdup(arena, in_folder("a.csv")),
                                 tl_arena_strdup(arena, in_folder("b.csv"))};
    const tl_table_find_args args = {.paths = paths, .path_count = 2, .arena = arena};
    put_bytes(paths[0], "x,y\n1,1.5\n2,2.5\n", 16);
    put_bytes(paths[1], "x,y\n3,3.5\n4,4.5\n", 16);
    assert_ok(tl_table_schema_find(&schema, &found, &args));
    assert_int_equal(found.rows, 4);
    put_bytes(paths[1], "x,z\n3,3.5\n4,4.5\n", 16);
    assert_fails(tl_table_schema_find(&schema, &found, &args), TL_EINVAL, "column 2 of '");
    put_bytes(paths[1], "x\n3\n", 4);
    assert_fails(tl_table_schema_find(&schema, &found, &args), TL_EINVAL, "has 1 columns, and '");
}

static tl_status everything(void)
{
    tl_table_rows r = {0};
    tl_arena *mine;
    const char *path = in_folder("t.csv");
    TL_TRY(tl_arena_new(&mine));
    tl_status st = tl_table_schema_find(
        &schema, &found, &(tl_table_find_args){.paths = &path, .path_count = 1, .arena = mine});
    if (st == TL_OK)
        st =
            tl_table_rows_load(&r, &schema, &(tl_table_load_args){.paths = &path, .path_count = 1});
    tl_table_rows_deinit(&r);
    tl_arena_free(&mine);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    put_bytes(in_folder("t.csv"), houses, sizeof houses - 1);
    assert_survives_failures(everything, 20);
}

#define TABLE_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TABLE_TEST(columns_are_told_apart),
        TABLE_TEST(targets_are_told_apart),
        TABLE_TEST(columns_are_what_they_are_asked_to_be),
        TABLE_TEST(what_is_taken_otherwise_is_told),
        TABLE_TEST(equal_numbers_are_one_class),
        TABLE_TEST(columns_that_count_the_rows),
        TABLE_TEST(many_rows_are_looked_at_closely),
        TABLE_TEST(a_schema_is_written_and_read),
        TABLE_TEST(rows_become_numbers),
        TABLE_TEST(targets_that_cannot_be_are_told),
        TABLE_TEST(held_out_targets_lie_near_the_others),
        TABLE_TEST(parts_are_chosen_by_content),
        TABLE_TEST(files_that_belong_together_are_alike),
        TABLE_TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
