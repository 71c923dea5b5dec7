#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "core/inner/element.h"
#include "core/inner/state.h"
#include "core/inner/tensor.h"

enum { SHOWN = 10 };

/* --- reports ---------------------------------------------------------------------------------- */

void tl_state_report_deinit(tl_state_report *r)
{
    TL_VEC_FREE(r);
    tl_arena_free(&r->arena);
    *r = (tl_state_report){0};
}

bool tl_state_report_clean(const tl_state_report *r)
{
    return r->count == 0;
}

static const char *const headings[TL_STATE_VERDICTS] = {
    [TL_STATE_MISSING] = "missing (wanted, and not there)",
    [TL_STATE_UNEXPECTED] = "unexpected (there, and not wanted)",
    [TL_STATE_DIFFERENT] = "different",
};

static void add_finding(tl_str *out, const tl_state_finding *f, int width)
{
    tl_str_addf(out, "\n    %-*s  ", width, f->path);
    if (f->wanted && f->found) tl_str_addf(out, "%s wanted, %s found", f->wanted, f->found);
    else tl_str_add(out, f->wanted ? f->wanted : f->found);
}

static void add_verdict(tl_str *out, const tl_state_report *r, tl_state_verdict verdict,
                        int64_t most)
{
    int64_t shown = 0, count = r->counts[verdict];
    int width = 0;
    if (!count) return;
    tl_str_addf(out, "\n  %s:", headings[verdict]);
    for (int64_t i = 0; i < r->count; i++) {
        int length = (int)strlen(r->items[i].path);
        if (r->items[i].verdict == verdict && length > width) width = length;
    }
    for (int64_t i = 0; i < r->count && (!most || shown < most); i++) {
        if (r->items[i].verdict != verdict) continue;
        add_finding(out, &r->items[i], width);
        shown++;
    }
    if (shown < count) tl_str_addf(out, "\n    and %" PRId64 " more", count - shown);
}

void tl_state_report_text(tl_str *out, const tl_state_report *r, int64_t most)
{
    tl_str_addf(out,
                "%" PRId64 " matched, %" PRId64 " missing, %" PRId64 " unexpected, %" PRId64
                " different",
                r->matched, r->counts[TL_STATE_MISSING], r->counts[TL_STATE_UNEXPECTED],
                r->counts[TL_STATE_DIFFERENT]);
    for (int v = 0; v < TL_STATE_VERDICTS; v++) add_verdict(out, r, (tl_state_verdict)v, most);
}

static const char *value_text(tl_state_report *r, const tli_state_entry *e)
{
    tl_str text = TL_STR_INIT;
    tli_state_value_text(&text, e);
    const char *copy = tl_str_copy(&text, r->arena);
    tl_str_deinit(&text);
    return copy;
}

// The texts are those of the entries unless `wanted` and `found` are given.
static tl_status note(tl_state_report *r, tl_state_verdict verdict, const char *path,
                      const char *wanted, const char *found)
{
    tl_state_finding f = {verdict, tl_arena_strdup(r->arena, path), wanted, found};
    if (!f.path || !TL_VEC_PUSH(r, f)) return TL_ENOMEM;
    r->counts[verdict]++;
    TL_ASSERT(r->counts[TL_STATE_MISSING] + r->counts[TL_STATE_UNEXPECTED]
                  + r->counts[TL_STATE_DIFFERENT]
              == r->count);
    return TL_OK;
}

static tl_status note_entries(tl_state_report *r, tl_state_verdict verdict, const char *path,
                              const tli_state_entry *wanted, const tli_state_entry *found)
{
    const char *wanted_text = wanted ? value_text(r, wanted) : NULL;
    const char *found_text = found ? value_text(r, found) : NULL;
    if ((wanted && !wanted_text) || (found && !found_text)) return TL_ENOMEM;
    return note(r, verdict, path, wanted_text, found_text);
}

/* --- comparing -------------------------------------------------------------------------------- */

static bool tensors_fit(const tl_tensor *a, const tl_tensor *b, bool cast)
{
    if (!tl_shape_equal(&a->shape, &b->shape)) return false;
    return a->dtype == b->dtype
           || (cast && tl_dtype_is_float(a->dtype) && tl_dtype_is_float(b->dtype));
}

