#include "core/inner/state.h"

#include <inttypes.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "core/inner/tensor.h"

enum { LONGEST_NAME = 255, DEEPEST = 64, SHOWN_TEXT = 40 };
/* States that the paths of a file may make: so many in all, and for each entry. Layers have an
 * entry or more. */
enum { NESTED_ALWAYS = 1024, NESTED_EACH = 2 };

static const char *const kind_names[] = {
    [TL_STATE_TENSOR] = "tensor", [TL_STATE_INT] = "int",   [TL_STATE_DOUBLE] = "double",
    [TL_STATE_BOOL] = "bool",     [TL_STATE_TEXT] = "text", [TL_STATE_WORDS] = "words",
    [TL_STATE_STATE] = "state",
};

const char *tl_state_kind_name(tl_state_kind kind)
{
    TL_ASSERT((int)kind >= 0 && kind < sizeof kind_names / sizeof *kind_names);
    return kind_names[kind];
}

tl_status tl_state_new(tl_state **out)
{
    tl_state *s = tl_alloc_zero(sizeof *s);
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    *out = s;
    return TL_OK;
}

static void entry_free(tli_state_entry *e)
{
    switch (e->kind) {
    case TL_STATE_TENSOR: tl_tensor_free(&e->at.tensor); break;
    case TL_STATE_STATE:
        if (e->owned) tl_state_free(&e->at.state);
        break;
    case TL_STATE_TEXT:
        if (e->at.text == &e->own.text) tl_str_deinit(&e->own.text);
        break;
    case TL_STATE_WORDS:
        if (e->owned) tl_free(e->at.words);
        break;
    default: break;
    }
    tl_free(e);
}

void tl_state_clear(tl_state *s)
{
    for (int64_t i = 0; i < tl_map_count(&s->entries); i++) entry_free(tl_map_at(&s->entries, i));
    tl_map_deinit(&s->entries);
    s->entries = (tl_map)TL_MAP_INIT;
    TL_VEC_FREE(&s->watchers);
}

void tl_state_free(tl_state **s)
{
    if (!*s) return;
    tl_state_clear(*s);
    tl_free(*s);
    *s = NULL;
}

/* --- paths ------------------------------------------------------------------------------------ */

/* The names of a path, one after the other. */
typedef struct names {
    const char *path, *rest; /* NULL: no more */
    char name[LONGEST_NAME + 1];
    int depth;
} names;

static tl_status next_name(names *n)
{
    const char *slash = strchr(n->rest, '/');
    size_t length = slash ? (size_t)(slash - n->rest) : strlen(n->rest);
    if (length == 0)
        return TL_FAIL(TL_EINVAL, "'%s' is no path: names are joined by one '/', and none is empty",
                       n->path);
    if (length > LONGEST_NAME)
        return TL_FAIL(TL_ELIMIT,
                       "a name in the path '%.60s...' has %zu bytes; at most %d are possible",
                       n->path, length, LONGEST_NAME);
    if (++n->depth > DEEPEST)
        return TL_FAIL(TL_ELIMIT, "the path '%.60s...' has more than %d names", n->path, DEEPEST);
    memcpy(n->name, n->rest, length);
    n->name[length] = '\0';
    n->rest = slash ? slash + 1 : NULL;
    TL_ASSERT(strlen(n->name) == length && n->depth <= DEEPEST);
    return TL_OK;
}

// "model/dense" of "model/dense/kernel", when `dense` was the last name taken.
static int taken_length(const names *n)
{
    return (int)(n->rest ? n->rest - n->path - 1 : (int64_t)strlen(n->path));
}

static tl_status check_path(const char *path)
{
    names n = {.path = path, .rest = path};
    while (n.rest) TL_TRY(next_name(&n));
    return TL_OK;
}

tli_state_entry *tli_state_find(const tl_state *s, const char *path)
{
    names n = {.path = path, .rest = path};
    tli_state_entry *e = NULL;
    while (n.rest) {
        if (e && e->kind != TL_STATE_STATE) return NULL;
        if (next_name(&n) != TL_OK) return NULL;
        e = tl_map_get(e ? &e->at.state->entries : &s->entries, n.name);
        if (!e) return NULL;
    }
    return e;
}

