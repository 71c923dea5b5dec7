/* A run of several processes: how many lanes it has, who takes part, how all leave it. */
#include "train/run/several.h"

#include <inttypes.h>
#include <string.h>

#include <tilth/base/crc32c.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/desc/yaml.h>
#include <tilth/sys/core/backend.h>

#include "train/strategy.h"

/* --- who takes part --------------------------------------------------------------------------- */

/* Before anybody asks: the configuration may name them. */
static tl_status introduce(const tl_experiment_config *e)
{
    TL_TRY_NOTE(tl_who_tell(e->runtime.worker_hosts, e->runtime.task_index), "runtime");
    return TL_OK;
}

/* --- lanes ------------------------------------------------------------------------------------ */

const char *tli_numerics(tl_arena *arena, const tl_engine *engine, const tl_own_config *own)
{
    const char *name = tl_engine_backend(engine)->cls.name;
    if (own->lanes == 1) return name;
    return tl_arena_printf(arena, "%s, lanes %" PRId64 ", accumulation %" PRId64, name, own->lanes,
                           own->gradient_accumulation);
}

/* What a run keeps of its configuration leaves out what is as usual. */
static tl_status read_lanes(int64_t *out, tl_arena *arena, const char *path)
{
    const tl_value *all, *own, *lanes;
    *out = 1;
    tl_status st = tl_yaml_read(&all, arena, path);
    own = st == TL_OK ? tl_value_get(all, "tilth") : NULL;
    lanes = own ? tl_value_get(own, "lanes") : NULL;
    if (st == TL_OK && lanes && !tl_value_int(lanes, out))
        st = TL_FAIL(TL_EINVAL, "'%s': tilth.lanes is no whole number", path);
    if (st == TL_OK || st == TL_ENOMEM) return st;
    TL_LOG_WARNING("how many lanes the run has is not known, and 1 is taken: %s",
                   tl_error_message()); // the file is written anew
    tl_error_clear();
    return TL_OK;
}

tl_status tli_lanes_of_run(int64_t *out, const char **source, tl_arena *arena, const char *folder,
                           const char *file)
{
    const char *path = folder && *folder ? tl_path_join(arena, folder, file) : NULL;
    tl_who who;
    *source = tl_arena_printf(arena, "%s of the run", file);
    if (!*source) return TL_ENOMEM;
    if (path && tl_file_exists(path)) return read_lanes(out, arena, path);
    TL_TRY(tl_who_find(&who, NULL));
    *out = who.size;
    *source = who.source;
    return TL_OK;
}

tl_status tl_experiment_lanes(tl_config *config, const char *model_dir)
{
    const tl_experiment_config *e = tl_config_value(config);
    tl_arena *arena;
    const char *source;
    int64_t lanes;
    char word[64];
    TL_TRY(introduce(e));
    if (tl_config_is_given(config, "tilth.lanes")) return TL_OK;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tli_lanes_of_run(&lanes, &source, arena, model_dir, "params.yaml");
    snprintf(word, sizeof word, "tilth.lanes=%" PRId64, lanes);
    if (st == TL_OK && lanes != e->tilth.lanes && lanes != 1)
        st = tl_config_word(config, word, source);
    tl_arena_free(&arena);
    return st;
}

/* --- taking part ------------------------------------------------------------------------------ */

/* Mistakes that would look like damage later: a process that was started with something else. */
static tl_status compare_configs(tl_world *world, const tl_config *config)
{
    tl_comm *c = tl_world_comm(world);
    tl_str text = TL_STR_INIT;
    uint64_t all[TL_COMM_RANKS];
    tl_part parts[TL_COMM_RANKS];
    tl_status st = tl_config_write_saved(&text, config);
    if (st == TL_OK) st = tl_str_status(&text);
    for (int32_t r = 0; r < c->size; r++) parts[r] = (tl_part){&all[r], sizeof all[r]};
    if (st == TL_OK) {
        all[c->rank] = tl_crc32c(0, tl_str_text(&text), text.length);
        st = tl_comm_all_gather(c->world, &parts[c->rank], parts);
    }
    for (int32_t r = 1; st == TL_OK && r < c->size; r++)
        if (all[r] != all[0])
            st = TL_FAIL(TL_EINVAL,
                         "rank %d has another configuration than rank 0: all processes are to be "
                         "started with the same words, and to see the same files",
                         (int)r);
    tl_str_deinit(&text);
    return st;
}

