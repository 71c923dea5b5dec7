/* Tables that do not fit their structs: each mistake is found, and the message names the row. */
#include "test.h"

#include <tilth/base/alloc.h>
#include <tilth/desc/class.h>

#include "desc/sample.h"

typedef struct box {
    int64_t first;
    double second;
    const char *third;
} box;

#define FIRST TL_F(box, first, .help = "h")
#define SECOND TL_F(box, second, .help = "h")
#define THIRD TL_F(box, third, .help = "h")

/* A description of `box` with these rows is refused with this message. */
#define REFUSED(text, ...)                                                                         \
    do {                                                                                           \
        const tl_field rows_[] = {__VA_ARGS__, TL_F_END};                                          \
        const tl_desc desc_ = {.name = "box", .size = sizeof(box), .fields = rows_};               \
        assert_fails(tl_desc_verify(&desc_), TL_EINVAL, text);                                     \
    } while (0)

static void test_sound(void **state)
{
    (void)state;
    const tl_field rows[] = {THIRD, FIRST, SECOND, TL_F_END}; // in any order
    const tl_desc desc = {.name = "box", .size = sizeof(box), .fields = rows};
    assert_ok(tl_desc_verify(&desc));
}

static void test_rows_and_bytes(void **state)
{
    (void)state;
    REFUSED("description 'box': 8 bytes at offset 8 have no row", FIRST, THIRD);
    REFUSED("description 'box': 8 bytes at offset 16 have no row", FIRST, SECOND);
    REFUSED("description 'box': 8 bytes at offset 0 have no row", SECOND, THIRD);
    REFUSED("description 'box' has two fields 'first'", FIRST, SECOND, THIRD, FIRST);
    REFUSED("overlaps", FIRST, SECOND, THIRD, TL_F_AS(box, first, "again", .help = "h"));
    REFUSED("field 'first' of 'box': it lies outside the struct",
            {.name = "first", .help = "h", .offset = 24, .size = 8, .type = TL_TYPE_INT}, SECOND,
            THIRD);
    REFUSED("field 'first' of 'box': it lies outside the struct",
            {.name = "first", .help = "h", .offset = SIZE_MAX - 7, .size = 8, .type = TL_TYPE_INT},
            SECOND, THIRD);
    REFUSED("field 'first' of 'box': the member has 4 bytes, its type 8",
            {.name = "first", .help = "h", .size = 4, .type = TL_TYPE_INT}, SECOND, THIRD);
    const tl_desc nothing = {.name = "box", .size = sizeof(box)};
    assert_fails(tl_desc_verify(&nothing), TL_EINVAL, "24 bytes at offset 0 have no row");
}

static void test_help_and_names(void **state)
{
    (void)state;
    REFUSED("field 'second' of 'box': it has no help", FIRST, TL_F(box, second, .d = 1), THIRD);
    REFUSED("field 'second' of 'box': it has no help", FIRST, TL_F(box, second, .help = ""), THIRD);
    const tl_field rows[] = {FIRST, SECOND, THIRD, TL_F_END};
    const tl_desc unnamed = {.size = sizeof(box), .fields = rows};
    assert_fails(tl_desc_verify(&unnamed), TL_EINVAL, "no name");
    const tl_desc empty_name = {.name = "", .size = sizeof(box), .fields = rows};
    assert_fails(tl_desc_verify(&empty_name), TL_EINVAL, "no name");
    const tl_desc no_size = {.name = "box", .fields = rows};
    assert_fails(tl_desc_verify(&no_size), TL_EINVAL, "'box' has no size");
}

/* --- members that no row can describe --------------------------------------------------------- */

typedef struct odd {
    float f;
    short s;
    int32_t padding;
    char *changeable;
    struct {
        int64_t x;
    } nested;
} odd;

static void test_types(void **state)
{
    (void)state;
    assert_int_equal(TL_TYPE_OF(odd, f), TL_TYPE_NONE);
    assert_int_equal(TL_TYPE_OF(odd, s), TL_TYPE_NONE);
    assert_int_equal(TL_TYPE_OF(odd, changeable), TL_TYPE_NONE);
    assert_int_equal(TL_TYPE_OF(odd, nested), TL_TYPE_NONE);
    REFUSED("field 'first' of 'box': no row can have the type of this member",
            {.name = "first", .help = "h", .size = 8}, SECOND, THIRD);
    REFUSED("there are no lists of this type",
            {.name = "l",
             .help = "h",
             .size = 16,
             .type = TL_TYPE_ONEOF,
             .arity = TL_LIST,
             .branches = optimizer_branches},
            THIRD);
    REFUSED("there are no lists of this type",
            {.name = "l", .help = "h", .size = 16, .type = TL_TYPE_VALUE, .arity = TL_LIST}, THIRD);
}

