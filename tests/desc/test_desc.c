/* Described structs: defaults, what can be done with a description, texts for people. */
#include "test.h"

#include <tilth/base/map.h>

#include "desc/arena.h"
#include "desc/sample.h"

static sample *new_sample(void)
{
    void *s;
    assert_ok(tl_desc_new(&s, arena, &sample_desc));
    return s;
}

/* --- defaults --------------------------------------------------------------------------------- */

static void test_the_sample_is_sound(void **state)
{
    (void)state;
    assert_ok(tl_desc_verify(&sample_desc));
}

static void test_defaults(void **state)
{
    (void)state;
    sample s;
    memset(&s, 0xee, sizeof s);
    assert_ok(tl_desc_defaults(arena, &sample_desc, &s));
    assert_true(s.flag);
    assert_int_equal(s.count, 42);
    assert_true(s.rate == 0.1);
    assert_string_equal(s.name, "sample");
    assert_null(s.note);
    assert_int_equal(s.color, TINT_GREEN);
    assert_false(s.maybe_flag.set);
    assert_true(s.maybe_count.set);
    assert_int_equal(s.maybe_count.value, 7);
    assert_false(s.maybe_rate.set);
    assert_int_equal(s.flags.count, 2);
    assert_true(s.flags.items[0] && !s.flags.items[1]);
    assert_int_equal(s.counts.count, 3);
    assert_int_equal(s.counts.items[2], 3);
    assert_null(s.maybe_counts.items);
    assert_int_equal(s.rates.count, 0);
    assert_int_equal(s.names.count, 2);
    assert_string_equal(s.names.items[1], "b");
    assert_int_equal(s.colors.count, 2);
    assert_int_equal(s.colors.items[1], TINT_OFF);
    assert_true(s.origin.x == 0 && s.origin.y == 1.5);
    assert_string_equal(s.origin.label, "origin"); // the row's init comes after the description's
    assert_null(s.target);
    assert_non_null(s.corner);
    assert_string_equal(s.corner->label, "here");
    assert_int_equal(s.layers.count, 0);
    assert_null(s.optimizer.type);
    assert_null(s.optimizer.value);
    assert_null(s.extra);
    // The default of a value is YAML text.
    assert_int_equal(s.setting->kind, TL_VALUE_LIST);
    assert_int_equal(tl_value_scalar(s.setting->items[0]), TL_SCALAR_INT);
    assert_string_equal(s.setting->items[1]->text, "two");
    assert_ptr_equal(s.model.desc, &layer_desc);
    assert_int_equal(((layer *)s.model.value)->units, 8);
}

typedef struct plain_defaults {
    bool b;
    int64_t i;
    double d;
    const char *s, *n;
    tl_ints l;
    const tl_value *v, *w;
} plain_defaults;

/* Nothing means false, 0, "" (or null), empty, none. */
static void test_no_default(void **state)
{
    (void)state;
    static const tl_field fields[] = {
        TL_F(plain_defaults, b, .help = "h"),
        TL_F(plain_defaults, i, .help = "h"),
        TL_F(plain_defaults, d, .help = "h"),
        TL_F(plain_defaults, s, .help = "h"),
        TL_F(plain_defaults, n, .flags = TL_FIELD_NULLABLE, .help = "h"),
        TL_F(plain_defaults, l, .help = "h"),
        TL_F(plain_defaults, v, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE, .help = "h"),
        TL_F(plain_defaults, w, .accept = TL_ACCEPT_STRING, .s = "", .help = "h"),
        TL_F_END,
    };
    static const tl_desc desc = {.name = "p", .size = sizeof(plain_defaults), .fields = fields};
    assert_ok(tl_desc_verify(&desc));
    plain_defaults p;
    memset(&p, 0xee, sizeof p);
    assert_ok(tl_desc_defaults(arena, &desc, &p));
    assert_false(p.b);
    assert_int_equal(p.i, 0);
    assert_true(p.d == 0);
    assert_string_equal(p.s, "");
    assert_null(p.n);
    assert_int_equal(p.l.count, 0);
    assert_null(p.v);
    assert_int_equal(tl_value_scalar(p.w), TL_SCALAR_STRING); // the empty text is the empty string
    assert_string_equal(p.w->text, "");
}

/* --- base and refinement ---------------------------------------------------------------------- */