static bool entries_fit(const tli_state_entry *a, const tli_state_entry *b, bool cast)
{
    if (a->kind != b->kind) return false;
    if (a->kind == TL_STATE_TENSOR) return tensors_fit(a->at.tensor, b->at.tensor, cast);
    return a->kind != TL_STATE_WORDS || a->count == b->count;
}

// The first element whose bits differ, or -1. Types and shapes are equal.
static tl_status first_difference(int64_t *out, const tl_tensor *a, const tl_tensor *b)
{
    TL_ASSERT(a->dtype == b->dtype && tl_shape_equal(&a->shape, &b->shape));
    tl_lease x, y;
    size_t size = tl_dtype_size(a->dtype);
    TL_TRY(tl_lease_read(&x, a));
    tl_status st = tl_lease_read(&y, b);
    *out = -1;
    for (int64_t i = 0, n = tl_tensor_count(a); st == TL_OK && i < n && *out < 0; i++)
        if (memcmp((const char *)x.data + (size_t)i * size, (const char *)y.data + (size_t)i * size,
                   size)
            != 0)
            *out = i;
    tl_lease_drop(&y);
    tl_lease_drop(&x);
    return st;
}

static const char *element_text(tl_state_report *r, const tl_tensor *t, int64_t i)
{
    tl_lease l;
    char number[32], spec[TL_TENSOR_TEXT];
    if (tl_lease_read(&l, t) != TL_OK) return NULL;
    tl_double_text(number, tli_element_get(t->dtype, l.data, i));
    tl_lease_drop(&l);
    return tl_arena_printf(r->arena, "%s with %s at element %" PRId64, tl_tensor_spec(spec, t),
                           number, i);
}

static tl_status compare_tensors(tl_state_report *r, bool *equal, const char *path,
                                 const tl_tensor *wanted, const tl_tensor *there)
{
    int64_t at;
    if (wanted->dtype != there->dtype) return TL_OK; // they match because they are cast
    TL_TRY_NOTE(first_difference(&at, wanted, there), "%s", path);
    *equal = at < 0;
    if (*equal) return TL_OK;
    const char *wanted_text = element_text(r, wanted, at), *there_text = element_text(r, there, at);
    if (!wanted_text || !there_text) return tl_error_code();
    return note(r, TL_STATE_DIFFERENT, path, wanted_text, there_text);
}

static bool scalars_equal(const tl_state_entry *a, const tl_state_entry *b)
{
    switch (a->kind) {
    case TL_STATE_INT: return a->i == b->i;
    case TL_STATE_DOUBLE: return memcmp(&a->d, &b->d, sizeof a->d) == 0;
    case TL_STATE_BOOL: return a->b == b->b;
    case TL_STATE_TEXT: return strcmp(a->text, b->text) == 0;
    case TL_STATE_WORDS: return !a->count || memcmp(a->words, b->words, (size_t)a->count * 8) == 0;
    default: return true;
    }
}

static tl_status compare_values(tl_state_report *r, bool *equal, const char *path,
                                const tli_state_entry *wanted, const tli_state_entry *there)
{
    *equal = true;
    if (wanted->kind == TL_STATE_TENSOR)
        return compare_tensors(r, equal, path, wanted->at.tensor, there->at.tensor);
    tl_state_entry a, b;
    tli_state_read(&a, wanted);
    tli_state_read(&b, there);
    *equal = scalars_equal(&a, &b);
    return *equal ? TL_OK : note_entries(r, TL_STATE_DIFFERENT, path, wanted, there);
}

/* What matches what: for each wanted leaf the entry that is there, NULL when there is none that
 * fits. */
typedef struct pairing {
    tli_state_leaves wanted, there;
    const tli_state_entry **found; /* by wanted leaf */
} pairing;

static void pairing_deinit(pairing *p)
{
    tl_free(p->found);
    tli_state_leaves_deinit(&p->wanted);
    tli_state_leaves_deinit(&p->there);
}

static tl_status compare_leaf(tl_state_report *r, pairing *p, int64_t i, const tl_state *there,
                              const tl_state_compare_args *args)
{
    const tli_state_leaf *leaf = &p->wanted.items[i];
    const tli_state_entry *e = tli_state_find(there, leaf->path);
    if (!e) return TL_OK; // perhaps there under an alias
    if (!entries_fit(leaf->entry, e, args->cast))
        return note_entries(r, TL_STATE_DIFFERENT, leaf->path, leaf->entry, e);
    bool equal = true;
    if (args->values) TL_TRY(compare_values(r, &equal, leaf->path, leaf->entry, e));
    if (!equal) return TL_OK;
    p->found[i] = e;
    r->matched++;
    return TL_OK;
}

