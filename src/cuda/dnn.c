#include "cuda/dnn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/vec.h>

#include "cuda/race.h"

enum { TOLD = 300, CANDIDATES = 24 };
/* So long others are looked for that might be quicker than the first: some are compiled for it. */
static const int64_t patience_ns = 1500000000;

/* --- descriptors ------------------------------------------------------------------------------ */

static tl_status check_as(tl_status code, const tli_cuda_api *api, cudnnStatus_t status,
                          const char *call)
{
    char more[TOLD];
    if (status == CUDNN_STATUS_SUCCESS) return TL_OK;
    more[0] = '\0';
    api->cudnnGetLastErrorString(more, sizeof more);
    more[sizeof more - 1] = '\0';
    return TL_FAIL(code, "cuDNN: %s: %s%s%s", call, api->cudnnGetErrorString(status),
                   more[0] ? ": " : "", more);
}

// What it does not take is not supported.
static tl_status check(const tli_cuda_api *api, cudnnStatus_t status, const char *call)
{
    return check_as(TL_EUNSUPPORTED, api, status, call);
}
#define TRY(api, call, ...) TL_TRY(check((api), (api)->call(__VA_ARGS__), #call))
#define TRY_RUN(api, call, ...) TL_TRY(check_as(TL_EIO, (api), (api)->call(__VA_ARGS__), #call))

static void note(tli_dnn_graph *g, tl_status st)
{
    if (g->status == TL_OK) g->status = st;
}

void tli_dnn_begin(tli_dnn_graph *g, const tli_cuda_api *api)
{
    *g = (tli_dnn_graph){.api = api};
}

void tli_dnn_deinit(tli_dnn_graph *g)
{
    for (int64_t i = g->made.count - 1; i >= 0; i--)
        (void)g->api->cudnnBackendDestroyDescriptor(g->made.items[i]);
    TL_VEC_FREE(&g->made);
    g->count = 0;
}

static tli_dnn_node make(tli_dnn_graph *g, int type)
{
    tli_dnn_node made = NULL;
    if (g->status != TL_OK) return NULL;
    note(g, check(g->api, g->api->cudnnBackendCreateDescriptor(type, &made), "a descriptor"));
    if (g->status != TL_OK) return NULL;
    if (!TL_VEC_PUSH(&g->made, made)) {
        (void)g->api->cudnnBackendDestroyDescriptor(made);
        note(g, TL_ENOMEM);
        return NULL;
    }
    return made;
}

static void set(tli_dnn_graph *g, tli_dnn_node at, int attribute, int type, int64_t count,
                const void *values)
{
    if (g->status != TL_OK) return;
    note(g, check(g->api, g->api->cudnnBackendSetAttribute(at, attribute, type, count, values),
                  "an attribute"));
}

static void set_node(tli_dnn_graph *g, tli_dnn_node at, int attribute, tli_dnn_node node)
{
    set(g, at, attribute, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &node);
}

static void set_int(tli_dnn_graph *g, tli_dnn_node at, int attribute, int64_t value)
{
    set(g, at, attribute, CUDNN_TYPE_INT64, 1, &value);
}

static void set_kind(tli_dnn_graph *g, tli_dnn_node at, int attribute, int type, int value)
{
    set(g, at, attribute, type, 1, &value);
}

static tli_dnn_node finish(tli_dnn_graph *g, tli_dnn_node made, const char *what)
{
    if (g->status == TL_OK) note(g, check(g->api, g->api->cudnnBackendFinalize(made), what));
    return made;
}

static void add(tli_dnn_graph *g, tli_dnn_node operation, const char *what)
{
    finish(g, operation, what);
    if (g->status != TL_OK) return;
    TL_ASSERT(g->count < TLI_DNN_OPERATIONS);
    g->operations[g->count++] = operation;
}

/* --- tensors ---------------------------------------------------------------------------------- */

static int type_of(tl_dtype dtype)
{
    switch (dtype) {
    case TL_BF16: return CUDNN_DATA_BFLOAT16;
    case TL_F16: return CUDNN_DATA_HALF;
    case TL_F64: return CUDNN_DATA_DOUBLE;
    case TL_I32: return CUDNN_DATA_INT32;
    case TL_BOOL: return CUDNN_DATA_BOOLEAN;
    default: return CUDNN_DATA_FLOAT;
    }
}

static tli_dnn_node tensor(tli_dnn_graph *g, int64_t number, const tli_dnn_shape *s)
{
    tli_dnn_node t = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_kind(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(s->dtype));
    set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, TLI_DNN_RANK, s->dims);
    set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, TLI_DNN_RANK, s->strides);
    set_int(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
    set_int(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, TLI_DNN_ALIGNMENT);
    return t;
}

