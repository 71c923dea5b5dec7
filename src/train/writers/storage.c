#include <tilth/train/writers/storage.h>

#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/sys/core/device.h>

/* A tensor that nobody has read yet. */
typedef struct unread {
    tl_tensor *tensor;
    const tl_storage *storage; /* its memory, beside it for a quick look at all that wait */
    int64_t offset;
    int64_t iteration;
} unread;

struct tl_event_scalar {
    tl_event_storage *storage;
    char *name;
    bool smooth;
    tl_history history;
    unread *waiting; /* a ring of TL_EVENT_UNREAD; NULL until a tensor is put */
    int waiting_first, waiting_count;
};

/* More than can be taken back at a time (train/trainer/flight.h). */
enum { REMEMBERED = 8 };

struct tl_event_storage {
    int64_t iteration, samples, history;
    struct {
        int64_t iteration, samples;
    } consumed[REMEMBERED]; /* what was set last: a ring */
    int64_t consumed_from, consumed_to;
    tl_map scalars; /* to tl_event_scalar, owned */
    tl_str prefix;  /* of the scopes that are open */
    tl_str name;    /* of what is being put */
    tl_logs *media;
    tl_map media_places; /* name to its index in `media`, and one */
    struct media_iterations {
        int64_t *items;
        int64_t count, capacity;
    } media_iterations;      /* by that index */
    tl_event_storage *below; /* on the stack */
    bool pushed;
};

static _Thread_local tl_event_storage *top;

/* --- storage ---------------------------------------------------------------------------------- */

tl_status tl_event_storage_new(tl_event_storage **out, const tl_event_storage_args *args)
{
    *out = NULL;
    tl_event_storage *s = tl_alloc_zero(sizeof *s);
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    tl_status st = tl_logs_new(&s->media);
    if (st != TL_OK) {
        tl_free(s);
        return st;
    }
    if (args) {
        s->iteration = args->iteration;
        s->history = args->history;
    }
    *out = s;
    return TL_OK;
}

// 0 is the oldest.
static unread *waiting_at(const tl_event_scalar *scalar, int index)
{
    return &scalar->waiting[(scalar->waiting_first + index) % TL_EVENT_UNREAD];
}

static void scalar_free(tl_event_scalar *scalar)
{
    for (int i = 0; i < scalar->waiting_count; i++) tl_tensor_free(&waiting_at(scalar, i)->tensor);
    tl_free(scalar->waiting);
    tl_history_deinit(&scalar->history);
    tl_free(scalar->name);
    tl_free(scalar);
}

void tl_event_storage_free(tl_event_storage **storage)
{
    tl_event_storage *s = *storage;
    if (!s) return;
    TL_ASSERT(!s->pushed);
    for (int64_t i = 0; i < tl_map_count(&s->scalars); i++) scalar_free(tl_map_at(&s->scalars, i));
    tl_map_deinit(&s->scalars);
    tl_event_storage_clear_media(s);
    tl_logs_free(&s->media);
    tl_str_deinit(&s->prefix);
    tl_str_deinit(&s->name);
    tl_free(s);
    *storage = NULL;
}

void tl_event_storage_push(tl_event_storage *s)
{
    TL_ASSERT(!s->pushed);
    s->pushed = true;
    s->below = top;
    top = s;
}

void tl_event_storage_pop(tl_event_storage *s)
{
    TL_ASSERT(top == s);
    top = s->below;
    s->below = NULL;
    s->pushed = false;
}

tl_event_storage *tl_event_storage_current(void)
{
    return top;
}

int64_t tl_event_storage_iteration(const tl_event_storage *s)
{
    return s->iteration;
}

void tl_event_storage_set_iteration(tl_event_storage *s, int64_t iteration)
{
    s->iteration = iteration;
}

int64_t tl_event_storage_samples(const tl_event_storage *s)
{
    return s->samples;
}

