/* Tables: CSV in its dialects, npy in its types; what is damaged, with its line. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <math.h>

#include <tilth/io/idx.h>
#include <tilth/io/table.h>

/* All cells of a table, rows separated by '/', cells by '|'; names first. */
static const char *shown(const char *text, size_t size, const tl_table_args *args)
{
    static char out[4096];
    tl_table *t;
    tl_str s = TL_STR_INIT;
    assert_ok(tl_table_from_memory(&t, "t.csv", text, size, args));
    for (int pass = 0; pass < 2; pass++) { // the second time it reads the same
        tl_str_cut(&s, 0);
        for (int64_t i = 0; i < t->columns; i++) tl_str_addf(&s, "%s%s", i ? "|" : "", t->names[i]);
        for (;;) {
            const tl_cell *cells;
            bool more = true;
            assert_ok(tl_table_next(t, &cells, &more));
            if (!more) break;
            tl_str_addc(&s, '/');
            for (int64_t i = 0; i < t->columns; i++) {
                if (i) tl_str_addc(&s, '|');
                tl_cell_write(&s, &cells[i]);
            }
        }
        tl_table_rewind(t);
    }
    assert_true(s.length < sizeof out);
    snprintf(out, sizeof out, "%s", tl_str_text(&s));
    tl_str_deinit(&s);
    tl_table_free(&t);
    assert_null(t);
    return out;
}
#define SHOWN(text) shown(text, sizeof text - 1, NULL)

static void dialects_are_understood(void **state)
{
    (void)state;
    assert_string_equal(SHOWN("a,b\n1,2\n3,4\n"), "a|b/1|2/3|4");
    assert_string_equal(SHOWN("a,b\r\n1,2\r\n3,4"), "a|b/1|2/3|4");
    assert_string_equal(SHOWN("a,b\r1,2\r3,4\r"), "a|b/1|2/3|4");
    assert_string_equal(SHOWN("\xef\xbb\xbf"
                              "a;b\n1;2\n"),
                        "a|b/1|2");
    assert_string_equal(SHOWN("a\tb\n1\t2\n"), "a|b/1|2");
    assert_string_equal(SHOWN("a|b\n1|2\n"), "a|b/1|2");
    assert_string_equal(SHOWN("a, b ,c\n 1 ,\"x, y\" , \"\" \n\n  \n,,\n"), "a|b|c/1|x, y|/||");
    assert_string_equal(SHOWN("a,b\n\"say \"\"hi\"\"\",\"two\r\nlines\"\n"),
                        "a|b/say \"hi\"|two\r\nlines");
    assert_string_equal(SHOWN("a,b\n5\" disk,x\"y\n"), "a|b/5\" disk|x\"y");
    assert_string_equal(SHOWN("one\n1\n\n2\n"), "one/1/2");
    assert_string_equal(SHOWN("name;x\nM\xfcller;1\nZ\xc3\xbcrich;2\n"),
                        "name|x/M\xc3\xbcller|1/Z\xc3\xbcrich|2");
    assert_string_equal(shown("a,b\n\"x,y\"\n", 10, &(tl_table_args){.no_quotes = true}),
                        "a|b/\"x|y\"");
    assert_string_equal(shown("a,b\n1\n2,3\n4\n5,6", 15, &(tl_table_args){.skip_short = true}),
                        "a|b/2|3/5|6");
    assert_string_equal(shown("a;b,c\n1;2,3\n", 12, &(tl_table_args){.delimiter = ','}),
                        "a;b|c/1;2|3");
}

static void the_first_line_names_columns_or_not(void **state)
{
    (void)state;
    assert_string_equal(SHOWN("1,2\n3,4\n"), "col_0|col_1/1|2/3|4");
    assert_string_equal(SHOWN("a,2024-01-05\nb,2024-01-06\n"),
                        "col_0|col_1/a|2024-01-05/b|2024-01-06");
    assert_string_equal(SHOWN("yes,yes\nno,yes\n"), "col_0|col_1/yes|yes/no|yes");
    assert_string_equal(SHOWN(",x\n0,5\n"), "col_0|x/0|5");
    assert_string_equal(shown("1,2\n3,4\n", 8, &(tl_table_args){.header = TL_HEADER_YES}),
                        "1|2/3|4");
    assert_string_equal(shown("a,b\n3,4\n", 8, &(tl_table_args){.header = TL_HEADER_NO}),
                        "col_0|col_1/a|b/3|4");
    tl_table *t;
    assert_fails(
        tl_table_from_memory(&t, "t.csv", "a,b,a\n", 6, &(tl_table_args){.header = TL_HEADER_YES}),
        TL_EDATA, "t.csv:1: column 3: a second column is called 'a'");
}

