/* Batches of several tasks: of one that is drawn, or of each. */
#include "train/multitask/multitask.h"

#include <inttypes.h>
#include <string.h>

#include <tilth/base/vec.h>

/* A field of a task, and its name with the task's before it. */
typedef struct field {
    const char *own, *mixed;
} field;

typedef struct source {
    const char *name;
    tl_dataset *data;
    struct {
        field *items;
        int64_t count, capacity;
    } fields;
} source;

typedef struct mix {
    tl_dataset base;
    source *sources;
    int64_t count;
    double *weights;
    float *cumulative;
    const tl_oneof *sampler; /* NULL: a batch of each */
    int64_t step;            /* batches that were given */
    int64_t each;            /* batches of a step */
} mix;

/* --- drawing ---------------------------------------------------------------------------------- */

/* For the batch of this number. */
static tl_status draw(int64_t *out, const mix *m, int64_t batch)
{
    const int64_t step = batch / m->each;
    TL_TRY(tl_task_distribution(m->cumulative, m->sampler, m->weights, m->count, step));
    *out = tl_task_drawn(m->cumulative, m->count, tl_task_draw(step));
    return TL_OK;
}

/* --- a batch ---------------------------------------------------------------------------------- */

/* Names belong to the dataset. */
static const char *mixed_name(mix *m, source *s, const char *own)
{
    for (int64_t i = 0; i < s->fields.count; i++)
        if (strcmp(s->fields.items[i].own, own) == 0) return s->fields.items[i].mixed;
    field f = {tl_arena_strdup(m->base.arena, own),
               tl_arena_printf(m->base.arena, "%s/%s", s->name, own)};
    return f.own && f.mixed && TL_VEC_PUSH(&s->fields, f) ? f.mixed : NULL;
}

static tl_status add_batch(mix *m, source *s, tl_ctx *c, tl_tensors *out, bool *more)
{
    tl_tensors batch = {0};
    // As it is made: who takes batches to a device does it for all.
    const tl_dataset_class *with = TL_CLASS_METHOD(tl_dataset_class, s->data->cls, next);
    TL_TRY_NOTE(with->next(s->data, c, &batch, more), "task '%s'", s->name);
    for (int64_t i = 0; *more && i < batch.count; i++) {
        const char *name = mixed_name(m, s, batch.items[i].name);
        if (!name) return TL_ENOMEM;
        tl_tensors_put(c, out, name, batch.items[i].tensor);
    }
    return tl_ctx_status(c);
}

static tl_status next(tl_dataset *d, tl_ctx *c, tl_tensors *out, bool *more)
{
    mix *m = (mix *)d;
    int64_t first = 0, behind = m->count;
    if (m->sampler) {
        TL_TRY(draw(&first, m, m->step));
        behind = first + 1;
    }
    for (int64_t i = first; i < behind && *more; i++)
        TL_TRY(add_batch(m, &m->sources[i], c, out, more));
    if (*more) m->step++;
    return TL_OK;
}

static tl_status rewind_all(tl_dataset *d)
{
    mix *m = (mix *)d;
    for (int64_t i = 0; i < m->count; i++) TL_TRY(tl_dataset_rewind(m->sources[i].data));
    m->step = 0;
    return TL_OK;
}

static tl_status state(tl_dataset *d, tl_state *into)
{
    mix *m = (mix *)d;
    tl_state *all, *sub;
    TL_TRY(tl_state_bind_int(into, "step", &m->step));
    TL_TRY(tl_state_sub(&all, into, "tasks"));
    for (int64_t i = 0; i < m->count; i++) {
        TL_TRY(tl_state_sub(&sub, all, m->sources[i].name));
        TL_TRY(tl_dataset_state(m->sources[i].data, sub));
    }
    return TL_OK;
}

static tl_status tell(tl_dataset *d, tl_str *out)
{
    mix *m = (mix *)d;
    int64_t which = 0;
    if (!m->sampler) {
        tl_str_addf(out, "step %" PRId64 " of all tasks", m->step);
        return tl_str_status(out);
    }
    tl_str place = TL_STR_INIT;
    tl_status st = draw(&which, m, m->step);
    if (st == TL_OK) st = tl_dataset_tell(m->sources[which].data, &place);
    if (st == TL_OK)
        tl_str_addf(out, "task '%s'%s%s", m->sources[which].name, place.length ? ", " : "",
                    tl_str_text(&place));
    tl_str_deinit(&place);
    return st == TL_OK ? tl_str_status(out) : st;
}

static void dispose(tl_dataset *d)
{
    mix *m = (mix *)d;
    for (int64_t i = 0; i < m->count; i++) {
        tl_dataset_free(&m->sources[i].data);
        TL_VEC_FREE(&m->sources[i].fields);
    }
}

/* --- making ----------------------------------------------------------------------------------- */

static tl_status open_source(source *s, const tl_sub_task *sub, const tl_input_context *input)
{
    const tl_task_config *config = sub->task->config;
    s->name = sub->name;
    if (!config || !config->train_data)
        return TL_FAIL(TL_EINVAL,
                       "there is nothing to train the task '%s' with: its task_config.train_data "
                       "is null",
                       sub->name);
    TL_TRY_NOTE(tl_task_build_inputs(sub->task, config->train_data, input, &s->data), "task '%s'",
                sub->name);
    return TL_OK;
}

static tl_status build(tl_dataset *d)
{
    mix *m = (mix *)d;
    const tli_mix_args *args = d->config;
    int64_t count = args->tasks->count;
    m->sampler = args->sampler;
    m->each = args->each > 1 ? args->each : 1;
    m->sources = tl_arena_array(d->arena, count, sizeof *m->sources);
    m->weights = tl_arena_array(d->arena, count, sizeof *m->weights);
    m->cumulative = tl_arena_array(d->arena, count, sizeof *m->cumulative);
    if (!m->sources || !m->weights || !m->cumulative) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        m->weights[i] = args->tasks->tasks[i].weight;
        m->count = i + 1;
        TL_TRY(open_source(&m->sources[i], &args->tasks->tasks[i], args->input));
    }
    d->config = NULL; // the arguments are the caller's
    int64_t first;
    return m->sampler ? draw(&first, m, 0) : TL_OK; // weights that are of no use show now
}

static const tl_dataset_class mix_class = {
    .cls = TL_CLASS(tl_dataset_class, "tasks", NULL, mix, NULL),
    .build = build,
    .next = next,
    .rewind = rewind_all,
    .state = state,
    .tell = tell,
    .dispose = dispose,
};

tl_status tli_mix_new(tl_dataset **out, const tli_mix_args *args)
{
    return tl_dataset_new(out, &mix_class, args);
}

static mix *mix_of(const tl_dataset *d)
{
    return d && d->cls == &mix_class ? (mix *)(uintptr_t)d : NULL;
}

void tli_mix_set_step(tl_dataset *d, int64_t step)
{
    mix *m = mix_of(d);
    if (m) m->step = step * m->each;
}

tl_status tli_mix_drawn(int64_t *out, const tl_dataset *d, int64_t task)
{
    const mix *m = mix_of(d);
    *out = m && !m->sampler ? m->step / m->each : 0;
    for (int64_t i = 0; m && m->sampler && i < m->step / m->each; i++) {
        int64_t which;
        TL_TRY(draw(&which, m, i * m->each));
        *out += which == task;
    }
    return TL_OK;
}
