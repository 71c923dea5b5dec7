#include "vec_probe.h"

#include "cpu/simd/vec.h"

/* Masks of doubles have no store of their own. */
static void store_vmd(uint8_t *p, vmd m)
{
    double lanes[VD];
    vd_store(lanes, vd_keep(m, vd_set1(1)));
    for (int i = 0; i < VD; i++) p[i] = lanes[i] != 0;
}

static vl vl_from(const void *p)
{
    return vd_as_vl(vd_load(p));
}

static void vl_to(void *p, vl x)
{
    vd_store(p, vl_as_vd(x));
}

#define PROBE(name)                                                                                \
    static void probe_##name(void *out, const void *a, const void *b, const void *c, int64_t n)
#define UNUSED(x) (void)(x)
#define BODY(call)                                                                                 \
    {                                                                                              \
        UNUSED(out), UNUSED(a), UNUSED(b), UNUSED(c), UNUSED(n);                                   \
        call;                                                                                      \
    }

/* Formatted by hand: definitions by macros. */
// clang-format off
#define UNARY(name, right)                                                                         \
    PROBE(vf_##name) BODY(vf_store(out, vf_##name(vf_load(a))))                                    \
    PROBE(vd_##name) BODY(vd_store(out, vd_##name(vd_load(a))))
TLI_PROBE_UNARY(UNARY)
#define BINARY(name, right)                                                                        \
    PROBE(vf_##name) BODY(vf_store(out, vf_##name(vf_load(a), vf_load(b))))                        \
    PROBE(vd_##name) BODY(vd_store(out, vd_##name(vd_load(a), vd_load(b))))
TLI_PROBE_BINARY(BINARY)
TLI_PROBE_CONSTANT(BINARY)
#define TERNARY(name, right)                                                                       \
    PROBE(vf_##name) BODY(vf_store(out, vf_##name(vf_load(a), vf_load(b), vf_load(c))))            \
    PROBE(vd_##name) BODY(vd_store(out, vd_##name(vd_load(a), vd_load(b), vd_load(c))))
TLI_PROBE_TERNARY(TERNARY)
#define COMPARE(name, right)                                                                       \
    PROBE(vf_##name) BODY(vm_store_bool(out, vf_##name(vf_load(a), vf_load(b))))                   \
    PROBE(vd_##name) BODY(store_vmd(out, vd_##name(vd_load(a), vd_load(b))))
TLI_PROBE_COMPARE(COMPARE)
#define MASK(name, right)                                                                          \
    PROBE(vm_##name)                                                                               \
    BODY(vm_store_bool(out, vm_##name(vf_lt(vf_load(a), vf_load(b)),                               \
                                      vf_lt(vf_load(b), vf_load(c)))))                             \
    PROBE(vmd_##name)                                                                              \
    BODY(store_vmd(out, vmd_##name(vd_lt(vd_load(a), vd_load(b)), vd_lt(vd_load(b), vd_load(c)))))
TLI_PROBE_MASK(MASK)
#define WHOLE(name, right)                                                                         \
    PROBE(vi_##name) BODY(vi_store(out, vi_##name(vi_load(a), vi_load(b))))                        \
    PROBE(vl_##name) BODY(vl_to(out, vl_##name(vl_from(a), vl_from(b))))
TLI_PROBE_WHOLE(WHOLE)
#define SHIFT(name, right)                                                                         \
    PROBE(vi_##name) BODY(vi_store(out, vi_##name(vi_load(a), (int)n)))                            \
    PROBE(vl_##name) BODY(vl_to(out, vl_##name(vl_from(a), (int)n)))
TLI_PROBE_SHIFT(SHIFT)
#define INT32(name, right) PROBE(vi_##name) BODY(vi_store(out, vi_##name(vi_load(a), vi_load(b))))
TLI_PROBE_INT32(INT32)

PROBE(vi_shr) BODY(vi_store(out, vi_shr(vi_load(a), (int)n)))
PROBE(vi_eq) BODY(vm_store_bool(out, vi_eq(vi_load(a), vi_load(b))))
PROBE(vi_gt) BODY(vm_store_bool(out, vi_gt(vi_load(a), vi_load(b))))

PROBE(vf_choose)
{
    const vf x = vf_load(a), y = vf_load(b);
    const vm m = vf_lt(x, y);
    UNUSED(c), UNUSED(n);
    vf_store((float *)out, vf_select(m, x, y));
    vf_store((float *)out + VF, vf_keep(m, x));
    vf_store((float *)out + 2 * VF, vf_drop(m, x));
}

PROBE(vd_choose)
{
    const vd x = vd_load(a), y = vd_load(b);
    const vmd m = vd_lt(x, y);
    UNUSED(c), UNUSED(n);
    vd_store((double *)out, vd_select(m, x, y));
    vd_store((double *)out + VD, vd_keep(m, x));
    vd_store((double *)out + 2 * VD, vd_drop(m, x));
}

PROBE(vi_choose)
{
    const vi x = vi_load(a), y = vi_load(b);
    UNUSED(c), UNUSED(n);
    vi_store((int32_t *)out, vi_select(vi_gt(y, x), x, y));
    vi_store((int32_t *)out + VF, vm_to_vi(vi_gt(y, x)));
    vi_store((int32_t *)out + 2 * VF, vi_set1(((const int32_t *)a)[0]));
}

PROBE(vm_any_all_not_first)
{
    const vm m = vf_lt(vf_load(a), vf_load(b));
    uint8_t *bytes = out;
    UNUSED(c);
    bytes[0] = vm_any(m), bytes[1] = vm_all(m);
    vm_store_bool(bytes + 2, vm_not(m));
    vm_store_bool(bytes + 2 + VF, vm_first(n));
}

PROBE(vmd_any_all_not_first)
{
    const vmd m = vd_lt(vd_load(a), vd_load(b));
    uint8_t *bytes = out;
    UNUSED(c);
    bytes[0] = vmd_any(m), bytes[1] = vmd_all(m);
    store_vmd(bytes + 2, vmd_not(m));
    store_vmd(bytes + 2 + VD, vmd_first(n));
}

PROBE(vf_across)
{
    const vf x = vf_load(a);
    float *lanes = out;
    UNUSED(b), UNUSED(c), UNUSED(n);
    lanes[0] = vf_sum(x), lanes[1] = vf_hmax(x), lanes[2] = vf_hmin(x);
}

PROBE(vd_across)
{
    const vd x = vd_load(a);
    double *lanes = out;
    UNUSED(b), UNUSED(c), UNUSED(n);
    lanes[0] = vd_sum(x), lanes[1] = vd_hmax(x), lanes[2] = vd_hmin(x);
}

PROBE(vi_to_vf) BODY(vf_store(out, vi_to_vf(vi_load(a))))
PROBE(vf_to_vi) BODY(vi_store(out, vf_to_vi(vf_load(a))))
PROBE(vf_round_to_vi) BODY(vi_store(out, vf_round_to_vi(vf_load(a))))
PROBE(vf_to_vd)
{
    UNUSED(b), UNUSED(c), UNUSED(n);
    vd_store((double *)out, vf_low_to_vd(vf_load(a)));
    vd_store((double *)out + VD, vf_high_to_vd(vf_load(a)));
}
PROBE(vd_to_vf) BODY(vf_store(out, vd_to_vf(vd_load(a), vd_load((const double *)a + VD))))

/* name: store of load, both whole or both of n. */
#define COPY(name, load, store)                                                                    \
    PROBE(name)                                                                                    \
    {                                                                                              \
        UNUSED(b), UNUSED(c);                                                                      \
        if (n < 0)                                                                                 \
            store(out, load(a));                                                                   \
        else                                                                                       \
            store##_n(out, load##_n(a, n), n);                                                     \
    }
COPY(copy_f32, vf_load, vf_store)
COPY(copy_i32, vi_load, vi_store)
COPY(copy_f64, vd_load, vd_store)
COPY(copy_bool, vm_load_bool, vm_store_bool)

#define STORAGE(t)                                                                                 \
    PROBE(load_##t) BODY(vf_store(out, n < 0 ? vf_load_##t(a) : vf_load_##t##_n(a, n)))            \
    PROBE(store_##t)                                                                               \
    {                                                                                              \
        UNUSED(b), UNUSED(c);                                                                      \
        if (n < 0)                                                                                 \
            vf_store_##t(out, vf_load(a));                                                         \
        else                                                                                       \
            vf_store_##t##_n(out, vf_load(a), n);                                                  \
    }
TLI_FLOAT_LIST(STORAGE)

#define MEMBER(name) .name = probe_##name,
#define BOTH(name, right) MEMBER(vf_##name) MEMBER(vd_##name)
#define BOTH_MASKS(name, right) MEMBER(vm_##name) MEMBER(vmd_##name)
#define BOTH_WHOLE(name, right) MEMBER(vi_##name) MEMBER(vl_##name)
#define ONLY_INT32(name, right) MEMBER(vi_##name)
#define STORAGE_MEMBER(t) MEMBER(load_##t) MEMBER(store_##t)

const tli_vec_probe TLI_ISA_NAME(tli_vec_probe) = {
    .lanes = VF,
    TLI_PROBE_UNARY(BOTH) TLI_PROBE_BINARY(BOTH) TLI_PROBE_CONSTANT(BOTH) TLI_PROBE_TERNARY(BOTH)
    TLI_PROBE_COMPARE(BOTH) TLI_PROBE_MASK(BOTH_MASKS) TLI_PROBE_WHOLE(BOTH_WHOLE)
    TLI_PROBE_SHIFT(BOTH_WHOLE) TLI_PROBE_INT32(ONLY_INT32)
    MEMBER(vi_shr) MEMBER(vi_eq) MEMBER(vi_gt) MEMBER(vf_choose) MEMBER(vd_choose) MEMBER(vi_choose)
    MEMBER(vm_any_all_not_first) MEMBER(vmd_any_all_not_first) MEMBER(vf_across) MEMBER(vd_across)
    MEMBER(vi_to_vf) MEMBER(vf_to_vi) MEMBER(vf_round_to_vi) MEMBER(vf_to_vd) MEMBER(vd_to_vf)
    MEMBER(copy_f32) MEMBER(copy_i32) MEMBER(copy_f64) MEMBER(copy_bool)
    TLI_FLOAT_LIST(STORAGE_MEMBER)
};
// clang-format on
