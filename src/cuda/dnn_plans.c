#include "cuda/dnn_plans.h"

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>

#include "cuda/race.h"

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

/* --- measuring -------------------------------------------------------------------------------- */

enum { ROUNDS = 4, ROOM = 256, FILLING = 0x3c00 /* a small number in each type */ };

/* Where plans are tried: a queue and memory of its own. */
typedef struct range {
    tli_cuda *d;
    cudnnHandle_t handle;
    CUstream stream;
    CUevent from, to;
    CUdeviceptr tensors, workspace;
    size_t workspace_bytes;
    tli_dnn_place places[TLI_DNN_MEASURED + TLI_DNN_NUMBERS];
    int count;
} range;

static void leave_range(range *r)
{
    const tli_cuda_api *api = r->d->api;
    if (r->stream) (void)api->cuStreamSynchronize(r->stream);
    if (r->tensors) (void)api->cuMemFree_v2(r->tensors);
    if (r->workspace) (void)api->cuMemFree_v2(r->workspace);
    if (r->from) (void)api->cuEventDestroy_v2(r->from);
    if (r->to) (void)api->cuEventDestroy_v2(r->to);
    if (r->stream) (void)api->cuStreamDestroy_v2(r->stream);
}

/* TL_ENOMEM: there is no room for it now. */
static tl_status enter_range(range *r, tli_cuda *d, const tli_dnn_wanted *wanted)
{
    const tli_cuda_api *api = d->api;
    size_t bytes = 0;
    *r = (range){.d = d, .count = wanted->count + wanted->number_count};
    for (int i = 0; i < wanted->count; i++)
        bytes += tl_round_up_size((size_t)wanted->bytes[i], ROOM);
    TLI_CUDA_TRY(api, cuStreamCreate, &r->stream, CU_STREAM_NON_BLOCKING);
    TLI_CUDA_TRY(api, cuEventCreate, &r->from, CU_EVENT_DEFAULT);
    TLI_CUDA_TRY(api, cuEventCreate, &r->to, CU_EVENT_DEFAULT);
    TLI_CUDA_TRY(api, cuMemAlloc_v2, &r->tensors, bytes);
    TLI_CUDA_TRY(api, cuMemsetD16Async, r->tensors, FILLING, bytes / 2, r->stream);
    CUdeviceptr at = r->tensors;
    for (int i = 0; i < wanted->count; i++) {
        r->places[i] = (tli_dnn_place){i + 1, (const void *)(uintptr_t)at};
        at += tl_round_up_size((size_t)wanted->bytes[i], ROOM);
    }
    for (int i = 0; i < wanted->number_count; i++)
        r->places[wanted->count + i] = wanted->numbers[i];
    return tli_dnn_handle(d, &r->handle, r->stream);
}

static tl_status make_room(range *r, size_t bytes)
{
    if (bytes <= r->workspace_bytes) return TL_OK;
    TLI_CUDA_TRY(r->d->api, cuStreamSynchronize, r->stream);
    if (r->workspace) (void)r->d->api->cuMemFree_v2(r->workspace);
    r->workspace = 0;
    r->workspace_bytes = 0;
    TLI_CUDA_TRY(r->d->api, cuMemAlloc_v2, &r->workspace, bytes);
    r->workspace_bytes = bytes;
    return TL_OK;
}

/* The least of some rounds; the first one is not counted, as code is loaded in it. */
static tl_status measure(void *self, const tli_dnn_plan *plan, double best_ns, double *ns)
{
    range *r = self;
    const tli_cuda_api *api = r->d->api;
    float ms;
    *ns = 1e18;
    TL_TRY(make_room(r, (size_t)plan->workspace));
    for (int i = 0; i < ROUNDS && (i < 2 || *ns <= (double)TLI_FAR_BEHIND * best_ns); i++) {
        TLI_CUDA_TRY(api, cuEventRecord, r->from, r->stream);
        TL_TRY(tli_dnn_run(plan, r->handle, r->count, r->places, (void *)(uintptr_t)r->workspace));
        TLI_CUDA_TRY(api, cuEventRecord, r->to, r->stream);
        TLI_CUDA_TRY(api, cuEventSynchronize, r->to);
        TLI_CUDA_TRY(api, cuEventElapsedTime, &ms, r->from, r->to);
        if (i && (double)ms * 1e6 < *ns) *ns = (double)ms * 1e6;
    }
    return TL_OK;
}