static bool found_under_alias(const pairing *p, int64_t i)
{
    for (int64_t k = 0; k < p->wanted.count; k++)
        if (k != i && p->wanted.items[k].first == p->wanted.items[i].first && p->found[k])
            return true;
    return false;
}

static tl_status note_missing(tl_state_report *r, const pairing *p, const tl_state *there)
{
    for (int64_t i = 0; i < p->wanted.count; i++) {
        const tli_state_leaf *leaf = &p->wanted.items[i];
        if (p->found[i] || tli_state_find(there, leaf->path)) continue; // matched, or told already
        if (found_under_alias(p, i)) r->matched++;
        else TL_TRY(note_entries(r, TL_STATE_MISSING, leaf->path, leaf->entry, NULL));
    }
    return TL_OK;
}

// An alias that is there need not be wanted when the tensor itself is.
static bool wanted_under_alias(const pairing *p, const tl_state *wanted, int64_t i)
{
    for (int64_t k = 0; k < p->there.count; k++)
        if (k != i && p->there.items[k].first == p->there.items[i].first
            && tli_state_find(wanted, p->there.items[k].path))
            return true;
    return false;
}

static tl_status note_unexpected(tl_state_report *r, const pairing *p, const tl_state *wanted)
{
    for (int64_t i = 0; i < p->there.count; i++) {
        const tli_state_leaf *leaf = &p->there.items[i];
        const tli_state_entry *e = tli_state_find(wanted, leaf->path);
        bool told = e && e->kind != TL_STATE_STATE;
        if (told || wanted_under_alias(p, wanted, i)) continue;
        TL_TRY(note_entries(r, TL_STATE_UNEXPECTED, leaf->path, NULL, leaf->entry));
    }
    return TL_OK;
}

static tl_status pair(pairing *p, tl_state_report *r, const tl_state *wanted, const tl_state *there,
                      const tl_state_compare_args *args)
{
    *p = (pairing){0};
    TL_TRY(tl_arena_new(&r->arena));
    TL_TRY(tli_state_collect(&p->wanted, wanted));
    TL_TRY(tli_state_collect(&p->there, there));
    size_t bytes = (size_t)p->wanted.count * sizeof *p->found;
    p->found = tl_alloc_zero(bytes);
    if (!p->found) return TL_FAIL_NOMEM(bytes);
    for (int64_t i = 0; i < p->wanted.count; i++) TL_TRY(compare_leaf(r, p, i, there, args));
    TL_TRY(note_missing(r, p, there));
    TL_ASSERT(r->matched + r->count == p->wanted.count); // each of them was matched, or told of
    return note_unexpected(r, p, wanted);
}

tl_status tl_state_compare(tl_state_report *out, const tl_state *wanted, const tl_state *there,
                           const tl_state_compare_args *args)
{
    static const tl_state_compare_args plain = {false, false};
    pairing p;
    *out = (tl_state_report){0};
    tl_status st = pair(&p, out, wanted, there, args ? args : &plain);
    pairing_deinit(&p);
    if (st != TL_OK) tl_state_report_deinit(out);
    return st;
}

/* --- copying ---------------------------------------------------------------------------------- */

static bool same_elements(const tl_tensor *a, const tl_tensor *b)
{
    return a->storage == b->storage && a->offset == b->offset
           && memcmp(a->strides, b->strides, (size_t)a->shape.rank * sizeof *a->strides) == 0;
}

static tl_status copy_tensor(tl_tensor *to, const tl_tensor *from)
{
    TL_ASSERT(to->storage && from->storage && tl_shape_equal(&to->shape, &from->shape));
    if (same_elements(to, from)) return TL_OK;
    return tl_tensor_copy(to, from);
}

// What could go wrong with a value is asked before the first one is written.
static tl_status check_entry(const tli_state_entry *to, const tli_state_entry *from)
{
    tl_state_entry value;
    if (to->kind == TL_STATE_TENSOR) {
        if (!from->at.tensor->storage || !to->at.tensor->storage)
            return TL_FAIL(TL_ESTATE, "a tensor that is only described has no elements to copy");
        return same_elements(to->at.tensor, from->at.tensor)
                   ? TL_OK
                   : tli_copy_reserve(to->at.tensor, from->at.tensor);
    }
    tli_state_read(&value, from);
    return tli_state_accepts(to, &value);
}

