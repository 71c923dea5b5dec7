/* Functions whose result is rounded to half precision: what a GPU's unit for powers and reciprocals
 * estimates, to a few units of float, does there. In plain C they are the usual ones.
 *
 * Put behind scalar.h; included nowhere. Thread word: free-threaded. */

// clang-format off
#ifdef __CUDACC__
FN float quick_power(float x) // of two
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
FN float quick_reciprocal_f(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
/* Of numbers, the nearest within the bounds; NaN stays. */
FN float quick_between(float x, float low, float high)
{
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(x), "f"(low));
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(y), "f"(high));
    return y;
}
FN float quick_exp_f(float x) { return quick_power(x * 1.44269504f); }
FN float quick_sigmoid_f(float x) { return quick_reciprocal_f(1 + quick_exp_f(-x)); }
FN float quick_tanh_f(float x)
{
    const float t = quick_between(x, -10, 10);
    // near 0 the difference would have few digits
    const float near = __fmaf_rn(t * t, t * -0.33333333f, t);
    const float far = __fmaf_rn(-2, quick_reciprocal_f(1 + quick_power(t * 2.88539008f)), 1);
    return abs_f(t) < 0.03f ? near : far;
}
FN float quick_silu_f(float x) { return quick_between(x, -100, INF_F) * quick_sigmoid_f(x); }
FN float quick_silu_grad_f(float g, float x)
{
    const float s = quick_sigmoid_f(x), in = quick_between(x, -100, 100);
    return g * __fmaf_rn(s * in, 1 - s, s);
}
/* e^-2u, where u is what gelu's tanh is taken of. */
FN float quick_gelu_power(float x, float square)
{
    return quick_power(x * __fmaf_rn(square, -0x1.a5a7dp-4f, -0x1.26aec2p1f));
}
FN float quick_gelu_tanh_f(float x)
{
    const float top = quick_between(x, -10, INF_F), in = quick_between(x, -10, 10);
    return top * quick_reciprocal_f(1 + quick_gelu_power(in, in * in));
}
FN float quick_gelu_tanh_grad_f(float g, float x)
{
    const float in = quick_between(x, -8, 8), square = in * in;
    const float s = quick_reciprocal_f(1 + quick_gelu_power(in, square));
    const float rise = in * __fmaf_rn(square, 3 * 0x1.2444f2p-4f, 0x1.988454p0f);
    return g * __fmaf_rn(rise * s, 1 - s, s);
}
#else
#define quick_exp_f exp_f
#define quick_sigmoid_f sigmoid_f
#define quick_tanh_f tanh_f
#define quick_silu_f silu_f
#define quick_silu_grad_f silu_grad_f
#define quick_gelu_tanh_f gelu_tanh_f
#define quick_gelu_tanh_grad_f gelu_tanh_grad_f
#define quick_reciprocal_f reciprocal_f
#endif
// clang-format on