typedef struct animal {
    const char *name;
    int64_t legs;
} animal;
typedef struct dog {
    animal base;
    double speed;
} dog;
typedef struct puppy {
    dog base;
    bool trained;
} puppy;

static void animal_init(void *value)
{
    ((animal *)value)->legs = 2;
}

static void dog_init(void *value)
{
    ((dog *)value)->base.legs *= 2; // 4 only when the base's init ran before
}

static const tl_field animal_fields[] = {
    TL_F(animal, name, .s = "animal", .help = "its name"),
    TL_F(animal, legs, .help = "how many"),
    TL_F_END,
};
static const tl_desc animal_desc = {
    .name = "animal",
    .size = sizeof(animal),
    .fields = animal_fields,
    .init = animal_init,
};
static const tl_field dog_fields[] = {
    TL_F_AS(dog, base.name, "name", .s = "dog", .help = "what it is called"),
    TL_F(dog, speed, .d = 30, .help = "km/h"),
    TL_F_END,
};
static const tl_desc dog_desc = {
    .name = "dog",
    .size = sizeof(dog),
    .fields = dog_fields,
    .base = &animal_desc,
    .init = dog_init,
};
static const tl_field puppy_fields[] = {TL_F(puppy, trained, .help = "or not"), TL_F_END};
static const tl_desc puppy_desc = {
    .name = "puppy",
    .size = sizeof(puppy),
    .fields = puppy_fields,
    .base = &dog_desc,
};

static void test_base(void **state)
{
    (void)state;
    assert_ok(tl_desc_verify(&puppy_desc));
    puppy p;
    assert_ok(tl_desc_defaults(arena, &puppy_desc, &p));
    assert_string_equal(p.base.base.name, "dog"); // the refined row's
    assert_int_equal(p.base.base.legs, 4);
    assert_true(p.base.speed == 30);
    assert_ptr_equal(tl_desc_field(&puppy_desc, "name"), &dog_fields[0]);
    assert_ptr_equal(tl_desc_field(&puppy_desc, "legs"), &animal_fields[1]);
    assert_ptr_equal(tl_desc_field(&animal_desc, "name"), &animal_fields[0]);
    assert_null(tl_desc_field(&puppy_desc, "base"));
    assert_null(tl_desc_field(&animal_desc, "speed"));
    assert_true(tl_desc_is(&puppy_desc, &animal_desc));
    assert_true(tl_desc_is(&puppy_desc, &puppy_desc));
    assert_false(tl_desc_is(&animal_desc, &dog_desc));
    assert_false(tl_desc_is(&puppy_desc, &point_desc));
}

static void test_sorted(void **state)
{
    (void)state;
    int64_t count = 0;
    const tl_field **fields = tl_desc_sorted(arena, &puppy_desc, &count);
    static const char *const names[] = {"legs", "name", "speed", "trained"};
    assert_int_equal(count, TL_COUNT(names));
    for (int64_t i = 0; i < count; i++) assert_string_equal(fields[i]->name, names[i]);
    assert_ptr_equal(fields[1], &dog_fields[0]);
}

/* --- copy, equality, hash --------------------------------------------------------------------- */

static void fill(sample *s, tl_arena *a, bool other)
{
    tl_config *c;
    assert_ok(tl_config_new(&c, NULL, &sample_desc));
    assert_ok(tl_config_yaml(
        c,
        "{name: text, note: n, names: [x, y], colors: [red, 'null'], rates: [.nan, 1e22],\n"
        " target: {label: t}, layers: [{name: one, kernel: [1], origin: {x: 2}}, {}],\n"
        " optimizer: {type: adam, adam: {clip: 2, center: {label: c}}, sgd: {momentum: 0.5}},\n"
        " extra: {k: [1, {l: 'x'}], m: ~}, setting: 5, model: {name: m}}",
        "fill"));
    if (other) assert_ok(tl_config_override(c, "optimizer.sgd.nesterov=true", "other"));
    assert_ok(tl_desc_copy(a, &sample_desc, s, tl_config_value(c)));
    tl_config_free(&c); // so that anything shared is a use after free
}

