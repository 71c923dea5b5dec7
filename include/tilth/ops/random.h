/* Tensors of random numbers.
 *
 *     tl_ctx_enter(c, "noise");
 *     tl_tensor *z = tl_random_normal(c, TL_F32, TL_SHAPE(32, 100), 0.0, 1.0);
 *     tl_ctx_leave(c);
 *
 * A draw is a function of the context's seed, step, microbatch and replica (tl_ctx_set_draws), of
 * the module that asks and of how often it has asked: nothing else. So it is the same on any number
 * of threads, and when a captured program is run again. Element i depends on i alone: a longer
 * tensor begins with the elements of a shorter one.
 *
 * Precision: floats are drawn in float32 whatever the type, and rounded once: all types see the
 * same numbers. None of them has a gradient. Thread word: one thread at a time for a context. */
#ifndef TILTH_OPS_RANDOM_H
#define TILTH_OPS_RANDOM_H

#include <tilth/core/ctx.h>

TL_BEGIN

/* Floats in [low, high), every one equally likely. `high` is not reached, short types included;
 * when both are equal it is that number. */
TL_API tl_tensor *tl_random_uniform(tl_ctx *c, tl_dtype dtype, tl_shape shape, double low,
                                    double high);
TL_API tl_tensor *tl_random_normal(tl_ctx *c, tl_dtype dtype, tl_shape shape, double mean,
                                   double deviation);
/* Normal numbers that lie within two deviations of the mean; others are drawn again. What comes out
 * has a deviation of 0.8796 times the one given. */
TL_API tl_tensor *tl_random_truncated_normal(tl_ctx *c, tl_dtype dtype, tl_shape shape, double mean,
                                             double deviation);
/* 1 with this probability, else 0; of any type. */
TL_API tl_tensor *tl_random_bernoulli(tl_ctx *c, tl_dtype dtype, tl_shape shape,
                                      double probability);
/* Integers in [low, high), every one equally likely; the type must hold them. */
TL_API tl_tensor *tl_random_integers(tl_ctx *c, tl_dtype dtype, tl_shape shape, int64_t low,
                                     int64_t high);
/* The numbers 0 .. count-1 in random order, int64. */
TL_API tl_tensor *tl_random_permutation(tl_ctx *c, int64_t count);

TL_END

#endif
