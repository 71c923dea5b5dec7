/* Kernels of texts: how they are printed, compiled, started, and what they share. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/vec.h>
#include <tilth/sys/nest/gpu.h>

#include "cuda/compile.h"
#include "cuda/kernels.h"
#include "cuda/lanes.h"
#include "cuda/whole.h"

enum {
    WARPS_IN_BLOCK = 4, /* as in nest/kernel.h */
    WIDE = 16,          /* bytes of an access at most */
    LEAST_SCRATCH = 1 << 20,
    OWN_ROOM = 4 << 10,    /* that texts share themselves, at most */
    HOST_ROOM = 227 << 10, /* where tests run texts: as Hopper's */
};

tli_cuda_host *tli_cuda_on_host;

/* --- the text --------------------------------------------------------------------------------- */

void tli_cuda_define(tl_str *to, const char *name, int64_t value)
{
    tl_str_addf(to, "#define %s %" PRId64 "\n", name, value);
}

/* In memory; to float; from float; from double. */
static const char *const words[TL_DTYPE_COUNT][4] = {
    [TL_F32] = {"float", "(x)", "(x)", "((float)(x))"},
    [TL_F64] = {"double", "((float)(x))", "((double)(x))", "(x)"},
    [TL_BF16] = {"u16", "from_bf16(x)", "bf16_bits_of_f(x)", "to_bf16(bf16_of_d(x))"},
    [TL_F16] = {"u16", "from_f16(x)", "f16_bits_of_f(x)", "to_f16(f16_of_d(x))"},
    [TL_I8] = {"i8", "((float)(x))", "((i8)i8_of_f(x))", "((i8)i8_of_d(x))"},
    [TL_I16] = {"i16", "((float)(x))", "((i16)i16_of_f(x))", "((i16)i16_of_d(x))"},
    [TL_I32] = {"i32", "((float)(x))", "i32_of_f(x)", "i32_of_d(x)"},
    [TL_I64] = {"i64", "((float)(x))", "i64_of_f(x)", "i64_of_d(x)"},
    [TL_U8] = {"u8", "((float)(x))", "((u8)u8_of_f(x))", "((u8)u8_of_d(x))"},
    [TL_BOOL] = {"u8", "((float)((x) != 0))", "((u8)((x) != 0))", "((u8)((x) != 0))"},
};

void tli_cuda_define_type(tl_str *to, const char *name, tl_dtype dtype)
{
    const char *const *w = words[dtype];
    tl_str_addf(to,
                "#define %s_T %s\n#define %s_LOAD(x) %s\n#define %s_STORE(x) %s\n"
                "#define %s_OF_D(x) %s\n#define %s_IS_BF16 %d\n",
                name, w[0], name, w[1], name, w[2], name, w[3], name, dtype == TL_BF16);
}

int tli_cuda_define_vector(tl_str *to, size_t size, int64_t width, ...)
{
    int each = (int)(WIDE / size);
    va_list addresses;
    va_start(addresses, width);
    for (const void *at; (at = va_arg(addresses, const void *));)
        if ((uintptr_t)at % WIDE) each = 1;
    va_end(addresses);
    if (width % each) each = 1;
    tli_cuda_define(to, "VEC", each);
    return each;
}

int tli_cuda_define_row(tl_str *to, int64_t width, int vector, int kept)
{
    enum { A_THREAD = 32, MOST = 512 }; // elements of a thread, few enough for its registers
    int threads = 32;
    while (threads < MOST && width > (int64_t)threads * A_THREAD) threads *= threads == 32 ? 4 : 2;
    const int64_t each = tl_max_i64(tl_div_up(width, (int64_t)threads * vector), 1);
    tli_cuda_define(to, "WIDTH", width);
    tli_cuda_define(to, "THREADS", threads);
    tli_cuda_define(to, "EACH", each);
    tli_cuda_define(to, "KEPT", each * vector <= kept);
    return threads;
}

void tli_cuda_define_unit(tl_str *to, size_t bytes)
{
    if (bytes == WIDE)
        tl_str_add(to, "typedef struct __attribute__((aligned(16))) wide { u32 at[4]; } wide;\n"
                       "#define U_T wide\n");
    else tl_str_addf(to, "#define U_T u%zu\n", 8 * bytes);
}

