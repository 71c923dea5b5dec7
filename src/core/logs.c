#include <tilth/core/logs.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/map.h>

#include "core/inner/element.h"
#include "core/inner/number.h"

enum { USUAL_BINS = 30, MOST_BINS = 1 << 20, DEEPEST = 64, SHOWN_TEXT = 40 };

/* An entry, or nothing yet: the name of one is borrowed from the map. */
typedef struct item {
    tl_logs_kind kind;
    double number;
    tl_tensor *tensor;
    char *text;
    int64_t bins;
    tl_logs *logs;
} item;

struct tl_logs {
    tl_map items; /* to item, owned */
};

static const char *const kind_names[] = {
    [TL_LOGS_NUMBER] = "number",       [TL_LOGS_TEXT] = "text",     [TL_LOGS_IMAGE] = "image",
    [TL_LOGS_HISTOGRAM] = "histogram", [TL_LOGS_TENSOR] = "tensor", [TL_LOGS_LOGS] = "logs",
};

const char *tl_logs_kind_name(tl_logs_kind kind)
{
    TL_ASSERT((int)kind >= 0 && kind < sizeof kind_names / sizeof *kind_names);
    return kind_names[kind];
}

tl_status tl_logs_new(tl_logs **out)
{
    tl_logs *l = tl_alloc_zero(sizeof *l);
    if (!l) return TL_FAIL_NOMEM(sizeof *l);
    *out = l;
    return TL_OK;
}

static void item_deinit(item *i)
{
    tl_tensor_free(&i->tensor);
    tl_free(i->text);
    tl_logs_free(&i->logs);
}

void tl_logs_clear(tl_logs *l)
{
    for (int64_t i = 0; i < tl_map_count(&l->items); i++) {
        item *it = tl_map_at(&l->items, i);
        item_deinit(it);
        tl_free(it);
    }
    tl_map_deinit(&l->items);
}

void tl_logs_free(tl_logs **l)
{
    if (!*l) return;
    tl_logs_clear(*l);
    tl_free(*l);
    *l = NULL;
}

/* --- filling ---------------------------------------------------------------------------------- */

// Puts what `value` holds under a name; it is the logs' from now on, also when this fails.
static tl_status put(tl_logs *l, const char *name, item value)
{
    TL_ASSERT((value.kind == TL_LOGS_LOGS) == (value.logs != NULL)
              && (value.kind == TL_LOGS_TEXT) == (value.text != NULL));
    item *there = tl_map_get(&l->items, name);
    if (there) {
        item_deinit(there);
        *there = value;
        return TL_OK;
    }
    there = tl_alloc(sizeof *there);
    tl_status st = !*name   ? TL_FAIL(TL_EINVAL, "logs: a name must not be empty")
                   : !there ? TL_FAIL_NOMEM(sizeof *there)
                            : tl_map_set(&l->items, name, there);
    if (st != TL_OK) {
        item_deinit(&value);
        tl_free(there);
        return st;
    }
    *there = value;
    return TL_OK;
}

static tl_status put_kept(tl_logs *l, const char *name, const tl_tensor *t, item value)
{
    TL_TRY_NOTE(tl_tensor_keep(&value.tensor, t), "%s", name);
    return put(l, name, value);
}

tl_status tl_logs_put(tl_logs *l, const char *name, double value)
{
    return put(l, name, (item){.kind = TL_LOGS_NUMBER, .number = value});
}

tl_status tl_logs_put_tensor(tl_logs *l, const char *name, const tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    if (tl_tensor_count(t) != 1)
        return TL_FAIL(TL_EINVAL,
                       "%s: %s is no number; log its mean, its largest element or a histogram",
                       name, tl_tensor_spec(spec, t));
    return put_kept(l, name, t, (item){.kind = TL_LOGS_NUMBER});
}

tl_status tl_logs_put_any(tl_logs *l, const char *name, const tl_tensor *t)
{
    return put_kept(l, name, t,
                    (item){.kind = tl_tensor_count(t) == 1 ? TL_LOGS_NUMBER : TL_LOGS_TENSOR});
}

tl_status tl_logs_put_text(tl_logs *l, const char *name, const char *text)
{
    char *copy = tl_strdup(text);
    if (!copy) return TL_FAIL_NOMEM(strlen(text) + 1);
    return put(l, name, (item){.kind = TL_LOGS_TEXT, .text = copy});
}

