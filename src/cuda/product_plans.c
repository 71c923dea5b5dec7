/* Plans of products: what cuBLASLt needs to know about one, and which of its algorithms computes
 * it. What its heuristics likes best is often not the fastest: large products are measured once,
 * when they are first computed, and the choice is kept (choices.h). */
#include "cuda/products.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>

#include "cuda/device.h"
#include "cuda/race.h"

enum {
    MOST_WORKSPACE = 64 << 20,
    MOST_ALIGNED = 256, /* bytes: more is of no use to cuBLASLt */
    ROUNDS = 3,         /* of those that are near each other */
    TIMES = 3,          /* that each is run in a round */
    ROUNDS_OF_LARGE = 2,
    /* Multiply-adds from which on measuring pays: it takes some milliseconds */
    LEAST_MEASURED = 1 << 23
};

/* Multiply-adds of a product that is run once in a round: it takes a quarter of a millisecond, and
 * clocks of the device tell thousandths. */
#define MANY_TERMS 0x1p36

/* What is found out once about a product: descriptions and the algorithm. */
struct tli_cuda_plan {
    tli_cuda_product what;
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
};

static tl_status check(const tli_cuda_api *api, cublasStatus_t status, const char *call)
{
    if (status == CUBLAS_STATUS_SUCCESS) return TL_OK;
    return TL_FAIL(TL_EIO, "cuBLASLt: %s: %s", call, api->cublasLtGetStatusName(status));
}
#define TRY(api, call, ...) TL_TRY(check((api), (api)->call(__VA_ARGS__), #call))

/* --- descriptions ----------------------------------------------------------------------------- */

static int type_of(tl_dtype dtype)
{
    switch (dtype) {
    case TL_BF16: return CUDA_R_16BF;
    case TL_F16: return CUDA_R_16F;
    case TL_F64: return CUDA_R_64F;
    default: return CUDA_R_32F;
    }
}

static tl_status describe_matrix(const tli_cuda_api *api, cublasLtMatrixLayout_t *out,
                                 const tli_cuda_product *p, tl_dtype dtype, int64_t rows,
                                 int64_t columns, int64_t step)
{
    const int32_t batch = (int32_t)p->batch;
    TRY(api, cublasLtMatrixLayoutCreate, out, type_of(dtype), (uint64_t)rows, (uint64_t)columns,
        rows);
    if (batch == 1) return TL_OK;
    TRY(api, cublasLtMatrixLayoutSetAttribute, *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
        sizeof batch);
    TRY(api, cublasLtMatrixLayoutSetAttribute, *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
        &step, sizeof step);
    return TL_OK;
}

