#include <tilth/train/run/lacks.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/train/task.h>

enum { USUAL_STEPS = 1000 };

/* --- lists ------------------------------------------------------------------------------------ */

static tl_status grow(tl_lacks *l)
{
    if (l->count < l->capacity) return TL_OK;
    int64_t capacity = l->capacity ? 2 * l->capacity : 16;
    tl_lack *items = tl_arena_array(l->arena, capacity, sizeof *items);
    if (!items) return TL_ENOMEM;
    if (l->count) memcpy(items, l->items, (size_t)l->count * sizeof *items);
    l->items = items;
    l->capacity = capacity;
    return TL_OK;
}

tl_status tl_lacks_add(tl_lacks *l, const char *key, const char *what, const char *value)
{
    if (!value) return TL_ENOMEM;
    TL_TRY(grow(l));
    tl_lack lack = {tl_arena_strdup(l->arena, key), what ? tl_arena_strdup(l->arena, what) : NULL,
                    tl_arena_strdup(l->arena, value)};
    if (!lack.key || !lack.value || (what && !lack.what)) return TL_ENOMEM;
    l->items[l->count++] = lack;
    return TL_OK;
}

int64_t tl_lacks_count(const tl_lacks *l)
{
    int64_t count = 0;
    for (int64_t i = 0; i < l->count; i++) count += l->items[i].what != NULL;
    return count;
}

/* --- what every training needs ---------------------------------------------------------------- */

#define OPTIMIZATION "trainer.optimizer_config."

/* A number of a schedule that is not there. False when it is none that could be filled in. */
static bool fill_in(const tl_desc *desc, void *schedule, const char *key)
{
    const tl_field *f = tl_desc_field(desc, key);
    if (!f || f->arity != TL_OPTIONAL || (f->type != TL_TYPE_DOUBLE && f->type != TL_TYPE_INT))
        return false;
    if (f->type == TL_TYPE_INT) *(tl_opt_int *)tl_field_at(f, schedule) = (tl_opt_int){true, 1};
    else *(tl_opt_double *)tl_field_at(f, schedule) = (tl_opt_double){true, 1};
    return true;
}

/* A schedule without its numbers: messages of its class begin with the key of one, so they are
 * filled in one after the other, in a copy, until it has no more to say. */
static tl_status lacks_of_schedule(tl_lacks *l, const tl_oneof *rate, const tl_registry *registry,
                                   const char *steps)
{
    const tl_class *cls = tl_registry_peek(registry, &tl_kind_learning_rate, rate->type);
    const tl_learning_rate_class *with = TL_CLASS_METHOD(tl_learning_rate_class, cls, check);
    if (!with || !rate->value) return TL_OK;
    const tl_desc *desc = tl_class_config(cls);
    void *copy;
    TL_TRY(tl_desc_new(&copy, l->arena, desc));
    TL_TRY(tl_desc_copy(l->arena, desc, copy, rate->value));
    for (bool filled = true; filled && with->check(copy) != TL_OK;) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(tl_error_message(), ":"),
                 tl_error_message());
        tl_error_clear();
        const char *key =
            tl_arena_printf(l->arena, OPTIMIZATION "learning_rate.%s.%s", rate->type, name);
        if (!key) return TL_ENOMEM;
        filled = fill_in(desc, copy, name);
        TL_TRY(tl_lacks_add(l, key, "a part of the schedule",
                            strstr(name, "steps") ? steps
                            : filled              ? "0.001"
                                                  : "[...]"));
    }
    return TL_OK;
}

/* Those that say no number of steps warm up for a tenth of the training, or less. */
static tl_status lacks_of_warmup(tl_lacks *l, const tl_oneof *warmup, int64_t steps)
{
    enum { TENTH = 10, MOST = 10000 };
    if (!warmup->type || !warmup->value
        || ((const tl_warmup_config *)warmup->value)->warmup_steps.set)
        return TL_OK;
    const char *key =
        tl_arena_printf(l->arena, OPTIMIZATION "warmup.%s.warmup_steps", warmup->type);
    int64_t value = steps / TENTH < MOST ? steps / TENTH : MOST;
    if (!key) return TL_ENOMEM;
    return tl_lacks_add(l, key, "how many steps the rate takes to rise; 0: none",
                        tl_arena_printf(l->arena, "%" PRId64, value));
}

static tl_status lacks_of_trainer(tl_lacks *l, tl_config *config, const tl_registry *registry)
{
    const tl_trainer_config *t =
        ((const tl_experiment_config *)tl_config_value(config))->trainer.value;
    const tl_optimization_config *o = &t->optimizer_config;
    const int64_t count = t->train_steps > 0 ? t->train_steps : USUAL_STEPS;
    const char *steps = tl_arena_printf(l->arena, "%" PRId64, count);
    if (!t->train_steps && !tl_config_is_given(config, "trainer.train_steps"))
        TL_TRY(tl_lacks_add(l, "trainer.train_steps", "how many steps the training takes", steps));
    if (!o->optimizer.type)
        TL_TRY(tl_lacks_add(l, OPTIMIZATION "optimizer.type",
                            "how weights are changed: sgd, adam, ...", "adam"));
    TL_TRY(lacks_of_warmup(l, &o->warmup, count));
    if (o->learning_rate.type) return lacks_of_schedule(l, &o->learning_rate, registry, steps);
    TL_TRY(tl_lacks_add(l, OPTIMIZATION "learning_rate.type",
                        "how the learning rate changes: constant, cosine, ...", "cosine"));
    TL_TRY(
        tl_lacks_add(l, OPTIMIZATION "learning_rate.cosine.initial_learning_rate", NULL, "0.001"));
    return tl_lacks_add(l, OPTIMIZATION "learning_rate.cosine.decay_steps", NULL, steps);
}

tl_status tl_experiment_lacks(tl_lacks *into, tl_config *config, const tl_registry *registry,
                              const char *mode)
{
    const tl_experiment_config *e = tl_config_value(config);
    bool trains = strstr(mode, "train") != NULL, evaluates = strstr(mode, "eval") != NULL;
    const tl_task_class *cls;
    TL_TRY(tl_get_task_class(&cls, registry, &e->task));
    cls = TL_CLASS_METHOD(tl_task_class, cls, lacks);
    if (cls && e->task.value) TL_TRY(cls->lacks(e->task.value, trains, evaluates, into));
    return trains && e->trainer.value ? lacks_of_trainer(into, config, registry) : TL_OK;
}