tl_status tl_logs_put_image(tl_logs *l, const char *name, const tl_tensor *t)
{
    int64_t channels = t->shape.rank == 3 ? t->shape.dims[2] : 0;
    bool type = t->dtype == TL_U8 || tl_dtype_is_float(t->dtype);
    char spec[TL_TENSOR_TEXT];
    if (!type || (channels != 1 && channels != 3 && channels != 4))
        return TL_FAIL(TL_EINVAL,
                       "%s: %s is no image; it must be [height, width, channels] of uint8 or "
                       "floats, with 1, 3 or 4 channels",
                       name, tl_tensor_spec(spec, t));
    return put_kept(l, name, t, (item){.kind = TL_LOGS_IMAGE});
}

tl_status tl_logs_put_histogram(tl_logs *l, const char *name, const tl_tensor *t, int64_t bins)
{
    if (bins < 0 || bins > MOST_BINS)
        return TL_FAIL(TL_EINVAL, "%s: a histogram has 1 to %d bins, not %" PRId64, name, MOST_BINS,
                       bins);
    return put_kept(l, name, t,
                    (item){.kind = TL_LOGS_HISTOGRAM, .bins = bins ? bins : USUAL_BINS});
}

tl_status tl_logs_sub(tl_logs **out, tl_logs *l, const char *name)
{
    const item *there = tl_map_get(&l->items, name);
    if (there && there->kind != TL_LOGS_LOGS)
        return TL_FAIL(TL_EEXISTS, "'%s' is a %s already and holds no others", name,
                       kind_names[there->kind]);
    if (there) {
        *out = there->logs;
        return TL_OK;
    }
    tl_logs *sub = NULL;
    TL_TRY(tl_logs_new(&sub));
    TL_TRY(put(l, name, (item){.kind = TL_LOGS_LOGS, .logs = sub}));
    *out = sub;
    return TL_OK;
}

static tl_status merge_item(tl_logs *l, const char *name, const item *from);

static tl_status merge(tl_logs *l, const tl_logs *from, int depth)
{
    if (depth > DEEPEST) return TL_FAIL(TL_ELIMIT, "logs are nested more than %d deep", DEEPEST);
    for (int64_t i = 0; i < tl_map_count(&from->items); i++) {
        const char *name = tl_map_key(&from->items, i);
        const item *value = tl_map_at(&from->items, i), *there = tl_map_get(&l->items, name);
        if (value->kind != TL_LOGS_LOGS) {
            TL_TRY(merge_item(l, name, value));
            continue;
        }
        tl_logs *sub = NULL;
        if (there && there->kind != TL_LOGS_LOGS) { // logs take the place of a value
            TL_TRY(tl_logs_new(&sub));
            TL_TRY(put(l, name, (item){.kind = TL_LOGS_LOGS, .logs = sub}));
        }
        TL_TRY(tl_logs_sub(&sub, l, name));
        TL_TRY(merge(sub, value->logs, depth + 1));
    }
    return TL_OK;
}

static tl_status merge_item(tl_logs *l, const char *name, const item *from)
{
    item value = *from;
    value.tensor = NULL;
    if (from->text) return tl_logs_put_text(l, name, from->text);
    if (from->tensor) return put_kept(l, name, from->tensor, value);
    return put(l, name, value);
}

tl_status tl_logs_merge(tl_logs *l, const tl_logs *from)
{
    return l == from ? TL_OK : merge(l, from, 0);
}

/* --- paths ------------------------------------------------------------------------------------ */

// A path is a name, or the name of logs, a slash and a path in them; names may have slashes
// themselves.
static item *find(const tl_logs *l, const char *path, tl_logs **holder)
{
    item *it = tl_map_get(&l->items, path);
    if (it) {
        *holder = (tl_logs *)l;
        return it;
    }
    for (int64_t i = 0; i < tl_map_count(&l->items); i++) {
        const char *name = tl_map_key(&l->items, i);
        size_t length = strlen(name);
        const item *sub = tl_map_at(&l->items, i);
        if (sub->kind != TL_LOGS_LOGS || strncmp(path, name, length) != 0 || path[length] != '/')
            continue;
        it = find(sub->logs, path + length + 1, holder);
        if (it) return it;
    }
    return NULL;
}