/* Every type that TL_F takes from a member is the one the sample has. */
static void test_type_of(void **state)
{
    (void)state;
    assert_int_equal(TL_TYPE_OF(sample, flag), TL_TYPE_BOOL);
    assert_int_equal(TL_TYPE_OF(sample, count), TL_TYPE_INT);
    assert_int_equal(TL_TYPE_OF(sample, rate), TL_TYPE_DOUBLE);
    assert_int_equal(TL_TYPE_OF(sample, name), TL_TYPE_STRING);
    assert_int_equal(TL_TYPE_OF(sample, color), TL_TYPE_ENUM);
    assert_int_equal(TL_TYPE_OF(sample, colors), TL_TYPE_ENUM);
    assert_int_equal(TL_TYPE_OF(sample, maybe_rate), TL_TYPE_DOUBLE);
    assert_int_equal(TL_ARITY_OF(sample, maybe_rate), TL_OPTIONAL);
    assert_int_equal(TL_TYPE_OF(sample, names), TL_TYPE_STRING);
    assert_int_equal(TL_ARITY_OF(sample, names), TL_LIST);
    assert_int_equal(TL_TYPE_OF(sample, layers), TL_TYPE_STRUCT);
    assert_int_equal(TL_TYPE_OF(sample, optimizer), TL_TYPE_ONEOF);
    assert_int_equal(TL_TYPE_OF(sample, extra), TL_TYPE_VALUE);
    assert_int_equal(TL_TYPE_OF(sample, model), TL_TYPE_OBJECT);
}

/* --- what a row is made of -------------------------------------------------------------------- */

typedef struct parts {
    union {
        tint color;
        tl_oneof choice;
        const tl_value *value;
        tl_structs list;
        tl_strings names;
    } u;
} parts;

#define PART_REFUSED(text, ...)                                                                    \
    do {                                                                                           \
        const tl_field rows_[] = {{.name = "part", .help = "h", __VA_ARGS__}, TL_F_END};           \
        const tl_desc desc_ = {.name = "parts", .size = sizeof(parts), .fields = rows_};           \
        assert_fails(tl_desc_verify(&desc_), TL_EINVAL, text);                                     \
    } while (0)

static void test_what_rows_are_made_of(void **state)
{
    (void)state;
    static const tl_kind kind = {.name = "k", .plural = "ks", .class_size = sizeof(tl_class)};
    PART_REFUSED("field 'part' of 'parts': it has no description", .size = 16,
                 .type = TL_TYPE_STRUCT, .arity = TL_LIST);
    PART_REFUSED("an int is an enum and needs names", .size = 4, .type = TL_TYPE_ENUM);
    PART_REFUSED("it needs either branches or a kind", .size = sizeof(tl_oneof),
                 .type = TL_TYPE_ONEOF);
    PART_REFUSED("it needs either branches or a kind", .size = sizeof(tl_oneof),
                 .type = TL_TYPE_ONEOF, .branches = optimizer_branches, .kind = &kind);
    PART_REFUSED("it accepts nothing", .size = 8, .type = TL_TYPE_VALUE);
    PART_REFUSED("the pattern '(' is not an extended regular expression", .size = 8,
                 .type = TL_TYPE_STRING, .pattern = "(");
    PART_REFUSED("the pattern 'a**(' is not", .size = 16, .type = TL_TYPE_STRING, .arity = TL_LIST,
                 .pattern = "a**(");
}