/* --- finding ---------------------------------------------------------------------------------- */

static tl_status make(tli_cuda *d, tli_dnn_plan **out, const tli_dnn_wanted *wanted,
                      const tli_dnn_taste *taste, CUstream stream)
{
    const tli_cuda_api *api;
    tli_dnn_graph g;
    tli_dnn_target target = {0};
    *out = NULL;
    TL_TRY(tli_cuda_dnn(&api));
    TL_TRY(tli_dnn_handle(d, &target.handle, stream));
    tli_dnn_begin(&g, api);
    wanted->draw(&g, wanted->what);
    return tli_dnn_plan_new(out, &g, &target, taste);
}

/* The quickest plan; the first where there is no room to measure them. */
static tl_status find_quickest(tli_cuda *d, tli_dnn_plan **out, const tli_dnn_wanted *wanted,
                               tli_dnn_taste taste)
{
    range r;
    tl_status st = enter_range(&r, d, wanted);
    taste.measure = measure;
    taste.self = &r;
    if (st == TL_OK) st = make(d, out, wanted, &taste, r.stream);
    leave_range(&r);
    if (st != TL_ENOMEM) return st;
    tl_error_clear();
    taste.measure = NULL;
    return make(d, out, wanted, &taste, NULL);
}

/* What was chosen before, else the quickest, which is then noted. */
static tl_status find_chosen(tli_cuda *d, tli_dnn_plan **out, const tli_dnn_wanted *wanted,
                             tli_dnn_taste taste, const char *choice)
{
    if (choice[0]) {
        taste.choice = choice;
        tl_status st = make(d, out, wanted, &taste, NULL);
        if (st != TL_EUNSUPPORTED) return st;
        TL_LOG_WARNING("%s; another plan is taken, and results will differ in their last bits",
                       tl_error_message());
        tl_error_clear();
        taste.choice = NULL;
    }
    TL_TRY(find_quickest(d, out, wanted, taste));
    return tli_choice_note(&d->choices, wanted->key, (*out)->choice);
}

static tl_status find_out(tli_cuda *d, tli_dnn_plan **out, const tli_dnn_wanted *wanted,
                          const char *choice)
{
    const tli_dnn_taste taste = {.refused = wanted->refused, .most = wanted->most};
    tl_status st = wanted->count ? find_chosen(d, out, wanted, taste, choice)
                                 : make(d, out, wanted, &taste, NULL);
    if (st != TL_EUNSUPPORTED) return st;
    tl_error_clear();
    return TL_OK;
}

/* Under which name a plan is known: another choice is another plan. */
static tl_status name(tl_str *out, const tli_dnn_wanted *wanted, const char *choice)
{
    tl_str_addf(out, "%s\t%s", wanted->key, choice);
    return tl_str_status(out);
}

static tl_status keep(tli_cuda *d, const tli_dnn_wanted *wanted, tli_dnn_plan *plan)
{
    tl_str key = TL_STR_INIT;
    tli_dnn_known *known = tl_alloc_zero(sizeof *known);
    tl_status st = known ? name(&key, wanted, plan && wanted->count ? plan->choice : "")
                         : TL_FAIL_NOMEM(sizeof *known);
    if (st == TL_OK) {
        known->plan = plan;
        st = tl_map_set(&d->dnn_plans, tl_str_text(&key), known);
    }
    if (st != TL_OK) tl_free(known);
    tl_str_deinit(&key);
    return st;
}

tl_status tli_dnn_find(tli_cuda *d, const tli_dnn_plan **out, const tli_dnn_wanted *wanted)
{
    char choice[TLI_CHOICE] = "";
    tl_str key = TL_STR_INIT;
    tli_dnn_plan *made = NULL;
    *out = NULL;
    if (wanted->count) TL_TRY(tli_choice_find(&d->choices, wanted->key, choice));
    tl_status st = name(&key, wanted, choice);
    const tli_dnn_known *known = st == TL_OK ? tl_map_get(&d->dnn_plans, tl_str_text(&key)) : NULL;
    tl_str_deinit(&key);
    TL_TRY(st);
    if (known) {
        *out = known->plan;
        return TL_OK;
    }
    st = find_out(d, &made, wanted, choice);
    if (st == TL_OK) st = keep(d, wanted, made);
    if (st == TL_OK) *out = made;
    else tli_dnn_plan_free(&made);
    return st;
}