static void test_copy(void **state)
{
    (void)state;
    tl_arena *first;
    assert_ok(tl_arena_new(&first));
    sample original, copy;
    fill(&original, first, false);
    assert_ok(tl_desc_copy(arena, &sample_desc, &copy, &original));
    assert_true(tl_desc_equal(&sample_desc, &original, &copy));
    uint64_t h = tl_desc_hash(TL_HASH_SEED, &sample_desc, &original);
    assert_ptr_not_equal(copy.target, original.target);
    assert_ptr_not_equal(copy.layers.items, original.layers.items);
    assert_ptr_not_equal(copy.names.items, original.names.items);
    assert_ptr_not_equal(copy.optimizer.value, original.optimizer.value);
    assert_ptr_not_equal(copy.extra, original.extra);
    original.target->x = 99;
    ((layer *)original.layers.items)[0].units = 99;
    ((adam *)original.optimizer.value)->beta = 99;
    ((layer *)original.model.value)->units = 99;
    tl_arena_free(&first);
    assert_true(tl_desc_hash(TL_HASH_SEED, &sample_desc, &copy) == h);
    assert_string_equal(copy.names.items[1], "y");
    assert_string_equal(((layer *)copy.layers.items)[0].name, "one");
    assert_string_equal(copy.optimizer.type, "adam");
    assert_ptr_equal(copy.optimizer.desc, &adam_desc);
    // Branches that are not chosen are copied as well.
    void *value;
    assert_ok(tl_oneof_select(&value, &copy.optimizer, tl_desc_field(&sample_desc, "optimizer"),
                              "sgd", arena, NULL));
    assert_true(((sgd *)value)->momentum == 0.5);
}

static void test_copy_of_defaults(void **state)
{
    (void)state;
    sample *s = new_sample(), copy;
    assert_ok(tl_desc_copy(arena, &sample_desc, &copy, s));
    assert_true(tl_desc_equal(&sample_desc, s, &copy));
    assert_true(tl_desc_equal(&sample_desc, s, s));
}

static void test_branches_not_chosen_do_not_count(void **state)
{
    (void)state;
    sample a, b;
    fill(&a, arena, false);
    fill(&b, arena, true);
    assert_true(tl_desc_equal(&sample_desc, &a, &b));
    assert_true(tl_desc_hash(1, &sample_desc, &a) == tl_desc_hash(1, &sample_desc, &b));
}

/* Every change of one member is seen. */
// clang-format off
static const char *const changes[] = {
    "flag=false", "count=43", "rate=0.2", "name=other", "name=''", "note=''", "note=x", "color=red",
    "color=null", "maybe_flag=false", "maybe_flag=true", "maybe_count=8", "maybe_count=null",
    "maybe_rate=0", "maybe_rate=.nan", "flags=[]", "flags=[true,true]", "flags=[true]",
    "counts=[1,2]", "counts=[1,2,4]", "maybe_counts=[]", "maybe_counts=[1]", "rates=[0]",
    "rates=[.nan]", "names=[a]", "names=['a','c']",
    "names=['ab','']", "colors=[red]", "colors=[red,red]", "origin.x=1", "origin.label=there",
    "target.x=0", "target.x=1", "corner=null", "corner.y=2", "optimizer.type=sgd",
    "optimizer.type=adam", "optimizer.type=zero", "extra=1", "extra='1'", "extra=[]", "extra=true",
    "setting=1", "setting=1.0", "setting=[1]", "model=null", "model.units=9",
};
// clang-format on

static void test_changes_are_seen(void **state)
{
    (void)state;
    enum { COUNT = sizeof changes / sizeof *changes };
    tl_config *c[COUNT];
    for (int i = 0; i < COUNT; i++) {
        assert_ok(tl_config_new(&c[i], NULL, &sample_desc));
        assert_ok(tl_config_override(c[i], changes[i], "change"));
    }
    const sample *s = new_sample();
    for (int i = 0; i < COUNT; i++) {
        const void *v = tl_config_value(c[i]);
        if (tl_desc_equal(&sample_desc, s, v)) fail_msg("%s: not seen", changes[i]);
        if (tl_desc_hash(1, &sample_desc, s) == tl_desc_hash(1, &sample_desc, v))
            fail_msg("%s: not in the hash", changes[i]);
        for (int j = 0; j < i; j++) {
            const void *w = tl_config_value(c[j]);
            if (tl_desc_equal(&sample_desc, w, v) || tl_desc_equal(&sample_desc, v, w))
                fail_msg("%s and %s are equal", changes[i], changes[j]);
            if (tl_desc_hash(1, &sample_desc, w) == tl_desc_hash(1, &sample_desc, v))
                fail_msg("%s and %s have one hash", changes[i], changes[j]);
        }
    }
    for (int i = 0; i < COUNT; i++) tl_config_free(&c[i]);
}