static void test_defaults_that_are_none(void **state)
{
    (void)state;
    static const tl_kind kind = {.name = "k", .plural = "ks", .class_size = sizeof(tl_class)};
    REFUSED("field 'first' of 'box': its default is outside its own range",
            TL_F(box, first, .i = 11, TL_RANGE(0, 10), .help = "h"), SECOND, THIRD);
    REFUSED("its default is outside", TL_F(box, first, TL_AT_LEAST(1), .help = "h"), SECOND, THIRD);
    REFUSED("its default is outside", FIRST,
            TL_F(box, second, .d = -0.1, TL_RANGE(0, 1), .help = "h"), THIRD);
    REFUSED("its default is outside", FIRST,
            TL_F(box, second, .d = NAN, TL_RANGE(0, 1), .help = "h"), THIRD);
    PART_REFUSED("its default is outside", .size = 16, .type = TL_TYPE_INT, .arity = TL_LIST,
                 TL_RANGE(0, 3), TL_DEFAULT_LIST(int64_t, 1, 4));
    PART_REFUSED("its default is outside", .size = 16, .type = TL_TYPE_INT, .arity = TL_OPTIONAL,
                 TL_RANGE(1, 3), .set = true);
    PART_REFUSED("its default is none of its names", .size = 4, .type = TL_TYPE_ENUM,
                 .names = tint_names, .i = 4);
    PART_REFUSED("its default is none of its names", .size = 4, .type = TL_TYPE_ENUM,
                 .names = tint_names, .i = -1);
    PART_REFUSED("its default is none of its names", .size = 16, .type = TL_TYPE_ENUM,
                 .arity = TL_LIST, .names = tint_names, TL_DEFAULT_LIST(int, 0, 7));
    PART_REFUSED("its default is none of its branches", .size = sizeof(tl_oneof),
                 .type = TL_TYPE_ONEOF, .branches = optimizer_branches, .s = "rmsprop");
    PART_REFUSED("an open one-of has no default type", .size = sizeof(tl_oneof),
                 .type = TL_TYPE_ONEOF, .kind = &kind, .s = "sgd");
    PART_REFUSED("its default is not YAML", .size = 8, .type = TL_TYPE_VALUE,
                 .accept = TL_ACCEPT_LIST, .s = "[");
    PART_REFUSED("it does not accept its own default", .size = 8, .type = TL_TYPE_VALUE,
                 .accept = TL_ACCEPT_LIST, .s = "{a: 1}");
    PART_REFUSED("it does not accept its own default", .size = 8, .type = TL_TYPE_VALUE,
                 .accept = TL_ACCEPT_LIST, .s = "");
    PART_REFUSED("its default has a count but no items", .size = 16, .type = TL_TYPE_INT,
                 .arity = TL_LIST, .count = 3);
    // A required number has no default, so it may lie anywhere; so may that of a null optional.
    const tl_field rows[] = {
        TL_F(box, first, TL_AT_LEAST(1), .flags = TL_FIELD_REQUIRED, .help = "h"),
        SECOND,
        THIRD,
        TL_F_END,
    };
    const tl_desc desc = {.name = "box", .size = sizeof(box), .fields = rows};
    assert_ok(tl_desc_verify(&desc));
}

/* --- bases and inner descriptions ------------------------------------------------------------- */

typedef struct big_box {
    box base;
    bool lid;
} big_box;

static const tl_field box_rows[] = {FIRST, SECOND, THIRD, TL_F_END};
static const tl_desc box_desc = {.name = "box", .size = sizeof(box), .fields = box_rows};

static void test_bases(void **state)
{
    (void)state;
    const tl_field small_rows[] = {TL_F_END};
    const tl_desc small = {.name = "small", .size = 8, .fields = small_rows, .base = &box_desc};
    assert_fails(tl_desc_verify(&small), TL_EINVAL, "'small' is smaller than its base 'box'");
    const tl_field moved_rows[] = {TL_F_AS(big_box, lid, "first", .help = "h"), TL_F_END};
    const tl_desc moved = {
        .name = "moved", .size = sizeof(big_box), .fields = moved_rows, .base = &box_desc};
    assert_fails(tl_desc_verify(&moved), TL_EINVAL,
                 "field 'first' of 'moved' refines a field of its base but is another member");
    const tl_field bad_rows[] = {FIRST, TL_F(box, second, .d = 1), THIRD, TL_F_END};
    const tl_desc bad_base = {.name = "bad", .size = sizeof(box), .fields = bad_rows};
    const tl_field lid_rows[] = {TL_F(big_box, lid, .help = "h"), TL_F_END};
    const tl_desc on_bad = {
        .name = "on", .size = sizeof(big_box), .fields = lid_rows, .base = &bad_base};
    assert_fails(tl_desc_verify(&on_bad), TL_EINVAL, "field 'second' of 'bad': it has no help");
    // A row of the derived table over a member of the base, under another name.
    const tl_field over_rows[] = {
        TL_F(big_box, lid, .help = "h"),
        TL_F_AS(big_box, base.second, "other", .help = "h"),
        TL_F_END,
    };
    const tl_desc over = {
        .name = "over", .size = sizeof(big_box), .fields = over_rows, .base = &box_desc};
    assert_fails(tl_desc_verify(&over), TL_EINVAL, "overlaps");
    // Inherited bytes need no row of their own.
    const tl_desc fine = {
        .name = "fine", .size = sizeof(big_box), .fields = lid_rows, .base = &box_desc};
    assert_ok(tl_desc_verify(&fine));
}