/* Whether they may be so many, and where they are. */
static tl_status check_runtime(tl_config *config, const tl_who *who)
{
    const tl_experiment_config *params = tl_config_value(config);
    const char *name = params->runtime.distribution_strategy;
    const bool given = tl_config_is_given(config, "runtime.distribution_strategy");
    tli_strategy_kind kind;
    TL_TRY(tli_strategy_find(&kind, name));
    if (!given) kind = TLI_STRATEGY_MULTI_WORKER; // an experiment's own does not know of them
    if (kind < TLI_STRATEGY_MIRRORED)
        return TL_FAIL(TL_EINVAL,
                       "runtime.distribution_strategy is %s, which is one process, and there are "
                       "%" PRId32 " (%s): use mirrored",
                       name, who->size, who->source);
    if (kind == TLI_STRATEGY_MIRRORED && *who->hosts)
        return TL_FAIL(TL_EINVAL,
                       "runtime.distribution_strategy is %s, which is one machine, and %" PRId32
                       " processes are on several (%s): use multi_worker_mirrored",
                       name, who->size, who->source);
    return TL_OK;
}

/* How many there are is for who started them to say. */
static tl_status check_several(const tl_launch_args *args, const tl_who *who)
{
    const tl_experiment_config *params = tl_config_value(args->config);
    const int64_t wanted = params->tilth.processes;
    const char *mode = args->flags->mode;
    if (wanted > 1 && wanted != who->size)
        return TL_FAIL(TL_EINVAL, "tilth.processes is %" PRId64 ", and there %s %" PRId32 ": by %s",
                       wanted, who->size == 1 ? "is" : "are", who->size, who->source);
    if (who->size > 1) TL_TRY(check_runtime(args->config, who));
    if (who->size > 1 && strncmp(mode, "continuous", 10) == 0)
        return TL_FAIL(TL_EUNSUPPORTED, "the mode '%s' is for one process, and there are %d (%s)",
                       mode, (int)who->size, who->source);
    return TL_OK;
}

tl_status tli_world_join(tl_world **out, const tl_world_args *args, const tl_config *config)
{
    TL_TRY(tl_world_open(out, args));
    if (tl_world_comm(*out)->rank > 0 && tl_log_level() == TL_LEVEL_INFO)
        tl_log_set_level(TL_LEVEL_WARNING);
    return compare_configs(*out, config);
}

tl_status tli_world_enter(tl_world **out, tl_run_args *run, const tl_launch_args *args)
{
    tl_who who;
    *out = NULL;
    static const char *const transports[] = {
        [TL_TRANSPORT_AUTO] = "auto", [TL_TRANSPORT_SHM] = "shm", [TL_TRANSPORT_MPI] = "mpi"};
    const tl_own_config *own =
        &((const tl_experiment_config *)tl_config_value(args->config))->tilth;
    TL_TRY(introduce(tl_config_value(args->config)));
    TL_TRY(tl_who_find(&who, NULL));
    TL_TRY(check_several(args, &who));
    if (who.size == 1) return TL_OK;
    TL_TRY(tli_world_join(
        out, &(tl_world_args){.peer_timeout_s = own->peer_timeout_s, .comm = transports[own->comm]},
        args->config));
    return tl_comm_broadcast(tl_world_comm(*out)->world, &run->seed, sizeof run->seed, 0);
}

tl_status tli_world_leave(tl_world **world, tl_status how)
{
    tl_error error;
    if (!*world) return how;
    const bool well = how == TL_OK || how == TL_ESTOPPED;
    tl_error_save(&error);
    tl_status st = well ? tl_comm_barrier(tl_world_comm(*world)->world) : how;
    if (well && st == TL_OK) {
        tl_world_close(world, TL_OK);
        tl_error_restore(&error);
        return how;
    }
    tl_world_close(world, st);
    return st;
}