/* --- putting ---------------------------------------------------------------------------------- */

static tl_status fail_taken(const char *path, int length, const tli_state_entry *there)
{
    tl_str what = TL_STR_INIT;
    tli_state_value_text(&what, there);
    bool whole = path[length] == '\0';
    tl_status st =
        TL_FAIL(TL_EEXISTS, "'%s' cannot be added: '%.*s' is there already%s (%s)", path, length,
                path, whole ? "" : " and has nothing below it", tl_str_text(&what));
    tl_str_deinit(&what);
    return st;
}

// The innermost state on the way to a path that is there, and the names that are not. All names are
// checked.
static tl_status find_room(tl_state **inner, const char **missing, tl_state *s, const char *path)
{
    names n = {.path = path, .rest = path};
    *missing = NULL;
    while (n.rest) {
        const char *at = n.rest;
        TL_TRY(next_name(&n));
        if (*missing) continue;
        tli_state_entry *there = tl_map_get(&s->entries, n.name);
        if (!there) *missing = at;
        else if (!n.rest || there->kind != TL_STATE_STATE)
            return fail_taken(path, taken_length(&n), there);
        else s = there->at.state;
    }
    *inner = s;
    return TL_OK;
}

// A state that holds only `e`, as an entry; frees `e` when that fails.
static tl_status wrap(tli_state_entry **e, const char *name)
{
    tli_state_entry *around = tl_alloc_zero(sizeof *around);
    tl_status st = around ? tl_state_new(&around->at.state) : TL_FAIL_NOMEM(sizeof *around);
    if (st == TL_OK) st = tl_map_set(&around->at.state->entries, name, *e);
    if (st != TL_OK) {
        entry_free(*e);
        if (around) tl_state_free(&around->at.state);
        tl_free(around);
        return st;
    }
    around->kind = TL_STATE_STATE;
    around->owned = true;
    TL_ASSERT(tl_map_count(&around->at.state->entries) == 1);
    *e = around;
    return TL_OK;
}

void tli_state_distrust(tl_state *s)
{
    s->outside = true;
}

// Before an entry is added with these names, of which all but the last become states.
static tl_status count_nested(tl_state *s, const char *path, const char *missing)
{
    int64_t nested = s->nested, most = NESTED_ALWAYS + NESTED_EACH * (s->added + 1);
    for (const char *slash = missing; (slash = strchr(slash, '/')); slash++) nested++;
    if (s->outside && nested > most)
        return TL_FAIL(TL_ELIMIT,
                       "'%s' cannot be added: its path makes %" PRId64 " states, and for %" PRId64
                       " entries at most %" PRId64 " are accepted (%d and %d for each)",
                       path, nested, s->added + 1, most, NESTED_ALWAYS, NESTED_EACH);
    TL_ASSERT(nested >= s->nested && nested - s->nested < DEEPEST);
    s->nested = nested;
    s->added++;
    return TL_OK;
}

// Adds the entry at a path. What lacks on the way is made around it first, so that a failure leaves
// nothing behind. The entry is the state's from now on, and freed when this fails.
static tl_status add_entry(tl_state *s, const char *path, tli_state_entry *e)
{
    const char *missing;
    char name[LONGEST_NAME + 1];
    tl_state *whole = s;
    tl_status st = find_room(&s, &missing, s, path);
    if (st == TL_OK) st = count_nested(whole, path, missing);
    if (st != TL_OK) {
        entry_free(e);
        return st;
    }
    const char *end = path + strlen(path);
    TL_ASSERT(missing && missing >= path && missing < end);
    for (;;) {
        const char *start = end;
        while (start > missing && start[-1] != '/') start--;
        // find_room has looked at all of them.
        TL_ASSERT(end > start && end - start <= LONGEST_NAME);
        memcpy(name, start, (size_t)(end - start));
        name[end - start] = '\0';
        if (start == missing) break;
        TL_TRY(wrap(&e, name));
        end = start - 1;
    }
    st = tl_map_set(&s->entries, name, e);
    if (st != TL_OK) entry_free(e);
    return st;
}