bool tl_logs_remove(tl_logs *l, const char *path)
{
    tl_logs *holder;
    item *it = find(l, path, &holder);
    if (!it) return false;
    for (int64_t i = 0; i < tl_map_count(&holder->items); i++) {
        if (tl_map_at(&holder->items, i) != it) continue;
        // The key is the map's own, which removing frees: so it is the last thing done.
        item_deinit(it);
        tl_free(it);
        tl_map_remove(&holder->items, path + strlen(path) - strlen(tl_map_key(&holder->items, i)));
        return true;
    }
    return false;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void show(tl_logs_entry *out, const char *name, const item *it)
{
    *out = (tl_logs_entry){.name = name,
                           .kind = it->kind,
                           .number = it->number,
                           .tensor = it->tensor,
                           .text = it->text,
                           .bins = it->bins,
                           .logs = it->logs};
}

int64_t tl_logs_count(const tl_logs *l)
{
    return tl_map_count(&l->items);
}

void tl_logs_at(tl_logs_entry *out, const tl_logs *l, int64_t index)
{
    show(out, tl_map_key(&l->items, index), tl_map_at(&l->items, index));
}

bool tl_logs_find(tl_logs_entry *out, const tl_logs *l, const char *path)
{
    tl_logs *holder;
    const item *it = find(l, path, &holder);
    if (!it) return false;
    for (int64_t i = 0; i < tl_map_count(&holder->items); i++)
        if (tl_map_at(&holder->items, i) == it) tl_logs_at(out, holder, i);
    return true;
}

tl_status tl_logs_entry_number(double *out, const tl_logs_entry *entry)
{
    if (entry->kind != TL_LOGS_NUMBER)
        return TL_FAIL(TL_EINVAL, "'%s' is no number but %s", entry->name, kind_names[entry->kind]);
    *out = entry->number;
    if (entry->tensor) TL_TRY_NOTE(tl_tensor_item(entry->tensor, out), "%s", entry->name);
    return TL_OK;
}

static tl_status add_name(const tl_logs_entry *entry, void *payload)
{
    tl_str *names = payload;
    tl_str_addf(names, "%s%s", names->length ? ", " : "", entry->name);
    return TL_OK;
}

static tl_status fail_not_found(const tl_logs *l, const char *path)
{
    tl_str names = TL_STR_INIT;
    tl_status st = tl_logs_walk(l, add_name, &names);
    if (st == TL_OK)
        st = TL_FAIL(TL_ENOTFOUND, "the logs have no '%s'; they have %s", path,
                     names.length ? tl_str_text(&names) : "nothing");
    tl_str_deinit(&names);
    return st;
}

tl_status tl_logs_number(double *out, const tl_logs *l, const char *path)
{
    tl_logs_entry entry;
    if (!tl_logs_find(&entry, l, path)) return fail_not_found(l, path);
    return tl_logs_entry_number(out, &entry);
}

double tl_logs_number_or(const tl_logs *l, const char *path, double otherwise)
{
    tl_logs_entry entry;
    double number;
    if (!tl_logs_find(&entry, l, path) || entry.kind != TL_LOGS_NUMBER) return otherwise;
    return tl_logs_entry_number(&number, &entry) == TL_OK ? number : otherwise;
}

static tl_status walk(const tl_logs *l, tl_str *path, tl_logs_fn *fn, void *payload, int depth)
{
    if (depth > DEEPEST) return TL_FAIL(TL_ELIMIT, "logs are nested more than %d deep", DEEPEST);
    size_t length = path->length;
    for (int64_t i = 0; i < tl_logs_count(l); i++) {
        tl_logs_entry entry;
        tl_logs_at(&entry, l, i);
        if (length) tl_str_addc(path, '/');
        tl_str_add(path, entry.name);
        TL_TRY(tl_str_status(path));
        entry.name = tl_str_text(path);
        TL_TRY(entry.kind == TL_LOGS_LOGS ? walk(entry.logs, path, fn, payload, depth + 1)
                                          : fn(&entry, payload));
        tl_str_cut(path, length);
    }
    return TL_OK;
}

tl_status tl_logs_walk(const tl_logs *l, tl_logs_fn *fn, void *payload)
{
    tl_str path = TL_STR_INIT;
    tl_status st = walk(l, &path, fn, payload, 0);
    tl_str_deinit(&path);
    return st;
}

/* --- histograms ------------------------------------------------------------------------------- */

static void sum_up(tl_histogram *h, const tl_tensor *t, const void *elements)
{
    for (int64_t i = 0, n = tl_tensor_count(t); i < n; i++) {
        double x = tli_element_get(t->dtype, elements, i);
        if (!isfinite(x)) {
            h->strange++;
            continue;
        }
        if (!h->count || x < h->min) h->min = x;
        if (!h->count || x > h->max) h->max = x;
        h->count++;
        h->sum += x;
        h->sum_squares += x * x;
    }
}

// Elements that are all the same lie in the middle of bins that are a little wide.
static void set_edges(double *edges, int64_t bins, double min, double max)
{
    if (min == max) {
        double half = fabs(min) > 1 ? fabs(min) / 2 : 0.5;
        min -= half;
        max += half;
    }
    for (int64_t i = 0; i <= bins; i++) {
        double share = (double)i / (double)bins;
        edges[i] = min * (1 - share) + max * share; // no overflow, whatever the range
    }
}

static int64_t bin_of(const double *edges, int64_t bins, double x)
{
    int64_t low = 0, high = bins - 1;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (x >= edges[middle]) low = middle;
        else high = middle - 1;
    }
    TL_ASSERT(low >= 0 && low < bins && (low == 0 || x >= edges[low]));
    return low;
}

