#include <tilth/check/check.h>

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/sys/core/backend.h>

#include "check/scan.h"
#include "core/inner/engine.h"
#include "core/inner/gradient_run.h"
#include "core/inner/number.h"

enum { NAME_TEXT = 64, SIDE_TEXT = TL_TENSOR_TEXT + 24, FEW = 16 };

struct tl_check {
    tl_backend_class backend; /* first: an engine's backend is its tl_check */
    const tl_backend_class *inner;
    tl_check_options options;
    char name[NAME_TEXT];
    pthread_mutex_t lock; /* of what follows */
    int64_t count;
    char first[TL_ERROR_TEXT];
};

/* --- options ---------------------------------------------------------------------------------- */

static const char *const level_names[] = {"off", "warn", "fail", NULL};
static const tl_field option_fields[] = {
    TL_F(tl_check_options, finite, .i = TL_CHECK_FAIL, .names = level_names,
         .help = "what to do about the first NaN or infinity that comes from finite inputs"),
    TL_F(tl_check_options, outputs, .b = true,
         .help = "find elements that a kernel leaves unwritten"),
    TL_F(tl_check_options, inputs, .b = true, .help = "find kernels that change their inputs"),
    TL_F(tl_check_options, unwritten, .b = true, .help = "find inputs that nobody has written"),
    TL_F(tl_check_options, memory, .b = true,
         .help = "guard zones around tensors, leases, and what lies over what"),
    TL_F(tl_check_options, input_bytes, .i = 1 << 20, TL_AT_LEAST(0),
         .help = "of a larger input, only so many bytes are compared, spread over it"),
    TL_F_END,
};
static tl_status check_options(const void *value)
{
    const tl_check_options *o = value; // may come from C, where no parser has looked at the ranges
    if (o->input_bytes < 0)
        return TL_FAIL(TL_EINVAL, "input_bytes: %" PRId64 " is negative", o->input_bytes);
    if ((int)o->finite < TL_CHECK_OFF || o->finite > TL_CHECK_FAIL)
        return TL_FAIL(TL_EINVAL, "finite: %d is no level", (int)o->finite);
    return TL_OK;
}
const tl_desc tl_check_options_desc = {
    .name = "check_options",
    .help = "what the checking backend looks at",
    .size = sizeof(tl_check_options),
    .fields = option_fields,
    .check = check_options,
};

/* --- what is said about a tensor -------------------------------------------------------------- */

// "input 1, float32[2, 3],"
static const char *side_text(char out[SIDE_TEXT], const char *side, int i, const tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    snprintf(out, SIDE_TEXT, "%s %d, %s,", side, i, tl_tensor_spec(spec, t));
    return out;
}

static bool overlap(const tl_tensor *a, const tl_tensor *b)
{
    if (a->storage != b->storage) return false;
    tli_extent x = tli_extent_of(a), y = tli_extent_of(b);
    return x.from < y.to && y.from < x.to;
}

/* --- before the kernel ------------------------------------------------------------------------ */

static tl_status check_place(const tl_tensor *t, const char *side, int i)
{
    char what[SIDE_TEXT];
    if (!t->storage) return TL_FAIL(TL_ESTATE, "%s has no elements", side_text(what, side, i, t));
    if (atomic_load(&t->storage->refs) <= 0)
        return TL_FAIL(TL_ESTATE, "%s is stale: its storage was given back",
                       side_text(what, side, i, t));
    tli_extent e = tli_extent_of(t);
    if (e.from < 0 || e.to > (int64_t)t->storage->bytes)
        return TL_FAIL(TL_ESTATE,
                       "%s takes bytes %" PRId64 " to %" PRId64 " of a storage of %zu bytes",
                       side_text(what, side, i, t), e.from, e.to, t->storage->bytes);
    return TL_OK;
}

static tl_status check_guards(const tl_tensor *t, const char *side, int i, bool before)
{
    int64_t at;
    bool intact;
    TL_TRY(tli_storage_intact(t->storage, &intact, &at));
    if (intact) return TL_OK;
    char what[SIDE_TEXT];
    return TL_FAIL(TL_EINTERNAL, "%s outside of %s at byte %" PRId64 " of a storage of %zu bytes",
                   before ? "somebody wrote earlier" : "the kernel wrote",
                   side_text(what, side, i, t), at, t->storage->bytes);
}