static tl_status new_entry(tli_state_entry **out, tl_state_kind kind)
{
    *out = tl_alloc_zero(sizeof **out);
    if (!*out) return TL_FAIL_NOMEM(sizeof **out);
    (*out)->kind = kind;
    return TL_OK;
}

tl_status tl_state_put(tl_state *s, const char *path, const tl_tensor *t)
{
    tli_state_entry *e;
    TL_TRY(new_entry(&e, TL_STATE_TENSOR));
    tl_status st = tl_tensor_keep(&e->at.tensor, t);
    if (st != TL_OK) {
        entry_free(e);
        return tl_error_note(st, "%s", path);
    }
    return add_entry(s, path, e);
}

tl_status tl_state_describe(tl_state *s, const char *path, tl_dtype dtype, tl_shape shape)
{
    TL_TRY(tl_shape_check(&shape, path));
    tli_state_entry *e;
    TL_TRY(new_entry(&e, TL_STATE_TENSOR));
    tl_tensor *t = e->at.tensor = tl_alloc_zero(sizeof *t);
    if (!t) {
        entry_free(e);
        return TL_FAIL_NOMEM(sizeof *t);
    }
    t->dtype = dtype;
    t->shape = shape;
    tli_tensor_row_major(t);
    return add_entry(s, path, e);
}

/* Scalars: bound to a variable of the program, or to one in the entry. */
#define SCALAR(name, KIND, type, member)                                                           \
    tl_status tl_state_bind_##name(tl_state *s, const char *path, type *value)                     \
    {                                                                                              \
        tli_state_entry *e;                                                                        \
        TL_TRY(new_entry(&e, KIND));                                                               \
        e->at.member = value;                                                                      \
        return add_entry(s, path, e);                                                              \
    }                                                                                              \
    tl_status tl_state_put_##name(tl_state *s, const char *path, type value)                       \
    {                                                                                              \
        tli_state_entry *e;                                                                        \
        TL_TRY(new_entry(&e, KIND));                                                               \
        e->own.member = value;                                                                     \
        e->at.member = &e->own.member;                                                             \
        return add_entry(s, path, e);                                                              \
    }
SCALAR(int, TL_STATE_INT, int64_t, i)
SCALAR(double, TL_STATE_DOUBLE, double, d)
SCALAR(bool, TL_STATE_BOOL, bool, b)
#undef SCALAR

tl_status tl_state_bind_text(tl_state *s, const char *path, tl_str *value)
{
    tli_state_entry *e;
    TL_TRY(new_entry(&e, TL_STATE_TEXT));
    e->at.text = value;
    return add_entry(s, path, e);
}

tl_status tl_state_put_text(tl_state *s, const char *path, const char *value)
{
    tli_state_entry *e;
    TL_TRY(new_entry(&e, TL_STATE_TEXT));
    e->at.text = &e->own.text;
    tl_str_add(e->at.text, value);
    tl_status st = tl_str_status(e->at.text);
    if (st != TL_OK) {
        entry_free(e);
        return st;
    }
    return add_entry(s, path, e);
}

tl_status tl_state_bind_words(tl_state *s, const char *path, uint64_t *words, int64_t count)
{
    tli_state_entry *e;
    TL_TRY(new_entry(&e, TL_STATE_WORDS));
    e->at.words = words;
    e->count = count;
    return add_entry(s, path, e);
}

static tl_status own_words(tli_state_entry **out, int64_t count)
{
    tli_state_entry *e;
    TL_TRY(new_entry(&e, TL_STATE_WORDS));
    e->owned = true;
    e->count = count;
    e->at.words = tl_alloc_zero((size_t)count * sizeof *e->at.words);
    if (!e->at.words) {
        entry_free(e);
        return TL_FAIL_NOMEM((size_t)count * sizeof *e->at.words);
    }
    *out = e;
    return TL_OK;
}

