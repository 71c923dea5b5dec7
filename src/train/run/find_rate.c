#include <tilth/train/run/find_rate.h>

#include <inttypes.h>
#include <math.h>

#include <tilth/base/alloc.h>
#include <tilth/train/experiment.h>
#include <tilth/train/progressive/progressive.h>

#include "train/multitask/multitask.h"

enum {
    STEPS = 100,
    MOST_STEPS = 1000000,
    LEFT_OUT = 10, /* points in which the mean of losses still settles; at most a tenth of all */
};
#define LEAST 1e-8
#define GREATEST 1.0
#define SMOOTHING 0.98
#define DIVERGENCE 4.0

/* --- the configuration ------------------------------------------------------------------------ */

/* A search is one of the first stage: the models of others begin with other losses. */
static void stay_in_first_stage(tl_trainer_config *trainer, const tl_desc *desc)
{
    if (!tl_desc_is(desc, &tl_progressive_trainer_config_desc)) return;
    tl_progressive_config *p = ((tl_progressive_trainer_config *)trainer)->progressive;
    if (!p) return;
    p->stages.count = 1;
    ((tl_stage_config *)p->stages.items)[0].num_steps = INT64_MAX;
}

tl_status tl_find_rate_config(const tl_experiment_config **out, tl_arena *arena,
                              const tl_experiment_config *params)
{
    tl_experiment_config *mine = tl_arena_copy(arena, params, sizeof *params);
    tl_trainer_config *trainer = tl_arena_alloc(arena, params->trainer.desc->size);
    tl_constant_config *rate = tl_arena_alloc(arena, sizeof *rate);
    if (!mine || !trainer || !rate) return TL_ENOMEM;
    TL_TRY(tl_desc_copy(arena, params->trainer.desc, trainer, params->trainer.value));
    TL_TRY(tl_desc_defaults(arena, &tl_constant_config_desc, rate));
    rate->learning_rate = (tl_opt_double)TL_SET(1); // a factor makes it what each step uses
    trainer->optimizer_config.learning_rate =
        (tl_oneof){.type = "constant", .value = rate, .desc = &tl_constant_config_desc};
    trainer->optimizer_config.warmup = (tl_oneof){0};
    trainer->recovery_max_trials = -1;
    stay_in_first_stage(trainer, params->trainer.desc);
    mine->trainer.value = trainer;
    *out = mine;
    return TL_OK;
}

/* --- arguments -------------------------------------------------------------------------------- */

static tl_status complete(tl_find_rate_args *a)
{
    if (a->least == 0) a->least = LEAST;
    if (a->greatest == 0) a->greatest = GREATEST;
    if (a->steps == 0) a->steps = STEPS;
    if (a->smoothing == 0) a->smoothing = SMOOTHING;
    if (a->smoothing < 0) a->smoothing = 0;
    if (a->divergence == 0) a->divergence = DIVERGENCE;
    if (!(a->least > 0))
        return TL_FAIL(TL_EINVAL, "the least rate is %g and must be above 0", a->least);
    if (!(a->greatest > a->least && a->greatest < INFINITY))
        return TL_FAIL(TL_EINVAL, "the greatest rate is %g and must be above the least, %g",
                       a->greatest, a->least);
    if (a->steps < 2 || a->steps > MOST_STEPS)
        return TL_FAIL(TL_EINVAL, "a search takes 2 to %d steps, not %" PRId64, MOST_STEPS,
                       a->steps);
    if (!(a->smoothing < 1))
        return TL_FAIL(TL_EINVAL, "the smoothing is %g and must be below 1", a->smoothing);
    if (a->divergence > 0 && a->divergence <= 1)
        return TL_FAIL(TL_EINVAL, "the divergence is %g and must be above 1", a->divergence);
    return TL_OK;
}

/* --- the search ------------------------------------------------------------------------------- */

/* Whatever the optimizer makes of its rate (a decay of its own): the next step uses this one. */
static tl_status set_rate(tl_optimizer *o, double rate)
{
    TL_TRY(tl_optimizer_set_multiplier(o, 1));
    double base = tl_optimizer_learning_rate(o);
    if (!(base > 0 && base < INFINITY))
        return TL_FAIL(TL_ESTATE,
                       "the optimizer makes %g of a learning rate of 1: no rate can be "
                       "searched for it",
                       base);
    return tl_optimizer_set_multiplier(o, rate / base);
}