static tl_status check_lease(const tl_tensor *t, const char *side, int i)
{
    char what[SIDE_TEXT];
    if (!atomic_load(&t->storage->leases)) return TL_OK;
    return TL_FAIL(TL_ESTATE, "%s is written while it is leased; end the lease first",
                   side_text(what, side, i, t));
}

// An output may lie neither over an input nor over an output before it.
static tl_status check_alone(const tl_node *call, int output)
{
    const tl_tensor *t = call->out[output];
    char what[SIDE_TEXT], other[SIDE_TEXT];
    for (int i = 0; i < call->inputs; i++)
        if (overlap(t, call->in[i]))
            return TL_FAIL(
                TL_EINTERNAL, "%s lies over %s so that the kernel would overwrite what it reads",
                side_text(what, "output", output, t), side_text(other, "input", i, call->in[i]));
    for (int i = 0; i < output; i++)
        if (overlap(t, call->out[i]))
            return TL_FAIL(TL_EINTERNAL, "%s lies over %s so that one overwrites the other",
                           side_text(what, "output", output, t),
                           side_text(other, "output", i, call->out[i]));
    return TL_OK;
}

static tl_status check_memory_before(const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++) {
        TL_TRY(check_place(call->in[i], "input", i));
        TL_TRY(check_guards(call->in[i], "input", i, true));
        if (tli_call_writes(call, i)) TL_TRY(check_lease(call->in[i], "input", i));
    }
    for (int i = 0; i < call->outputs; i++) {
        TL_TRY(check_place(call->out[i], "output", i));
        TL_TRY(check_guards(call->out[i], "output", i, true));
        TL_TRY(check_lease(call->out[i], "output", i));
        TL_TRY(check_alone(call, i));
    }
    return TL_OK;
}

static tl_status check_memory_after(const tl_node *call)
{
    for (int i = 0; i < call->outputs; i++) TL_TRY(check_guards(call->out[i], "output", i, false));
    for (int i = 0; i < call->inputs; i++) TL_TRY(check_guards(call->in[i], "input", i, false));
    return TL_OK;
}

// One and two bytes may well hold that pattern as a number; four and eight hardly do.
static bool pattern_is_proof(const tl_tensor *t)
{
    return tl_dtype_is_float(t->dtype) || tl_dtype_size(t->dtype) >= 4;
}

static tl_status check_unwritten(const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++) {
        const tl_tensor *t = call->in[i];
        if (!t->storage->memory->guarded || !pattern_is_proof(t)) continue;
        int64_t at = tli_find(t, TLI_FIND_UNWRITTEN, 0);
        if (at < 0) continue;
        char what[SIDE_TEXT], place[TL_SHAPE_TEXT];
        return TL_FAIL(TL_ESTATE, "%s is read before it was written: nobody has set element %s",
                       side_text(what, "input", i, t), tli_element_text(place, t, at));
    }
    return TL_OK;
}

/* --- tensors of another device ---------------------------------------------------------------- */

/* The call as the host sees it: itself, or images of its tensors where they lie on another
 * device. */
typedef struct sight {
    tl_node call;
    tl_tensor **headers;
    tli_image *images; /* NULL: the host sees the tensors themselves */
    int count, opened;
} sight;

static const tl_tensor *tensor_of(const tl_node *call, int i)
{
    return i < call->inputs ? call->in[i] : call->out[i - call->inputs];
}

static void close_sight(sight *s)
{
    for (int i = 0; i < s->opened; i++) tli_image_close(&s->images[i]);
    tl_free(s->images);
    tl_free(s->headers);
}

static tl_status wait_images(sight *s)
{
    // the last comes last
    for (int i = s->count - 1; s->images && i >= 0; i--) TL_TRY(tli_image_wait(&s->images[i]));
    return TL_OK;
}