void tl_event_storage_set_samples(tl_event_storage *s, int64_t samples)
{
    int64_t last = s->consumed_to - 1;
    bool again =
        last >= s->consumed_from && s->consumed[last % REMEMBERED].iteration == s->iteration;
    s->samples = samples;
    if (!again) last = s->consumed_to++;
    if (s->consumed_to - s->consumed_from > REMEMBERED) s->consumed_from++;
    s->consumed[last % REMEMBERED].iteration = s->iteration;
    s->consumed[last % REMEMBERED].samples = samples;
}

/* --- names ------------------------------------------------------------------------------------ */

tl_status tl_event_storage_scope_begin(size_t *mark, tl_event_storage *s, const char *name)
{
    size_t length = strlen(name), before = s->prefix.length;
    while (length && name[length - 1] == '/') length--;
    if (!length) return TL_FAIL(TL_EINVAL, "a name scope must have a name, not '%s'", name);
    tl_str_addn(&s->prefix, name, length);
    tl_str_addc(&s->prefix, '/');
    if (s->prefix.failed) {
        s->prefix.failed = false; // the scopes around it stay
        tl_str_cut(&s->prefix, before);
        return TL_FAIL_NOMEM(before + length + 2);
    }
    *mark = before;
    return TL_OK;
}

void tl_event_storage_scope_end(tl_event_storage *s, size_t mark)
{
    TL_ASSERT(mark <= s->prefix.length);
    tl_str_cut(&s->prefix, mark);
}

// The name with its scopes; NULL, with the error set, when there is no memory. Valid until the next
// one.
static const char *full_name(tl_event_storage *s, const char *name)
{
    if (!s->prefix.length) return name;
    s->name.failed = false;
    tl_str_cut(&s->name, 0);
    tl_str_addn(&s->name, s->prefix.data, s->prefix.length);
    tl_str_add(&s->name, name);
    return tl_str_status(&s->name) == TL_OK ? tl_str_text(&s->name) : NULL;
}

/* --- scalars ---------------------------------------------------------------------------------- */

static tl_status scalar_new(tl_event_scalar **out, tl_event_storage *s, const char *name,
                            bool smooth)
{
    if (!*name) return TL_FAIL(TL_EINVAL, "a scalar must have a name");
    tl_event_scalar *scalar = tl_alloc_zero(sizeof *scalar);
    if (!scalar) return TL_FAIL_NOMEM(sizeof *scalar);
    *scalar = (tl_event_scalar){.storage = s, .smooth = smooth, .name = tl_strdup(name)};
    tl_history_init(&scalar->history, s->history);
    tl_status st =
        scalar->name ? tl_map_set(&s->scalars, name, scalar) : TL_FAIL_NOMEM(strlen(name) + 1);
    if (st != TL_OK) {
        scalar_free(scalar);
        return st;
    }
    *out = scalar;
    return TL_OK;
}

tl_status tl_event_storage_scalar(tl_event_scalar **out, tl_event_storage *s, const char *name,
                                  bool smooth)
{
    name = full_name(s, name);
    if (!name) return TL_ENOMEM;
    tl_event_scalar *scalar = tl_map_get(&s->scalars, name);
    if (!scalar) return scalar_new(out, s, name, smooth);
    if (scalar->smooth != smooth)
        return TL_FAIL(TL_EINVAL,
                       "the scalar '%s' was put %s before and is now put %s; decide for one", name,
                       scalar->smooth ? "smoothed" : "plain", smooth ? "smoothed" : "plain");
    *out = scalar;
    return TL_OK;
}

// Takes an unread value out of the line.
static void drop_unread(tl_event_scalar *scalar, int index)
{
    tl_tensor_free(&waiting_at(scalar, index)->tensor);
    scalar->waiting_count--;
    if (index == 0) {
        scalar->waiting_first = (scalar->waiting_first + 1) % TL_EVENT_UNREAD;
        return;
    }
    for (int i = index; i < scalar->waiting_count; i++)
        *waiting_at(scalar, i) = *waiting_at(scalar, i + 1);
}

