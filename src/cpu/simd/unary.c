/* Functions of one argument over arrays. Tails go through the same vector code as the rest, so that
 * an element's result does not depend on where it stands. */
#include "cpu/simd/simd.h"

#include "cpu/simd/math.h"

/* y = call(v) for each v of x. Four vectors a round, whose chains of instructions run side by
 * side: a chain is some tens of multiply-adds that take 4 cycles each, and two units want 8 of them
 * at a time. */
#define MAP(call)                                                                                  \
    int64_t i = 0;                                                                                 \
    for (; i + 4 * VF <= n; i += 4 * VF) {                                                         \
        const vf a = vf_load(x + i), b = vf_load(x + i + VF);                                      \
        const vf c = vf_load(x + i + 2 * VF), d = vf_load(x + i + 3 * VF);                         \
        vf_store(y + i, call(a));                                                                  \
        vf_store(y + i + VF, call(b));                                                             \
        vf_store(y + i + 2 * VF, call(c));                                                         \
        vf_store(y + i + 3 * VF, call(d));                                                         \
    }                                                                                              \
    for (; i < n; i += VF) {                                                                       \
        const int64_t left = n - i < VF ? n - i : VF;                                              \
        vf_store_n(y + i, call(vf_load_n(x + i, left)), left);                                     \
    }

#define TLI_UNARY_ROW(name, op, approximate)                                                       \
    static void map_##name(float *y, const float *x, int64_t n)                                    \
    {                                                                                              \
        MAP(vf_##name)                                                                             \
    }
#include "cpu/simd/unary_rows.inc"

static void map_elu(float *y, const float *x, float number, int64_t n)
{
    const vf alpha = vf_set1(number);
#define ELU(v) vf_elu(v, alpha)
    MAP(ELU)
#undef ELU
}

static void map_leaky_relu(float *y, const float *x, float number, int64_t n)
{
    const vf slope = vf_set1(number);
#define LEAKY_RELU(v) vf_leaky_relu(v, slope)
    MAP(LEAKY_RELU)
#undef LEAKY_RELU
}

static void map_pow_1(float *y, const float *x, float number, int64_t n)
{
    const vf exponent = vf_set1(number);
    for (int64_t i = 0; i < n; i += VF) {
        const int64_t left = n - i < VF ? n - i : VF;
        vf_store_n(y + i, vf_pow(vf_load_n(x + i, left), exponent), left);
    }
}

static void map_pow(float *y, const float *x, const float *exponents, int64_t n)
{
    for (int64_t i = 0; i < n; i += VF) {
        const int64_t left = n - i < VF ? n - i : VF;
        vf_store_n(y + i, vf_pow(vf_load_n(x + i, left), vf_load_n(exponents + i, left)), left);
    }
}

const tli_unary_fns TLI_ISA_NAME(tli_unary_fns) = {
#define TLI_UNARY_ROW(name, op, approximate) .name = map_##name,
#include "cpu/simd/unary_rows.inc"
    .elu = map_elu,
    .leaky_relu = map_leaky_relu,
    .pow = map_pow,
    .pow_1 = map_pow_1,
};