static void test_base_chains_that_do_not_end(void **state)
{
    (void)state;
    tl_desc one = {.name = "one", .size = sizeof(box), .fields = box_rows};
    one.base = &one;
    assert_fails(tl_desc_verify(&one), TL_EINVAL,
                 "the base chain of description 'one' does not end");
    const tl_field none[] = {TL_F_END};
    tl_desc a = {.name = "a", .size = sizeof(box), .fields = box_rows};
    tl_desc b = {.name = "b", .size = sizeof(box), .fields = none, .base = &a};
    const tl_desc c = {.name = "c", .size = sizeof(box), .fields = none, .base = &b};
    a.base = &b;
    assert_fails(tl_desc_verify(&c), TL_EINVAL, "does not end");
}

typedef struct holder {
    box inner;
    box *optional;
    tl_structs list;
    tl_oneof choice;
} holder;

static void test_inner_descriptions(void **state)
{
    (void)state;
    const tl_field bad_rows[] = {FIRST, SECOND, TL_F_END};
    const tl_desc bad = {.name = "bad", .size = sizeof(box), .fields = bad_rows};
    const tl_branch branches[] = {{"good", &box_desc}, {"wrong", &bad}, {NULL, NULL}};
    for (int turn = 0; turn < 4; turn++) {
        const tl_field rows[] = {
            TL_F_STRUCT(holder, inner, turn == 0 ? &bad : &box_desc, .help = "h"),
            TL_F_OPTIONAL(holder, optional, turn == 1 ? &bad : &box_desc, .help = "h"),
            TL_F(holder, list, .desc = turn == 2 ? &bad : &box_desc, .help = "h"),
            TL_F(holder, choice, .branches = turn == 3 ? branches : optimizer_branches,
                 .help = "h"),
            TL_F_END,
        };
        const tl_desc desc = {.name = "holder", .size = sizeof(holder), .fields = rows};
        static const char *const fields[] = {"inner", "optional", "list", "choice"};
        char expected[100];
        snprintf(expected, sizeof expected, "field '%s' of 'holder': %sdescription 'bad': 8 bytes",
                 fields[turn], turn == 3 ? "branch 'wrong': " : "");
        assert_fails(tl_desc_verify(&desc), TL_EINVAL, expected);
    }
    // A member of another size than its description says.
    const tl_desc large = {.name = "large", .size = 100, .fields = box_rows};
    const tl_field rows[] = {TL_F_STRUCT(holder, inner, &large, .help = "h"), TL_F_END};
    const tl_desc desc = {.name = "holder", .size = sizeof(holder), .fields = rows};
    assert_fails(tl_desc_verify(&desc), TL_EINVAL, "the member has 24 bytes, its type 100");
}

typedef struct tree {
    int64_t value;
    struct tree *left;
    tl_structs children;
} tree;
static const tl_desc tree_desc;
static const tl_field tree_fields[] = {
    TL_F(tree, value, .help = "h"),
    TL_F_OPTIONAL(tree, left, &tree_desc, .help = "h"),
    TL_F(tree, children, .desc = &tree_desc, .help = "h"),
    TL_F_END,
};
static const tl_desc tree_desc = {.name = "tree", .size = sizeof(tree), .fields = tree_fields};

static void test_recursive_descriptions(void **state)
{
    (void)state;
    assert_ok(tl_desc_verify(&tree_desc));
    tl_arena *arena;
    assert_ok(tl_arena_new(&arena));
    void *t;
    assert_ok(tl_desc_new(&t, arena, &tree_desc));
    assert_null(((tree *)t)->left);
    tl_arena_free(&arena);
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int nth = 1;; nth++) {
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_desc_verify(&sample_desc);
        tl_alloc_fail_at(0, 0);
        if (st == TL_OK) break;
        assert_int_equal(st, TL_ENOMEM);
        assert_true(nth < 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound),
        cmocka_unit_test(test_rows_and_bytes),
        cmocka_unit_test(test_help_and_names),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_type_of),
        cmocka_unit_test(test_what_rows_are_made_of),
        cmocka_unit_test(test_defaults_that_are_none),
        cmocka_unit_test(test_bases),
        cmocka_unit_test(test_base_chains_that_do_not_end),
        cmocka_unit_test(test_inner_descriptions),
        cmocka_unit_test(test_recursive_descriptions),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