static void test_numbers_in_equality(void **state)
{
    (void)state;
    sample *a = new_sample(), *b = new_sample();
    a->rate = NAN, b->rate = -NAN;
    assert_true(tl_desc_equal(&sample_desc, a, b));
    assert_true(tl_desc_hash(1, &sample_desc, a) == tl_desc_hash(1, &sample_desc, b));
    a->rate = 0.0, b->rate = -0.0;
    assert_true(tl_desc_equal(&sample_desc, a, b));
    assert_true(tl_desc_hash(1, &sample_desc, a) == tl_desc_hash(1, &sample_desc, b));
    // What an optional holds does not count while it is null.
    a->maybe_rate.value = 5, a->maybe_flag.value = true;
    a->maybe_count = (tl_opt_int){false, 3}, b->maybe_count = (tl_opt_int){false, 4};
    assert_true(tl_desc_equal(&sample_desc, a, b));
    assert_true(tl_desc_hash(1, &sample_desc, a) == tl_desc_hash(1, &sample_desc, b));
}

/* The same on every machine, so known here. */
static void test_hash_is_fixed(void **state)
{
    (void)state;
    sample s;
    fill(&s, arena, false);
    uint64_t h = tl_desc_hash(TL_HASH_SEED, &sample_desc, &s);
    if (h != UINT64_C(0x25b6a28b17bcd6be)) fail_msg("hash 0x%llx", (unsigned long long)h);
}

/* --- literals --------------------------------------------------------------------------------- */

static void test_complete(void **state)
{
    (void)state;
    sample to;
    const sample from = {
        .count = 5,
        .origin = {.x = 2},
        .target = &(point){.y = 3},
        .corner = &(point){.label = "there"},
        .layers = {(layer[]){{.units = 1, .origin = &(point){.x = 4}}, {.name = "conv"}}, 2},
        .optimizer = {.type = "adam", .value = &(adam){.center = {.x = 6}}},
        .model = {.value = &(layer){.name = "all"}},
    };
    assert_ok(tl_desc_complete(arena, &sample_desc, &to, &from, NULL));
    assert_true(to.flag && to.count == 5 && to.rate == 0.1);
    assert_true(to.origin.x == 2 && to.origin.y == 1.5);
    assert_string_equal(to.origin.label, "origin"); // the row's own default
    assert_true(to.target->y == 3);
    assert_string_equal(to.target->label, "here");
    assert_true(to.corner->y == 1.5);
    assert_string_equal(to.corner->label, "there");
    assert_int_equal(to.layers.count, 2);
    const layer *l = to.layers.items;
    assert_string_equal(l[0].name, "dense");
    assert_true(l[0].units == 1 && l[0].bias && l[0].kernel.count == 2);
    assert_true(l[0].origin->x == 4 && l[0].origin->y == 1.5);
    assert_string_equal(l[1].name, "conv");
    assert_true(l[1].units == 8 && !l[1].origin);
    const adam *a = to.optimizer.value;
    assert_true(a->beta == 0.999 && a->center.x == 6 && a->center.y == 1.5);
    assert_ptr_equal(to.model.desc, &layer_desc);
    assert_string_equal(((const layer *)to.model.value)->name, "all");
    assert_int_equal(((const layer *)to.model.value)->units, 8);
    // A copy: the literal's memory is the caller's.
    assert_ptr_not_equal(to.layers.items, from.layers.items);
    assert_ptr_not_equal(l[0].origin, ((const layer *)from.layers.items)[0].origin);
    assert_ptr_not_equal(to.optimizer.value, from.optimizer.value);

    const sample wrong = {.optimizer = {.type = "adma"}};
    assert_fails(tl_desc_complete(arena, &sample_desc, &to, &wrong, NULL), TL_ENOTFOUND,
                 "optimizer: unknown type 'adma'");
}

typedef struct amount {
    int64_t number;
    bool given;
} amount;
static bool amount_is_given(const void *value)
{
    return ((const amount *)value)->given;
}
static const tl_field amount_fields[] = {TL_F(amount, number, .i = 3, .help = "of it"), TL_F_END};
static const tl_desc amount_desc = {
    .name = "amount",
    .help = "a number",
    .size = sizeof(amount),
    .fields = amount_fields,
    .complete = amount_is_given,
};
typedef struct amounts {
    amount one;
    tl_structs many;
} amounts;
static const tl_field amounts_fields[] = {
    TL_F_STRUCT(amounts, one, &amount_desc, .help = "one"),
    TL_F(amounts, many, .desc = &amount_desc, .help = "several"),
    TL_F_END,
};
static const tl_desc amounts_desc = {
    .name = "amounts",
    .help = "numbers",
    .size = sizeof(amounts),
    .fields = amounts_fields,
};

