#include "cuda/attend.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/integer.h>
#include <tilth/core/attrs.h>

#include "core/inner/engine.h"
#include "cuda/dnn_plans.h"
#include "cuda/kernels.h"

enum { KEY = 512, ROOM = 256, UNIT = 8 /* elements that cuDNN reads at once */ };
static const double least_measured = 1e10; /* multiply-adds */

/* --- what a call computes --------------------------------------------------------------------- */

static bool is_gradient(const tl_node *call)
{
    return call->op->op == TL_OP_attend_grad;
}

// q, k, v: where they stand among the inputs.
static int first_of(const tl_node *call)
{
    return is_gradient(call) ? 1 : 0;
}

static void set_row_major(int64_t strides[TLI_DNN_RANK], const tl_tensor *t)
{
    int64_t stride = 1;
    for (int i = TLI_DNN_RANK - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= t->shape.dims[i];
    }
}

tli_attend tli_attend_of(const tl_node *call)
{
    const tl_attend_attr *attr = call->attr;
    const int first = first_of(call);
    const tl_tensor *q = call->in[first], *k = call->in[first + 1], *v = call->in[first + 2];
    const tl_tensor *y = is_gradient(call) ? call->in[4] : call->out[0];
    tli_attend a = {
        .dtype = q->dtype,
        .gradient = is_gradient(call),
        .causal = attr->causal,
        .joined = attr->joined,
        .batch = q->shape.dims[0],
        .queries = q->shape.dims[1],
        .keys = k->shape.dims[1],
        .heads = q->shape.dims[2],
        .key_heads = k->shape.dims[2],
        .width = q->shape.dims[3],
        .value_width = v->shape.dims[3],
    };
    set_row_major(a.q, q);
    set_row_major(a.k, k);
    set_row_major(a.v, v);
    set_row_major(a.y, y);
    set_row_major(a.gy, y);
    return a;
}

/* What the pattern has no place for, or cuDNN no kernels. Its dropout would draw other numbers. */
static bool is_plain(const tl_node *call, const tli_attend *a)
{
    const tl_attend_attr *attr = call->attr;
    if (a->dtype != TL_BF16 && a->dtype != TL_F16) return false;
    if (attr->masked || attr->biased || attr->rate > 0) return false;
    if (attr->causal && a->queries != a->keys) return false; // it counts from the first key on
    return a->width % UNIT == 0 && a->value_width % UNIT == 0;
}

/* --- plans ------------------------------------------------------------------------------------ */

static int add_strides(char *key, size_t room, const int64_t strides[TLI_DNN_RANK])
{
    return snprintf(key, room, ", %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, strides[0],
                    strides[1], strides[2], strides[3]);
}

/* The first plan for a gradient is far before the others; those for attention itself are measured
 * where it takes a while. */
static void want_measured(tli_dnn_wanted *w, const tli_attend *a, const float *scale,
                          const float *least)
{
    const int64_t size = (int64_t)tl_dtype_size(a->dtype);
    const double terms = (double)a->batch * (double)a->heads * (double)a->queries * (double)a->keys
                         * (double)(a->width + a->value_width);
    if (a->gradient || terms < least_measured) return;
    w->bytes[TLI_ATTEND_Q - 1] = a->batch * a->q[0] * size;
    w->bytes[TLI_ATTEND_K - 1] = a->batch * a->k[0] * size;
    w->bytes[TLI_ATTEND_V - 1] = a->batch * a->v[0] * size;
    w->bytes[TLI_ATTEND_Y - 1] = a->batch * a->queries * a->heads * a->value_width * size;
    w->bytes[TLI_ATTEND_SUMS - 1] = a->batch * a->queries * a->heads * (int64_t)sizeof(float);
    w->count = TLI_ATTEND_SUMS;
    w->numbers[w->number_count++] = (tli_dnn_place){TLI_ATTEND_SCALE, scale};
    if (a->causal) w->numbers[w->number_count++] = (tli_dnn_place){TLI_ATTEND_LEAST, least};
}

