#include "cuda/dnn_plans.h"

#include <tilth/base/alloc.h>

/* What is known about a graph: its plan, or that there is none. */
typedef struct tli_dnn_known {
    tli_dnn_plan *plan;
} tli_dnn_known;

void tli_dnn_plans_deinit(tli_cuda *d)
{
    for (int64_t i = 0; i < tl_map_count(&d->dnn_plans); i++) {
        tli_dnn_known *known = tl_map_at(&d->dnn_plans, i);
        tli_dnn_plan_free(&known->plan);
        tl_free(known);
    }
    tl_map_deinit(&d->dnn_plans);
    if (d->dnn) (void)d->api->cudnnDestroy(d->dnn);
    d->dnn = NULL;
}

static tl_status find_out(tli_cuda *d, tli_dnn_known *known, const tli_dnn_wanted *wanted)
{
    const tli_cuda_api *api;
    tli_dnn_graph g;
    tli_dnn_target target = {0};
    TL_TRY(tli_cuda_dnn(&api));
    TL_TRY(tli_dnn_handle(d, &target.handle, NULL));
    tli_dnn_begin(&g, api);
    wanted->draw(&g, wanted->what);
    tl_status st = tli_dnn_plan_new(&known->plan, &g, &target, wanted->refused, wanted->most);
    if (st != TL_EUNSUPPORTED) return st;
    tl_error_clear();
    return TL_OK;
}

tl_status tli_dnn_find(tli_cuda *d, const tli_dnn_plan **out, const tli_dnn_wanted *wanted)
{
    tli_dnn_known *known = tl_map_get(&d->dnn_plans, wanted->key);
    *out = known ? known->plan : NULL;
    if (known) return TL_OK;
    known = tl_alloc_zero(sizeof *known);
    if (!known) return TL_FAIL_NOMEM(sizeof *known);
    tl_status st = find_out(d, known, wanted);
    if (st == TL_OK) st = tl_map_set(&d->dnn_plans, wanted->key, known);
    if (st == TL_OK) {
        *out = known->plan;
        return TL_OK;
    }
    tli_dnn_plan_free(&known->plan);
    tl_free(known);
    return st;
}