tl_status tl_state_put_words(tl_state *s, const char *path, const uint64_t *words, int64_t count)
{
    tli_state_entry *e = NULL;
    TL_TRY(own_words(&e, count));
    if (count) memcpy(e->at.words, words, (size_t)count * sizeof *words);
    return add_entry(s, path, e);
}

tl_status tl_state_bind_rng(tl_state *s, const char *path, tl_rng *rng)
{
    tli_state_entry *e = NULL;
    TL_TRY(own_words(&e, TL_RNG_WORDS));
    e->rng = rng;
    return add_entry(s, path, e);
}

/* --- states in states ------------------------------------------------------------------------- */

tl_status tl_state_sub(tl_state **out, tl_state *s, const char *path)
{
    tli_state_entry *e = tli_state_find(s, path);
    if (e && e->kind == TL_STATE_STATE) {
        *out = e->at.state;
        return TL_OK;
    }
    TL_TRY(new_entry(&e, TL_STATE_STATE));
    tl_status st = tl_state_new(&e->at.state);
    if (st != TL_OK) {
        tl_free(e);
        return st;
    }
    e->owned = true;
    tl_state *sub = e->at.state;
    TL_TRY(add_entry(s, path, e));
    *out = sub;
    return TL_OK;
}

static bool holds(const tl_state *s, const tl_state *other)
{
    if (s == other) return true;
    for (int64_t i = 0; i < tl_map_count(&s->entries); i++) {
        const tli_state_entry *e = tl_map_at(&s->entries, i);
        if (e->kind == TL_STATE_STATE && holds(e->at.state, other)) return true;
    }
    return false;
}

tl_status tl_state_mount(tl_state *s, const char *path, tl_state *other)
{
    const char *missing;
    tl_state *inner;
    TL_TRY(find_room(&inner, &missing, s, path));
    if (holds(other, inner))
        return TL_FAIL(TL_EINVAL, "'%s' cannot be mounted: a state cannot hold itself", path);
    tli_state_entry *e;
    TL_TRY(new_entry(&e, TL_STATE_STATE));
    e->at.state = other;
    return add_entry(s, path, e);
}

bool tl_state_remove(tl_state *s, const char *path)
{
    names n = {.path = path, .rest = path};
    for (;;) {
        if (next_name(&n) != TL_OK) return false;
        tli_state_entry *e = tl_map_get(&s->entries, n.name);
        if (!e || (n.rest && e->kind != TL_STATE_STATE)) return false;
        if (n.rest) {
            s = e->at.state;
            continue;
        }
        tl_map_remove(&s->entries, n.name);
        entry_free(e);
        return true;
    }
}

/* --- reading and writing one entry ------------------------------------------------------------ */

void tli_state_read(tl_state_entry *out, const tli_state_entry *e)
{
    *out = (tl_state_entry){.kind = e->kind};
    switch (e->kind) {
    case TL_STATE_TENSOR: out->tensor = e->at.tensor; break;
    case TL_STATE_INT: out->i = *e->at.i; break;
    case TL_STATE_DOUBLE: out->d = *e->at.d; break;
    case TL_STATE_BOOL: out->b = *e->at.b; break;
    case TL_STATE_TEXT: out->text = tl_str_text(e->at.text); break;
    case TL_STATE_WORDS:
        if (e->rng) tl_rng_save(e->at.words, e->rng);
        out->words = e->at.words;
        out->count = e->count;
        break;
    case TL_STATE_STATE: out->state = e->at.state; break;
    }
}

tl_status tli_state_accepts(const tli_state_entry *e, const tl_state_entry *value)
{
    if (e->kind != value->kind)
        return TL_FAIL(TL_EINVAL, "it is of the kind %s, not %s", kind_names[e->kind],
                       kind_names[value->kind]);
    if (e->kind == TL_STATE_TENSOR || e->kind == TL_STATE_STATE)
        return TL_FAIL(TL_EINVAL, "a %s is not set; write its elements", kind_names[e->kind]);
    if (e->kind != TL_STATE_WORDS) return TL_OK;
    if (e->count != value->count)
        return TL_FAIL(TL_EINVAL, "it has %" PRId64 " words, not %" PRId64, e->count, value->count);
    tl_rng unused;
    return e->rng ? tl_rng_load(&unused, value->words) : TL_OK;
}

