#include <tilth/nn/evaluator.h>

#include "nn/configured.h"

static const tl_method methods[] = {
    TL_METHOD(tl_evaluator_class, build, false),   TL_METHOD(tl_evaluator_class, update, true),
    TL_METHOD(tl_evaluator_class, result, true),   TL_METHOD(tl_evaluator_class, reset, true),
    TL_METHOD(tl_evaluator_class, dispose, false), {NULL, 0, false},
};
const tl_kind tl_kind_evaluator = {
    .name = "evaluator",
    .plural = "evaluators",
    .help = "metrics that run on the host",
    .class_size = sizeof(tl_evaluator_class),
    .methods = methods,
    .names_are_keys = true,
    TL_INSTANCE(tl_evaluator),
};

static tl_status build(tl_evaluator *e, const void *config, const char *name)
{
    TL_TRY(tli_configure(&e->config, e->arena, &e->cls->cls, config));
    e->name = tl_arena_strdup(e->arena, name ? name : e->cls->cls.name);
    if (!e->name) return TL_ENOMEM;
    const tl_evaluator_class *with = TL_CLASS_METHOD(tl_evaluator_class, e->cls, build);
    return with ? with->build(e) : TL_OK;
}

tl_status tl_evaluator_new(tl_evaluator **out, const tl_evaluator_class *cls, const void *config,
                           const char *name)
{
    tl_arena *arena;
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_evaluator, &cls->cls));
    TL_TRY(tl_arena_new(&arena));
    tl_evaluator *e = tl_arena_alloc(arena, size);
    if (!e) {
        tl_arena_free(&arena);
        return TL_ENOMEM;
    }
    e->cls = cls;
    e->arena = arena;
    tl_status st = build(e, config, name);
    if (st != TL_OK) {
        st = tl_error_note(st, "evaluator '%s'", e->name ? e->name : cls->cls.name);
        tl_evaluator_free(&e);
    }
    *out = e;
    return st;
}

void tl_evaluator_free(tl_evaluator **e)
{
    if (!*e) return;
    const tl_evaluator_class *with = TL_CLASS_METHOD(tl_evaluator_class, (*e)->cls, dispose);
    if (with) with->dispose(*e);
    tl_arena *arena = (*e)->arena;
    tl_arena_free(&arena);
    *e = NULL;
}

tl_status tl_evaluator_update(tl_evaluator *e, const tl_tensors *groundtruths,
                              const tl_tensors *predictions)
{
    const tl_evaluator_class *with = TL_CLASS_METHOD(tl_evaluator_class, e->cls, update);
    TL_TRY_NOTE(with->update(e, groundtruths, predictions), "evaluator '%s'", e->name);
    return TL_OK;
}

tl_status tl_evaluator_tell(tl_evaluator *e, tl_logs *into)
{
    tl_status st = TL_CLASS_METHOD(tl_evaluator_class, e->cls, result)->result(e, into);
    if (st != TL_OK) st = tl_error_note(st, "evaluator '%s'", e->name);
    tl_evaluator_reset(e);
    return st;
}

void tl_evaluator_reset(tl_evaluator *e)
{
    TL_CLASS_METHOD(tl_evaluator_class, e->cls, reset)->reset(e);
}
