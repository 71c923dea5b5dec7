#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "core/inner/state.h"
#include "io/inner/tensorbundle.h"

/* How a slot is called: VARIABLE/SLOT/OPTIMIZER/NAME in a bundle. In a state a variable cannot have
 * anything below it, so there it is OPTIMIZER/SLOT/NAME/VARIABLE. */
#define SLOT "/.OPTIMIZER_SLOT/"

/* --- names ------------------------------------------------------------------------------------ */

static tl_status plain_to_state(const char **path, tl_arena *arena, const char *name, void *payload)
{
    (void)payload;
    size_t size = strlen(name), tail = strlen(TL_TENSORBUNDLE_VALUE);
    if (size > tail && strcmp(name + size - tail, TL_TENSORBUNDLE_VALUE) == 0) size -= tail;
    const char *text = tl_arena_strndup(arena, name, size);
    if (!text) return TL_ENOMEM;
    const char *slot = strstr(text, SLOT), *last = strrchr(text, '/');
    if (slot && slot > text && last >= slot + strlen(SLOT) && last[1]) {
        const char *optimizer = slot + strlen(SLOT);
        text = tl_arena_printf(arena, "%.*s" SLOT "%s/%.*s", (int)(last - optimizer), optimizer,
                               last + 1, (int)(slot - text), text);
    }
    *path = text;
    return text ? TL_OK : TL_ENOMEM;
}

static tl_status plain_to_object(const char **object, tl_arena *arena, const char *path,
                                 void *payload)
{
    (void)payload;
    const char *slot = strstr(path, SLOT), *name = slot ? slot + strlen(SLOT) : NULL,
               *variable = name ? strchr(name, '/') : NULL;
    if (variable && slot > path)
        *object = tl_arena_printf(arena, "%s" SLOT "%.*s/%.*s", variable + 1, (int)(slot - path),
                                  path, (int)(variable - name), name);
    else *object = tl_arena_strdup(arena, path);
    return *object ? TL_OK : TL_ENOMEM;
}

const tl_tensorbundle_names tl_tensorbundle_plain_names = {plain_to_state, plain_to_object, NULL};

/* --- into tensors ----------------------------------------------------------------------------- */

static tl_status fail_unreadable(const tl_tensorbundle *b, const tl_tensorbundle_entry *e)
{
    tl_str spec = TL_STR_INIT;
    tl_tensorbundle_spec(&spec, e);
    const tli_tb_type *type = tli_tb_type_named(e->type);
    const char *why = type && type->dtype >= 0 ? "of such a shape" : "of that type";
    tl_status st =
        TL_FAIL(TL_EUNSUPPORTED, "'%s': entry '%s' is %s, and tensors %s are not supported",
                b->index_path, e->name, tl_str_text(&spec), why);
    tl_str_deinit(&spec);
    return st;
}

static tl_status check_bools(const tl_tensorbundle *b, const tl_tensorbundle_entry *e,
                             const unsigned char *bytes)
{
    if (e->dtype != TL_BOOL) return TL_OK;
    for (size_t i = 0; i < e->bytes; i++)
        if (bytes[i] > 1)
            return TL_FAIL(TL_EINVAL,
                           "'%s': entry '%s': element %zu of type bool is %d, neither 0 nor 1",
                           b->index_path, e->name, i, bytes[i]);
    return TL_OK;
}

static tl_status fill(tl_tensor *to, const tl_tensorbundle *b, const tl_tensorbundle_entry *e)
{
    tl_lease l;
    TL_TRY_NOTE(tl_lease_discard(&l, to), "'%s': entry '%s'", b->index_path, e->name);
    tl_status st = tl_tensorbundle_copy(l.data, b, e);
    if (st == TL_OK) st = check_bools(b, e, l.data);
    if (st == TL_OK) st = tl_lease_end(&l);
    tl_lease_drop(&l);
    return st;
}