static tl_status write_text(tl_str *to, const char *text)
{
    tl_str copy = TL_STR_INIT; // `text` may be the string's own, and a failure must not lose it
    tl_str_add(&copy, text);
    tl_status st = tl_str_status(&copy);
    if (st != TL_OK) {
        tl_str_deinit(&copy);
        return st;
    }
    tl_str_deinit(to);
    *to = copy;
    return TL_OK;
}

tl_status tli_state_write(tli_state_entry *e, const tl_state_entry *value)
{
    TL_TRY(tli_state_accepts(e, value));
    switch (e->kind) {
    case TL_STATE_INT: *e->at.i = value->i; break;
    case TL_STATE_DOUBLE: *e->at.d = value->d; break;
    case TL_STATE_BOOL: *e->at.b = value->b; break;
    case TL_STATE_TEXT: return write_text(e->at.text, value->text);
    case TL_STATE_WORDS:
        if (e->rng) return tl_rng_load(e->rng, value->words);
        if (e->count) memmove(e->at.words, value->words, (size_t)e->count * sizeof *e->at.words);
        break;
    default: break;
    }
    return TL_OK;
}

bool tl_state_find(tl_state_entry *out, const tl_state *s, const char *path)
{
    const tli_state_entry *e = tli_state_find(s, path);
    if (e) tli_state_read(out, e);
    return e != NULL;
}

static const char *nearest_name(const tl_state *s, const char *name)
{
    int64_t count = tl_map_count(&s->entries);
    const char **all = tl_alloc((size_t)count * sizeof *all), *near = NULL;
    for (int64_t i = 0; all && i < count; i++) all[i] = tl_map_key(&s->entries, i);
    if (all) near = tl_nearest(name, all, count);
    tl_free(all);
    return near;
}