static void set_true(tli_dnn_graph *g, tli_dnn_node t, int attribute)
{
    const bool yes = true;
    set(g, t, attribute, CUDNN_TYPE_BOOLEAN, 1, &yes);
}

tli_dnn_node tli_dnn_tensor(tli_dnn_graph *g, int64_t number, const tli_dnn_shape *shape)
{
    return finish(g, tensor(g, number, shape), "a tensor");
}

tli_dnn_node tli_dnn_between(tli_dnn_graph *g, const tli_dnn_shape *shape)
{
    tli_dnn_node t = tensor(g, --g->inner, shape);
    set_true(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
    return finish(g, t, "a tensor between operations");
}

tli_dnn_node tli_dnn_number(tli_dnn_graph *g, int64_t number)
{
    const tli_dnn_shape one = {TL_F32, {1, 1, 1, 1}, {1, 1, 1, 1}};
    tli_dnn_node t = tensor(g, number, &one);
    set_true(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
    return finish(g, t, "a number");
}

/* --- operations ------------------------------------------------------------------------------- */

void tli_dnn_convolve(tli_dnn_graph *g, tli_dnn_way way, const tli_dnn_window *w,
                      tli_dnn_node image, tli_dnn_node filter, tli_dnn_node result)
{
    static const struct {
        int type, how, image, filter, result, alpha, beta;
    } ways[] = {
        [TLI_DNN_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                             CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
        [TLI_DNN_INPUT_GRAD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
        [TLI_DNN_FILTER_GRAD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                 CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    };
    const float one = 1, zero = 0;
    tli_dnn_node how = make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set_kind(g, how, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set_kind(g, how, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             CUDNN_CROSS_CORRELATION);
    set_int(g, how, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2);
    set(g, how, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, w->strides);
    set(g, how, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, w->dilations);
    set(g, how, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, w->before);
    set(g, how, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, w->after);
    finish(g, how, "a window");
    tli_dnn_node o = make(g, ways[way].type);
    set_node(g, o, ways[way].how, how);
    set_node(g, o, ways[way].image, image);
    set_node(g, o, ways[way].filter, filter);
    set_node(g, o, ways[way].result, result);
    set(g, o, ways[way].alpha, CUDNN_TYPE_FLOAT, 1, &one);
    set(g, o, ways[way].beta, CUDNN_TYPE_FLOAT, 1, &zero);
    add(g, o, "a convolution");
}

void tli_dnn_multiply(tli_dnn_graph *g, tli_dnn_node a, tli_dnn_node b, tli_dnn_node y)
{
    tli_dnn_node how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_kind(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    finish(g, how, "a product");
    tli_dnn_node o = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_node(g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    set_node(g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_node(g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_node(g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    add(g, o, "a product");
}

// Indices and comparisons compute in types of their own.
static int precision_of(int mode)
{
    switch (mode) {
    case CUDNN_POINTWISE_GEN_INDEX: return CUDNN_DATA_INT32;
    case CUDNN_POINTWISE_CMP_GE: return CUDNN_DATA_BOOLEAN;
    default: return CUDNN_DATA_FLOAT;
    }
}

static tli_dnn_node pointwise_of(tli_dnn_graph *g, int mode)
{
    tli_dnn_node how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set_kind(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    set_kind(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, precision_of(mode));
    return how;
}

void tli_dnn_pointwise(tli_dnn_graph *g, int mode, tli_dnn_node x, tli_dnn_node b,
                       tli_dnn_node chosen, tli_dnn_node y)
{
    tli_dnn_node how = finish(g, pointwise_of(g, mode), "a pointwise operation");
    tli_dnn_node o = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_node(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_node(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) set_node(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (chosen) set_node(g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, chosen);
    set_node(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(g, o, "a pointwise operation");
}

void tli_dnn_index(tli_dnn_graph *g, tli_dnn_node x, int64_t axis, tli_dnn_node y)
{
    tli_dnn_node how = pointwise_of(g, CUDNN_POINTWISE_GEN_INDEX);
    set_int(g, how, CUDNN_ATTR_POINTWISE_AXIS, axis);
    finish(g, how, "an index");
    tli_dnn_node o = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_node(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_node(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_node(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add(g, o, "an index");
}

void tli_dnn_reduce(tli_dnn_graph *g, int mode, tli_dnn_node x, tli_dnn_node y)
{
    tli_dnn_node how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_kind(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
    set_kind(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    finish(g, how, "a reduction");
    tli_dnn_node o = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_node(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_node(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_node(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add(g, o, "a reduction");
}

void tli_dnn_reshape(tli_dnn_graph *g, tli_dnn_node x, tli_dnn_node y)
{
    tli_dnn_node o = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_node(g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_node(g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(g, o, "a view");
}

/* --- what computes it ------------------------------------------------------------------------- */

static tli_dnn_node whole_of(tli_dnn_graph *g, const tli_dnn_target *target)
{
    tli_dnn_node whole = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(g, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->count,
        g->operations);
    if (target->handle)
        set(g, whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    return finish(g, whole, "a graph");
}

/* What cuDNN proposes in one mode, the best first. Their number; 0 where it fails, which is no
 * failure of the graph's. */
static int64_t propose(tli_dnn_graph *g, const tli_dnn_target *target, tli_dnn_node whole, int mode,
                       tli_dnn_node *out)
{
    int64_t found = 0;
    tli_dnn_node heuristic = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_node(g, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
    set_kind(g, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    if (!target->handle)
        set_node(g, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target->properties);
    for (int i = 0; i < CANDIDATES; i++) out[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (g->status != TL_OK) return 0;
    if (g->api->cudnnBackendFinalize(heuristic) != CUDNN_STATUS_SUCCESS) return 0;
    if (g->api->cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, CANDIDATES, &found, out)
        != CUDNN_STATUS_SUCCESS)
        return 0;
    return found < CANDIDATES ? found : CANDIDATES;
}

/* Number and notes of a candidate's engine. */
static tl_status look_at(tli_dnn_graph *g, tli_dnn_node candidate, int64_t *number, unsigned *notes)
{
    int told[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    int64_t count = 0, ignored;
    *notes = 0;
    tli_dnn_node engine = make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    TL_TRY(g->status);
    TRY(g->api, cudnnBackendGetAttribute, candidate, CUDNN_ATTR_ENGINECFG_ENGINE,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &ignored, &engine);
    TRY(g->api, cudnnBackendGetAttribute, engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
        1, &ignored, number);
    TRY(g->api, cudnnBackendGetAttribute, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
        CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, told);
    for (int64_t i = 0; i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
        *notes |= 1u << told[i];
    return TL_OK;
}

static tl_status build(tli_dnn_plan *p, const tli_dnn_target *target, tli_dnn_node candidate)
{
    tli_dnn_graph *g = &p->graph;
    int64_t ignored;
    tli_dnn_node plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_node(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, candidate);
    if (target->handle)
        set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    else set_node(g, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target->properties);
    TL_TRY(g->status);
    TRY(g->api, cudnnBackendFinalize, plan);
    TRY(g->api, cudnnBackendGetAttribute, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
        CUDNN_TYPE_INT64, 1, &ignored, &p->workspace);
    p->plan = plan;
    return TL_OK;
}

/* How far the search has come, and the quickest plan so far. */
typedef struct search {
    const tli_dnn_target *target;
    const tli_dnn_taste *taste;
    int64_t number; /* of the candidate */
    int64_t begun;  /* when the first one was there; 0: not yet */
    int vain;       /* so many in a row were no quicker than the best */
    bool done;
    double best_ns;
    tli_dnn_plan best; /* without its graph; plan NULL: none */
} search;

static tl_status try_candidate(tli_dnn_plan *p, search *s, tli_dnn_node candidate)
{
    const char *wanted = s->taste->choice;
    unsigned notes;
    TL_TRY(look_at(&p->graph, candidate, &p->engine, &notes));
    snprintf(p->choice, sizeof p->choice, "plan %" PRId64 " engine %" PRId64, s->number, p->engine);
    if (wanted && strcmp(wanted, p->choice) != 0)
        return TL_FAIL(TL_EUNSUPPORTED, "cuDNN does not propose '%s', which was chosen", wanted);
    if (notes & s->taste->refused)
        return TL_FAIL(TL_EUNSUPPORTED, "cuDNN has no plan that repeats its bits");
    TL_TRY(build(p, s->target, candidate));
    if (p->workspace > s->taste->most)
        return TL_FAIL(TL_EUNSUPPORTED, "cuDNN has no plan with less workspace");
    return TL_OK;
}

/* What has been built is compared with the best; it is all that is wanted unless plans are
 * measured. */
static tl_status compare(const tli_dnn_plan *p, search *s)
{
    double ns = 0;
    s->done = !s->taste->measure || s->taste->choice;
    if (!s->done)
        TL_TRY(s->taste->measure(s->taste->self, p, s->best.plan ? s->best_ns : (double)INFINITY,
                                 &ns));
    s->vain++;
    if (!s->best.plan || ns < s->best_ns) {
        s->best = *p;
        s->best_ns = ns;
        s->vain = 0;
    }
    if (!s->begun) s->begun = tl_clock_ns();
    s->done |= tl_clock_ns() - s->begun > patience_ns || tli_race_is_in_vain(s->vain);
    return TL_OK;
}

/* Candidates of one mode; where none will do, what the last of them lacked is the error, or what it
 * was before (st). One that cannot be run is passed over. */
static tl_status try_mode(tli_dnn_plan *p, search *s, tli_dnn_node whole, int mode, tl_status st)
{
    tli_dnn_node candidates[CANDIDATES];
    const int64_t count = propose(&p->graph, s->target, whole, mode, candidates);
    for (int64_t i = 0; i < count && p->graph.status == TL_OK && !s->done; i++, s->number++) {
        st = try_candidate(p, s, candidates[i]);
        if (st == TL_OK) st = compare(p, s);
        if (st != TL_OK && st != TL_EUNSUPPORTED && st != TL_EIO) return st;
    }
    TL_TRY(p->graph.status);
    return s->best.plan ? TL_OK : st;
}

static tl_status choose(tli_dnn_plan *p, const tli_dnn_target *target, const tli_dnn_taste *taste)
{
    static const int modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    search s = {.target = target, .taste = taste};
    tli_dnn_node whole = whole_of(&p->graph, target);
    TL_TRY(p->graph.status);
    tl_status st = TL_FAIL(TL_EUNSUPPORTED, "cuDNN proposes nothing for this graph");
    for (int m = 0; m < TL_COUNT(modes) && !s.best.plan; m++) {
        s.number = m * CANDIDATES;
        st = try_mode(p, &s, whole, modes[m], st);
        TL_TRY(p->graph.status);
        if (st != TL_OK && st != TL_EUNSUPPORTED && st != TL_EIO) return st;
    }
    TL_TRY(st);
    s.best.graph = p->graph;
    *p = s.best;
    return TL_OK;
}

tl_status tli_dnn_plan_new(tli_dnn_plan **out, tli_dnn_graph *g, const tli_dnn_target *target,
                           const tli_dnn_taste *taste)
{
    tli_dnn_plan *p = tl_alloc_zero(sizeof *p);
    *out = p;
    if (!p) {
        tli_dnn_deinit(g);
        return TL_FAIL_NOMEM(sizeof *p);
    }
    p->graph = *g;
    tl_status st = p->graph.status == TL_OK ? choose(p, target, taste) : p->graph.status;
    if (st != TL_OK) tli_dnn_plan_free(out);
    else tl_error_clear();
    return st;
}

void tli_dnn_plan_free(tli_dnn_plan **plan)
{
    if (!*plan) return;
    tli_dnn_deinit(&(*plan)->graph);
    tl_free(*plan);
    *plan = NULL;
}

/* --- running ---------------------------------------------------------------------------------- */

static tl_status fill_pack(const tli_cuda_api *api, tli_dnn_node pack, int64_t count,
                           const tli_dnn_place *places, void *workspace)
{
    int64_t numbers[TLI_DNN_PLACES];
    const void *addresses[TLI_DNN_PLACES];
    TL_ASSERT(count <= TLI_DNN_PLACES);
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = places[i].number;
        addresses[i] = places[i].at;
    }
    TRY_RUN(api, cudnnBackendSetAttribute, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
            CUDNN_TYPE_INT64, count, numbers);
    TRY_RUN(api, cudnnBackendSetAttribute, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
            CUDNN_TYPE_VOID_PTR, count, addresses);
    TRY_RUN(api, cudnnBackendSetAttribute, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
            CUDNN_TYPE_VOID_PTR, 1, &workspace);
    TRY_RUN(api, cudnnBackendFinalize, pack);
    return TL_OK;
}

tl_status tli_dnn_run(const tli_dnn_plan *p, cudnnHandle_t handle, int64_t count,
                      const tli_dnn_place *places, void *workspace)
{
    const tli_cuda_api *api = p->graph.api;
    tli_dnn_node pack;
    TRY_RUN(api, cudnnBackendCreateDescriptor, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    tl_status st = fill_pack(api, pack, count, places, workspace);
    if (st == TL_OK)
        st = check_as(TL_EIO, api, api->cudnnBackendExecute(handle, p->plan, pack),
                      "cudnnBackendExecute");
    (void)api->cudnnBackendDestroyDescriptor(pack);
    return st;
}

tl_status tli_dnn_handle(tli_cuda *d, cudnnHandle_t *out, CUstream stream)
{
    const tli_cuda_api *api;
    TL_TRY(tli_cuda_dnn(&api));
    tli_cuda_handles_join(d);
    if (!d->dnn) TRY_RUN(api, cudnnCreate, &d->dnn);
    TRY_RUN(api, cudnnSetStream, d->dnn, stream);
    *out = d->dnn;
    return TL_OK;
}

tl_status tli_dnn_describe(tli_dnn_graph *g, tli_dnn_target *out, const char *json)
{
    *out = (tli_dnn_target){.properties = make(g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)};
    set(g, out->properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
        (int64_t)strlen(json) + 1, json);
    finish(g, out->properties, "a GPU's properties");
    return g->status;
}