/* A first line that is taken for a row, though a text in it stands above numbers, is one that
 * people ask about. */
static void a_first_line_that_may_name_columns_is_noted(void **state)
{
    (void)state;
    static const char years[] = "id,2019,2020,target\n1,5,6,a\n2,7,8,b\n",
                      stray[] = "x,5\n?,6\ny,7\n";
    tl_table *t;
    int64_t at;
    assert_ok(tl_table_from_memory(&t, "t.csv", years, sizeof years - 1, NULL));
    assert_false(t->has_header);
    assert_string_equal(t->likely_name, "id");
    assert_fails(tl_table_find(&at, t, "target"), TL_ENOTFOUND,
                 "it has col_0, col_1, col_2, col_3. Its first line was not taken for names of "
                 "columns; header=first_line says that it is");
    tl_table_free(&t);
    assert_ok(tl_table_from_memory(&t, "t.csv", stray, sizeof stray - 1, NULL));
    assert_null(t->likely_name);
    tl_table_free(&t);
    assert_ok(tl_table_from_memory(&t, "t.csv", years, sizeof years - 1,
                                   &(tl_table_args){.header = TL_HEADER_NO}));
    assert_null(t->likely_name); // nobody asks
    tl_table_free(&t);
    assert_fails(tl_table_from_memory(&t, "t.csv", "a,a,t\n1,2,x\n3,4,y\n", 18, NULL), TL_EDATA,
                 "t.csv:1: column 2: a second column is called 'a'; header=none says that the line "
                 "is a row");
    assert_string_equal(SHOWN("NA,NA\n1,2\n"), "col_0|col_1/NA|NA/1|2");
}

static void columns_are_found(void **state)
{
    (void)state;
    tl_table *t;
    int64_t at;
    assert_ok(tl_table_from_memory(&t, "t.csv", "price,area,7\n1,2,3\n", 19,
                                   &(tl_table_args){.header = TL_HEADER_YES}));
    assert_ok(tl_table_find(&at, t, "area"));
    assert_int_equal(at, 1);
    assert_ok(tl_table_find(&at, t, "-1"));
    assert_int_equal(at, 2);
    assert_ok(tl_table_find(&at, t, "0"));
    assert_int_equal(at, 0);
    assert_ok(tl_table_find(&at, t, "7"));
    assert_int_equal(at, 2);
    assert_fails(tl_table_find(&at, t, "prize"), TL_ENOTFOUND,
                 "'t.csv' has no column 'prize', did you mean 'price'?; it has price, area, 7");
    assert_fails(tl_table_find(&at, t, "3"), TL_ENOTFOUND, "has no column '3'");
    tl_table_free(&t);
}

/* The first failure of a whole pass. */
static tl_status pass(const char *text, size_t size)
{
    tl_table *t;
    TL_TRY(tl_table_from_memory(&t, "t.csv", text, size, NULL));
    tl_status st = TL_OK;
    for (bool more = true; more && st == TL_OK;) {
        const tl_cell *cells;
        st = tl_table_next(t, &cells, &more);
    }
    tl_table_free(&t);
    return st;
}
#define PASS(text) pass(text, sizeof text - 1)

