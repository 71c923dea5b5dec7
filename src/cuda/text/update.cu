/* Updates of float32 parameters over whole blocks: the rules of cpu/inner/update_rules.h, for 4
 * elements of a thread at a time, which it has in registers.
 *
 * Thread word: free-threaded. */

enum { TL_FORM_KERAS, TL_FORM_PYTORCH };
enum { RATE, STEP, SCALE, APPLY };
#define WAYS 1
#define UNROLLED(...) for (__VA_ARGS__)
#ifndef __cplusplus
#define bool _Bool
#define true 1
#define false 0
#endif
#define tl_sgd_attr tli_update_args
#define tl_adam_attr tli_update_args
#define tl_rmsprop_attr tli_update_args
#define tl_adagrad_attr tli_update_args
#define tl_lamb_attr tli_update_args
#define tl_adadelta_attr tli_update_args
#define tl_adamax_attr tli_update_args
#define tl_nadam_attr tli_update_args
#define tl_ftrl_attr tli_update_args
#define tl_lion_attr tli_update_args

/* What a thread has of it all. */
typedef struct block {
    float *w, *slot[3];
    const float *grad;
    double rate;
    float scale;
} block;

FN float get(const float *p, i64 i, i64 n)
{
    return (void)n, p[i];
}

FN void put(float *p, i64 i, float x, i64 n)
{
    (void)n;
    p[i] = x;
}

FN void put_weight(const block *b, i64 i, float w, i64 n)
{
    (void)n;
    b->w[i] = w;
}

FN float load_grad(const block *b, i64 i, i64 n)
{
    return (void)n, b->grad[i] * b->scale;
}

/* By squares: pow takes a GPU as long as all the rest. */
FN double power_of_step(double x, double step)
{
    const bool whole = step >= 0 && step < 0x1p31 && step == __builtin_trunc(step);
    double y = 1;
    if (!whole) return __builtin_pow(x, step);
    for (u32 n = (u32)step; n; n >>= 1) {
        if (n & 1) y *= x;
        x *= x;
    }
    return y;
}