/* Zeros of a struct that says so are zeros. */
static void test_complete_leaves_the_complete_alone(void **state)
{
    (void)state;
    amounts to;
    const amounts from = {.one = {.given = true},
                          .many = {(amount[]){{0, false}, {0, true}, {7, false}}, 3}};
    assert_ok(tl_desc_complete(arena, &amounts_desc, &to, &from, NULL));
    const amount *many = to.many.items;
    assert_int_equal(to.one.number, 0);
    assert_int_equal(many[0].number, 3);
    assert_int_equal(many[1].number, 0);
    assert_int_equal(many[2].number, 7);
}

/* --- one-ofs ---------------------------------------------------------------------------------- */

static void test_oneof_select(void **state)
{
    (void)state;
    const tl_field *f = tl_desc_field(&sample_desc, "optimizer");
    tl_oneof o = {0};
    void *value;
    assert_ok(tl_oneof_select(&value, &o, f, "sgd", arena, NULL));
    assert_string_equal(o.type, "sgd");
    assert_ptr_equal(o.value, value);
    assert_ptr_equal(o.desc, &sgd_desc);
    assert_true(((sgd *)value)->momentum == 0.9);
    ((sgd *)value)->momentum = 0.3;
    assert_ok(tl_oneof_select(&value, &o, f, "adam", arena, NULL));
    assert_true(((adam *)value)->beta == 0.999);
    assert_ok(tl_oneof_select(&value, &o, f, "sgd", arena, NULL));
    assert_true(((sgd *)value)->momentum == 0.3); // kept while it was not chosen
    assert_ok(tl_oneof_select(&value, &o, f, "zero", arena, NULL));
    assert_string_equal(o.type, "zero");
    assert_null(value);
    assert_null(o.value);
    assert_ok(tl_oneof_select(&value, &o, f, NULL, arena, NULL));
    assert_null(o.type);
    assert_null(o.value);
    assert_null(value);
    assert_fails(tl_oneof_select(&value, &o, f, "adma", arena, NULL), TL_ENOTFOUND,
                 "unknown type 'adma', did you mean 'adam'?");
    assert_fails(tl_oneof_select(&value, &o, f, "rmsprop", arena, NULL), TL_ENOTFOUND,
                 "(known: sgd, adam, zero)");
    assert_ok(tl_oneof_select(NULL, &o, f, "sgd", arena, NULL)); // `out` may be left out
}

typedef struct chosen {
    tl_oneof optimizer;
} chosen;

static void test_oneof_with_a_default(void **state)
{
    (void)state;
    static const tl_field fields[] = {
        TL_F(chosen, optimizer, .s = "adam", .branches = optimizer_branches, .help = "h"),
        TL_F_END,
    };
    static const tl_desc desc = {.name = "chosen", .size = sizeof(chosen), .fields = fields};
    assert_ok(tl_desc_verify(&desc));
    chosen c;
    assert_ok(tl_desc_defaults(arena, &desc, &c));
    assert_string_equal(c.optimizer.type, "adam");
    assert_true(((adam *)c.optimizer.value)->beta == 0.999);
}

/* --- texts ------------------------------------------------------------------------------------ */

static void test_field_is_default(void **state)
{
    (void)state;
    sample *s = new_sample();
    for (const tl_field *f = sample_fields; f->name; f++) {
        bool is_default = false;
        assert_ok(tl_field_is_default(&is_default, &sample_desc, f, s));
        assert_true(is_default);
    }
    s->count++;
    s->layers = (tl_structs){(layer[]){{.name = "x"}}, 1};
    s->origin.label = "elsewhere";
    for (const tl_field *f = sample_fields; f->name; f++) {
        bool is_default = false;
        assert_ok(tl_field_is_default(&is_default, &sample_desc, f, s));
        bool changed = strcmp(f->name, "count") == 0 || strcmp(f->name, "layers") == 0
                       || strcmp(f->name, "origin") == 0;
        assert_int_equal(is_default, !changed);
    }
    puppy p;
    assert_ok(tl_desc_defaults(arena, &puppy_desc, &p));
    bool is_default = false;
    assert_ok(
        tl_field_is_default(&is_default, &puppy_desc, tl_desc_field(&puppy_desc, "legs"), &p));
    assert_true(is_default); // 4, which only the inits make of it
}