void tli_cuda_print_body(tl_str *out, const tli_cuda_work *w)
{
    tl_str_add(out, tl_str_text(&w->defines));
    tl_str_add(out, tli_text_of_part);
    for (int i = 0; i < (int)TL_COUNT(w->text) && w->text[i]; i++) tl_str_add(out, w->text[i]);
}

void tli_cuda_print(tl_str *out, const tli_cuda_work *w)
{
    tl_gpu_print_head(out);
    tl_str_add(out, tli_text_of_args);
    tli_cuda_print_body(out, w);
}

/* --- starting --------------------------------------------------------------------------------- */

static size_t shared_of(const tli_cuda_work *w)
{
    return w->threads == 32 ? WARPS_IN_BLOCK * w->shared : w->shared;
}

tl_status tli_cuda_give_shared(const tli_cuda *d, CUfunction kernel, size_t bytes)
{
    TLI_CUDA_TRY(d->api, cuFuncSetAttribute, kernel,
                 CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
    return TL_OK;
}

/* NULL where the queue only foresees. */
static tl_status find_kernel(tl_queue *queue, CUfunction *out, const tli_cuda_work *w)
{
    tli_cuda *d = tli_cuda_of(queue->device);
    tl_str key = TL_STR_INIT, text = TL_STR_INIT;
    tl_status st = TL_OK;
    tl_str_addf(&key, "%s %s", w->name, tl_str_text(&w->defines));
    if ((st = tl_str_status(&key)) == TL_OK) {
        pthread_mutex_lock(&d->lock);
        *out = tl_map_get(&d->kernels, tl_str_text(&key));
        const bool ahead = tli_cuda_foresees(queue);
        if (!*out && (!ahead || tli_cuda_asks(queue, tl_str_text(&key)))) {
            tli_cuda_print(&text, w);
            st = tl_str_status(&text);
            if (st == TL_OK && ahead) st = tli_cuda_code_ahead(d->codes, tl_str_text(&text));
            else if (st == TL_OK) st = tli_cuda_load(d, out, tl_str_text(&text), w->name);
            if (st == TL_OK && *out && w->shared) st = tli_cuda_give_shared(d, *out, shared_of(w));
            if (st == TL_OK && *out) st = tl_map_set(&d->kernels, tl_str_text(&key), *out);
        }
        pthread_mutex_unlock(&d->lock);
    }
    tl_str_deinit(&text);
    tl_str_deinit(&key);
    return st;
}

tl_status tli_cuda_launch(tl_queue *queue, CUfunction kernel, int64_t blocks, int threads,
                          size_t shared, void **parameters, bool promise)
{
    const tli_cuda *d = tli_cuda_of(queue->device);
    if (blocks > INT32_MAX)
        return TL_FAIL(TL_ELIMIT, "a kernel of %" PRId64 " blocks is too large for a GPU", blocks);
    CUlaunchAttribute attrs[2];
    unsigned count = 0;
    if (tli_cuda_is_early(d)) {
        attrs[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
        attrs[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    if (promise) {
        attrs[count].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
        attrs[count++].value.cooperative = 1;
    }
    const CUlaunchConfig how = {.gridDimX = (unsigned)blocks,
                                .gridDimY = 1,
                                .gridDimZ = 1,
                                .blockDimX = (unsigned)threads,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .sharedMemBytes = (unsigned)shared,
                                .hStream = tli_cuda_queue_of(queue)->stream,
                                .attrs = attrs,
                                .numAttrs = count};
    TLI_CUDA_TRY(d->api, cuLaunchKernelEx, &how, kernel, parameters, NULL);
    return TL_OK;
}

static tl_status start(const tl_run *run, const tli_cuda_work *w, const void *args, size_t bytes)
{
    long long groups;
    memcpy(&groups, args, sizeof groups);
    if (groups <= 0) return TL_OK;
    if (tli_cuda_on_host) return tli_cuda_on_host->put(w, args, bytes);
    tli_cuda *d = tli_cuda_of(run->queue->device);
    const bool warps = w->threads == 32;
    const int64_t blocks = warps ? tl_div_up(groups, WARPS_IN_BLOCK) : groups;
    char room[512];
    void *parameters[] = {room};
    CUfunction kernel;
    TL_ASSERT(bytes <= sizeof room);
    memcpy(room, args, bytes);
    TL_TRY(tli_cuda_enter(d));
    TL_TRY(find_kernel(run->queue, &kernel, w));
    if (tli_cuda_foresees(run->queue)) return TL_OK;
    if (w->meets) TL_TRY(tli_cuda_may_meet(run->queue));
    TL_TRY(tli_cuda_launch(run->queue, kernel, blocks, warps ? 32 * WARPS_IN_BLOCK : w->threads,
                           shared_of(w), parameters, w->meets));
    if (tli_cuda_listed(run->queue)) tli_whole_work(tli_cuda_listed(run->queue), w, args, bytes);
    (void)tli_cuda_issue(run->queue);
    return TL_OK;
}

int tli_cuda_group_room(const tl_run *run)
{
    return (tli_cuda_on_host ? HOST_ROOM : tli_cuda_of(run->queue->device)->room) - OWN_ROOM;
}

tl_status tli_cuda_put(const tl_run *run, tli_cuda_work *w, const void *args, size_t bytes)
{
    tl_status st = tl_str_status(&w->defines);
    if (st == TL_OK) st = start(run, w, args, bytes);
    if (st != TL_OK && st != TL_EINVAL) st = tl_error_note(st, "%s", w->name);
    tl_str_deinit(&w->defines);
    return st;
}

void tli_cuda_work_ahead(tli_cuda *d, tli_cuda_work *w)
{
    tl_str text = TL_STR_INIT;
    tl_status st = tl_str_status(&w->defines);
    tli_cuda_print(&text, w);
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK) st = tli_cuda_code_ahead(d->codes, tl_str_text(&text));
    if (st != TL_OK) tl_error_clear(); // whoever puts it in is told
    tl_str_deinit(&text);
    tl_str_deinit(&w->defines);
}

/* --- memory ----------------------------------------------------------------------------------- */

static tl_status host_scratch(tli_cuda_host *h, void **out, size_t bytes)
{
    if (h->scratch_bytes < bytes) {
        tl_free(h->scratch);
        h->scratch = tl_alloc(bytes);
        h->scratch_bytes = h->scratch ? bytes : 0;
    }
    *out = h->scratch;
    return h->scratch ? TL_OK : TL_FAIL_NOMEM(bytes);
}

tl_status tli_cuda_scratch(const tl_run *run, void **out, size_t bytes)
{
    if (bytes < LEAST_SCRATCH) bytes = LEAST_SCRATCH;
    if (tli_cuda_on_host) return host_scratch(tli_cuda_on_host, out, bytes);
    return tli_cuda_queue_scratch(run, out, bytes);
}

enum {
    MARKS = 256, /* bytes before the places */
    MEETING = MARKS + TLI_TOLD_STRIPS * TLI_TOLD_PIECES * 32 * (int)sizeof(tli_told)
};

bool tli_cuda_meets(const tl_run *run, int64_t groups)
{
    if (tli_cuda_on_host) return true;
    // Two kernels that each have a part of the processors would wait for ever.
    const tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
    return groups <= tli_cuda_of(run->queue->device)->processors && !tli_cuda_is_aside(q);
}

/* The same bytes in memory of the device, at once. */
static tl_status put_there(const tli_cuda *d, CUdeviceptr *out, const void *items, size_t bytes)
{
    TL_TRY(tli_cuda_enter(d));
    TLI_CUDA_TRY(d->api, cuMemAlloc_v2, out, bytes);
    tl_status st = tli_cuda_check(d->api->cuMemcpyHtoD_v2(*out, items, bytes), "cuMemcpyHtoD");
    // It comes back when the items are on their way; queues do not wait for the stream they are in.
    if (st == TL_OK) st = tli_cuda_check(d->api->cuStreamSynchronize(NULL), "cuStreamSynchronize");
    if (st == TL_OK) return TL_OK;
    (void)d->api->cuMemFree_v2(*out);
    *out = 0;
    return st;
}

static tl_status make_meeting(const tli_cuda *d, CUdeviceptr *out)
{
    void *zeros = tl_alloc_zero(MEETING);
    if (!zeros) return TL_FAIL_NOMEM(MEETING);
    const tl_status st = put_there(d, out, zeros, MEETING);
    tl_free(zeros);
    return st;
}

tl_status tli_cuda_meeting(const tl_run *run, tli_told **told, unsigned **marks)
{
    char *at;
    if (tli_cuda_on_host) {
        tli_cuda_host *h = tli_cuda_on_host;
        if (!h->meeting) h->meeting = tl_alloc_zero(MEETING);
        if (!h->meeting) return TL_FAIL_NOMEM(MEETING);
        at = h->meeting;
    } else {
        tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
        if (q->asked) q->meeting = (CUdeviceptr)(uintptr_t)tli_cuda_somewhere();
        if (!q->meeting) TL_TRY(make_meeting(tli_cuda_of(run->queue->device), &q->meeting));
        at = (char *)(uintptr_t)q->meeting;
    }
    *marks = (unsigned *)at;
    *told = (tli_told *)(at + MARKS);
    return TL_OK;
}

static tl_status upload(tli_cuda *d, const char *key, void **out, const void *items, size_t bytes)
{
    CUdeviceptr at;
    TL_TRY(put_there(d, &at, items, bytes));
    *out = (void *)(uintptr_t)at;
    const tl_status st = tl_map_set(&d->tables, key, *out);
    if (st != TL_OK) (void)d->api->cuMemFree_v2(at);
    return st;
}

tl_status tli_cuda_table(const tl_run *run, const long long **out, const int64_t *items,
                         int64_t count)
{
    void *at;
    *out = (const long long *)items;
    if (!count || tli_cuda_on_host || tli_cuda_foresees(run->queue)) return TL_OK;
    tli_cuda *d = tli_cuda_of(run->queue->device);
    tl_str key = TL_STR_INIT;
    for (int64_t i = 0; i < count; i++) tl_str_addf(&key, "%" PRIx64 " ", (uint64_t)items[i]);
    tl_status st = tl_str_status(&key);
    if (st == TL_OK) {
        pthread_mutex_lock(&d->lock);
        if (!(at = tl_map_get(&d->tables, tl_str_text(&key))))
            st = upload(d, tl_str_text(&key), &at, items, (size_t)count * sizeof *items);
        pthread_mutex_unlock(&d->lock);
        *out = at;
    }
    tl_str_deinit(&key);
    return st;
}

void tli_cuda_work_deinit(tli_cuda *d)
{
    for (int64_t i = 0; i < tl_map_count(&d->tables); i++)
        (void)d->api->cuMemFree_v2((CUdeviceptr)(uintptr_t)tl_map_at(&d->tables, i));
    for (int64_t i = 0; i < tl_map_count(&d->turned); i++)
        (void)d->api->cuMemFree_v2((CUdeviceptr)(uintptr_t)tl_map_at(&d->turned, i));
    tl_map_deinit(&d->turned);
    tl_map_deinit(&d->tables);
    tl_map_deinit(&d->paths);
}

void tli_cuda_queue_work_deinit(tli_cuda_queue *q)
{
    const tli_cuda_api *api = tli_cuda_of(q->base.device)->api;
    if (q->step) (void)api->cuMemFree_v2(q->step);
    if (q->meeting) (void)api->cuMemFree_v2(q->meeting);
    if (q->fault) (void)api->cuMemFreeHost(q->fault);
}

/* --- draws ------------------------------------------------------------------------------------ */

static tli_step_args step_of(const tl_draws *d, tli_step_args *to)
{
    return (tli_step_args){d->seed, (uint64_t)d->step, (uint64_t)d->microbatch,
                           (uint64_t)d->replica, to};
}

/* The step of what is put into the queue behind it. */
tl_status tli_cuda_set_draws(tl_queue *queue, const tl_draws *draws)
{
    tli_cuda_queue *q = tli_cuda_queue_of(queue);
    tli_cuda *d = tli_cuda_of(queue->device);
    const bool first = !q->step;
    CUfunction kernel;
    if (!first && memcmp(&q->draws, draws, sizeof *draws) == 0) return TL_OK;
    TL_TRY(tli_cuda_enter(d));
    if (first) { // weights are made, perhaps, and trained then
        tli_cuda_draws_ahead(d);
        tli_cuda_handles_begin(d);
    }
    if (first) TLI_CUDA_TRY(d->api, cuMemAlloc_v2, &q->step, sizeof(tli_step_args));
    tli_step_args s = step_of(draws, (tli_step_args *)(uintptr_t)q->step);
    void *parameters[] = {&s};
    const tli_cuda_work w = {.text = {tli_text_of_draw}, .name = "set_step", .threads = 32};
    TL_TRY(find_kernel(queue, &kernel, &w));
    TL_TRY(tli_cuda_launch(queue, kernel, 1, 32, 0, parameters, false));
    (void)tli_cuda_issue(queue);
    q->draws = *draws;
    return TL_OK;
}

tl_status tli_cuda_draws(const tl_run *run, const tli_step_args **out)
{
    if (tli_cuda_on_host) {
        *out = &tli_cuda_on_host->step;
        tli_cuda_on_host->step = step_of(&run->draws, NULL);
        return TL_OK;
    }
    const tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
    if (q->asked) {
        *out = tli_cuda_somewhere();
        return TL_OK;
    }
    // what a list draws is told before it runs
    if (!q->listing) TL_TRY(tli_cuda_set_draws(run->queue, &run->draws));
    *out = (const tli_step_args *)(uintptr_t)q->step;
    return TL_OK;
}

/* --- indices that name nothing ---------------------------------------------------------------- */

/* A path that stays when the call is gone; NULL: none. */
static tl_status keep_path(tli_cuda *d, const char *path, const char **out)
{
    tl_status st = TL_OK;
    *out = NULL;
    if (!path || !*path) return TL_OK;
    pthread_mutex_lock(&d->lock);
    if (!tl_map_has(&d->paths, path))
        st = tl_map_set(&d->paths, path, (void *)(uintptr_t)(tl_map_count(&d->paths) + 1));
    if (st == TL_OK)
        *out = tl_map_key(&d->paths, (int64_t)(uintptr_t)tl_map_get(&d->paths, path) - 1);
    pthread_mutex_unlock(&d->lock);
    return st;
}

tl_status tli_cuda_faults(const tl_run *run, const tl_node *call, const tl_tensor *indices,
                          tli_fault **out, tli_place *place)
{
    *place = (tli_place){.op = call->op->op, .rank = indices->shape.rank};
    for (int i = 0; i < indices->shape.rank; i++) place->dims[i] = indices->shape.dims[i];
    if (tli_cuda_on_host) {
        *out = &tli_cuda_on_host->fault;
        return TL_OK;
    }
    tli_cuda_queue *q = tli_cuda_queue_of(run->queue);
    if (q->asked) {
        *out = tli_cuda_somewhere();
        return TL_OK;
    }
    TL_TRY(keep_path(tli_cuda_of(run->queue->device), call->path, &place->path));
    if (!q->fault) {
        const tl_device_class *device = run->queue->device->cls;
        if (!(q->fault = device->alloc_host(run->queue->device, sizeof *q->fault)))
            return TL_FAIL_NOMEM(sizeof *q->fault);
        memset(q->fault, 0, sizeof *q->fault);
    }
    *out = q->fault;
    return TL_OK;
}

static tl_status tell(const tli_fault *f)
{
    const char *op = tl_op_class_of((tl_op)f->place.op)->name;
    char place[TL_SHAPE_TEXT];
    tl_shape at = {.rank = (int)f->place.rank};
    long long rest = f->at;
    for (int i = at.rank - 1; i >= 0; rest /= f->place.dims[i--])
        at.dims[i] = rest % f->place.dims[i];
    tl_shape_text(place, &at);
    if (f->axis < 0)
        return TL_FAIL(TL_EINVAL, "%s: label %lld at %s is not a class; there are 0 to %lld", op,
                       f->value, place, f->limit - 1);
    return TL_FAIL(TL_EINVAL,
                   "%s: index %lld (at %s of the indices) is not below %lld, the size of axis "
                   "%lld%s",
                   op, f->value, place, f->limit, f->axis,
                   f->value < 0 ? "; it must not be negative either" : "");
}

tl_status tli_cuda_fault_told(tli_cuda_queue *q)
{
    if (!q->fault || !__atomic_load_n(&q->fault->claimed, __ATOMIC_ACQUIRE)) return TL_OK;
    tl_status st = tell(q->fault);
    if (q->fault->place.path) st = tl_error_note(st, "%s", q->fault->place.path);
    q->fault->claimed = 0;
    return st;
}