// Names the first part of the path that is not there, and what is like it.
static tl_status fail_not_found(const tl_state *s, const char *path)
{
    TL_TRY(check_path(path));
    names n = {.path = path, .rest = path};
    while (n.rest) {
        TL_TRY(next_name(&n));
        const tli_state_entry *e = tl_map_get(&s->entries, n.name);
        if (!e) break;
        if (e->kind != TL_STATE_STATE)
            return TL_FAIL(TL_ENOTFOUND,
                           "there is no '%s': '%.*s' is of the kind %s and has nothing below it",
                           path, taken_length(&n), path, kind_names[e->kind]);
        s = e->at.state;
    }
    const char *near = nearest_name(s, n.name);
    return TL_FAIL(TL_ENOTFOUND, "there is no '%.*s'%s%s%s%s%s%s", taken_length(&n), path,
                   n.rest ? " (of '" : "", n.rest ? path : "", n.rest ? "')" : "",
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

tl_status tl_state_get(tl_state_entry *out, const tl_state *s, const char *path, tl_state_kind kind)
{
    if (!tl_state_find(out, s, path)) return fail_not_found(s, path);
    if (out->kind == kind) return TL_OK;
    return TL_FAIL(TL_EINVAL, "'%s' is of the kind %s, not %s", path, kind_names[out->kind],
                   kind_names[kind]);
}

static void tell(const tl_state *s)
{
    for (int64_t i = 0; i < s->watchers.count; i++)
        s->watchers.items[i].restored(s->watchers.items[i].self);
}

tl_status tl_state_set(tl_state *s, const char *path, const tl_state_entry *value)
{
    tli_state_entry *e = tli_state_find(s, path);
    if (!e) return fail_not_found(s, path);
    TL_TRY_NOTE(tli_state_write(e, value), "'%s'", path);
    names n = {.path = path, .rest = path};
    while (s) {
        tell(s);
        if (next_name(&n) != TL_OK) break;
        e = tl_map_get(&s->entries, n.name);
        s = e && e->kind == TL_STATE_STATE ? e->at.state : NULL;
    }
    return TL_OK;
}

tl_status tl_state_on_restore(tl_state *s, tl_state_restored_fn *fn, void *self)
{
    tli_state_watcher w = {fn, self};
    return TL_VEC_PUSH(&s->watchers, w) ? TL_OK : TL_ENOMEM;
}

/* --- all entries ------------------------------------------------------------------------------ */

static tl_status collect(tli_state_leaves *out, const tl_state *s, tl_str *path, int depth)
{
    TL_ASSERT(depth >= 0 && out->arena);
    if (depth > DEEPEST)
        return TL_FAIL(TL_ELIMIT, "states are nested more than %d deep at '%.60s...'", DEEPEST,
                       tl_str_text(path));
    size_t length = path->length;
    for (int64_t i = 0; i < tl_map_count(&s->entries); i++) {
        tli_state_entry *e = tl_map_at(&s->entries, i);
        if (length) tl_str_addc(path, '/');
        tl_str_add(path, tl_map_key(&s->entries, i));
        if (e->kind == TL_STATE_STATE) {
            TL_TRY(collect(out, e->at.state, path, depth + 1));
        } else {
            tli_state_leaf leaf = {
                .path = tl_str_copy(path, out->arena),
                .entry = e,
                .first = out->count,
            };
            if (!leaf.path || !TL_VEC_PUSH(out, leaf)) return TL_ENOMEM;
        }
        tl_str_cut(path, length);
    }
    return tl_str_status(path);
}

// What two tensors share when they show the same elements in the same order.
static const char *identity(const tl_tensor *t, tl_arena *arena)
{
    char spec[TL_TENSOR_TEXT];
    tl_str text = TL_STR_INIT;
    tl_str_addf(&text, "%p %" PRId64 " %s", (void *)t->storage, t->offset, tl_tensor_spec(spec, t));
    for (int i = 0; i < t->shape.rank; i++) tl_str_addf(&text, " %" PRId64, t->strides[i]);
    const char *copy = tl_str_copy(&text, arena);
    tl_str_deinit(&text);
    return copy;
}

static tl_status find_aliases(tli_state_leaves *leaves)
{
    tl_map firsts = TL_MAP_INIT;
    tl_status st = TL_OK;
    for (int64_t i = 0; i < leaves->count && st == TL_OK; i++) {
        tli_state_leaf *leaf = &leaves->items[i];
        bool elements = leaf->entry->kind == TL_STATE_TENSOR && leaf->entry->at.tensor->storage
                        && tl_tensor_count(leaf->entry->at.tensor);
        if (!elements) continue;
        const char *key = identity(leaf->entry->at.tensor, leaves->arena);
        if (!key) st = TL_ENOMEM;
        else if (tl_map_has(&firsts, key))
            leaf->first = (int64_t)(intptr_t)tl_map_get(&firsts, key);
        else st = tl_map_set(&firsts, key, (void *)(intptr_t)i);
    }
    // Who shares elements knows the first of all, not another in between.
    for (int64_t i = 0; i < leaves->count; i++)
        TL_ASSERT(leaves->items[i].first <= i
                  && leaves->items[leaves->items[i].first].first == leaves->items[i].first);
    tl_map_deinit(&firsts);
    return st;
}

tl_status tli_state_collect(tli_state_leaves *out, const tl_state *s)
{
    *out = (tli_state_leaves){0};
    TL_TRY(tl_arena_new(&out->arena));
    tl_str path = TL_STR_INIT;
    tl_status st = collect(out, s, &path, 0);
    if (st == TL_OK) st = find_aliases(out);
    tl_str_deinit(&path);
    return st;
}

// The leaves below a state follow each other, from *at on.
static bool tell_below(const tl_state *s, const tli_state_leaves *leaves, int64_t *at)
{
    bool written = false;
    for (int64_t i = 0; i < tl_map_count(&s->entries); i++) {
        const tli_state_entry *e = tl_map_at(&s->entries, i);
        if (e->kind == TL_STATE_STATE) {
            written |= tell_below(e->at.state, leaves, at);
        } else {
            // In the order in which they were collected.
            TL_ASSERT(*at < leaves->count && leaves->items[*at].entry == e);
            written |= leaves->items[(*at)++].written;
        }
    }
    if (written) tell(s);
    return written;
}

void tli_state_tell_restored(const tl_state *s, const tli_state_leaves *leaves)
{
    int64_t at = 0;
    (void)tell_below(s, leaves, &at);
    TL_ASSERT(at == leaves->count);
}

void tli_state_leaves_deinit(tli_state_leaves *l)
{
    TL_VEC_FREE(l);
    tl_arena_free(&l->arena);
}

tl_status tl_state_walk(const tl_state *s, tl_state_fn *fn, void *payload)
{
    tli_state_leaves leaves;
    tl_status st = tli_state_collect(&leaves, s);
    for (int64_t i = 0; i < leaves.count && st == TL_OK; i++) {
        const tli_state_leaf *leaf = &leaves.items[i];
        tl_state_entry entry;
        tli_state_read(&entry, leaf->entry);
        entry.path = leaf->path;
        if (leaf->first != i) entry.same_as = leaves.items[leaf->first].path;
        st = fn(&entry, payload);
    }
    tli_state_leaves_deinit(&leaves);
    return st;
}

static tl_status add_size(const tl_state_entry *entry, void *payload)
{
    int64_t *sums = payload;
    sums[0]++;
    if (entry->kind == TL_STATE_TENSOR && !entry->same_as)
        sums[1] += (int64_t)tl_tensor_bytes(entry->tensor);
    return TL_OK;
}

tl_status tl_state_size(const tl_state *s, int64_t *entries, int64_t *bytes)
{
    int64_t sums[2] = {0, 0};
    TL_TRY(tl_state_walk(s, add_size, sums));
    *entries = sums[0];
    *bytes = sums[1];
    return TL_OK;
}

/* --- text ------------------------------------------------------------------------------------- */

void tli_state_value_text(tl_str *out, const tli_state_entry *e)
{
    tl_state_entry value;
    char text[TL_TENSOR_TEXT];
    tli_state_read(&value, e);
    switch (e->kind) {
    case TL_STATE_TENSOR: tl_str_add(out, tl_tensor_spec(text, value.tensor)); break;
    case TL_STATE_INT: tl_str_addf(out, "int %" PRId64, value.i); break;
    case TL_STATE_DOUBLE:
        tl_double_text(text, value.d);
        tl_str_addf(out, "double %s", text);
        break;
    case TL_STATE_BOOL: tl_str_addf(out, "bool %s", value.b ? "true" : "false"); break;
    case TL_STATE_TEXT:
        tl_str_addf(out, "text '%.*s%s'", SHOWN_TEXT, value.text,
                    strlen(value.text) > SHOWN_TEXT ? "..." : "");
        break;
    case TL_STATE_WORDS: tl_str_addf(out, "%" PRId64 " words", value.count); break;
    case TL_STATE_STATE:
        tl_str_addf(out, "%" PRId64 " below it", tl_map_count(&value.state->entries));
        break;
    }
}

tl_status tl_state_text(tl_str *out, const tl_state *s)
{
    tli_state_leaves leaves;
    tl_status st = tli_state_collect(&leaves, s);
    size_t width = 0;
    for (int64_t i = 0; i < leaves.count; i++) {
        size_t length = strlen(leaves.items[i].path);
        if (length > width) width = length;
    }
    for (int64_t i = 0; i < leaves.count && st == TL_OK; i++) {
        const tli_state_leaf *leaf = &leaves.items[i];
        tl_str_addf(out, "%-*s  ", (int)width, leaf->path);
        tli_state_value_text(out, leaf->entry);
        if (leaf->first != i) tl_str_addf(out, ", the same as %s", leaves.items[leaf->first].path);
        tl_str_addc(out, '\n');
    }
    tli_state_leaves_deinit(&leaves);
    return st == TL_OK ? tl_str_status(out) : st;
}