static tl_status open_sight(sight *s, const tl_node *call, bool on_host)
{
    *s = (sight){.call = *call, .count = call->inputs + call->outputs};
    if (on_host) return TL_OK;
    s->images = tl_alloc_zero((size_t)s->count * sizeof *s->images);
    s->headers = tl_alloc_zero((size_t)s->count * sizeof *s->headers);
    tl_status st =
        s->images && s->headers ? TL_OK : TL_FAIL_NOMEM((size_t)s->count * sizeof *s->images);
    for (; st == TL_OK && s->opened < s->count; s->opened += st == TL_OK) {
        st = tli_image_begin(&s->images[s->opened], tensor_of(call, s->opened), true);
        s->headers[s->opened] = &s->images[s->opened].tensor;
    }
    if (st == TL_OK) st = wait_images(s);
    s->call.in = s->headers;
    s->call.out = s->headers + call->inputs;
    return st;
}

/* What the host has written into the outputs' images is on the device. */
static tl_status show_outputs(sight *s)
{
    for (int i = s->call.inputs; s->images && i < s->count; i++)
        TL_TRY(tli_image_put(&s->images[i]));
    return wait_images(s);
}

/* The images show what is there now. */
static tl_status look_again(sight *s)
{
    for (int i = 0; s->images && i < s->count; i++) {
        const tl_tensor *of = s->images[i].of;
        tli_image_close(&s->images[i]);
        TL_TRY(tli_image_begin(&s->images[i], of, true));
    }
    return wait_images(s);
}

/* --- unwritten outputs ------------------------------------------------------------------------ */

static void fill_outputs(const tl_node *call, tli_fill fill)
{
    for (int i = 0; i < call->outputs; i++) tli_fill_output(call->out[i], fill);
}

static tl_status tell_left(const tl_node *call, int i, int64_t at)
{
    char what[SIDE_TEXT], place[TL_SHAPE_TEXT];
    return TL_FAIL(TL_EINTERNAL, "the kernel left %s unwritten at element %s",
                   side_text(what, "output", i, call->out[i]),
                   tli_element_text(place, call->out[i], at));
}

// For an op that cannot run twice: what cannot be a number is told.
static tl_status check_left_once(const tl_node *call)
{
    for (int i = 0; i < call->outputs; i++) {
        int64_t at =
            pattern_is_proof(call->out[i]) ? tli_find(call->out[i], TLI_FIND_LEFT_FIRST, 0) : -1;
        if (at >= 0) return tell_left(call, i, at);
    }
    return TL_OK;
}

static tl_status run_inner(const tl_check *check, const tl_run *run, const tl_node *call,
                           tl_kernel_fn *kernel)
{
    TL_TRY(check->inner->around ? check->inner->around(run, call, kernel) : kernel(run, call));
    TL_TRY(tli_call_queued(run, call));
    // What is looked at next would only wait for who says that he writes it.
    return tl_queue_wait(run->queue, tl_queue_ticket(run->queue));
}

static int64_t outputs_count(const tl_node *call)
{
    int64_t count = 0;
    for (int i = 0; i < call->outputs; i++) count += tl_tensor_count(call->out[i]);
    return count;
}

/* `marks` has a bit for each element of the outputs, one output behind the other: set where it
 * looks unwritten. */
static void mark_left(const tl_node *call, unsigned char *marks)
{
    int64_t first = 0;
    for (int i = 0; i < call->outputs; first += tl_tensor_count(call->out[i++])) {
        int64_t at = -1;
        while ((at = tli_find(call->out[i], TLI_FIND_LEFT_FIRST, at + 1)) >= 0)
            marks[(first + at) / 8] |= (unsigned char)(1u << (first + at) % 8);
    }
}

static tl_status check_marked(const tl_node *call, const unsigned char *marks)
{
    int64_t first = 0;
    for (int i = 0; i < call->outputs; first += tl_tensor_count(call->out[i++])) {
        int64_t at = -1;
        while ((at = tli_find(call->out[i], TLI_FIND_LEFT_SECOND, at + 1)) >= 0)
            if (marks[(first + at) / 8] >> (first + at) % 8 & 1) return tell_left(call, i, at);
    }
    return TL_OK;
}

