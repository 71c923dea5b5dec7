/* A nest has the bits of its ops called one by one, on every instruction set of this machine. */
#include "nest/nest_cases.h"

#include <tilth/core/ctx.h>
#include <tilth/core/engine.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/ops/apply.h>

#include "base/inner/isa.h"

enum { COUNT = 60000 };

// Floats of all sizes: their bits at even distances. Integers likewise.
static void spread(tl_dtype dtype, void *data, uint32_t start)
{
    for (int64_t i = 0; i < COUNT; i++) {
        const uint32_t bits =
            start + (uint32_t)i * (uint32_t)(0xffffffffu / COUNT) + (uint32_t)(i * i % 77);
        const uint64_t wide = (uint64_t)bits << 32 | (bits * 2654435761u);
        switch (tl_dtype_size(dtype)) {
        case 1:
            ((uint8_t *)data)[i] = dtype == TL_BOOL ? bits >> 8 & 1 : (uint8_t)(bits >> 13);
            break;
        case 2: ((uint16_t *)data)[i] = (uint16_t)(bits >> 16); break;
        case 4: memcpy((char *)data + 4 * i, &bits, 4); break;
        default: memcpy((char *)data + 8 * i, &wide, 8); break;
        }
    }
}

static void run_op(tl_engine *engine, const build *b, char *out)
{
    const tl_term *t = &b->terms[b->nest.term_count - 1];
    tl_ctx *c;
    tl_tensor *in[3] = {NULL};
    assert_ok(tl_ctx_new(&c, engine));
    for (int i = 0; i < t->inputs; i++) {
        assert_ok(tl_tensor_new(&in[i], engine, b->buffers[i].dtype, TL_SHAPE(COUNT)));
        assert_ok(tl_tensor_set(in[i], b->buffers[i].data, tl_tensor_bytes(in[i])));
    }
    tl_tensor *y = tl_apply(c, t->op, t->attr, t->inputs, in);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get(y, out, tl_tensor_bytes(y)));
    tl_ctx_free(&c);
    for (int i = 0; i < t->inputs; i++) tl_tensor_free(&in[i]);
}

// How many elements differ, NaNs aside.
static int64_t differences(const build *b, char **got, const char *wanted)
{
    const int last = b->nest.buffer_count - 1;
    const tl_dtype dtype = b->buffers[last].dtype;
    const size_t size = tl_dtype_size(dtype);
    int64_t count = 0;
    for (int64_t i = 0; i < COUNT; i++) {
        const char *x = got[last] + (size_t)i * size, *y = wanted + (size_t)i * size;
        if (memcmp(x, y, size) == 0) continue;
        const bool nans = tl_dtype_is_float(dtype) && isnan(tli_element_get(dtype, x, 0))
                          && isnan(tli_element_get(dtype, y, 0));
        if (nans) continue;
        if (count++ == 0)
            print_message("%s: element %" PRId64 ": %a in a nest, %a by its op\n", b->name, i,
                          tli_element_get(dtype, x, 0), tli_element_get(dtype, y, 0));
    }
    return count;
}

static int64_t compare(cases *c, tl_engine *engine, tl_op what, tl_dtype dtype, int variant)
{
    const tl_op_class *cls = tl_op_class_of(what);
    const bool truth = tl_op_class_of(what)->flags & TL_OP_TRUTH;
    char name[64], *got[MOST_BUFFERS], *wanted = malloc(COUNT * 8);
    int in[3] = {0};
    snprintf(name, sizeof name, "%s%s of %s", cls->name, variant ? " (approximate)" : "",
             tl_dtype_name(dtype));
    build *b = cases_add(c, name, 1, (const int64_t[]){COUNT});
    for (int i = 0; i < cls->inputs_min; i++)
        in[i] = load_all(b, what == TL_OP_where && i == 0 ? TL_BOOL : dtype, 1);
    store_all(b, op(b, what, truth ? TL_BOOL : dtype, attr_for(what, variant), cls->inputs_min,
                    in[0], in[1], in[2]));
    fill_buffers(b);
    for (int i = 0; i < cls->inputs_min; i++)
        spread(b->buffers[i].dtype, b->buffers[i].data, (uint32_t)i * 0x12345677u);
    assert_ok(tl_nest_plan_new(&b->plan, c->arena, &b->nest));
    run_plan(b, NULL, got, NULL);
    run_op(engine, b, wanted);
    const int64_t count = differences(b, got, wanted);
    free_buffers(b, got);
    free(wanted);
    return count;
}

static void compare_all(const char *isa)
{
    static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64, TL_I8,
                                     TL_I16, TL_I32,  TL_I64, TL_U8,  TL_BOOL};
    const tl_backend_class *backend;
    tl_engine *engine;
    int64_t differ = 0;
    cases c;
    setenv("TILTH_ISA", isa, 1);
    assert_ok(tl_cpu_backend(&backend));
    assert_ok(tl_engine_new(&engine, &(tl_engine_args){.backend = backend, .threads = 1}));
    cases_init(&c);
    for (int o = 0; o < TL_OP_COUNT; o++)
        for (int t = 0; t < TL_COUNT(types); t++) {
            const tl_op what = (tl_op)o;
            if (!is_elementwise(what)) continue;
            const bool truth = tl_op_class_of(what)->flags & TL_OP_TRUTH;
            if (!test_takes(o + t, 7)) continue;
            if (what == TL_OP_cast || !tl_nest_has_op(what, truth ? TL_BOOL : types[t], types[t]))
                continue;
            for (int v = 0; v < variants_of(what); v++)
                differ += compare(&c, engine, what, types[t], v) != 0;
        }
    cases_deinit(&c);
    tl_engine_free(&engine);
    unsetenv("TILTH_ISA");
    if (differ) fail_msg("%" PRId64 " ops differ on %s", differ, isa);
}

static void test_isas(void **state)
{
    (void)state;
    for (int i = 0; i < TLI_ISA_COUNT; i++)
        if (tli_isa_supported((tli_isa)i)) compare_all(tli_isa_text((tli_isa)i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