/* What follows the sum; its GELU is that of tanh. */
static int32_t epilogue_of(const tli_cuda_product *w)
{
    const bool gelu = w->activation == TL_ACT_GELU_TANH;
    TL_ASSERT((gelu || !w->keep_sum) && (w->activation == TL_ACT_NONE || !w->gelu_grad));
    if (w->gelu_grad) return CUBLASLT_EPILOGUE_DGELU;
    if (gelu && w->keep_sum)
        return w->bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    if (gelu) return w->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    if (w->activation == TL_ACT_RELU)
        return w->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return w->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* cuBLAS counts by columns: a row-major matrix is its own transpose there. So the product is that
 * of b and a, in this order. */
static tl_status describe(const tli_cuda_api *api, tli_cuda_plan *p)
{
    const tli_cuda_product *w = &p->what;
    const int32_t transposed = CUBLAS_OP_T, epilogue = epilogue_of(w);
    const int64_t row = w->n;
    const bool is_double = w->dtype == TL_F64;
    TRY(api, cublasLtMatmulDescCreate, &p->description,
        is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, is_double ? CUDA_R_64F : CUDA_R_32F);
    if (w->transpose_b)
        TRY(api, cublasLtMatmulDescSetAttribute, p->description, CUBLASLT_MATMUL_DESC_TRANSA,
            &transposed, sizeof transposed);
    if (w->transpose_a)
        TRY(api, cublasLtMatmulDescSetAttribute, p->description, CUBLASLT_MATMUL_DESC_TRANSB,
            &transposed, sizeof transposed);
    TRY(api, cublasLtMatmulDescSetAttribute, p->description, CUBLASLT_MATMUL_DESC_EPILOGUE,
        &epilogue, sizeof epilogue);
    if (w->keep_sum || w->gelu_grad)
        TRY(api, cublasLtMatmulDescSetAttribute, p->description,
            CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &row, sizeof row);
    const tl_dtype result = w->wide && !is_double ? TL_F32 : w->dtype;
    TL_TRY(describe_matrix(api, &p->a, w, w->dtype, w->transpose_a ? w->m : w->k,
                           w->transpose_a ? w->k : w->m, w->a_step));
    TL_TRY(describe_matrix(api, &p->b, w, w->dtype, w->transpose_b ? w->k : w->n,
                           w->transpose_b ? w->n : w->k, w->b_step));
    return describe_matrix(api, &p->c, w, result, w->n, w->m, w->m * w->n);
}

/* --- candidates ------------------------------------------------------------------------------- */

typedef struct candidates {
    cublasLtMatmulHeuristicResult_t items[TLI_RACE_MOST];
    int count;
} candidates;

/* What is promised of the addresses. */
static tl_status set_alignments(const tli_cuda_api *api, cublasLtMatmulPreference_t preference,
                                const tli_cuda_product *w)
{
    const uint32_t a = (uint32_t)w->aligned.a, b = (uint32_t)w->aligned.b,
                   c = (uint32_t)w->aligned.c;
    TRY(api, cublasLtMatmulPreferenceSetAttribute, preference,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &b, sizeof b);
    TRY(api, cublasLtMatmulPreferenceSetAttribute, preference,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &a, sizeof a);
    TRY(api, cublasLtMatmulPreferenceSetAttribute, preference,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c);
    TRY(api, cublasLtMatmulPreferenceSetAttribute, preference,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c);
    return TL_OK;
}

/* Sums of parts are only added up in float32, in one order: the same bits each time. */
static tl_status ask(const tli_cuda_api *api, cublasLtHandle_t handle, const tli_cuda_plan *p,
                     cublasLtMatmulPreference_t preference, candidates *out)
{
    const uint64_t most = MOST_WORKSPACE;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    TRY(api, cublasLtMatmulPreferenceSetAttribute, preference,
        CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    TRY(api, cublasLtMatmulPreferenceSetAttribute, preference,
        CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    TL_TRY(set_alignments(api, preference, &p->what));
    const cublasStatus_t st =
        api->cublasLtMatmulAlgoGetHeuristic(handle, p->description, p->b, p->a, p->c, p->c,
                                            preference, TLI_RACE_MOST, out->items, &out->count);
    if (st != CUBLAS_STATUS_SUCCESS) out->count = 0; // it says so where there is none
    if (out->count) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "cuBLASLt has no algorithm for a product of [%" PRId64 ", %" PRId64
                   "] and [%" PRId64 ", %" PRId64 "] in %s: %s",
                   p->what.m, p->what.k, p->what.k, p->what.n, tl_dtype_name(p->what.dtype),
                   api->cublasLtGetStatusName(st));
}

static tl_status find_candidates(const tli_cuda_api *api, cublasLtHandle_t handle,
                                 const tli_cuda_plan *p, candidates *out)
{
    cublasLtMatmulPreference_t preference;
    out->count = 0;
    TRY(api, cublasLtMatmulPreferenceCreate, &preference);
    const tl_status st = ask(api, handle, p, preference, out);
    (void)api->cublasLtMatmulPreferenceDestroy(preference);
    return st;
}

static double terms_of(const tli_cuda_product *w)
{
    return (double)w->batch * (double)w->m * (double)w->n * (double)w->k;
}

static void take(tli_cuda_plan *p, const cublasLtMatmulHeuristicResult_t *found)
{
    p->algorithm = found->algo;
    p->workspace = found->workspaceSize;
}

/* --- running ---------------------------------------------------------------------------------- */

static tl_status set_operands(const tli_cuda_api *api, const tli_cuda_plan *p,
                              const tli_cuda_operands *o)
{
    if (p->what.bias)
        TRY(api, cublasLtMatmulDescSetAttribute, p->description, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
            &o->bias, sizeof o->bias);
    if (p->what.keep_sum || p->what.gelu_grad)
        TRY(api, cublasLtMatmulDescSetAttribute, p->description,
            CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &o->sum, sizeof o->sum);
    return TL_OK;
}

static tl_status launch(const tl_run *run, const tli_cuda_plan *p, const tli_cuda_operands *o)
{
    static const float one = 1, zero = 0;
    static const double one_d = 1, zero_d = 0;
    const bool is_double = p->what.dtype == TL_F64;
    const tli_cuda *d = tli_cuda_of(run->queue->device);
    tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
    if (p->workspace) TL_TRY(tli_cuda_make_room(run, &q->workspace, p->workspace));
    TRY(d->api, cublasLtMatmul, d->products, p->description,
        is_double ? (const void *)&one_d : &one, o->b, p->b, o->a, p->a,
        p->what.added ? (const void *)&one
        : is_double   ? (const void *)&zero_d
                      : &zero,
        p->what.added ? o->added : o->c, p->c, o->c, p->c, &p->algorithm,
        (void *)(uintptr_t)q->workspace.at, p->workspace, q->stream);
    return TL_OK;
}

/* --- measuring -------------------------------------------------------------------------------- */

/* A product that its candidates compute in turn. */
typedef struct contest {
    const tl_run *run;
    tli_cuda_plan *plan;
    const tli_cuda_operands *operands;
    const candidates *all;
    CUevent from, to;
    bool loaded[TLI_RACE_MOST]; /* code of a candidate, by its first run */
} contest;

static bool is_large(const tli_cuda_product *w)
{
    return terms_of(w) >= MANY_TERMS;
}

static tl_status time_one(void *self, int number, float *ms)
{
    contest *c = self;
    const tli_cuda_api *api = tli_cuda_of(c->run->queue->device)->api;
    const CUstream stream = tli_cuda_queue_of(c->run->queue)->stream;
    const int times = is_large(&c->plan->what) ? 1 : TIMES;
    take(c->plan, &c->all->items[number]);
    if (!c->loaded[number]) TL_TRY(launch(c->run, c->plan, c->operands));
    c->loaded[number] = true;
    TLI_CUDA_TRY(api, cuEventRecord, c->from, stream);
    for (int i = 0; i < times; i++) TL_TRY(launch(c->run, c->plan, c->operands));
    TLI_CUDA_TRY(api, cuEventRecord, c->to, stream);
    TLI_CUDA_TRY(api, cuEventSynchronize, c->to);
    TLI_CUDA_TRY(api, cuEventElapsedTime, ms, c->from, c->to);
    return TL_OK;
}

/* The fastest of them, computing what is asked for. The others may have wanted more room, which
 * stays where lists know it. */
static tl_status choose_fastest(const tl_run *run, tli_cuda_plan *p, const tli_cuda_operands *o,
                                const candidates *all)
{
    const tli_cuda *d = tli_cuda_of(run->queue->device);
    tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
    contest c = {.run = run, .plan = p, .operands = o, .all = all};
    tl_status st =
        tli_cuda_check(d->api->cuEventCreate(&c.from, CU_EVENT_DEFAULT), "cuEventCreate");
    if (st == TL_OK)
        st = tli_cuda_check(d->api->cuEventCreate(&c.to, CU_EVENT_DEFAULT), "cuEventCreate");
    const tli_race race = {.count = all->count,
                           .rounds = is_large(&p->what) ? ROUNDS_OF_LARGE : ROUNDS,
                           .time = time_one,
                           .self = &c};
    if (st == TL_OK) take(p, &all->items[tli_race_run(&race)]);
    if (c.from) (void)d->api->cuEventDestroy_v2(c.from);
    if (c.to) (void)d->api->cuEventDestroy_v2(c.to);
    return st == TL_OK && !q->workspace.listed ? tli_cuda_drop_room(q, &q->workspace) : st;
}

static bool is_measured(const tli_cuda_queue *q, const tli_cuda_product *w)
{
    return !q->listing && terms_of(w) >= LEAST_MEASURED;
}

/* --- choices ---------------------------------------------------------------------------------- */

/* "bytes of workspace, algorithm", in hexadecimal. */
static void print_choice(char out[TLI_CHOICE], const tli_cuda_plan *p)
{
    const unsigned char *bytes = (const unsigned char *)&p->algorithm;
    int at = snprintf(out, TLI_CHOICE, "%zx ", p->workspace);
    for (size_t i = 0; i < sizeof p->algorithm; i++, at += 2)
        snprintf(out + at, (size_t)(TLI_CHOICE - at), "%02x", bytes[i]);
}

/* False where the text is none, or not for this product. */
static bool read_choice(const tli_cuda *d, tli_cuda_plan *p, const char *text)
{
    cublasLtMatmulHeuristicResult_t found;
    unsigned char *bytes = (unsigned char *)&p->algorithm;
    int at = 0;
    if (sscanf(text, "%zx %n", &p->workspace, &at) != 1 || p->workspace > MOST_WORKSPACE
        || strlen(text + at) != 2 * sizeof p->algorithm)
        return false;
    for (size_t i = 0; i < sizeof p->algorithm; i++) {
        unsigned byte;
        if (sscanf(text + at + 2 * i, "%2x", &byte) != 1) return false;
        bytes[i] = (unsigned char)byte;
    }
    return d->api->cublasLtMatmulAlgoCheck(d->products, p->description, p->b, p->a, p->c, p->c,
                                           &p->algorithm, &found)
               == CUBLAS_STATUS_SUCCESS
           && found.workspaceSize <= p->workspace;
}

static tl_status choose(const tl_run *run, tli_cuda_plan *p, const char *key,
                        const tli_cuda_operands *o)
{
    tli_cuda *d = tli_cuda_of(run->queue->device);
    candidates all;
    char choice[TLI_CHOICE];
    TL_TRY(tli_choice_find(&d->choices, key, choice));
    if (choice[0] && read_choice(d, p, choice)) return TL_OK;
    if (choice[0])
        TL_LOG_WARNING("cuBLASLt does not take the algorithm that was chosen for '%s'; another one "
                       "is taken, and results will differ in their last bits",
                       key);
    TL_TRY(find_candidates(d->api, d->products, p, &all));
    take(p, &all.items[0]);
    if (!is_measured(tli_cuda_queue_of(run->queue), &p->what)) return TL_OK;
    if (all.count > 1) {
        TL_TRY(set_operands(d->api, p, o));
        TL_TRY(choose_fastest(run, p, o, &all));
    }
    print_choice(choice, p);
    return tli_choice_note(&d->choices, key, choice);
}

/* --- plans are kept --------------------------------------------------------------------------- */

static void free_plan(const tli_cuda_api *api, tli_cuda_plan *p)
{
    if (!p) return;
    if (p->description) (void)api->cublasLtMatmulDescDestroy(p->description);
    cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c};
    for (int i = 0; i < 3; i++)
        if (layouts[i]) (void)api->cublasLtMatrixLayoutDestroy(layouts[i]);
    tl_free(p);
}

static void free_plans(tli_cuda *d)
{
    for (int64_t i = 0; i < tl_map_count(&d->plans); i++)
        free_plan(d->api, tl_map_at(&d->plans, i));
    tl_map_deinit(&d->plans);
}

void tli_cuda_products_forget(tli_cuda *d)
{
    pthread_mutex_lock(&d->lock);
    free_plans(d);
    d->plans = (tl_map)TL_MAP_INIT;
    pthread_mutex_unlock(&d->lock);
}

void tli_cuda_products_deinit(tli_cuda *d)
{
    free_plans(d);
    if (d->products) (void)d->api->cublasLtDestroy(d->products);
    d->products = NULL;
}

static tl_status new_plan(const tl_run *run, tli_cuda_plan **out, const char *key,
                          const tli_cuda_product *what, const tli_cuda_operands *o)
{
    tli_cuda *d = tli_cuda_of(run->queue->device);
    const tli_cuda_api *api;
    *out = NULL;
    TL_TRY(tli_cuda_products(&api));
    tli_cuda_handles_join(d);
    if (!d->products) TRY(api, cublasLtCreate, &d->products);
    tli_cuda_plan *p = tl_alloc_zero(sizeof *p);
    if (!p) return TL_FAIL_NOMEM(sizeof *p);
    p->what = *what;
    tl_status st = describe(api, p);
    if (st == TL_OK) st = choose(run, p, key, o);
    if (st != TL_OK) free_plan(api, p);
    else *out = p;
    return st;
}

static tl_status find_plan(const tl_run *run, tli_cuda_plan **out, const tli_cuda_product *w,
                           const tli_cuda_operands *o)
{
    tli_cuda *d = tli_cuda_of(run->queue->device);
    char key[224];
    snprintf(key, sizeof key,
             "product %s %" PRId64 " %" PRId64 " %" PRId64 " %d%d%d%d%d%d %d %" PRId64 " %" PRId64
             " %" PRId64,
             tl_dtype_name(w->dtype), w->m, w->n, w->k, w->transpose_a, w->transpose_b, w->bias,
             w->wide, w->keep_sum, w->added, (int)w->activation, w->batch, w->a_step, w->b_step);
    if (w->gelu_grad) snprintf(key + strlen(key), sizeof key - strlen(key), " gelu_grad");
    if (w->aligned.a < MOST_ALIGNED || w->aligned.b < MOST_ALIGNED || w->aligned.c < MOST_ALIGNED)
        snprintf(key + strlen(key), sizeof key - strlen(key), " at %d %d %d", w->aligned.a,
                 w->aligned.b, w->aligned.c);
    if ((*out = tl_map_get(&d->plans, key))) return TL_OK;
    TL_TRY(new_plan(run, out, key, w, o));
    tl_status st = tl_map_set(&d->plans, key, *out);
    if (st != TL_OK) free_plan(d->api, *out);
    return st;
}

/* Both begin at a multiple of so many bytes. */
static int aligned(const void *a, const void *b)
{
    int bytes = MOST_ALIGNED;
    while (((uintptr_t)a | (uintptr_t)b) % (uintptr_t)bytes) bytes /= 2;
    return bytes;
}

/* Nothing can be said of a bias and a sum that is kept, which are read and written as the result
 * is: where they lie too oddly for vectors, it is said of the result. */
static int result_aligned(const tli_cuda_operands *o)
{
    enum { VECTOR = 16 };
    const int result = aligned(o->c, o->added), beside = aligned(o->bias, o->sum);
    return beside < VECTOR && beside < result ? beside : result;
}

tl_status tli_cuda_multiply_into(const tl_run *run, const tli_cuda_product *given,
                                 const tli_cuda_operands *o)
{
    tli_cuda_product with = *given;
    const tli_cuda_product *what = &with;
    with.aligned.a = aligned(o->a, NULL);
    with.aligned.b = aligned(o->b, NULL);
    with.aligned.c = result_aligned(o);
    tli_cuda *d = tli_cuda_of(run->queue->device);
    tli_cuda_plan *plan;
    TL_ASSERT(what->bias == (o->bias != NULL)
              && (what->keep_sum || what->gelu_grad) == (o->sum != NULL));
    TL_ASSERT(what->m && what->n && what->k && what->added == (o->added != NULL));
    TL_ASSERT(what->masked == (o->mask != NULL) && (!what->masked || tli_cuda_is_small(what)));
    if (tli_cuda_is_small(what)) return tli_cuda_multiply_small(run, what, o);
    if (tli_cuda_foresees(run->queue)) return TL_OK;
    TL_TRY(tli_cuda_enter(d));
    pthread_mutex_lock(&d->lock); // a plan's operands are part of its description
    tl_status st = find_plan(run, &plan, what, o);
    if (st == TL_OK) st = set_operands(d->api, plan, o);
    if (st == TL_OK) st = launch(run, plan, o);
    pthread_mutex_unlock(&d->lock);
    if (st == TL_OK) (void)tli_cuda_issue(run->queue);
    return st;
}