static tl_status read_oldest(tl_event_scalar *scalar)
{
    double value;
    const unread *oldest = waiting_at(scalar, 0);
    tl_status st = tl_tensor_item(oldest->tensor, &value);
    if (st == TL_OK) st = tl_history_put(&scalar->history, value, oldest->iteration);
    drop_unread(scalar, 0); // what was not computed will not be
    return st == TL_OK ? TL_OK : tl_error_note(st, "%s", scalar->name);
}

static tl_status read_all(tl_event_scalar *scalar)
{
    while (scalar->waiting_count) TL_TRY(read_oldest(scalar));
    return TL_OK;
}

tl_status tl_event_scalar_put(tl_event_scalar *scalar, double value)
{
    if (scalar->waiting_count) TL_TRY(read_all(scalar)); // values stay in order
    return tl_history_put(&scalar->history, value, scalar->storage->iteration);
}

// A tensor over the same memory shows what was computed since, no longer its own value.
static void forget_overwritten(tl_event_scalar *scalar, const tl_tensor *t)
{
    for (int i = scalar->waiting_count - 1; i >= 0; i--) {
        const unread *earlier = waiting_at(scalar, i);
        if (earlier->storage == t->storage && earlier->offset == t->offset) drop_unread(scalar, i);
    }
}

// What the host has computed is there: to read it costs less than to keep its tensor.
static tl_status read_now(tl_event_scalar *scalar, const tl_tensor *t)
{
    double value;
    TL_TRY_NOTE(tl_tensor_item(t, &value), "%s", scalar->name);
    return tl_event_scalar_put(scalar, value);
}

tl_status tl_event_scalar_put_tensor(tl_event_scalar *scalar, const tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    if (tl_tensor_count(t) != 1)
        return TL_FAIL(TL_EINVAL,
                       "%s: %s is no number; put its mean, its largest element or a histogram",
                       scalar->name, tl_tensor_spec(spec, t));
    if (tl_engine_device(tl_tensor_engine(t))->cls->host) return read_now(scalar, t);
    if (!scalar->waiting) {
        scalar->waiting = tl_alloc(TL_EVENT_UNREAD * sizeof *scalar->waiting);
        if (!scalar->waiting) return TL_FAIL_NOMEM(TL_EVENT_UNREAD * sizeof *scalar->waiting);
    }
    forget_overwritten(scalar, t);
    if (scalar->waiting_count == TL_EVENT_UNREAD) TL_TRY(read_oldest(scalar));
    tl_tensor *kept = NULL;
    TL_TRY_NOTE(tl_tensor_keep(&kept, t), "%s", scalar->name);
    *waiting_at(scalar, scalar->waiting_count++) =
        (unread){kept, t->storage, t->offset, scalar->storage->iteration};
    return TL_OK;
}

static tl_status put(tl_event_storage *s, const char *name, double value, bool smooth)
{
    tl_event_scalar *scalar;
    TL_TRY(tl_event_storage_scalar(&scalar, s, name, smooth));
    return tl_event_scalar_put(scalar, value);
}

tl_status tl_event_storage_put(tl_event_storage *s, const char *name, double value)
{
    return put(s, name, value, true);
}

tl_status tl_event_storage_put_plain(tl_event_storage *s, const char *name, double value)
{
    return put(s, name, value, false);
}

tl_status tl_event_storage_put_tensor(tl_event_storage *s, const char *name, const tl_tensor *t,
                                      bool smooth)
{
    tl_event_scalar *scalar;
    TL_TRY(tl_event_storage_scalar(&scalar, s, name, smooth));
    return tl_event_scalar_put_tensor(scalar, t);
}

/* --- images, histograms, text ----------------------------------------------------------------- */