static bool any_left(const tl_node *call)
{
    for (int i = 0; i < call->outputs; i++)
        if (tli_find(call->out[i], TLI_FIND_LEFT_FIRST, 0) >= 0) return true;
    return false;
}

// What looks unwritten may be a number: the kernel runs again over another pattern, and the same
// element must look unwritten both times, since bytes hold both patterns by right. An op that
// changes its inputs cannot run twice.
static tl_status check_left(const tl_check *check, const tl_run *run, const tl_node *real,
                            sight *seen, tl_kernel_fn *kernel)
{
    const tl_node *call = &seen->call;
    if (!any_left(call)) return TL_OK;
    if (call->op->writes) return check_left_once(call);
    size_t bytes = (size_t)(outputs_count(call) / 8 + 1);
    unsigned char *marks = tl_alloc_zero(bytes);
    if (!marks) return TL_FAIL_NOMEM(bytes);
    mark_left(call, marks);
    fill_outputs(call, TLI_FILL_SECOND);
    tl_status st = show_outputs(seen);
    if (st == TL_OK) st = run_inner(check, run, real, kernel);
    if (st == TL_OK) st = look_again(seen);
    if (st == TL_OK) st = check_marked(call, marks);
    tl_free(marks);
    return st;
}

static tl_status check_bools(const tl_node *call)
{
    for (int i = 0; i < call->outputs; i++) {
        const tl_tensor *t = call->out[i];
        int64_t at = t->dtype == TL_BOOL ? tli_find(t, TLI_FIND_NOT_BOOL, 0) : -1;
        if (at < 0) continue;
        char what[SIDE_TEXT], place[TL_SHAPE_TEXT];
        return TL_FAIL(TL_EINTERNAL, "the kernel set %s to %d at element %s; a bool is 0 or 1",
                       side_text(what, "output", i, t), ((const uint8_t *)tli_data(t))[at],
                       tli_element_text(place, t, at));
    }
    return TL_OK;
}

/* --- changed inputs --------------------------------------------------------------------------- */

// An input that lies over one that is written may change.
static bool may_change(const tl_node *call, int i)
{
    for (int k = 0; k < call->inputs; k++)
        if (tli_call_writes(call, k) && overlap(call->in[i], call->in[k])) return true;
    return tli_call_writes(call, i);
}

static void sum_inputs(const tl_check *check, const tl_node *real, const tl_node *call,
                       uint32_t *sums)
{
    for (int i = 0; i < call->inputs; i++)
        if (!may_change(real, i)) sums[i] = tli_checksum(call->in[i], check->options.input_bytes);
}

static tl_status check_sums(const tl_check *check, const tl_node *real, const tl_node *call,
                            const uint32_t *sums)
{
    for (int i = 0; i < call->inputs; i++) {
        if (may_change(real, i)) continue;
        if (sums[i] == tli_checksum(call->in[i], check->options.input_bytes)) continue;
        char what[SIDE_TEXT];
        return TL_FAIL(TL_EINTERNAL,
                       "the kernel changed %s which the op does not list among those it writes",
                       side_text(what, "input", i, call->in[i]));
    }
    return TL_OK;
}

/* --- NaN and infinity ------------------------------------------------------------------------- */

/* A gradient whose elements lie in types of their own. */
static bool runs_finite(tl_ints runs, const tl_tensor *bytes, int64_t count)
{
    for (int64_t i = 0; i < runs.count / TLI_RUN_NUMBERS; i++) {
        const tli_gradient_run r = tli_gradient_run_of(runs, NULL, count, i);
        const int64_t size = (int64_t)tl_dtype_size(r.type),
                      at = bytes->offset + runs.items[i * TLI_RUN_NUMBERS + 1];
        tl_tensor run = *bytes;
        TL_ASSERT(at % size == 0);
        run.dtype = r.type;
        run.shape = TL_SHAPE(r.end - r.begin);
        run.offset = at / size;
        if (tli_find(&run, TLI_FIND_NOT_FINITE, 0) >= 0) return false;
    }
    return true;
}