static void test_texts(void **state)
{
    (void)state;
    static const struct {
        const char *name, *type, *standard;
    } rows[] = {
        {"flag", "bool", "true"},
        {"count", "int", "42"},
        {"rate", "float", "0.1"},
        {"name", "string", "sample"},
        {"note", "string or null", "null"},
        {"color", "red | green | off | null", "green"},
        {"maybe_flag", "bool or null", "null"},
        {"maybe_count", "int or null", "7"},
        {"maybe_rate", "float or null", "null"},
        {"flags", "list of bool", "[true, false]"},
        {"counts", "list of int", "[1, 2, 3]"},
        {"maybe_counts", "list of int or null", "null"},
        {"rates", "list of float", "[]"},
        {"names", "list of string", "[a, b]"},
        {"colors", "list of red | green | off | null", "[red, 'off']"},
        {"target", "struct or null", "null"},
        {"layers", "list of struct", "[]"},
        {"optimizer", "one of sgd, adam, zero", "{type: null}"},
        {"extra", "bool or number or string or list or map or null", "null"},
        {"setting", "number or list", "[1, two]"},
        {"corner", "struct or null", "{label: here, x: 0.0, y: 1.5}"},
    };
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_str type = TL_STR_INIT, standard = TL_STR_INIT;
        const tl_field *f = tl_desc_field(&sample_desc, rows[i].name);
        tl_field_type_text(&type, f);
        assert_string_equal(tl_str_text(&type), rows[i].type);
        assert_ok(tl_field_default_text(&standard, &sample_desc, f));
        assert_string_equal(tl_str_text(&standard), rows[i].standard);
        tl_str_deinit(&type);
        tl_str_deinit(&standard);
    }
    tl_str empty = TL_STR_INIT;
    assert_ok(tl_field_default_text(&empty, &sample_desc, tl_desc_field(&sample_desc, "name")));
    tl_str_deinit(&empty);
}

static void test_text_of_long_and_empty_defaults(void **state)
{
    (void)state;
    static const int64_t many[60] = {0};
    static const tl_field fields[] = {
        TL_F(plain_defaults, l, .items = many, .count = 60, .help = "h"),
        TL_F(plain_defaults, s, .help = "h"),
        TL_F_END,
    };
    static const tl_desc desc = {.name = "p", .size = sizeof(plain_defaults), .fields = fields};
    tl_str text = TL_STR_INIT;
    assert_ok(tl_field_default_text(&text, &desc, &fields[0]));
    assert_int_equal(text.length, 60 * 3); // on one line: "[" "0, " ... "0]"
    assert_null(strchr(tl_str_text(&text), '\n'));
    tl_str_cut(&text, 0);
    assert_ok(tl_field_default_text(&text, &desc, &fields[1]));
    assert_string_equal(tl_str_text(&text), "''");
    tl_str_deinit(&text);
}

/* --- checks ----------------------------------------------------------------------------------- */

typedef struct range {
    int64_t low, high;
} range;
typedef struct strict_range {
    range base;
    int64_t step;
} strict_range;
typedef struct ranges {
    range first;
    range *second;
    tl_structs more;
    tl_oneof choice;
    tl_object any;
} ranges;

static tl_status range_check(const void *value)
{
    const range *r = value;
    if (r->low > r->high)
        return TL_FAIL(TL_EINVAL, "low (%lld) is above high (%lld)", (long long)r->low,
                       (long long)r->high);
    return TL_OK;
}

static tl_status strict_check(const void *value)
{
    return ((const strict_range *)value)->step > 0 ? TL_OK
                                                   : TL_FAIL(TL_ELIMIT, "step must be positive");
}

static tl_status ranges_check(const void *value)
{
    (void)value;
    return TL_FAIL(TL_ESTATE, "the whole comes last");
}

