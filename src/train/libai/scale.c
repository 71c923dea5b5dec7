#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/integer.h>
#include <tilth/base/log.h>
#include <tilth/comm/layout.h>

#include "train/libai/libai.h"

/* --- processes -------------------------------------------------------------------------------- */

#define COPIES "data_parallel_size"

static void tell_size(const char *name, int64_t asked, int64_t given, int64_t world)
{
    char more[96] = "";
    if (asked == given) return;
    if (strcmp(name, COPIES) == 0)
        snprintf(more, sizeof more,
                 "; tilth.lanes=%" PRId64 " has so many, on any number of processes", asked);
    TL_LOG_WARNING("train.dist.%s is %" PRId64 ", with %" PRId64 " %s it becomes %" PRId64 "%s",
                   name, asked, world, world == 1 ? "process" : "lanes", given, more);
}

/* With as many stages as there are, and not as were asked for. */
static tl_status check_layers(const tl_libai_dist_config *d)
{
    int64_t stages = d->pipeline_parallel_size;
    if (stages > 1 && !d->pipeline_num_layers.set)
        return TL_FAIL(TL_EINVAL, "dist.pipeline_num_layers: must be set to the number of layers "
                                  "that pipeline_parallel_size divides, it is null");
    if (stages > 1 && d->pipeline_num_layers.value < stages)
        return TL_FAIL(TL_EINVAL,
                       "dist.pipeline_num_layers: must be at least pipeline_parallel_size, %" PRId64
                       ", found %" PRId64,
                       stages, d->pipeline_num_layers.value);
    return TL_OK;
}

/* One process has all of it. */
static void resolve_zero(tl_libai_zero_config *z, int64_t world, bool tell)
{
    if (!z->enabled || world > 1) return;
    if (tell)
        TL_LOG_WARNING("train.zero_optimization.enabled is true, with 1 process it becomes false");
    z->enabled = false;
}

static void tell_sizes(const tl_libai_dist_config *d, const tl_layout *l, int64_t world)
{
    tell_size("tensor_parallel_size", d->tensor_parallel_size, l->tensor, world);
    tell_size("pipeline_parallel_size", d->pipeline_parallel_size, l->pipeline, world);
    // nobody has to say it: it follows
    if (d->data_parallel_size > 1) tell_size(COPIES, d->data_parallel_size, l->data, world);
}

tl_status tl_libai_resolve_dist(tl_libai_train_config *t, int64_t world)
{
    TL_TRY(tli_libai_resolve_dist(t, world, true));
    return check_layers(&t->dist);
}

tl_status tli_libai_resolve_dist(tl_libai_train_config *t, int64_t world, bool tell)
{
    tl_libai_dist_config *d = &t->dist;
    tl_layout l;
    TL_TRY_NOTE(tl_layout_resolve(&l, world, d->tensor_parallel_size, d->pipeline_parallel_size),
                "dist");
    if (tell) tell_sizes(d, &l, world);
    // An assignment is one for as many stages as were asked for.
    if (d->pipeline_parallel_size != l.pipeline) d->custom_pipeline_stage_id = (tl_ints){NULL, 0};
    d->tensor_parallel_size = l.tensor;
    d->pipeline_parallel_size = l.pipeline;
    d->data_parallel_size = l.data;
    resolve_zero(&t->zero_optimization, world, tell);
    return TL_OK;
}

/* --- batches ---------------------------------------------------------------------------------- */

static bool product(int64_t *out, int64_t a, int64_t b, int64_t c)
{
    return !__builtin_mul_overflow(a, b, out) && !__builtin_mul_overflow(*out, c, out);
}

static tl_status too_large(void)
{
    return TL_FAIL(TL_EINVAL, "train_micro_batch_size: the examples of a step do not fit 64 bits");
}

tl_status tl_libai_resolve_batch(tl_libai_train_config *t, int64_t replicas)
{
    tl_opt_int *micro = &t->train_micro_batch_size, *global = &t->global_batch_size;
    tl_opt_int *accumulation = &t->num_accumulation_steps;
    int64_t unit;
    if (!micro->set && !global->set)
        return TL_FAIL(
            TL_EINVAL,
            "train_micro_batch_size: it and global_batch_size are both null; one of them must "
            "be set");
    if (micro->set && global->set && !accumulation->set) {
        if (!product(&unit, micro->value, replicas, 1)) return too_large();
        if (global->value % unit != 0)
            return TL_FAIL(TL_EINVAL,
                           "global_batch_size: %" PRId64
                           " is not a multiple of train_micro_batch_size times "
                           "the copies of the model, %" PRId64,
                           global->value, unit);
        *accumulation = (tl_opt_int){true, global->value / unit};
        return TL_OK;
    }
    if (!accumulation->set) *accumulation = (tl_opt_int){true, 1};
    if (!micro->set) {
        if (!product(&unit, replicas, accumulation->value, 1)) return too_large();
        if (global->value % unit != 0)
            return TL_FAIL(TL_EINVAL,
                           "global_batch_size: %" PRId64
                           " is not a multiple of num_accumulation_steps times "
                           "the copies of the model, %" PRId64,
                           global->value, unit);
        *micro = (tl_opt_int){true, global->value / unit};
        return TL_OK;
    }
    if (!product(&unit, micro->value, replicas, accumulation->value)) return too_large();
    if (global->set && global->value != unit)
        return TL_FAIL(TL_EINVAL,
                       "global_batch_size: %" PRId64 " is not train_micro_batch_size times "
                       "num_accumulation_steps times the copies of the model, %" PRId64,
                       global->value, unit);
    *global = (tl_opt_int){true, unit};
    return TL_OK;
}