static tl_status find(tli_cuda *d, const tli_dnn_plan **out, const tli_attend *a)
{
    char key[KEY];
    const float scale = 0.125f, least = -FLT_MAX;
    const int64_t *const strides[] = {a->q, a->k, a->v, a->y, a->gy};
    tli_dnn_wanted wanted = {.key = key,
                             .draw = tli_attend_draw,
                             .what = a,
                             .refused = TLI_DNN_REFUSED,
                             .most = INT64_MAX};
    want_measured(&wanted, a, &scale, &least);
    int used = snprintf(key, sizeof key,
                        "attend %s %d%d%d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
                        " %" PRId64 " %" PRId64,
                        tl_dtype_name(a->dtype), a->gradient, a->causal, a->joined, a->batch,
                        a->queries, a->keys, a->heads, a->key_heads, a->width, a->value_width);
    for (int i = 0; i < TL_COUNT(strides); i++) {
        used += add_strides(key + used, sizeof key - (size_t)used, strides[i]);
        TL_ASSERT(used < KEY);
    }
    return tli_dnn_find(d, out, &wanted);
}

bool tli_cuda_attend_takes(const tl_engine *engine, const tl_node *call)
{
    const tli_attend a = tli_attend_of(call);
    (void)engine;
    return a.batch && a.queries && a.keys && a.heads && a.value_width
           && a.heads * a.queries <= INT32_MAX;
}

/* --- running ---------------------------------------------------------------------------------- */

/* A tensor that a call reads: where cuDNN finds it. */
typedef struct source {
    const tl_tensor *t;
    int64_t number;
    int64_t *strides; /* of the attention */
    size_t copy;      /* offset in scratch, where it lies in a way that cuDNN does not take */
    bool copied;
} source;

static bool is_taken(const tl_tensor *t)
{
    bool taken = (uintptr_t)tli_data(t) % TLI_DNN_ALIGNMENT == 0 && t->strides[3] == 1;
    for (int i = 0; i < 3; i++) taken = taken && t->strides[i] > 0 && t->strides[i] % UNIT == 0;
    return taken;
}

static size_t reserve(size_t *used, size_t bytes)
{
    const size_t at = *used;
    *used += tl_round_up_size(bytes, ROOM);
    return at;
}

/* An attention on its way through cuDNN. */
typedef struct passage {
    const tl_run *run;
    const tl_node *call;
    tli_attend a;
    source sources[5];
    int source_count;
    const tli_dnn_plan *plan;
    char *scratch;
} passage;

static void add_source(passage *p, const tl_tensor *t, int64_t number, int64_t *strides)
{
    source *s = &p->sources[p->source_count++];
    *s = (source){.t = t, .number = number, .strides = strides, .copied = !is_taken(t)};
    if (!s->copied) memcpy(strides, t->strides, TLI_DNN_RANK * sizeof *strides);
}

static void look_at_sources(passage *p)
{
    tl_tensor *const *in = p->call->in + first_of(p->call);
    add_source(p, in[0], TLI_ATTEND_Q, p->a.q);
    add_source(p, in[1], TLI_ATTEND_K, p->a.k);
    add_source(p, in[2], TLI_ATTEND_V, p->a.v);
    if (!p->a.gradient) return;
    add_source(p, p->call->in[4], TLI_ATTEND_Y, p->a.y);
    add_source(p, p->call->in[0], TLI_ATTEND_GY, p->a.gy);
}

// The plan's workspace comes first.
static tl_status lay_out(passage *p, size_t *sums, size_t *dots)
{
    const size_t rows = (size_t)(p->a.batch * p->a.heads * p->a.queries) * sizeof(float);
    size_t used = 0;
    void *at;
    (void)reserve(&used, (size_t)p->plan->workspace);
    for (int i = 0; i < p->source_count; i++)
        if (p->sources[i].copied)
            p->sources[i].copy = reserve(&used, tl_tensor_bytes(p->sources[i].t));
    *sums = reserve(&used, p->a.gradient ? rows : 0);
    *dots = reserve(&used, p->a.gradient ? rows : 0);
    TL_TRY(tli_cuda_scratch(p->run, &at, used));
    p->scratch = at;
    return TL_OK;
}