static bool inputs_finite(const tl_node *call)
{
    bool floats = false;
    for (int i = 0; i < call->inputs; i++) {
        if (call->in[i]->dtype == TL_U8 && call->op->flags & TL_OP_UPDATE
            && !runs_finite(((const tl_update_attr *)call->attr)->runs, call->in[i],
                            tl_tensor_count(call->in[0])))
            return false;
        if (!tl_dtype_is_float(call->in[i]->dtype)) continue;
        if (tli_find(call->in[i], TLI_FIND_NOT_FINITE, 0) >= 0) return false;
        floats = true;
    }
    return floats;
}

static void add_inputs(tl_str *out, const tl_node *call)
{
    for (int i = 0; i < call->inputs; i++) {
        char spec[TL_TENSOR_TEXT], from[32], to[32];
        double least, most;
        tli_range(call->in[i], &least, &most);
        tli_number_text(from, sizeof from, "%.*g", 6, least);
        tli_number_text(to, sizeof to, "%.*g", 6, most);
        tl_str_addf(out, "%s%s from %s to %s", i ? ", " : "", tl_tensor_spec(spec, call->in[i]),
                    from, to);
        if (tli_call_writes(call, i)) tl_str_add(out, " (as written)");
    }
}

// "encoder: exp: output 0, float32[2, 3], is inf at element [1, 2], ...". The funnel adds module
// and op to failures itself, so only what is warned about and kept begins with them.
static tl_status tell(tl_check *check, const tl_node *call, const char *side, int i, int64_t at)
{
    const tl_tensor *t = *side == 'o' ? call->out[i] : call->in[i];
    char what[SIDE_TEXT], place[TL_SHAPE_TEXT], number[32], text[TL_ERROR_TEXT];
    tl_str inputs = TL_STR_INIT;
    add_inputs(&inputs, call);
    tl_double_text(number, tli_element_at(t, at));
    snprintf(text, sizeof text, "%s is %s at element %s, and all inputs were finite: %s",
             side_text(what, side, i, t), number, tli_element_text(place, t, at),
             tl_str_text(&inputs));
    tl_str_deinit(&inputs);

    const char *path = call->path ? call->path : "";
    pthread_mutex_lock(&check->lock);
    bool first = check->count++ == 0;
    if (first)
        snprintf(check->first, sizeof check->first, "%s%s%s: %.*s", path, *path ? ": " : "",
                 call->op->name, TL_ERROR_TEXT / 2, text);
    pthread_mutex_unlock(&check->lock);
    if (check->options.finite == TL_CHECK_FAIL) return TL_FAIL(TL_EINVAL, "%s", text);
    if (first) TL_LOG_WARNING("%s", check->first);
    return TL_OK;
}

static tl_status check_finite(tl_check *check, const tl_node *call)
{
    for (int i = 0; i < call->outputs; i++) {
        if (!tl_dtype_is_float(call->out[i]->dtype)) continue;
        int64_t at = tli_find(call->out[i], TLI_FIND_NOT_FINITE, 0);
        if (at >= 0) return tell(check, call, "output", i, at);
    }
    for (int i = 0; i < call->inputs; i++) {
        if (!tli_call_writes(call, i) || !tl_dtype_is_float(call->in[i]->dtype)) continue;
        int64_t at = tli_find(call->in[i], TLI_FIND_NOT_FINITE, 0);
        if (at >= 0) return tell(check, call, "input", i, at);
    }
    return TL_OK;
}

/* --- around the kernel ------------------------------------------------------------------------ */

static tl_status watch(tl_check *check, const tl_run *run, const tl_node *real, sight *seen,
                       tl_kernel_fn *kernel, uint32_t *sums)
{
    const tl_check_options *o = &check->options;
    const tl_node *call = &seen->call;
    if (o->unwritten) TL_TRY(check_unwritten(call));
    bool finite = o->finite != TL_CHECK_OFF && inputs_finite(call);
    if (o->inputs) sum_inputs(check, real, call, sums);
    if (o->outputs) fill_outputs(call, TLI_FILL_FIRST);
    if (o->outputs) TL_TRY(show_outputs(seen));

    TL_TRY(run_inner(check, run, real, kernel));
    TL_TRY(look_again(seen));

    if (o->memory) TL_TRY(check_memory_after(real));
    if (o->inputs) TL_TRY(check_sums(check, real, call, sums));
    if (o->outputs) TL_TRY(check_left(check, run, real, seen, kernel));
    if (o->outputs) TL_TRY(check_bools(call));
    return finite ? check_finite(check, call) : TL_OK;
}

