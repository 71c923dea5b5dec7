#include <tilth/train/hooks/hooks.h>

#include <inttypes.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/sys/graph/program.h>

/* --- kernels ---------------------------------------------------------------------------------- */

enum { USUAL_FIRST = 10, USUAL_STEPS = 5, USUAL_RUNS = 10 };

typedef tl_profiler_instance profiler;

static tl_status profiler_start(tl_hook *h, const void *config)
{
    const tl_profiler_config *given = config;
    profiler *p = (profiler *)h;
    h->started = true;
    if (!given || !given->dir || !*given->dir)
        return TL_FAIL(TL_EINVAL, "the hook '%s' needs a folder, and none is given", h->name);
    p->dir = tl_arena_strdup(h->arena, given->dir);
    p->first = given->first > 0 ? given->first : USUAL_FIRST;
    p->steps = given->steps > 0 ? given->steps : USUAL_STEPS;
    return p->dir ? TL_OK : TL_ENOMEM;
}

static tl_program *program_of(const tl_hook *h)
{
    const tl_function *f = tl_trainer_train_function(tl_controller_trainer(h->controller));
    return f ? tl_function_program(f) : NULL;
}

static tl_status profiler_before_train(tl_hook *h)
{
    profiler *p = (profiler *)h;
    p->timed = NULL;
    p->count = 0;
    if (tl_trainer_train_function(tl_controller_trainer(h->controller))) return TL_OK;
    TL_LOG_WARNING("the training runs eagerly: there are no kernels of a program to be timed");
    p->over = true;
    return TL_OK;
}

static tl_status profiler_before_step(tl_hook *h)
{
    profiler *p = (profiler *)h;
    if (p->over || p->timed || tl_controller_step(h->controller) + 1 < p->first) return TL_OK;
    p->timed = program_of(h);
    p->count = 0;
    if (p->timed) tl_program_set_timing(p->timed, true);
    return TL_OK;
}

static tl_status write_text(const profiler *p, const char *kind, const char *suffix,
                            const tl_str *text)
{
    int64_t iteration = tl_controller_step(p->base.controller) - 1;
    tl_str path = TL_STR_INIT;
    tl_str_addf(&path, "%s/profiler-%s-iter%" PRId64 ".%s", p->dir, kind, iteration, suffix);
    tl_status st = tl_str_status(&path);
    if (st == TL_OK) st = tl_str_status(text);
    if (st == TL_OK) st = tl_file_write_atomic(tl_str_text(&path), tl_str_text(text), text->length);
    if (st == TL_OK) TL_LOG_INFO("wrote %s", tl_str_text(&path));
    tl_str_deinit(&path);
    return st;
}

static tl_status write_profile(profiler *p)
{
    tl_str trace = TL_STR_INIT, report = TL_STR_INIT;
    tl_status st;
    TL_TRY_DONE(st, tl_mkdirs(p->dir));
    TL_TRY_DONE(st, tl_program_trace(p->timed, &trace));
    TL_TRY_DONE(st, write_text(p, "trace", "json", &trace));
    tl_program_report(p->timed, NULL, &report);
    st = write_text(p, "report", "txt", &report);
done:
    tl_program_set_timing(p->timed, false);
    p->timed = NULL;
    p->over = true;
    tl_str_deinit(&trace);
    tl_str_deinit(&report);
    return st;
}

static tl_status profiler_after_step(tl_hook *h)
{
    profiler *p = (profiler *)h;
    if (!p->timed) return TL_OK;
    if (program_of(h) != p->timed) { // another signature, another program: begins anew
        p->timed = NULL;
        return TL_OK;
    }
    return ++p->count < p->steps ? TL_OK : write_profile(p);
}

static tl_status profiler_after_train(tl_hook *h)
{
    profiler *p = (profiler *)h;
    return p->timed && p->count && program_of(h) == p->timed ? write_profile(p) : TL_OK;
}

const tl_hook_class tl_profiler_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "profiler",
            .size = sizeof(tl_profiler_instance),
            .help = "times the kernels of some training steps"},
    .start = profiler_start,
    .needs_start = true,
    .before_train = profiler_before_train,
    .after_train = profiler_after_train,
    .before_step = profiler_before_step,
    .after_step = profiler_after_step,
    .files = TL_HOOK_FILES,
};

/* --- memory ----------------------------------------------------------------------------------- */

typedef tl_memory_stats_instance memory_stats;

static tl_status memory_start(tl_hook *h, const void *config)
{
    const tl_memory_stats_config *given = config;
    h->started = true;
    ((memory_stats *)h)->max_runs = given && given->max_runs ? given->max_runs : USUAL_RUNS;
    return TL_OK;
}

static tl_status memory_before_train(tl_hook *h)
{
    memory_stats *m = (memory_stats *)h;
    m->runs = 0;
    return tl_event_storage_scalar(&m->bytes, tl_controller_storage(h->controller), "memory_bytes",
                                   false);
}

static tl_status memory_after_step(tl_hook *h)
{
    memory_stats *m = (memory_stats *)h;
    tl_memory_stats s;
    tl_engine_memory(tl_controller_trainer(h->controller)->engine, &s);
    if (m->runs++ < m->max_runs)
        TL_LOG_INFO("memory of tensors after iteration %" PRId64
                    ": %.1f MB used, at most %.1f MB so far, %.1f MB kept for later; the system "
                    "was asked %" PRId64 " times",
                    tl_controller_step(h->controller) - 1, (double)s.used * 1e-6,
                    (double)s.peak * 1e-6, (double)s.cached * 1e-6, s.allocations);
    return tl_event_scalar_put(m->bytes, (double)s.peak);
}

const tl_hook_class tl_memory_stats_hook = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "memory_stats",
            .size = sizeof(tl_memory_stats_instance),
            .help = "tells how much memory tensors take"},
    .start = memory_start,
    .needs_start = true,
    .before_train = memory_before_train,
    .after_step = memory_after_step,
    .in_flight = true,
};