static void what_is_damaged_is_told_with_its_line(void **state)
{
    (void)state;
    assert_fails(PASS("a,b\n1,2\n\n3\n"), TL_EDATA,
                 "t.csv:4: the row has 1 cell, and the first line has 2");
    assert_fails(PASS("a,b\n1,2\n1,2,3\n"), TL_EDATA,
                 "t.csv:3: the row has 3 cells, and the first line has 2");
    assert_fails(PASS("a,b\n\"x\ny\",2\n1\n"), TL_EDATA, "t.csv:4: the row has 1 cell");
    assert_fails(PASS("a,b\n1,\"open\n3,4\n"), TL_EDATA,
                 "t.csv:2: column 2: the quote that begins here has no end");
    assert_fails(PASS("a,b\n1,2\n\"x\"y,2\n"), TL_EDATA,
                 "t.csv:3: column 1: something stands behind the closing");
    assert_fails(PASS("a,b\n1,2\0\n"), TL_EDATA, "t.csv:2: column 2: a zero byte");
    assert_fails(PASS("a,b\n1,\"2\0\"\n"), TL_EDATA, "t.csv:2: column 2: a zero byte");
    assert_fails(PASS(""), TL_EDATA, "'t.csv' is empty");
    assert_fails(PASS("\xef\xbb\xbf\n \n"), TL_EDATA, "'t.csv' is empty");
    assert_fails(PASS("PK\3\4..."), TL_EUNSUPPORTED, "is a zip archive, as Excel's");
    assert_fails(PASS("\xff\xfe"
                      "a\0"),
                 TL_EUNSUPPORTED, "UTF-16; save the table as CSV in UTF-8");
    assert_ok(PASS("a,b\n"));
    tl_table *t;
    assert_fails(tl_table_open(&t, in_folder("nowhere.csv"), NULL), TL_ENOTFOUND, "nowhere.csv");
}

static void cells_that_are_too_large_are_refused(void **state)
{
    (void)state;
    size_t size = TL_TABLE_CELL_BYTES + 16;
    char *text = malloc(size);
    memset(text, 'x', size);
    memcpy(text, "a,b\n1,", 6);
    assert_fails(pass(text, size), TL_ELIMIT,
                 "t.csv:2: column 2: the cell has more than 1048576 bytes");
    memset(text, ',', size);
    assert_fails(pass(text, size), TL_ELIMIT, "t.csv:1: the row has more than 65536 cells");
    free(text);
}

/* --- what stands in cells --------------------------------------------------------------------- */

static tl_cell cell(const char *text)
{
    return (tl_cell){.text = text, .length = strlen(text)};
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "+5",
                                       "1.5",
                                       ".5",
                                       "5.",
                                       "-1e3",
                                       "1E-3",
                                       "123456789012345678",
                                       "0.1",
                                       "1e22",
                                       "1e23",
                                       "4.9e-324",
                                       "1.7976931348623157e308",
                                       "3.141592653589793238462643383279",
                                       "00012",
                                       "1e-30",
                                       "9007199254740993",
                                       "0.000000000000000000000001",
                                       "12345678901234567890123",
                                       "179769313486231570000e288"};
    static const char *const bad[] = {"",    ".",   "+",   "e5",  "1e",    "1e+",   "0x10", "inf",
                                      "nan", "1 2", "1,5", "--1", "1.2.3", "1e999", "12a"};
    const tl_table plain = {0}, comma = {.decimal_comma = true};
    double value;
    for (int i = 0; i < TL_COUNT(good); i++) {
        tl_cell c = cell(good[i]);
        if (!tl_cell_number(&value, &plain, &c)) fail_msg("'%s' is no number", good[i]);
        if (value != strtod(good[i], NULL)) fail_msg("'%s' is read as %.17g", good[i], value);
    }
    for (int i = 0; i < TL_COUNT(bad); i++) {
        tl_cell c = cell(bad[i]);
        if (tl_cell_number(&value, &plain, &c)) fail_msg("'%s' is a number", bad[i]);
    }
    tl_cell c = cell("1,5");
    assert_true(tl_cell_number(&value, &comma, &c) && value == 1.5);
    c = cell("3,141592653589793238462643383279");
    assert_true(tl_cell_number(&value, &comma, &c) && value == 3.141592653589793238462643383279);
}

static void decimal_commas_are_found(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        char delimiter;
        bool comma;
    } cases[] = {
        {"a;b\n1,5;2\n3;4,25\n", ';', true}, {"1,5;2,5\n3,5;4,5\n", ';', true},
        {"a;b\n1.5;2,5\n", ';', false},      {"a\tb\n1,5\t2\n", '\t', true},
        {"a,b\n1,5\n", ',', false},          {"a;b\nx, y;z\n", ';', false},
    };
    for (int i = 0; i < TL_COUNT(cases); i++) {
        tl_table *t;
        assert_ok(tl_table_from_memory(&t, "t", cases[i].text, strlen(cases[i].text), NULL));
        assert_int_equal(t->delimiter, cases[i].delimiter);
        assert_int_equal(t->decimal_comma, cases[i].comma);
        tl_table_free(&t);
    }
    tl_str late = TL_STR_INIT; // behind many whole numbers
    tl_table *t;
    tl_str_add(&late, "a;b\n");
    for (int i = 0; i < 200; i++) tl_str_addf(&late, "%d;%d\n", i, i);
    tl_str_add(&late, "1,5;2\n");
    assert_ok(tl_table_from_memory(&t, "t", tl_str_text(&late), late.length, NULL));
    assert_true(t->decimal_comma);
    tl_table_free(&t);
    tl_str_deinit(&late);
}

