/* Updates that Keras has beside those of update.c: one sweep over memory each
 * (cpu/ref/update_keras.c says them in full). */
#include "cpu/simd/update.h"

/* --- sweeps ----------------------------------------------------------------------------------- */

static void adadelta_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const numbers k = adadelta_of(b->attr, b->rate, b->step, decay);
    SWEEP_BESIDE(adadelta_steps, b, &k);
}

static void adamax_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const numbers k = adamax_of(b->attr, b->rate, b->step, decay);
    SWEEP(adamax_step, b, &k);
}

static void nadam_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const numbers k = nadam_of(b->attr, b->rate, b->step, decay);
    SWEEP_BESIDE(nadam_steps, b, &k);
}

static void ftrl_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const tl_ftrl_attr *a = b->attr;
    const numbers k = ftrl_of(b->attr, b->rate, b->step, decay);
    if (a->learning_rate_power == -0.5) SWEEP(ftrl_step, b, &k, true);
    else SWEEP(ftrl_step, b, &k, false);
}

static void lion_sweep(const block *shared, int64_t begin, int64_t end, float decay)
{
    const block copy = *shared, *b = &copy;
    const numbers k = lion_of(b->attr, b->rate, b->step, decay);
    SWEEP(lion_step, b, &k);
}

#define RULE_KERNEL(rule)                                                                          \
    static tl_status update_##rule##_kernel(const tl_run *run, const tl_node *n)                   \
    {                                                                                              \
        const tl_##rule##_attr *a = n->attr;                                                       \
        block b = {.sweep = rule##_sweep,                                                          \
                   .decay = (float)a->weight_decay,                                                \
                   .offsets = a->offsets,                                                          \
                   .decayed = a->decayed};                                                         \
        return run_block(run, n, &b);                                                              \
    }
RULE_KERNEL(adadelta)
RULE_KERNEL(adamax)
RULE_KERNEL(nadam)
RULE_KERNEL(lion)

// At a rate of 0 nothing is known of where the weights should be.
static tl_status update_ftrl_kernel(const tl_run *run, const tl_node *n)
{
    const tl_ftrl_attr *a = n->attr;
    block b = {.sweep = ftrl_sweep,
               .decay = (float)a->weight_decay,
               .offsets = a->offsets,
               .decayed = a->decayed};
    if (((const float *)tli_data(n->in[HYPER]))[RATE] == 0) return TL_OK;
    return run_block(run, n, &b);
}

static const tl_kernel rows[] = {
    {TL_OP_update_adadelta, TL_F32, update_adadelta_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_adamax, TL_F32, update_adamax_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_nadam, TL_F32, update_nadam_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_ftrl, TL_F32, update_ftrl_kernel, TL_KERNEL_JOINED},
    {TL_OP_update_lion, TL_F32, update_lion_kernel, TL_KERNEL_JOINED},
};
TLI_SIMD_KERNELS(update_keras, rows);