tl_status tl_tensorbundle_get(tl_tensor *to, const tl_tensorbundle *b, const char *name)
{
    const tl_tensorbundle_entry *e = tl_tensorbundle_find(b, name);
    if (!e) {
        size_t bytes = (size_t)b->entries.count * sizeof(char *);
        const char **names = tl_alloc(bytes);
        if (!names) return TL_FAIL_NOMEM(bytes);
        for (int64_t i = 0; i < b->entries.count; i++) names[i] = b->entries.items[i].shown.name;
        const char *near = tl_nearest(name, names, b->entries.count);
        tl_status st = TL_FAIL(TL_ENOTFOUND, "'%s' has no entry '%s'%s%s%s", b->index_path, name,
                               near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        tl_free(names);
        return st;
    }
    if (!e->readable) return fail_unreadable(b, e);
    tl_shape shape = tl_shape_of(e->rank, e->dims);
    if (to->dtype != e->dtype || !tl_shape_equal(&to->shape, &shape)) {
        tl_str found = TL_STR_INIT;
        char wanted[TL_TENSOR_TEXT];
        tl_tensorbundle_spec(&found, e);
        tl_status st =
            TL_FAIL(TL_EINVAL, "'%s': entry '%s': it is %s and does not fit into %s", b->index_path,
                    e->name, tl_str_text(&found), tl_tensor_spec(wanted, to));
        tl_str_deinit(&found);
        return st;
    }
    return fill(to, b, e);
}

/* --- into a state ----------------------------------------------------------------------------- */

static tl_status put_tensor(tl_state *to, const char *path, const tl_tensorbundle *b,
                            const tl_tensorbundle_entry *e, tl_engine *engine)
{
    tl_tensor *t = NULL;
    tl_status st;
    tl_shape shape = tl_shape_of(e->rank, e->dims);
    if (!engine) return tl_state_describe(to, path, e->dtype, shape);
    TL_TRY_DONE(st, tl_tensor_new(&t, engine, e->dtype, shape));
    TL_TRY_DONE(st, fill(t, b, e));
    st = tl_state_put(to, path, t);
done:
    tl_tensor_free(&t); // the state keeps it
    return st;
}

// A text of a state ends at its first zero byte: what has one is none.
static tl_status put_text(bool *taken, tl_state *to, const char *path, const tl_tensorbundle *b,
                          const tl_tensorbundle_entry *e, tl_arena *arena)
{
    const tl_tensorbundle_string *s;
    TL_TRY(tl_tensorbundle_strings(&s, NULL, arena, b, e));
    *taken = !memchr(s->data, '\0', s->size);
    if (!*taken) return TL_OK;
    const char *text = tl_arena_strndup(arena, s->data, s->size);
    return text ? tl_state_put_text(to, path, text) : TL_ENOMEM;
}

static tl_status put_words(tl_state *to, const char *path, const tl_tensorbundle *b,
                           const tl_tensorbundle_entry *e, tl_arena *arena)
{
    uint64_t *words = tl_arena_array(arena, e->dims[0], sizeof *words);
    if (!words) return TL_ENOMEM;
    TL_TRY(tl_tensorbundle_copy(words, b, e));
    return tl_state_put_words(to, path, words, e->dims[0]);
}

static tl_status put_entry(bool *taken, tl_state *to, const char *path, const tl_tensorbundle *b,
                           const tl_tensorbundle_entry *e, tl_engine *engine, tl_arena *arena)
{
    *taken = true;
    if (e->readable) return put_tensor(to, path, b, e, engine);
    if (e->is_string && e->rank == 0 && !e->pieces) return put_text(taken, to, path, b, e, arena);
    if (strcmp(e->type, "uint64") == 0 && e->rank == 1) return put_words(to, path, b, e, arena);
    *taken = false;
    return TL_OK;
}

static void note_left_out(tl_str *out, const tl_tensorbundle_entry *e)
{
    if (!out) return;
    tl_str_addf(out, "%s: ", e->name);
    tl_tensorbundle_spec(out, e);
    tl_str_addc(out, '\n');
}

tl_status tl_tensorbundle_load(tl_state **out, const tl_tensorbundle *b, tl_engine *engine,
                               const tl_tensorbundle_names *names, tl_str *left_out)
{
    tl_arena *arena = NULL;
    tl_state *s = NULL;
    tl_status st;
    *out = NULL;
    if (!names) names = &tl_tensorbundle_plain_names;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, tl_state_new(&s));
    tli_state_distrust(s);
    for (int64_t i = 0; i < tl_tensorbundle_count(b); i++) {
        const tl_tensorbundle_entry *e = tl_tensorbundle_at(b, i);
        const char *path = NULL;
        bool taken;
        if (strcmp(e->name, TL_TENSORBUNDLE_GRAPH) == 0) continue;
        TL_TRY_DONE(st, names->to_state(&path, arena, e->name, names->payload));
        if (!path) continue;
        st = put_entry(&taken, s, path, b, e, engine, arena);
        if (st != TL_OK) {
            tl_error_note(st, "'%s': '%s'", b->index_path, path);
            goto done;
        }
        if (!taken) note_left_out(left_out, e);
    }
    st = left_out ? tl_str_status(left_out) : TL_OK;
    if (st != TL_OK) goto done;
    *out = s;
    s = NULL;
done:
    tl_state_free(&s);
    tl_arena_free(&arena);
    return st;
}