static void missing_values_and_dates_are_known(void **state)
{
    (void)state;
    static const char *const none[] = {"", "NA", "n/a", "NaN", "null", "None", "?", "-", "#N/A"};
    for (int i = 0; i < TL_COUNT(none); i++) {
        tl_cell c = cell(none[i]);
        assert_true(tl_cell_is_missing(&c));
    }
    tl_cell c = cell("0");
    assert_false(tl_cell_is_missing(&c));
    c = (tl_cell){.is_number = true, .number = (double)NAN};
    assert_true(tl_cell_is_missing(&c));
    static const struct {
        const char *text;
        double days;
    } dates[] = {{"1970-01-01", 0},
                 {"2000-03-01", 11017},
                 {"1969/12/31", -1},
                 {"2024-02-29T12:00", 19782.5},
                 {"1970-01-02 06:00:00.0Z", 1.25},
                 {"0001-01-01", -719162}};
    static const char *const others[] = {"1970-13-01",       "1970-01-32",    "70-01-01",
                                         "1970-01/01",       "1970-01-01x",   "19700101",
                                         "1970-01-01T25:00", "1970-01-01T10", "31.12.2020"};
    double days;
    for (int i = 0; i < TL_COUNT(dates); i++) {
        c = cell(dates[i].text);
        assert_true(tl_cell_days(&days, &c));
        if (days != dates[i].days) fail_msg("%s is day %.17g", dates[i].text, days);
    }
    for (int i = 0; i < TL_COUNT(others); i++) {
        c = cell(others[i]);
        if (tl_cell_days(&days, &c)) fail_msg("%s is a date", others[i]);
    }
}

/* --- npy -------------------------------------------------------------------------------------- */

/* A file of version `version` with this description and these bytes. */
static size_t npy(char *out, int version, const char *description, const void *data, size_t size)
{
    size_t length = strlen(description), head = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)version;
    out[7] = 0;
    for (size_t i = 8; i < head; i++) out[i] = (char)(length >> 8 * (i - 8));
    memcpy(out + head, description, length);
    memcpy(out + head + length, data, size);
    return head + length + size;
}

static void arrays_of_numpy_are_read(void **state)
{
    (void)state;
    char file[512];
    const double f8[] = {1, -2.5, 3, 4, 5, 6};
    const uint8_t big[] = {0x40, 0x20, 0, 0, 0xbf, 0x80, 0, 0}; // 2.5, -1
    const int16_t i2[] = {1, -2, 300, 4};
    const uint8_t b1[] = {1, 0}, u8[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x1f, 0};
    size_t size = npy(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }  \n",
                      f8, sizeof f8);
    assert_string_equal(shown(file, size, NULL), "col_0|col_1|col_2/1|-2.5|3/4|5|6");
    size = npy(file, 2, "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 3)}", f8, sizeof f8);
    assert_string_equal(shown(file, size, NULL), "col_0|col_1|col_2/1|3|5/-2.5|4|6");
    size = npy(file, 3, "{\"shape\": (1, 2), 'descr': '>f4', 'fortran_order': False}", big,
               sizeof big);
    assert_string_equal(shown(file, size, NULL), "col_0|col_1/2.5|-1");
    size = npy(file, 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (4, 1)}", i2, sizeof i2);
    assert_string_equal(shown(file, size, NULL), "col_0/1/-2/300/4");
    size = npy(file, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (1, 2)}", b1, sizeof b1);
    assert_string_equal(shown(file, size, NULL), "col_0|col_1/1|0");
    size = npy(file, 1, "{'descr': '<u8', 'fortran_order': False, 'shape': (1, 1)}", u8, sizeof u8);
    assert_string_equal(shown(file, size, NULL), "col_0/9007199254740991");
    size = npy(file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 3)}", f8, 0);
    assert_string_equal(shown(file, size, NULL), "col_0|col_1|col_2");
}

