/* Strategies: where the copies of a model are computed, and precisions, by Model Garden's names.
 *
 *     tl_strategy *s;
 *     TL_TRY(tl_get_distribution_strategy(
 *         &s, &(tl_strategy_args){.registry = registry, .distribution_strategy = "mirrored"}));
 *     tl_engine *e = tl_strategy_engine(s);               // what models and contexts are made with
 *     TL_TRY(tl_mixed_precision_policy(&dtype, "mixed_bfloat16"));  // for the arguments of a task
 *     tl_strategy_free(&s);
 *
 * A strategy computes on a GPU in each process, where num_gpus or the device says so, else on the
 * processors of its machine. How many processes there are is for who starts them to say: `off` and
 * `one_device` are one, `mirrored` those of one machine, `multi_worker_mirrored` of several.
 * `parameter_server` and `tpu` are known by name and refused.
 *
 * A run is made of lanes (core/lanes.h), which are its replicas: each takes its share of every
 * batch, draws its own random numbers, and has its own batch statistics. What a run computes
 * depends on the number of its lanes, and not on who carries them. Whoever takes lanes through
 * steps asks the strategy which ones are its own (tl_strategy_run).
 *
 * Ownership: the caller's; it must outlive what was made with its engine. Thread word:
 * free-threaded, but for tl_strategy_free. */
#ifndef TILTH_TRAIN_STRATEGY_H
#define TILTH_TRAIN_STRATEGY_H

#include <tilth/comm/world.h>
#include <tilth/core/dtype.h>
#include <tilth/core/engine.h>
#include <tilth/core/lanes.h>
#include <tilth/train/experiment.h>

TL_BEGIN

typedef struct tl_strategy tl_strategy;

typedef struct tl_strategy_args {
    const tl_registry *registry; /* knows the backends */
    const char *device; /* (optional: what TILTH_DEVICE says, else a GPU if num_gpus is 1, else
                           "cpu") as in tl_engine_open; it must not gainsay num_gpus */
    const char *distribution_strategy; /* (optional: "mirrored") in any case */
    int64_t num_gpus;                  /* 0, or 1: a GPU, "cuda" where none is named */
    const char *all_reduce_alg;        /* (optional: the library chooses) */
    const char *tpu_address;           /* (optional: none) */
    int threads;                       /* (optional: one on each processor) */
    int64_t lanes;                     /* (optional: 1) */
    double bucket_mb;                  /* (optional: 25) of a part of a sum, at most */
    int64_t bucket_params;             /* (optional: any) parameters in a part, at most */
    int64_t num_packs;                 /* (optional: 1) parts of a sum, at least */
    tl_world *world; /* (optional: one process) whose processes carry the lanes; it stays the
                        caller's, and must outlive the strategy */
} tl_strategy_args;
TL_API TL_NODISCARD tl_status tl_get_distribution_strategy(tl_strategy **out,
                                                           const tl_strategy_args *args);
/* NULL is fine. */
TL_API void tl_strategy_free(tl_strategy **s);
/* "off", "one_device", "mirrored". */
TL_API const char *tl_strategy_name(const tl_strategy *s);
/* How many lanes the run has, whoever carries them: batches are cut into so many parts. */
TL_API int64_t tl_strategy_replicas(const tl_strategy *s);
/* The lanes and the processes that carry them; which of these this one is; and its lanes. */
TL_API const tl_lanes *tl_strategy_lanes(const tl_strategy *s);
TL_API int64_t tl_strategy_rank(const tl_strategy *s);
TL_API tl_lane_run tl_strategy_run(const tl_strategy *s);
TL_API tl_engine *tl_strategy_engine(const tl_strategy *s);

/* The type that the model of a task computes in (tl_task_args) under a policy: "float32",
 * "bfloat16" or "mixed_bfloat16", "float16" or "mixed_float16", "float64"; weights stay float32
 * (float64). */
TL_API TL_NODISCARD tl_status tl_mixed_precision_policy(tl_dtype *out, const char *name);
/* The same for the setting of an experiment, and what its policy is called. */
TL_API tl_dtype tl_mixed_precision_dtype(tl_mixed_precision precision);
TL_API const char *tl_mixed_precision_name(tl_mixed_precision precision);

TL_END

#endif