/* --- from a state ----------------------------------------------------------------------------- */

typedef struct putting {
    tl_tensorbundle_writer *w;
    const tl_tensorbundle_names *names;
    tl_arena *arena;
    tl_map objects; /* what the paths of tensors became, for their other paths */
} putting;

// Cuts "VARIABLE/SLOT/OPTIMIZER/NAME" into its three parts; false when it is no slot.
static bool cut_slot(const char **variable, const char **optimizer, const char **name, char *object)
{
    char *slot = strstr(object, SLOT), *last = strrchr(object, '/');
    if (!slot || slot == object || last < slot + strlen(SLOT)) return false;
    *slot = *last = '\0';
    *variable = object;
    *optimizer = slot + strlen(SLOT);
    *name = last + 1;
    return true;
}

static tl_status put_one_tensor(putting *p, const char *object, const tl_state_entry *e)
{
    const char *variable, *optimizer, *name;
    char *parts = tl_arena_strdup(p->arena, object);
    if (!parts) return TL_ENOMEM;
    if (cut_slot(&variable, &optimizer, &name, parts))
        return tl_tensorbundle_writer_put_slot(p->w, variable, optimizer, name, e->tensor);
    const char *other = e->same_as ? tl_map_get(&p->objects, e->same_as) : NULL;
    if (other) return tl_tensorbundle_writer_put_same(p->w, object, other);
    TL_TRY(tl_map_set(&p->objects, e->path, (void *)(uintptr_t)object));
    return tl_tensorbundle_writer_put(p->w, object, e->tensor);
}

static tl_status put_value(putting *p, const char *object, const tl_state_entry *e)
{
    unsigned char truth = e->b;
    switch (e->kind) {
    case TL_STATE_TENSOR: return put_one_tensor(p, object, e);
    case TL_STATE_INT: return tl_tensorbundle_writer_put_int(p->w, object, e->i);
    case TL_STATE_DOUBLE:
        return tl_tensorbundle_writer_put_bytes(p->w, object, "float64", 0, NULL, &e->d,
                                                sizeof e->d);
    case TL_STATE_BOOL:
        return tl_tensorbundle_writer_put_bytes(p->w, object, "bool", 0, NULL, &truth, 1);
    case TL_STATE_TEXT:
        return tl_tensorbundle_writer_put_text(p->w, object, e->text, strlen(e->text));
    case TL_STATE_WORDS:
        return tl_tensorbundle_writer_put_bytes(p->w, object, "uint64", 1, &e->count, e->words,
                                                (size_t)e->count * sizeof *e->words);
    case TL_STATE_STATE: break;
    }
    return TL_FAIL(TL_EINTERNAL, "'%s' has no value", e->path);
}

static tl_status put_state_entry(const tl_state_entry *e, void *payload)
{
    putting *p = payload;
    const char *object = NULL;
    TL_TRY(p->names->to_object(&object, p->arena, e->path, p->names->payload));
    return object ? put_value(p, object, e) : TL_OK;
}

tl_status tl_tensorbundle_writer_put_state(tl_tensorbundle_writer *w, const tl_state *s,
                                           const tl_tensorbundle_names *names)
{
    putting p = {
        .w = w, .names = names ? names : &tl_tensorbundle_plain_names, .objects = TL_MAP_INIT};
    TL_TRY(tl_arena_new(&p.arena));
    tl_status st = tl_state_walk(s, put_state_entry, &p);
    tl_map_deinit(&p.objects);
    tl_arena_free(&p.arena);
    return st;
}