static tl_status copy_entry(tli_state_entry *to, const tli_state_entry *from)
{
    TL_ASSERT(to->kind == from->kind); // pair has compared them
    tl_state_entry value;
    if (to->kind == TL_STATE_TENSOR) return copy_tensor(to->at.tensor, from->at.tensor);
    tli_state_read(&value, from);
    return tli_state_write(to, &value);
}

static bool due(const pairing *p, int64_t i)
{
    if (!p->found[i]) return false;
    // A tensor with several paths is copied once, from the first that is there.
    for (int64_t k = p->wanted.items[i].first; k < i; k++)
        if (p->wanted.items[k].first == p->wanted.items[i].first && p->found[k]) return false;
    return true;
}

static tl_status copy_pairs(pairing *p)
{
    for (int64_t i = 0; i < p->wanted.count; i++)
        if (due(p, i))
            TL_TRY_NOTE(check_entry(p->wanted.items[i].entry, p->found[i]), "%s",
                        p->wanted.items[i].path);
    for (int64_t i = 0; i < p->wanted.count; i++) {
        if (!due(p, i)) continue;
        TL_TRY_NOTE(copy_entry(p->wanted.items[i].entry, p->found[i]), "%s",
                    p->wanted.items[i].path);
        p->wanted.items[i].written = true;
    }
    return TL_OK;
}

static tl_status fail_misfit(const tl_state_report *r)
{
    tl_str text = TL_STR_INIT;
    tl_state_report_text(&text, r, SHOWN);
    tl_status st = TL_FAIL(TL_EINVAL, "the states do not fit: %s", tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

tl_status tl_state_copy(tl_state *to, const tl_state *from, const tl_state_copy_args *args,
                        tl_state_report *report)
{
    tl_state_copy_args how = args ? *args : (tl_state_copy_args){false, false};
    tl_state_report own = {0};
    pairing p;
    tl_status st = pair(&p, &own, to, from, &(tl_state_compare_args){.cast = how.cast});
    if (st == TL_OK && !how.partial && own.count) st = fail_misfit(&own);
    if (st == TL_OK) {
        st = copy_pairs(&p);
        tli_state_tell_restored(to, &p.wanted);
    }
    pairing_deinit(&p);
    if (report) *report = own;
    else tl_state_report_deinit(&own);
    return st;
}

/* --- snapshots -------------------------------------------------------------------------------- */

static tl_status clone_tensor(tl_state *to, const char *path, const tl_tensor *t)
{
    if (!t->storage) return tl_state_describe(to, path, t->dtype, t->shape);
    tl_tensor *copy;
    TL_TRY(tl_tensor_new(&copy, tl_tensor_engine(t), t->dtype, t->shape));
    tl_status st = copy_tensor(copy, t);
    if (st == TL_OK) st = tl_state_put(to, path, copy);
    tl_tensor_free(&copy); // the state keeps it
    return st;
}

static tl_status clone_entry(const tl_state_entry *e, void *payload)
{
    tl_state *to = payload;
    switch (e->kind) {
    case TL_STATE_INT: return tl_state_put_int(to, e->path, e->i);
    case TL_STATE_DOUBLE: return tl_state_put_double(to, e->path, e->d);
    case TL_STATE_BOOL: return tl_state_put_bool(to, e->path, e->b);
    case TL_STATE_TEXT: return tl_state_put_text(to, e->path, e->text);
    case TL_STATE_WORDS: return tl_state_put_words(to, e->path, e->words, e->count);
    case TL_STATE_TENSOR:
        if (!e->same_as) return clone_tensor(to, e->path, e->tensor);
        return tl_state_put(to, e->path, tli_state_find(to, e->same_as)->at.tensor);
    case TL_STATE_STATE: break;
    }
    return TL_OK;
}

tl_status tl_state_clone(tl_state **out, const tl_state *s)
{
    tl_state *copy;
    TL_TRY(tl_state_new(&copy));
    tl_status st = tl_state_walk(s, clone_entry, copy);
    if (st != TL_OK) {
        tl_state_free(&copy);
        return st;
    }
    *out = copy;
    return TL_OK;
}