// Where the name has its place among the media; made when it has none. `media` gets the entry
// afterwards.
static tl_status media_begin(int64_t *index, tl_event_storage *s, const char *name)
{
    intptr_t place = (intptr_t)tl_map_get(&s->media_places, name);
    *index = place ? place - 1 : s->media_iterations.count;
    if (place || s->media_iterations.count < s->media_iterations.capacity) return TL_OK;
    struct media_iterations *m = &s->media_iterations;
    return tl_vec_grow((void **)&m->items, m->count, &m->capacity, sizeof *m->items) ? TL_OK
                                                                                     : TL_ENOMEM;
}

static tl_status media_end(tl_event_storage *s, const char *name, int64_t index)
{
    if (index == s->media_iterations.count) {
        tl_status st = tl_map_set(&s->media_places, name, (void *)(intptr_t)(index + 1));
        if (st != TL_OK) {
            tl_logs_remove(s->media, name);
            return st;
        }
        s->media_iterations.count++;
    }
    s->media_iterations.items[index] = s->iteration;
    return TL_OK;
}

static tl_status put_media(tl_event_storage *s, const tl_logs_entry *e)
{
    int64_t index;
    const char *name = full_name(s, e->name);
    if (!name) return TL_ENOMEM;
    TL_TRY(media_begin(&index, s, name));
    if (e->kind == TL_LOGS_IMAGE) TL_TRY(tl_logs_put_image(s->media, name, e->tensor));
    else if (e->kind == TL_LOGS_HISTOGRAM)
        TL_TRY(tl_logs_put_histogram(s->media, name, e->tensor, e->bins));
    else TL_TRY(tl_logs_put_text(s->media, name, e->text));
    return media_end(s, name, index);
}

tl_status tl_event_storage_put_image(tl_event_storage *s, const char *name, const tl_tensor *t)
{
    return put_media(s, &(tl_logs_entry){.name = name, .kind = TL_LOGS_IMAGE, .tensor = t});
}

tl_status tl_event_storage_put_histogram(tl_event_storage *s, const char *name, const tl_tensor *t,
                                         int64_t bins)
{
    return put_media(
        s, &(tl_logs_entry){.name = name, .kind = TL_LOGS_HISTOGRAM, .tensor = t, .bins = bins});
}

tl_status tl_event_storage_put_text(tl_event_storage *s, const char *name, const char *text)
{
    return put_media(s, &(tl_logs_entry){.name = name, .kind = TL_LOGS_TEXT, .text = text});
}

int64_t tl_event_storage_media_count(const tl_event_storage *s)
{
    return s->media_iterations.count;
}

void tl_event_storage_media_at(tl_logs_entry *out, int64_t *iteration, const tl_event_storage *s,
                               int64_t index)
{
    tl_logs_at(out, s->media, index);
    *iteration = s->media_iterations.items[index];
}

void tl_event_storage_clear_media(tl_event_storage *s)
{
    tl_logs_clear(s->media);
    tl_map_deinit(&s->media_places);
    TL_VEC_FREE(&s->media_iterations);
}

/* --- going back ------------------------------------------------------------------------------- */

// Those of longer ago are no longer known, and are set by the next step.
static void rewind_samples(tl_event_storage *s, int64_t keep_to)
{
    while (s->consumed_to > s->consumed_from
           && s->consumed[(s->consumed_to - 1) % REMEMBERED].iteration > keep_to)
        s->consumed_to--;
    if (s->consumed_to > s->consumed_from)
        s->samples = s->consumed[(s->consumed_to - 1) % REMEMBERED].samples;
    else if (s->consumed_to == 0) s->samples = 0;
}

