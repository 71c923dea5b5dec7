/* A hundred updates with fixed gradients, against what Model Garden (Keras) and PyTorch make of
 * them (tests/golden/optimizers.py; adafactor.py, optimizers_keras.py): in float32 and float64,
 * eagerly, as an interpreted program and as a compiled one. All three give the same bits, but that
 * Adafactor's sums are added in another order in programs. runs: fake device */
#include "test.h"

#include <tilth/base/file.h>

#include "weights.h"

enum { STEPS = 100, MOST_ENTRIES = 512 };

/* --- the files -------------------------------------------------------------------------------- */

typedef struct entry {
    char name[96];
    uint32_t kind; /* 0 float32, 1 float64, 3 text */
    int64_t count;
    const char *values;
} entry;

typedef struct golden {
    tl_file_mapping file;
    entry entries[MOST_ENTRIES];
    int64_t count;
} golden;
static golden garden, torch, adafactor, keras;

static void read_golden(golden *g, const char *path)
{
    assert_ok(tl_file_map(&g->file, path));
    for (const char *p = g->file.data, *end = g->file.data + g->file.size; p < end;) {
        assert_true(g->count < MOST_ENTRIES);
        entry *e = &g->entries[g->count++];
        uint32_t length, rank;
        memcpy(&length, p, 4);
        assert_true(length < sizeof e->name);
        memcpy(e->name, p + 4, length);
        memcpy(&e->kind, p + 4 + length, 4);
        memcpy(&rank, p + 8 + length, 4);
        assert_int_equal(rank, 1);
        memcpy(&e->count, p + 12 + length, 8);
        e->values = p + 20 + length;
        p = e->values + e->count * (e->kind == 3 ? 1 : e->kind == 1 ? 8 : 4);
    }
}

static int open_all(void **state)
{
    read_golden(&garden, TEST_DATA "/golden/optimizers.bin");
    read_golden(&torch, TEST_DATA "/golden/optimizers_torch.bin");
    read_golden(&adafactor, TEST_DATA "/golden/adafactor.bin");
    read_golden(&keras, TEST_DATA "/golden/optimizers_keras.bin");
    return open_labs(state);
}

static int close_all(void **state)
{
    tl_file_unmap(&garden.file);
    tl_file_unmap(&torch.file);
    tl_file_unmap(&adafactor.file);
    tl_file_unmap(&keras.file);
    return close_labs(state);
}

static const entry *find(const golden *g, const char *name)
{
    for (int64_t i = 0; i < g->count; i++)
        if (strcmp(g->entries[i].name, name) == 0) return &g->entries[i];
    return NULL;
}

static double value_of(const entry *e, int64_t i)
{
    float f;
    double d;
    if (e->kind == 1) {
        memcpy(&d, e->values + 8 * i, 8);
        return d;
    }
    memcpy(&f, e->values + 4 * i, 4);
    return f;
}

/* --- a case ----------------------------------------------------------------------------------- */

static const entry *wanted_after(const golden *g, const char *name, tl_dtype dtype, int step,
                                 const char *what)
{
    char text[192];
    snprintf(text, sizeof text, "%s/%s/%d/%s", name, tl_dtype_name(dtype), step, what);
    return find(g, text);
}

static void compare(const entry *wanted, const double *found, double most)
{
    assert_int_equal(wanted->count, ELEMENTS);
    for (int64_t i = 0; i < ELEMENTS; i++) {
        double a = found[i], b = value_of(wanted, i);
        if (!(fabs(a - b) <= most * fmax(1, fabs(b))))
            fail_msg("%s, element %lld: %.17g, not %.17g", wanted->name, (long long)i, a, b);
    }
}