/* Parts of a pack may have been computed at their places in it: the output holds what is wanted
 * already. */
static bool is_in_place(const tl_node *call)
{
    for (int i = 0; call->op->op == TL_OP_pack && i < call->inputs; i++)
        if (overlap(call->in[i], call->out[0])) return true;
    return false;
}

static tl_status around(const tl_run *run, const tl_node *call, tl_kernel_fn *kernel)
{
    tl_check *check = (tl_check *)tl_engine_backend(run->engine);
    if (is_in_place(call)) return run_inner(check, run, call, kernel);
    uint32_t few[FEW], *sums = few;
    if (call->inputs > FEW) {
        sums = tl_alloc((size_t)call->inputs * sizeof *sums);
        if (!sums) return TL_FAIL_NOMEM((size_t)call->inputs * sizeof *sums);
    }
    sight seen = {0};
    tl_status st = check->options.memory ? check_memory_before(call) : TL_OK; // before it is copied
    if (st == TL_OK) st = open_sight(&seen, call, run->queue->device->cls->host);
    if (st == TL_OK) st = watch(check, run, call, &seen, kernel, sums);
    close_sight(&seen);
    if (sums != few) tl_free(sums);
    return st;
}

/* --- from outside ----------------------------------------------------------------------------- */

static tl_status options_set(tl_check_options *to, const tl_check_options *from)
{
    tl_arena *arena;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = from ? tl_desc_check(&tl_check_options_desc, from)
                        : tl_desc_defaults(arena, &tl_check_options_desc, to);
    if (st == TL_OK && from) *to = *from;
    tl_arena_free(&arena);
    return st;
}

tl_status tl_check_new(tl_check **out, const tl_backend_class *inner,
                       const tl_check_options *options)
{
    // One watchman is enough, and finds himself as the engine's backend.
    while (inner->around == around) inner = ((const tl_check *)inner)->inner;
    tl_check *check = tl_alloc_zero(sizeof *check);
    if (!check) return TL_FAIL_NOMEM(sizeof *check);
    tl_status st = options_set(&check->options, options);
    if (st != TL_OK) {
        tl_free(check);
        return st;
    }
    pthread_mutex_init(&check->lock, NULL);
    snprintf(check->name, sizeof check->name, "check(%s)", inner->cls.name);
    check->inner = inner;
    check->backend = (tl_backend_class){
        .cls = {.class_size = sizeof(tl_backend_class),
                .name = check->name,
                .help = "another backend, each kernel of which is checked"},
        .fallback = inner,
        .device = inner->device,
        .supported = inner->supported,
        .around = around,
        .keeps_apart = true,
        .guards_memory = check->options.memory || check->options.unwritten,
    };
    *out = check;
    return TL_OK;
}

void tl_check_free(tl_check **check)
{
    if (!*check) return;
    pthread_mutex_destroy(&(*check)->lock);
    tl_free(*check);
    *check = NULL;
}

const tl_backend_class *tl_check_backend(const tl_check *check)
{
    return &check->backend;
}

const char *tl_check_first(const tl_check *check)
{
    pthread_mutex_t *lock = &((tl_check *)check)->lock; // no part of what callers see
    pthread_mutex_lock(lock);
    const char *first = check->first; // written once until the reset
    pthread_mutex_unlock(lock);
    return first;
}

int64_t tl_check_count(const tl_check *check)
{
    pthread_mutex_t *lock = &((tl_check *)check)->lock;
    pthread_mutex_lock(lock);
    int64_t count = check->count;
    pthread_mutex_unlock(lock);
    return count;
}

void tl_check_reset(tl_check *check)
{
    pthread_mutex_lock(&check->lock);
    check->count = 0;
    check->first[0] = '\0';
    pthread_mutex_unlock(&check->lock);
}