static void other_arrays_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *description;
        tl_status status;
        const char *message;
    } cases[] = {
        {"{'descr': [('a', '<f8'), ('b', '<i4')], 'fortran_order': False, 'shape': (2,)}",
         TL_EUNSUPPORTED, "structured"},
        {"{'descr': '<U8', 'fortran_order': False, 'shape': (2, 3)}", TL_EUNSUPPORTED,
         "has the type '<U8'"},
        {"{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3)}", TL_EUNSUPPORTED,
         "has the type '<f2'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2, 3)}", TL_EUNSUPPORTED,
         "has the type '|O'"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (6,)}", TL_EDATA,
         "has 1 dimension; a table has two"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2, 3)}", TL_EDATA,
         "has 3 dimensions"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 3)}", TL_EDATA,
         "is damaged: 3 rows of 3 columns"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 0)}", TL_EDATA, "has 0 columns"},
        {"{'descr': '<f8', 'fortran_order': Perhaps, 'shape': (2, 3)}", TL_EDATA,
         "cannot be understood"},
        {"{'descr': '<f8', 'shape': (2, 3)}", TL_EDATA, "cannot be understood"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3", TL_EDATA,
         "cannot be understood"},
        {"", TL_EDATA, "cannot be understood"},
    };
    const double f8[6] = {0};
    char file[512];
    for (int i = 0; i < TL_COUNT(cases); i++) {
        tl_table *t;
        size_t size = npy(file, 1, cases[i].description, f8, sizeof f8);
        assert_fails(tl_table_from_memory(&t, "x.npy", file, size, NULL), cases[i].status,
                     cases[i].message);
    }
    tl_table *t;
    assert_fails(tl_table_from_memory(&t, "x.npy", "\x93NUMPY\x04\0", 8, NULL), TL_EUNSUPPORTED,
                 "of version 4");
    assert_fails(tl_table_from_memory(&t, "x.npy", "\x93NUMPY\x01\0\xff", 9, NULL), TL_EDATA,
                 "cut short");
    assert_fails(tl_table_from_memory(&t, "x.npy", "\x93NUMPY\x01\0\xff\xff{", 11, NULL), TL_EDATA,
                 "cut short");
}

/* --- files ------------------------------------------------------------------------------------ */

/* idx files know how to pack; a table that is packed needs nothing more than its bytes. */
static void files_are_opened(void **state)
{
    (void)state;
    static const char text[] = "a\tb,c\n1\t2\n";
    const tl_cell *cells;
    bool more = true;
    tl_table *t;
    put_bytes(in_folder("t.tsv"), text, sizeof text - 1);
    assert_ok(tl_table_open(&t, in_folder("t.tsv"), NULL));
    assert_int_equal(t->columns, 2);
    assert_string_equal(t->names[1], "b,c");
    assert_ok(tl_table_next(t, &cells, &more));
    assert_int_equal(tl_table_line(t), 2);
    tl_table_free(&t);
    char command[600];
    snprintf(command, sizeof command, "gzip -k %s", in_folder("t.tsv"));
    if (system(command) != 0) return; // no gzip here
    assert_ok(tl_table_open(&t, in_folder("t.tsv.gz"), NULL));
    assert_string_equal(t->names[1], "b,c");
    tl_table_free(&t);
}

static tl_status everything(void)
{
    return PASS("a,b\nM\xfcller,\"x\"\"y\"\n1,2\n");
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_survives_failures(everything, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dialects_are_understood),
        cmocka_unit_test(the_first_line_names_columns_or_not),
        cmocka_unit_test(a_first_line_that_may_name_columns_is_noted),
        cmocka_unit_test(columns_are_found),
        cmocka_unit_test(what_is_damaged_is_told_with_its_line),
        cmocka_unit_test(cells_that_are_too_large_are_refused),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(decimal_commas_are_found),
        cmocka_unit_test(missing_values_and_dates_are_known),
        cmocka_unit_test(arrays_of_numpy_are_read),
        cmocka_unit_test(other_arrays_are_refused),
        cmocka_unit_test(files_are_opened),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
