/* Sums of which parts are known before a program ends: the same bits, told in order, and left alone
 * afterwards. */
#include "graph/graph_test.h"

#include <tilth/sys/graph/early.h>

enum { GAP = 32, COUNT = 3 * GAP, MOST = 8 };

/* Three tensors of 16 elements, the last of which is known first, and what comes behind them. */
static void add_packed(tl_ctx *c, tl_tensor *const to[2], tl_tensor *x, tl_tensor *y,
                       tl_tensors *out)
{
    static const int64_t places[] = {0, GAP, 2 * GAP};
    tl_tensor *last = tl_matmul_with(c, x, y, false, true);
    tl_tensor *middle = tl_matmul_with(c, tl_softmax(c, last, -1), last, false, false);
    tl_tensor *first = tl_matmul_with(c, tl_softmax(c, middle, -1), last, false, false);
    tl_tensor *parts[] = {first, middle, last};
    tl_tensor *pack = tl_pack(c, 3, parts, places, COUNT);
    tl_assign_sum(c, to[0], tl_scale(c, pack, 3), to[1]);
    tl_assign(c, to[1], tl_full(c, TL_BOOL, TL_SCALAR, 0));
    tl_tensors_put(c, out, "sum", tl_sum(c, first, TL_ALL, false));
}

typedef struct sums {
    tl_tensor *to[2]; /* and whether it begins */
    int64_t told[MOST], calls;
    float seen[COUNT]; /* when it was told */
    const tl_early_part *parts;
} sums;

BODY(plain)
{
    const sums *s = self;
    add_packed(c, s->to, x, y, out);
}

/* The sum is read before the end. */
BODY(looks)
{
    const sums *s = self;
    add_packed(c, s->to, x, y, out);
    tl_tensors_put(c, out, "total", tl_sum(c, s->to[0], TL_ALL, false));
}

/* It is not even looked at. */
BODY(other)
{
    (void)self;
    tl_tensors_put(c, out, "sum", tl_sum(c, tl_matmul_with(c, x, y, false, true), TL_ALL, false));
}

/* It is added to twice. */
BODY(twice)
{
    const sums *s = self;
    add_packed(c, s->to, x, y, out);
    add_packed(c, s->to, y, x, out);
}

static tl_status note(void *self, int64_t count)
{
    sums *s = self;
    const int64_t before = s->calls ? s->told[s->calls - 1] : 0;
    tl_lease l;
    if (count == before) return TL_OK;
    assert_true(count > before && s->calls < MOST);
    s->told[s->calls++] = count;
    assert_ok(tl_lease_read(&l, s->to[0]));
    for (int64_t i = before; i < count; i++)
        memcpy(s->seen + s->parts[i].from, (const float *)l.data + s->parts[i].from,
               (size_t)(s->parts[i].end - s->parts[i].from) * sizeof(float));
    tl_lease_drop(&l);
    return TL_OK;
}

static tl_program *compiled(fixture *f, tl_graph_fn *body, sums *s)
{
    tl_graph *g = captured(f, body, s);
    tl_program *p;
    assert_ok(tl_graph_optimize(g, &(tl_optimize){.verify = true}));
    assert_ok(tl_program_new(&p, &g, &(tl_program_args){.name = "sums"}));
    return p;
}

static void run(fixture *f, tl_program *p, sums *s, const tl_early *early, bool begins,
                float out[COUNT])
{
    float x[24], y[24];
    tl_mark mark = tl_ctx_begin(f->c);
    tl_tensors in = {0}, got = {0};
    for (int i = 0; i < 24; i++) {
        x[i] = (float)((i * 7) % 11) / 5 - 1;
        y[i] = (float)((i * 5) % 13) / 6 - 1;
    }
    tl_tensor *a = tl_ctx_tensor(f->c, TL_AT_DEVICE, TL_F32, TL_SHAPE(4, 6));
    tl_tensor *b = tl_ctx_tensor(f->c, TL_AT_DEVICE, TL_F32, TL_SHAPE(4, 6));
    assert_ok(tl_tensor_set(a, x, sizeof x));
    assert_ok(tl_tensor_set(b, y, sizeof y));
    tl_tensors_put(f->c, &in, "x", a);
    tl_tensors_put(f->c, &in, "y", b);
    for (int i = 0; i < COUNT; i++) out[i] = (float)i / 7;
    assert_ok(tl_tensor_set(s->to[0], out, COUNT * sizeof *out));
    assert_ok(tl_tensor_set_doubles(s->to[1], &(double){begins}, 1));
    s->calls = 0;
    assert_ok(tl_program_set_early(p, early));
    assert_ok(tl_program_run(p, f->c, &in, &got));
    assert_ok(tl_program_set_early(p, NULL));
    assert_ok(tl_tensor_get(s->to[0], out, COUNT * sizeof *out));
    tl_ctx_end(f->c, mark);
}