tl_status tl_logs_entry_histogram(tl_histogram *out, tl_arena *arena, const tl_logs_entry *entry)
{
    if (entry->kind != TL_LOGS_HISTOGRAM)
        return TL_FAIL(TL_EINVAL, "'%s' is no histogram but %s", entry->name,
                       kind_names[entry->kind]);
    double *edges = tl_arena_array(arena, entry->bins + 1, sizeof *edges);
    int64_t *counts = tl_arena_array(arena, entry->bins, sizeof *counts);
    if (!edges || !counts) return TL_ENOMEM;
    tl_histogram h = {.bins = entry->bins, .edges = edges, .counts = counts};
    const tl_tensor *t = entry->tensor;
    tl_lease l;
    TL_TRY_NOTE(tl_lease_read(&l, t), "%s", entry->name);
    sum_up(&h, t, l.data);
    set_edges(edges, h.bins, h.min, h.max);
    TL_ASSERT(h.count + h.strange == tl_tensor_count(t));
    for (int64_t i = 0, n = tl_tensor_count(t); i < n; i++) {
        double x = tli_element_get(t->dtype, l.data, i);
        if (isfinite(x)) counts[bin_of(edges, h.bins, x)]++;
    }
    tl_lease_drop(&l);
    *out = h;
    return TL_OK;
}

/* --- text ------------------------------------------------------------------------------------- */

static void add_number(tl_str *out, double x)
{
    char text[64];
    bool whole = x == floor(x) && fabs(x) < 1e15;
    tli_number_text(text, sizeof text, whole ? "%.*f" : "%.*g", whole ? 0 : 6, x + 0.0); // no "-0"
    tl_str_add(out, text);
}

static tl_status add_logs(tl_str *out, const tl_logs *l, int depth);

static tl_status add_entry(tl_str *out, const tl_logs_entry *e, int depth)
{
    char spec[TL_TENSOR_TEXT];
    double number;
    tl_str_addf(out, "%s: ", e->name);
    switch (e->kind) {
    case TL_LOGS_NUMBER:
        TL_TRY(tl_logs_entry_number(&number, e));
        add_number(out, number);
        break;
    case TL_LOGS_TEXT:
        tl_str_addf(out, "'%.*s%s'", SHOWN_TEXT, e->text,
                    strlen(e->text) > SHOWN_TEXT ? "..." : "");
        break;
    case TL_LOGS_IMAGE: tl_str_addf(out, "image %s", tl_tensor_spec(spec, e->tensor)); break;
    case TL_LOGS_TENSOR: tl_str_addf(out, "%s", tl_tensor_spec(spec, e->tensor)); break;
    case TL_LOGS_HISTOGRAM:
        tl_str_addf(out, "histogram of %s", tl_tensor_spec(spec, e->tensor));
        break;
    case TL_LOGS_LOGS:
        tl_str_addc(out, '{');
        TL_TRY(add_logs(out, e->logs, depth + 1));
        tl_str_addc(out, '}');
        break;
    }
    return TL_OK;
}

static tl_status add_logs(tl_str *out, const tl_logs *l, int depth)
{
    if (depth > DEEPEST) return TL_FAIL(TL_ELIMIT, "logs are nested more than %d deep", DEEPEST);
    for (int64_t i = 0; i < tl_logs_count(l); i++) {
        tl_logs_entry entry;
        tl_logs_at(&entry, l, i);
        if (i) tl_str_add(out, ", ");
        TL_TRY(add_entry(out, &entry, depth));
    }
    return TL_OK;
}

tl_status tl_logs_text(tl_str *out, const tl_logs *l)
{
    TL_TRY(add_logs(out, l, 0));
    return tl_str_status(out);
}