/* --- epochs and ratios ------------------------------------------------------------------------ */

static bool is_given(tl_opt_int n)
{
    return n.set && n.value > 0;
}

bool tl_libai_counts_epochs(const tl_libai_train_config *t)
{
    return t->train_epoch > 0 || is_given(t->checkpointer.save_model_after_n_epoch)
           || (t->evaluation.enabled && is_given(t->evaluation.eval_after_n_epoch));
}

/* Steps that so many epochs take; a last short batch counts. */
static tl_status steps_of(int64_t *out, int64_t examples, int64_t epochs, int64_t batch)
{
    int64_t all;
    if (!product(&all, examples, epochs, 1) || all > INT64_MAX - batch)
        return TL_FAIL(TL_EINVAL,
                       "train.train_epoch: %" PRId64 " epochs of %" PRId64
                       " examples are more than 64 bits "
                       "hold",
                       epochs, examples);
    *out = tl_div_up(all, batch);
    return TL_OK;
}

static tl_status scale_periods(tl_libai_train_config *t, int64_t examples)
{
    int64_t steps = examples / t->global_batch_size.value;
    if (steps < 1) steps = 1; // an epoch that is less than a batch
    if (is_given(t->evaluation.eval_after_n_epoch)
        && !product(&t->evaluation.eval_period, steps, t->evaluation.eval_after_n_epoch.value, 1))
        return too_large();
    if (is_given(t->checkpointer.save_model_after_n_epoch)
        && !product(&t->checkpointer.period, steps, t->checkpointer.save_model_after_n_epoch.value,
                    1))
        return too_large();
    return TL_OK;
}

tl_status tl_libai_auto_scale(tl_libai_train_config *t, int64_t examples)
{
    tl_opt_int *warmup = &t->scheduler.warmup_iter;
    if (!t->global_batch_size.set)
        return TL_FAIL(TL_ESTATE, "batch sizes must be resolved before steps can be counted");
    if (tl_libai_counts_epochs(t)) {
        int64_t steps = 0;
        if (examples < 1)
            return TL_FAIL(TL_EINVAL,
                           "train.train_epoch: how many examples an epoch has is not known; set "
                           "tilth.train_examples");
        TL_TRY(steps_of(&steps, examples, t->train_epoch, t->global_batch_size.value));
        if (steps > t->train_iter) t->train_iter = steps;
        TL_TRY(scale_periods(t, examples));
    }
    // 20 / 300 of 58594 steps are 3906.27; what is whole but for rounding stays.
    if (t->warmup_ratio > 0)
        *warmup = (tl_opt_int){true, (int64_t)ceil((double)t->train_iter * t->warmup_ratio - 1e-9)};
    TL_LOG_INFO("Auto-scaling the config to train.train_iter=%" PRId64
                ", train.warmup_iter=%" PRId64 ", train.evaluation.eval_period=%" PRId64
                ", train.checkpointer.period=%" PRId64 ", all of them updates of the optimizer",
                t->train_iter, warmup->set ? warmup->value : 0, t->evaluation.eval_period,
                t->checkpointer.period);
    return TL_OK;
}

void tl_libai_fast_dev_run(tl_libai_train_config *t)
{
    t->train_epoch = 0;
    t->train_iter = 20;
    t->evaluation.eval_period = 10;
    t->evaluation.eval_after_n_epoch = t->checkpointer.save_model_after_n_epoch =
        (tl_opt_int){false, 0};
    t->log_period = 1;
}

/* --- names ------------------------------------------------------------------------------------ */

tl_status tl_libai_next_iter(int64_t *out, const char *name)
{
    const char *tail = strrchr(name, '-');
    bool counts_from_0 = !tail;
    if (!tail) tail = strrchr(name, '_');
    char *end = NULL;
    errno = 0;
    bool numbered = tail && tail > name && tail[-1] != '-' && isdigit((unsigned char)tail[1]);
    long long number = numbered ? strtoll(tail + 1, &end, 10) : -1;
    bool ended = number >= 0
                 && (!*end || strcmp(end, ".safetensors") == 0
                     || strcmp(end, ".safetensors.index.json") == 0);
    if (!ended || errno || number == INT64_MAX)
        return TL_FAIL(
            TL_EINVAL,
            "'%.80s' does not end with a number of steps, as ckpt-5000 or model_0004999 do", name);
    *out = (int64_t)number + counts_from_0;
    return TL_OK;
}