// The averages by parameter, as a checkpoint would hold them.
static void get_averages(const lab *l, double *out)
{
    tl_state *s;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_optimizer_state(l->o, s));
    for (int i = 0; i < PARAMS; i++) {
        char path[96];
        tl_state_entry e;
        snprintf(path, sizeof path, "average/%s/%s", wanted_params[i].layer, wanted_params[i].name);
        assert_ok(tl_state_get(&e, s, path, TL_STATE_TENSOR));
        assert_ok(tl_tensor_get_doubles(e.tensor, out, tl_tensor_count(e.tensor)));
        out += tl_tensor_count(e.tensor);
    }
    tl_state_free(&s);
}

// Gives how many times something was compared; the weights at the end go into `out`.
static int follow(const golden *g, const char *name, const char *yaml, tl_dtype dtype, int mode,
                  double *out)
{
    lab l;
    int compared = 0;
    double most = dtype == TL_F64 ? 1e-10 : 1e-5, found[ELEMENTS];
    lab_open(&l, dtype, yaml, mode);
    for (int step = 1; step <= STEPS; step++) {
        lab_run_number(&l, step);
        const entry *wanted = wanted_after(g, name, dtype, step, "weights");
        if (!wanted) continue;
        compared++;
        get_all(found, l.params);
        compare(wanted, found, most);
        wanted = wanted_after(g, name, dtype, step, "averages");
        if (!wanted) continue;
        get_averages(&l, found);
        compare(wanted, found, most);
    }
    assert_int_equal(tl_optimizer_iterations(l.o), STEPS);
    get_all(out, l.params);
    lab_close(&l);
    return compared;
}

static void run_case(const golden *g, const entry *e, tl_dtype dtype)
{
    char yaml[1024];
    double ends[MODES][ELEMENTS];
    assert_non_null(wanted_after(g, e->name, dtype, STEPS, "weights"));
    assert_true(e->count < (int64_t)sizeof yaml);
    memcpy(yaml, e->values, (size_t)e->count);
    yaml[e->count] = 0;
    for (int mode = EAGER; mode < MODES; mode++)
        assert_int_equal(follow(g, e->name, yaml, dtype, mode, ends[mode]), 3);
    // A GPU has no interpreter: there ops run one by one, with sums in the order of each alone.
    if (test_wants_gpu()) return;
    if (memcmp(ends[COMPILED], ends[INTERPRETED], sizeof *ends) != 0)
        fail_msg("%s, %s: compiled gives other bits than interpreted", e->name,
                 tl_dtype_name(dtype));
    if (!strstr(e->name, "adafactor") && memcmp(ends[EAGER], ends[COMPILED], sizeof *ends) != 0)
        fail_msg("%s, %s: a program gives other bits than ops one by one", e->name,
                 tl_dtype_name(dtype));
}

static void run_all(const golden *g, tl_dtype dtype, int at_least)
{
    int cases = 0;
    for (int64_t i = 0; i < g->count; i++) {
        if (g->entries[i].kind != 3) continue;
        run_case(g, &g->entries[i], dtype);
        cases++;
    }
    assert_true(cases >= at_least);
}

static void test_garden_float32(void **state)
{
    (void)state;
    run_all(&garden, TL_F32, 34);
}

static void test_garden_float64(void **state)
{
    (void)state;
    run_all(&garden, TL_F64, 34);
}

static void test_torch(void **state)
{
    (void)state;
    run_all(&torch, TL_F32, 10);
    run_all(&torch, TL_F64, 10);
}

/* Rates above 1 / sqrt(step), constant and scheduled: they are bounded whatever relative_step says,
 * as in Keras. */
static void test_adafactor_bounds_its_rate(void **state)
{
    (void)state;
    run_all(&adafactor, TL_F32, 4);
    run_all(&adafactor, TL_F64, 4);
}

static void test_keras(void **state)
{
    (void)state;
    run_all(&keras, TL_F32, 14);
    run_all(&keras, TL_F64, 14);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garden_float32), cmocka_unit_test(test_garden_float64),
        cmocka_unit_test(test_torch),          cmocka_unit_test(test_adafactor_bounds_its_rate),
        cmocka_unit_test(test_keras),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