void tl_event_storage_rewind(tl_event_storage *s, int64_t keep_to)
{
    rewind_samples(s, keep_to);
    for (int64_t i = 0; i < tl_map_count(&s->scalars); i++) {
        tl_event_scalar *scalar = tl_map_at(&s->scalars, i);
        while (scalar->waiting_count
               && waiting_at(scalar, scalar->waiting_count - 1)->iteration > keep_to)
            drop_unread(scalar, scalar->waiting_count - 1);
        tl_history_rewind(&scalar->history, keep_to);
    }
    for (int64_t i = 0; i < s->media_iterations.count;
         i++) // of a name there is only what was put last
        if (s->media_iterations.items[i] > keep_to) s->media_iterations.items[i] = -1;
}

/* --- logs ------------------------------------------------------------------------------------- */

typedef struct logs_put {
    tl_event_storage *storage;
    bool smooth;
} logs_put;

static tl_status put_entry(const tl_logs_entry *e, void *payload)
{
    const logs_put *p = payload;
    if (e->kind == TL_LOGS_TENSOR) return TL_OK; // for somebody who takes it out of the logs
    if (e->kind != TL_LOGS_NUMBER) return put_media(p->storage, e);
    if (e->tensor) return tl_event_storage_put_tensor(p->storage, e->name, e->tensor, p->smooth);
    return put(p->storage, e->name, e->number, p->smooth);
}

tl_status tl_event_storage_put_logs(tl_event_storage *s, const tl_logs *logs, bool smooth)
{
    return tl_logs_walk(logs, put_entry, &(logs_put){s, smooth});
}

/* --- reading ---------------------------------------------------------------------------------- */

int64_t tl_event_storage_count(const tl_event_storage *s)
{
    return tl_map_count(&s->scalars);
}

static tl_status latest_of(tl_event_latest *out, tl_event_scalar *scalar)
{
    TL_TRY(read_all(scalar));
    const tl_history *h = &scalar->history;
    *out = (tl_event_latest){.name = scalar->name,
                             .value = tl_history_latest(h),
                             .smooth = scalar->smooth,
                             .iteration = h->count ? tl_history_iteration(h, h->count - 1) : -1};
    return TL_OK;
}

tl_status tl_event_storage_at(tl_event_latest *out, tl_event_storage *s, int64_t index)
{
    return latest_of(out, tl_map_at(&s->scalars, index));
}

tl_status tl_event_storage_smoothed_at(tl_event_latest *out, tl_event_storage *s, int64_t index,
                                       int64_t window)
{
    tl_event_scalar *scalar = tl_map_at(&s->scalars, index);
    TL_TRY(latest_of(out, scalar));
    if (scalar->smooth) out->value = tl_history_median(&scalar->history, window);
    return TL_OK;
}

// NULL when nothing was put under the name.
static tl_event_scalar *find(const tl_event_storage *s, const char *name)
{
    tl_event_scalar *scalar = tl_map_get(&s->scalars, name);
    return scalar && (scalar->history.count || scalar->waiting_count) ? scalar : NULL;
}

static tl_status fail_not_found(const tl_event_storage *s, const char *name)
{
    tl_str there = TL_STR_INIT;
    for (int64_t i = 0; i < tl_map_count(&s->scalars); i++)
        tl_str_addf(&there, "%s%s", i ? ", " : "", tl_map_key(&s->scalars, i));
    tl_status st = TL_FAIL(TL_ENOTFOUND, "the event storage has no scalar '%s'; it has %s", name,
                           there.length ? tl_str_text(&there) : "none");
    tl_str_deinit(&there);
    return st;
}

tl_status tl_event_storage_latest(tl_event_latest *out, tl_event_storage *s, const char *name)
{
    tl_event_scalar *scalar = find(s, name);
    return scalar ? latest_of(out, scalar) : fail_not_found(s, name);
}

tl_status tl_event_storage_history(const tl_history **out, tl_event_storage *s, const char *name)
{
    tl_event_scalar *scalar = find(s, name);
    *out = NULL;
    if (!scalar) return TL_OK;
    TL_TRY(read_all(scalar));
    *out = &scalar->history;
    return TL_OK;
}