/* Where logs of a step have the loss that it lowers. */
static tl_status find_loss(const char **out, const tl_trainer *t)
{
    *out = "training_loss";
    if (!tl_class_is(&t->cls->cls, &tl_multi_task_trainer.cls)) return TL_OK;
    *out = TLI_TOTAL_LOSS "/training_loss";
    if (!tl_class_is(&t->cls->cls, &tl_interleaving_trainer.cls)) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "each step has another task, and losses of different tasks cannot be compared: "
                   "set trainer.trainer_type to joint, or search for each task alone");
}

/* A step that only lowers the scale of the loss, as the first ones in float16 do, says nothing of
 * its rate. */
static tl_status loss_of_step(double *out, tl_trainer *t, tl_logs *logs)
{
    const char *name;
    TL_TRY(find_loss(&name, t));
    for (bool lowers = true; lowers;) {
        lowers = tl_optimizer_can_lower_scale(t->optimizer);
        tl_logs_clear(logs);
        TL_TRY(tl_trainer_train(t, 1, logs));
        TL_TRY(tl_logs_number(out, logs, name));
        if (isfinite(*out)) break;
    }
    return TL_OK;
}

static tl_status search(tl_rate_search *out, tl_trainer *t, const tl_find_rate_args *a,
                        tl_logs *logs)
{
    double mean = 0, weight = 1, best = INFINITY;
    for (int64_t i = 0; i < a->steps; i++) {
        double share = (double)i / (double)(a->steps - 1), loss;
        double rate = a->least * pow(a->greatest / a->least, share);
        TL_TRY(set_rate(t->optimizer, rate));
        TL_TRY(loss_of_step(&loss, t, logs));
        mean = a->smoothing * mean + (1 - a->smoothing) * loss;
        weight *= a->smoothing;
        double smoothed = mean / (1 - weight);
        out->diverged =
            !isfinite(smoothed) || (i > 0 && a->divergence > 0 && smoothed > a->divergence * best);
        if (out->diverged) return TL_OK;
        if (smoothed < best) best = smoothed;
        out->points[out->count++] = (tl_rate_point){rate, loss, smoothed};
    }
    return TL_OK;
}

tl_status tl_find_rate(tl_rate_search *out, tl_trainer *t, const tl_find_rate_args *args)
{
    tl_find_rate_args a = args ? *args : (tl_find_rate_args){0};
    tl_logs *logs;
    *out = (tl_rate_search){.suggested = -1};
    TL_TRY(complete(&a));
    if (!t->optimizer || !t->train_loss)
        return TL_FAIL(TL_ESTATE, "the trainer was made without training");
    TL_TRY(tl_logs_new(&logs));
    size_t bytes = (size_t)a.steps * sizeof *out->points;
    out->points = tl_alloc(bytes);
    tl_status st = out->points ? tl_trainer_initialize(t) : TL_FAIL_NOMEM(bytes);
    if (st == TL_OK) st = search(out, t, &a, logs);
    if (st == TL_OK) out->suggested = tl_rate_suggest(out->points, out->count);
    tl_logs_free(&logs);
    if (st != TL_OK) tl_rate_search_deinit(out);
    return st;
}

void tl_rate_search_deinit(tl_rate_search *found)
{
    tl_free(found->points);
    *found = (tl_rate_search){.suggested = -1};
}

// Behind the least loss a fall is one from a rise that was too much.
static int64_t least_of(const tl_rate_point *points, int64_t first, int64_t end)
{
    int64_t least = first;
    for (int64_t i = first + 1; i < end; i++)
        if (points[i].smoothed < points[least].smoothed) least = i;
    return least;
}

int64_t tl_rate_suggest(const tl_rate_point *points, int64_t count)
{
    int64_t first = count / 10 < LEFT_OUT ? count / 10 : LEFT_OUT, end = count - 1, found = -1;
    double steepest = 0;
    if (end - first < 2) return -1;
    for (int64_t i = first, least = least_of(points, first, end); i <= least; i++) {
        int64_t before = i > first ? i - 1 : i, behind = i + 1 < end ? i + 1 : i;
        // Rates are evenly apart on the scale of logarithms.
        double slope =
            (points[behind].smoothed - points[before].smoothed) / (double)(behind - before);
        if (!(slope < steepest)) continue;
        steepest = slope;
        found = i;
    }
    return found;
}
