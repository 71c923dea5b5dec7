#include <tilth/train/hooks/hook.h>

#include <tilth/base/alloc.h>

static const tl_method methods[] = {
    TL_METHOD(tl_hook_class, before_train, false),
    TL_METHOD(tl_hook_class, after_train, false),
    TL_METHOD(tl_hook_class, before_step, false),
    TL_METHOD(tl_hook_class, after_step, false),
    TL_METHOD(tl_hook_class, after_loop, false),
    TL_METHOD(tl_hook_class, before_eval, false),
    TL_METHOD(tl_hook_class, after_eval, false),
    TL_METHOD(tl_hook_class, on_save, false),
    TL_METHOD(tl_hook_class, on_error, false),
    TL_METHOD(tl_hook_class, on_summary, false),
    TL_METHOD(tl_hook_class, on_restore, false),
    TL_METHOD(tl_hook_class, take_back, false),
    {NULL, 0, false},
};
const tl_kind tl_kind_hook = {
    .name = "hook",
    .plural = "hooks",
    .help = "what else happens during training",
    .class_size = sizeof(tl_hook_class),
    .methods = methods,
    TL_INSTANCE(tl_hook),
};

static tl_status start(tl_hook *h, const tl_hook_args *args)
{
    TL_TRY(tl_arena_new(&h->arena));
    h->name = tl_arena_strdup(h->arena, args && args->name ? args->name : h->cls->cls.name);
    if (!h->name) return TL_ENOMEM;
    h->period = args && args->period > 0 ? args->period : 1;
    const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, h->cls, start);
    return with ? with->start(h, args ? args->config : NULL) : TL_OK;
}

/* The nearest class up the chain whose `start` has to be called was called. */
static tl_status check_started(const tl_hook *h)
{
    const tl_hook_class *base = TL_CLASS_METHOD(tl_hook_class, h->cls, needs_start);
    if (!base || h->started) return TL_OK;
    return TL_FAIL(TL_ESTATE,
                   "the hook '%s' derives from '%s' and has a start of its own, which must call "
                   "the start of '%s' as well",
                   h->name, base->cls.name, base->cls.name);
}

tl_status tl_hook_new(tl_hook **out, const tl_hook_class *cls, const tl_hook_args *args)
{
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_hook, &cls->cls));
    tl_hook *h = tl_alloc_zero(size);
    if (!h) return TL_FAIL_NOMEM(size);
    h->cls = cls;
    tl_status st = start(h, args);
    if (st == TL_OK) st = check_started(h);
    if (st != TL_OK) tl_hook_free(&h);
    *out = h;
    return st;
}

void tl_hook_free(tl_hook **h)
{
    if (!*h) return;
    const tl_hook_class *with = TL_CLASS_METHOD(tl_hook_class, (*h)->cls, dispose);
    if (with) with->dispose(*h);
    tl_arena_free(&(*h)->arena);
    tl_free(*h);
    *h = NULL;
}

/* --- functions -------------------------------------------------------------------------------- */

typedef struct callback_hook {
    tl_hook base;
    tl_callbacks given;
} callback_hook;

static tl_status callback_start(tl_hook *h, const void *config)
{
    ((callback_hook *)h)->given = *(const tl_callbacks *)config;
    return TL_OK;
}

#define PHASE(name)                                                                                \
    static tl_status callback_##name(tl_hook *h)                                                   \
    {                                                                                              \
        const tl_callbacks *g = &((callback_hook *)h)->given;                                      \
        return g->name ? g->name(h->controller, g->self) : TL_OK;                                  \
    }
PHASE(before_train)
PHASE(after_train)
PHASE(before_step)
PHASE(after_step)

#define PHASE_WITH_LOGS(name)                                                                      \
    static tl_status callback_##name(tl_hook *h, tl_logs *logs)                                    \
    {                                                                                              \
        const tl_callbacks *g = &((callback_hook *)h)->given;                                      \
        return g->name ? g->name(h->controller, logs, g->self) : TL_OK;                            \
    }
PHASE_WITH_LOGS(after_loop)
PHASE_WITH_LOGS(after_eval)

static const tl_hook_class callback_class = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "callback",
            .size = sizeof(callback_hook),
            .help = "functions of the program"},
    .start = callback_start,
    .before_train = callback_before_train,
    .after_train = callback_after_train,
    .after_loop = callback_after_loop,
    .after_eval = callback_after_eval,
};
// Who has nothing to do at each step does not bring the loop back to the host.
static const tl_hook_class callback_step_class = {
    .cls = {.class_size = sizeof(tl_hook_class),
            .name = "callback",
            .size = sizeof(callback_hook),
            .base = &callback_class.cls,
            .help = "functions of the program"},
    .before_step = callback_before_step,
    .after_step = callback_after_step,
};

tl_status tl_hook_from_callbacks(tl_hook **out, const tl_callbacks *callbacks,
                                 const tl_hook_args *args)
{
    tl_hook_args with = args ? *args : (tl_hook_args){0};
    with.config = callbacks;
    bool steps = callbacks->before_step || callbacks->after_step;
    return tl_hook_new(out, steps ? &callback_step_class : &callback_class, &with);
}