static const tl_field range_fields[] = {
    TL_F(range, low, .help = "h"),
    TL_F(range, high, .i = 10, .help = "h"),
    TL_F_END,
};
static const char *const range_restrictions[] = {"low != 5", NULL};
static const tl_desc range_desc = {
    .name = "range",
    .size = sizeof(range),
    .fields = range_fields,
    .check = range_check,
    .restrictions = range_restrictions,
};
static const tl_field strict_fields[] = {TL_F(strict_range, step, .i = 1, .help = "h"), TL_F_END};
static const tl_desc strict_desc = {
    .name = "strict_range",
    .size = sizeof(strict_range),
    .fields = strict_fields,
    .base = &range_desc,
    .check = strict_check,
};
static const tl_branch range_branches[] = {
    {"loose", &range_desc}, {"strict", &strict_desc}, {NULL, NULL}};
static const tl_field ranges_fields[] = {
    TL_F_STRUCT(ranges, first, &range_desc, .help = "h"),
    TL_F_OPTIONAL(ranges, second, &range_desc, .help = "h"),
    TL_F(ranges, more, .desc = &range_desc, .help = "h"),
    TL_F(ranges, choice, .branches = range_branches, .help = "h"),
    TL_F(ranges, any, .desc = &strict_desc, .flags = TL_FIELD_NULLABLE, .help = "h"),
    TL_F_END,
};
static const tl_desc ranges_desc = {
    .name = "ranges",
    .size = sizeof(ranges),
    .fields = ranges_fields,
    .check = ranges_check,
};

static void test_checks(void **state)
{
    (void)state;
    assert_ok(tl_desc_verify(&ranges_desc));
    strict_range s = {{20, 10}, 0};
    assert_int_equal(tl_desc_check(&strict_desc, &s), TL_EINVAL); // the base's first
    assert_string_equal(tl_error_message(), "low (20) is above high (10)\nstep must be positive");
    s = (strict_range){{5, 10}, 1};
    assert_fails(tl_desc_check(&strict_desc, &s), TL_EINVAL, "low != 5");
    s = (strict_range){{1, 10}, 1};
    assert_ok(tl_desc_check(&strict_desc, &s));

    // All of them together, each with its key, the inner ones first.
    ranges r = {.first = {2, 1},
                .second = &(range){4, 3},
                .more = {(range[]){{0, 1}, {6, 5}}, 2},
                .any = {&strict_desc, &(strict_range){{0, 1}, 0}}};
    void *strict;
    assert_ok(tl_oneof_select(&strict, &r.choice, tl_desc_field(&ranges_desc, "choice"), "strict",
                              arena, NULL));
    *(strict_range *)strict = (strict_range){{8, 7}, 1};
    assert_int_equal(tl_desc_check(&ranges_desc, &r), TL_EINVAL);
    assert_string_equal(tl_error_message(), "first: low (2) is above high (1)\n"
                                            "second: low (4) is above high (3)\n"
                                            "more[1]: low (6) is above high (5)\n"
                                            "choice.strict: low (8) is above high (7)\n"
                                            "any: step must be positive\n"
                                            "the whole comes last");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_sample_is_sound),
        cmocka_unit_test_setup_teardown(test_defaults, begin, end),
        cmocka_unit_test_setup_teardown(test_no_default, begin, end),
        cmocka_unit_test_setup_teardown(test_base, begin, end),
        cmocka_unit_test_setup_teardown(test_sorted, begin, end),
        cmocka_unit_test_setup_teardown(test_copy, begin, end),
        cmocka_unit_test_setup_teardown(test_copy_of_defaults, begin, end),
        cmocka_unit_test_setup_teardown(test_branches_not_chosen_do_not_count, begin, end),
        cmocka_unit_test_setup_teardown(test_changes_are_seen, begin, end),
        cmocka_unit_test_setup_teardown(test_numbers_in_equality, begin, end),
        cmocka_unit_test_setup_teardown(test_hash_is_fixed, begin, end),
        cmocka_unit_test_setup_teardown(test_complete, begin, end),
        cmocka_unit_test_setup_teardown(test_complete_leaves_the_complete_alone, begin, end),
        cmocka_unit_test_setup_teardown(test_oneof_select, begin, end),
        cmocka_unit_test_setup_teardown(test_oneof_with_a_default, begin, end),
        cmocka_unit_test_setup_teardown(test_field_is_default, begin, end),
        cmocka_unit_test_setup_teardown(test_texts, begin, end),
        cmocka_unit_test_setup_teardown(test_text_of_long_and_empty_defaults, begin, end),
        cmocka_unit_test_setup_teardown(test_checks, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
