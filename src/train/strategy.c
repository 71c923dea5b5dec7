#include "train/strategy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/base/str.h>
#include <tilth/sys/cuda/cuda.h>

#include "train/peers.h"

struct tl_strategy {
    const char *name;
    tl_engine *engine;
    tl_lanes lanes;
    tli_peers peers; /* of size 0: there are none */
};

/* --- strategies ------------------------------------------------------------------------------- */

/* Those that are there come first, in the order of their kinds. */
static const char *const names[] = {
    "off", "one_device", "mirrored", "multi_worker_mirrored", "parameter_server", "tpu",
};

tl_status tli_strategy_find(tli_strategy_kind *out, const char *name)
{
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        if (strcasecmp(name, names[i]) != 0) continue;
        *out = (tli_strategy_kind)i;
        if (i <= TLI_STRATEGY_MULTI_WORKER) return TL_OK;
        return TL_FAIL(
            TL_EUNSUPPORTED, "distribution_strategy: '%s' is not supported: %s; use %s", name,
            strcmp(names[i], "tpu") == 0
                ? "there is no code for TPUs"
                : "there is no order in which the updates of parameter servers could be "
                  "repeated",
            strcmp(names[i], "tpu") == 0 ? "mirrored, one_device or off" : "multi_worker_mirrored");
    }
    // Readers of YAML 1.1 take a bare `off` for false, and write it down so.
    if (strcasecmp(name, "false") == 0)
        return TL_FAIL(TL_EINVAL, "distribution_strategy: YAML reads an unquoted off as false; "
                                  "write 'off' in quotes");
    const char *near = tl_nearest(name, names, TL_COUNT(names));
    return TL_FAIL(TL_EINVAL,
                   "distribution_strategy: expected off, one_device, mirrored, "
                   "multi_worker_mirrored, parameter_server or tpu, found '%.80s'%s%s%s",
                   name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
}

tl_status tli_check_all_reduce(const char *name)
{
    if (!name || strcmp(name, "hierarchical_copy") == 0) return TL_OK;
    if (strcmp(name, "nccl") == 0 || strcmp(name, "ring") == 0)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "all_reduce_alg: '%s' adds in an order of its own, and that is not there: "
                       "null adds by lanes, with the same bits on any number of processes",
                       name);
    return TL_FAIL(TL_EINVAL,
                   "all_reduce_alg: expected null, hierarchical_copy, nccl or ring, found '%.80s'",
                   name);
}

static tl_status check_gpus(tli_strategy_kind strategy, int64_t gpus)
{
    if (gpus < 0) return TL_FAIL(TL_EINVAL, "num_gpus is %" PRId64 " and must be 0 or more", gpus);
    if (gpus > 1 && strategy <= TLI_STRATEGY_ONE_DEVICE)
        return TL_FAIL(TL_EINVAL, "the strategy '%s' takes one device, num_gpus is %" PRId64,
                       names[strategy], gpus);
    if (gpus > 1)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "training on several GPUs is not available yet, and num_gpus, which is "
                       "%" PRId64 ", must be 0 or 1",
                       gpus);
    return TL_OK;
}

static bool is_gpu(const char *device)
{
    const size_t length = strlen(tl_backend_cuda.cls.name);
    return strncmp(device, tl_backend_cuda.cls.name, length) == 0
           && (device[length] == '\0' || device[length] == ':');
}

/* num_gpus wants a GPU, and does not say which; 0 wants nothing. */
static tl_status choose_device(const char **out, const tl_strategy_args *args)
{
    const bool named = args->device && *args->device;
    const char *environment = getenv("TILTH_DEVICE");
    if (environment && !*environment) environment = NULL;
    *out = named ? args->device : environment;
    if (!*out && args->num_gpus) *out = tl_backend_cuda.cls.name;
    if (*out && args->num_gpus && !is_gpu(*out))
        return TL_FAIL(TL_EINVAL,
                       "num_gpus is %" PRId64 ", but %s is '%.80s': change one of the two",
                       args->num_gpus, named ? "tilth.device" : "TILTH_DEVICE", *out);
    // one of several processes tells for all
    const bool tells = !args->world || tl_world_comm(args->world)->rank == 0;
    if (!*out && tells && tl_gpu_seen())
        TL_LOG_ONCE(TL_LEVEL_INFO,
                    "this machine has a GPU, which is not used; TILTH_DEVICE=cuda or "
                    "tilth.device=cuda computes on it, cpu asks for silence");
    return TL_OK;
}

/* Processes of one machine share its processors, unless somebody has said how many threads they
 * have, or which processors are whose. */
static int threads_of(const tl_strategy_args *args)
{
    const int all = tl_pool_default_threads();
    int said;
    if (args->threads || !args->world || all < sysconf(_SC_NPROCESSORS_ONLN)) return args->threads;
    if (tl_pool_size_from_env(&said) != TL_OK || said) {
        tl_error_clear();
        return 0;
    }
    const int share = all / tl_world_who(args->world)->local_size;
    return share > 1 ? share : 1;
}

static tl_status open_engine(tl_engine **out, const tl_strategy_args *args)
{
    const char *device;
    TL_TRY(choose_device(&device, args));
    const bool named = device && args->device && *args->device;
    const tl_status st = tl_engine_open(out, args->registry, device, threads_of(args));
    if (st == TL_OK || !device) return st;
    return tl_error_note(st, "%s",
                         named            ? "tilth.device"
                         : args->num_gpus ? "num_gpus"
                                          : "TILTH_DEVICE");
}