static tl_status run_plan(const passage *p, const void *sums, const void *dots)
{
    const tl_attend_attr *attr = p->call->attr;
    tli_cuda *d = tli_cuda_of(p->run->queue->device);
    const float scale = (float)attr->scale, least = -FLT_MAX, one = 1;
    tli_dnn_place places[TLI_DNN_PLACES];
    int count = 0;
    cudnnHandle_t handle;
    for (int i = 0; i < p->source_count; i++)
        places[count++] = (tli_dnn_place){p->sources[i].number,
                                          p->sources[i].copied ? p->scratch + p->sources[i].copy
                                                               : tli_data(p->sources[i].t)};
    places[count++] = (tli_dnn_place){TLI_ATTEND_SCALE, &scale};
    places[count++] = (tli_dnn_place){TLI_ATTEND_SUMS, sums};
    if (p->a.causal) places[count++] = (tli_dnn_place){TLI_ATTEND_LEAST, &least};
    if (p->a.gradient) {
        places[count++] = (tli_dnn_place){TLI_ATTEND_ONE, &one};
        places[count++] = (tli_dnn_place){TLI_ATTEND_DOTS, dots};
        places[count++] = (tli_dnn_place){TLI_ATTEND_GQ, tli_attend_grad_at(p->call, &p->a, 0)};
        places[count++] = (tli_dnn_place){TLI_ATTEND_GK, tli_attend_grad_at(p->call, &p->a, 1)};
        places[count++] = (tli_dnn_place){TLI_ATTEND_GV, tli_attend_grad_at(p->call, &p->a, 2)};
    } else places[count++] = (tli_dnn_place){TLI_ATTEND_Y, tli_data(p->call->out[0])};
    TL_TRY(tli_dnn_handle(d, &handle, tli_cuda_queue_of(p->run->queue)->stream));
    return tli_dnn_run(p->plan, handle, count, places, p->scratch);
}

/* The kernels of ours that stand before a plan, which is not looked for yet. */
static tl_status foresee(const passage *p)
{
    void *to;
    TL_TRY(tli_cuda_scratch(p->run, &to, 0));
    for (int i = 0; i < p->source_count; i++)
        if (p->sources[i].copied) TL_TRY(tli_cuda_gather(p->run, p->sources[i].t, to));
    return TL_OK;
}

static tl_status pass(passage *p)
{
    size_t sums_at, dots_at;
    if (tli_cuda_foresees(p->run->queue) && is_plain(p->call, &p->a)) return foresee(p);
    if (is_plain(p->call, &p->a)) TL_TRY(find(tli_cuda_of(p->run->queue->device), &p->plan, &p->a));
    if (!p->plan) return tli_attend_in_parts(p->run, p->call);
    TL_TRY(lay_out(p, &sums_at, &dots_at));
    for (int i = 0; i < p->source_count; i++)
        if (p->sources[i].copied)
            TL_TRY(tli_cuda_gather(p->run, p->sources[i].t, p->scratch + p->sources[i].copy));
    const void *sums = p->a.gradient ? tli_data(p->call->in[5]) : tli_data(p->call->out[1]);
    if (p->a.gradient && !p->call->in[5]->contiguous) {
        TL_TRY(tli_cuda_gather(p->run, p->call->in[5], p->scratch + sums_at));
        sums = p->scratch + sums_at;
    }
    return run_plan(p, sums, p->scratch + dots_at);
}

static tl_status attend(const tl_run *run, const tl_node *call)
{
    tli_cuda *d = tli_cuda_of(run->queue->device);
    passage p = {.run = run, .call = call, .a = tli_attend_of(call)};
    TL_TRY(tli_cuda_enter(d));
    look_at_sources(&p);
    tl_status st = pass(&p);
    if (st == TL_OK) (void)tli_cuda_issue(run->queue);
    return st;
}

enum { FLAGS = TL_KERNEL_STRIDED | TL_KERNEL_JOINED };
#define ROWS(op)                                                                                   \
    {op, TL_F32, attend, FLAGS}, {op, TL_BF16, attend, FLAGS}, {op, TL_F16, attend, FLAGS},        \
    {                                                                                              \
        op, TL_F64, attend, FLAGS                                                                  \
    }
static const tl_kernel rows[] = {ROWS(TL_OP_attend), ROWS(TL_OP_attend_grad)};
const tl_kernels tli_cuda_attend_kernels = {rows, TL_COUNT(rows)};
