#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "nn/metric_impl.h"

struct tl_metrics {
    tl_engine *engine;
    tl_metric **items;
    int64_t count, capacity;
};

tl_status tl_metrics_new(tl_metrics **out, tl_engine *engine)
{
    tl_metrics *all = tl_alloc_zero(sizeof *all);
    *out = all;
    if (!all) return TL_FAIL_NOMEM(sizeof *all);
    all->engine = engine;
    return TL_OK;
}

void tl_metrics_free(tl_metrics **all)
{
    if (!*all) return;
    for (int64_t i = 0; i < (*all)->count; i++) tl_metric_free(&(*all)->items[i]);
    TL_VEC_FREE(*all);
    tl_free(*all);
    *all = NULL;
}

// Takes the metric over, also when it fails.
static tl_status take_over(tl_metrics *all, tl_metric *m)
{
    tl_status st = TL_OK;
    if (tl_metrics_find(all, m->name))
        st = TL_FAIL(TL_EEXISTS, "there is a metric '%s' already; give this one another name",
                     m->name);
    else if (!TL_VEC_PUSH(all, m)) st = TL_ENOMEM;
    if (st != TL_OK) tl_metric_free(&m);
    return st;
}

tl_status tl_metrics_add(tl_metric **out, tl_metrics *all, const tl_metric_class *cls,
                         const void *config, const char *name)
{
    tl_metric *m;
    if (out) *out = NULL;
    TL_TRY(tl_metric_new(&m, all->engine, cls, config, name));
    TL_TRY(take_over(all, m));
    if (out) *out = m;
    return TL_OK;
}

tl_status tl_metrics_add_of(tl_metric **out, tl_metrics *all, const tl_oneof *metric,
                            const tl_registry *registry, const char *name)
{
    tl_metric *m;
    if (out) *out = NULL;
    TL_TRY(tl_metric_new_of(&m, all->engine, metric, registry, name));
    TL_TRY(take_over(all, m));
    if (out) *out = m;
    return TL_OK;
}

int64_t tl_metrics_count(const tl_metrics *all)
{
    return all->count;
}

tl_metric *tl_metrics_at(const tl_metrics *all, int64_t index)
{
    return all->items[index];
}

tl_metric *tl_metrics_find(const tl_metrics *all, const char *name)
{
    for (int64_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i]->name, name) == 0) return all->items[i];
    return NULL;
}

void tl_metrics_update(tl_metrics *all, tl_ctx *c, tl_tensor *y_true, tl_tensor *y_pred,
                       tl_tensor *weight)
{
    for (int64_t i = 0; i < all->count; i++)
        if (!tli_metric_of_values(all->items[i]))
            tl_metric_update(all->items[i], c, y_true, y_pred, weight);
}

tl_status tl_metrics_tell(tl_metrics *all, tl_ctx *c, tl_logs *into)
{
    for (int64_t i = 0; i < all->count; i++)
        if (!all->items[i]->silent) TL_TRY(tl_metric_tell(all->items[i], c, into));
    return TL_OK;
}

tl_status tl_metrics_reset(tl_metrics *all, tl_ctx *c)
{
    for (int64_t i = 0; i < all->count; i++) TL_TRY(tl_metric_reset(all->items[i], c));
    return TL_OK;
}

tl_status tl_metrics_state(const tl_metrics *all, tl_state *into)
{
    for (int64_t i = 0; i < all->count; i++) {
        tl_state *sub;
        TL_TRY(tl_state_sub(&sub, into, all->items[i]->name));
        TL_TRY(tl_metric_state_into(all->items[i], sub));
    }
    return TL_OK;
}