/* hierarchical_copy: where a machine's lanes are a subtree, it adds them before they travel. */
static tl_status add_by_machines(tl_world *world, int64_t lanes)
{
    int32_t machines[TL_COMM_RANKS];
    const char *why;
    TL_TRY(tl_world_machines(world, machines));
    TL_TRY(tl_comm_set_machines(tl_world_comm(world), machines, lanes, &why));
    if (why)
        TL_LOG_WARNING(
            "all_reduce_alg: hierarchical_copy adds at one level, with the same bits: %s", why);
    return TL_OK;
}

tl_status tl_get_distribution_strategy(tl_strategy **out, const tl_strategy_args *args)
{
    *out = NULL;
    tli_strategy_kind which = TLI_STRATEGY_MIRRORED;
    if (args->distribution_strategy) TL_TRY(tli_strategy_find(&which, args->distribution_strategy));
    TL_TRY(check_gpus(which, args->num_gpus));
    if (args->tpu_address && *args->tpu_address)
        return TL_FAIL(TL_EUNSUPPORTED, "TPUs are not available; the address '%.80s' was given",
                       args->tpu_address);
    TL_TRY(tli_check_all_reduce(args->all_reduce_alg));
    const int64_t ranks = args->world ? tl_world_comm(args->world)->size : 1;
    const tl_lanes lanes = {.lanes = args->lanes ? args->lanes : 1, .ranks = ranks};
    TL_TRY(tl_lanes_check(&lanes));
    tl_strategy *s = tl_alloc_zero(sizeof *s);
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    s->name = names[which];
    s->lanes = lanes;
    tl_status st = open_engine(&s->engine, args);
    if (st == TL_OK && ranks > 1 && args->all_reduce_alg)
        st = add_by_machines(args->world, lanes.lanes);
    if (st != TL_OK) {
        tl_engine_free(&s->engine);
        tl_free(s);
        return st;
    }
    if (ranks > 1) tli_peers_init(&s->peers, args->world);
    s->peers.bucket_bytes = (args->bucket_mb > 0 ? args->bucket_mb : 25) * 1048576;
    s->peers.packs = args->num_packs > 0 ? args->num_packs : 1;
    s->peers.bucket_params = args->bucket_params;
    if (ranks > 1) tl_world_comm(args->world)->threads = tl_engine_threads(s->engine);
    *out = s;
    return TL_OK;
}

void tl_strategy_free(tl_strategy **s)
{
    if (!*s) return;
    if ((*s)->peers.world) tl_world_comm((*s)->peers.world)->threads = NULL; // they go
    tl_engine_free(&(*s)->engine);
    tl_free(*s);
    *s = NULL;
}

const char *tl_strategy_name(const tl_strategy *s)
{
    return s->name;
}

int64_t tl_strategy_replicas(const tl_strategy *s)
{
    return s->lanes.lanes;
}

const tl_lanes *tl_strategy_lanes(const tl_strategy *s)
{
    return &s->lanes;
}

int64_t tl_strategy_rank(const tl_strategy *s)
{
    return s->peers.rank;
}

tl_lane_run tl_strategy_run(const tl_strategy *s)
{
    return tl_lanes_of(&s->lanes, s->peers.rank);
}

tli_peers *tli_strategy_peers(const tl_strategy *s)
{
    return s->peers.size > 1 ? (tli_peers *)(uintptr_t)&s->peers : NULL;
}

bool tli_is_chief(const tl_strategy *s)
{
    return s->peers.rank == 0;
}

tl_engine *tl_strategy_engine(const tl_strategy *s)
{
    return s->engine;
}

/* --- precision -------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    tl_dtype dtype;
} policies[] = {
    {"float32", TL_F32},       {"mixed_bfloat16", TL_BF16}, {"bfloat16", TL_BF16},
    {"mixed_float16", TL_F16}, {"float16", TL_F16},         {"float64", TL_F64},
};

tl_status tl_mixed_precision_policy(tl_dtype *out, const char *name)
{
    for (int64_t i = 0; i < TL_COUNT(policies); i++) {
        if (strcmp(policies[i].name, name) != 0) continue;
        *out = policies[i].dtype;
        return TL_OK;
    }
    return TL_FAIL(TL_EINVAL,
                   "there is no precision policy '%.80s'; there are float32, (mixed_)bfloat16, "
                   "(mixed_)float16, float64",
                   name);
}

tl_dtype tl_mixed_precision_dtype(tl_mixed_precision precision)
{
    switch (precision) {
    case TL_PRECISION_FLOAT16:
    case TL_PRECISION_MIXED_FLOAT16: return TL_F16;
    case TL_PRECISION_BFLOAT16:
    case TL_PRECISION_MIXED_BFLOAT16: return TL_BF16;
    default: return TL_F32;
    }
}

const char *tl_mixed_precision_name(tl_mixed_precision precision)
{
    switch (precision) {
    case TL_PRECISION_FLOAT16: return "float16";
    case TL_PRECISION_BFLOAT16: return "bfloat16";
    case TL_PRECISION_MIXED_FLOAT16: return "mixed_float16";
    case TL_PRECISION_MIXED_BFLOAT16: return "mixed_bfloat16";
    default: return "float32";
    }
}