static void open_sums(sums *s, fixture *f)
{
    *s = (sums){0};
    assert_ok(tl_tensor_new(&s->to[0], f->engine, TL_F32, TL_SHAPE(COUNT)));
    assert_ok(tl_tensor_new(&s->to[1], f->engine, TL_BOOL, TL_SCALAR));
}

static void close_sums(sums *s)
{
    for (int i = 0; i < 2; i++) tl_tensor_free(&s->to[i]);
}

static void parts_have_the_bits_of_the_whole(void **state)
{
    fixture *f = *state;
    sums s;
    open_sums(&s, f);
    // between tensors, inside of one, in a gap; one at a time, and all at once
    const int64_t cuts[][5] = {{COUNT, 2 * GAP, GAP, 0},
                               {COUNT, 2 * GAP + 16, GAP + 8, 16, 0},
                               {COUNT, 2 * GAP - 4, GAP - 2, 0},
                               {COUNT, 0},
                               {COUNT, COUNT - 3, 2 * GAP + 3, 0}};
    tl_program *p = compiled(f, plain, &s);
    for (int64_t i = 0; i < TL_COUNT(cuts); i++)
        for (int begins = 0; begins < 2; begins++) {
            float whole[COUNT], parts[COUNT];
            tl_early_part list[4];
            int64_t count = 0;
            for (; cuts[i][count]; count++)
                list[count] = (tl_early_part){s.to[0], cuts[i][count + 1], cuts[i][count]};
            s.parts = list;
            const tl_early early = {list, count, note, &s};
            run(f, p, &s, NULL, begins, whole);
            assert_int_equal(s.calls, 0);
            run(f, p, &s, &early, begins, parts);
            assert_memory_equal(whole, parts, sizeof whole);
            assert_true(s.calls > 0);
            assert_int_equal(s.told[s.calls - 1], count);
            assert_memory_equal(whole, s.seen, sizeof whole);
            if (i == 0) assert_int_equal(s.calls, 3); // each behind a call of its own
        }
    // without them it is as before
    float again[COUNT], whole[COUNT];
    run(f, p, &s, NULL, true, whole);
    tl_program_set_timing(p, true);
    tl_early_part all = {s.to[0], 0, COUNT};
    s.parts = &all;
    run(f, p, &s, &(tl_early){&all, 1, note, &s}, true, again);
    assert_memory_equal(whole, again, sizeof whole);
    tl_program_free(&p);
    close_sums(&s);
}

static void what_needs_the_whole_run_is_not_told(void **state)
{
    fixture *f = *state;
    tl_graph_fn *const bodies[] = {looks, twice};
    sums s;
    open_sums(&s, f);
    for (int64_t i = 0; i < TL_COUNT(bodies); i++) {
        float whole[COUNT], parts[COUNT];
        tl_program *p = compiled(f, bodies[i], &s);
        const tl_early_part list[] = {{s.to[0], GAP, COUNT}, {s.to[0], 0, GAP}};
        s.parts = list;
        run(f, p, &s, NULL, true, whole);
        run(f, p, &s, &(tl_early){list, 2, note, &s}, true, parts);
        assert_memory_equal(whole, parts, sizeof whole);
        assert_int_equal(s.calls, 0);
        tl_program_free(&p);
    }
    // what it does not need at all is there at once
    tl_program *p = compiled(f, other, &s);
    const tl_early_part all = {s.to[0], 0, COUNT};
    float same[COUNT];
    s.parts = &all;
    run(f, p, &s, &(tl_early){&all, 1, note, &s}, true, same);
    assert_int_equal(s.calls, 1);
    assert_memory_equal(same, s.seen, sizeof same);
    tl_program_free(&p);
    // parts that leave something out, or come in another order, are not told of
    p = compiled(f, plain, &s);
    const tl_early_part wrong[][2] = {{{s.to[0], GAP, COUNT}, {s.to[0], 1, GAP}},
                                      {{s.to[0], 0, GAP}, {s.to[0], GAP, COUNT}}};
    for (int64_t i = 0; i < TL_COUNT(wrong); i++) {
        float out[COUNT];
        s.parts = wrong[i];
        run(f, p, &s, &(tl_early){wrong[i], 2, note, &s}, true, out);
        assert_int_equal(s.calls, 0);
    }
    tl_program_free(&p);
    close_sums(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_have_the_bits_of_the_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(what_needs_the_whole_run_is_not_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
