#include <tilth/train/original.h>

#include <string.h>

#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/io/tensorbundle.h>

#define MODEL "model/"
#define OPTIMIZER "optimizer"
#define ITERATIONS OPTIMIZER "/iterations"
#define STEP "global_step"

/* --- tables ----------------------------------------------------------------------------------- */

tl_status tl_original_names_init(tl_original_names *n)
{
    *n = (tl_original_names){0};
    return tl_arena_new(&n->arena);
}

void tl_original_names_deinit(tl_original_names *n)
{
    TL_VEC_FREE(&n->layers);
    TL_VEC_FREE(&n->same);
    tl_arena_free(&n->arena);
    *n = (tl_original_names){0};
}

static tl_status add(tl_original_list *list, tl_arena *arena, const char *ours, const char *theirs)
{
    tl_original_name name = {tl_arena_strdup(arena, ours), tl_arena_strdup(arena, theirs)};
    return name.ours && name.theirs && TL_VEC_PUSH(list, name) ? TL_OK : TL_ENOMEM;
}

tl_status tl_original_names_add(tl_original_names *n, const char *ours, const char *theirs)
{
    return add(&n->layers, n->arena, ours, theirs);
}

tl_status tl_original_names_same(tl_original_names *n, const char *path, const char *other)
{
    return add(&n->same, n->arena, path, other);
}

/* What follows `layer` in a path that lies below it; NULL when it does not. */
static const char *below(const char *path, const char *layer)
{
    size_t length = strlen(layer);
    return strncmp(path, layer, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Which entry of the bundle has which path of ours. */
typedef struct reading {
    const tl_original_names *names;
    const tl_tensorbundle *bundle;
    tl_object_graph graph;
    const char **paths; /* of the variables, by node; NULL: unknown */
    tl_map by_key;      /* names of entries to paths in the state */
    tl_map bookkeeping; /* names of entries that are no weights */
    tl_arena *arena;
} reading;

static const tl_object_attribute *value_of(const tl_bundle_object *o)
{
    for (int64_t i = 0; i < o->attribute_count; i++)
        if (strcmp(o->attributes[i].name, "VARIABLE_VALUE") == 0) return &o->attributes[i];
    return NULL;
}

/* The object at a path, or at one of its other paths. */
static tl_status find_object(const tl_bundle_object **out, reading *r, const char *path)
{
    *out = tl_object_graph_find(&r->graph, path);
    for (int64_t i = 0; !*out && i < r->names->same.count; i++) {
        const tl_original_name *same = &r->names->same.items[i];
        const char *rest = below(path, same->theirs);
        if (!rest) continue;
        const char *other = tl_arena_printf(r->arena, "%s/%s", same->ours, rest);
        if (!other) return TL_ENOMEM;
        *out = tl_object_graph_find(&r->graph, other);
    }
    return TL_OK;
}

static tl_status note_layer(reading *r, const tl_original_name *name)
{
    const tl_bundle_object *layer;
    TL_TRY(find_object(&layer, r, name->theirs));
    for (int64_t i = 0; layer && i < layer->child_count; i++) {
        const tl_object_child *child = &layer->children[i];
        const tl_object_attribute *value = value_of(&r->graph.nodes[child->node]);
        if (!value) continue;
        char *path = tl_arena_printf(r->arena, MODEL "%s/%s", name->ours, child->name);
        if (!path) return TL_ENOMEM;
        r->paths[child->node] = path + strlen(MODEL);
        TL_TRY(tl_map_set(&r->by_key, value->key, path));
    }
    return TL_OK;
}

static tl_status note_slots(reading *r, const tl_bundle_object *optimizer)
{
    for (int64_t i = 0; i < optimizer->slot_count; i++) {
        const tl_object_slot *slot = &optimizer->slots[i];
        const tl_object_attribute *value = value_of(&r->graph.nodes[slot->node]);
        const char *variable = r->paths[slot->variable];
        if (!value) continue;
        TL_TRY(tl_map_set(&r->bookkeeping, value->key, NULL));
        if (!variable) continue;
        char *path = tl_arena_printf(r->arena, OPTIMIZER "/%s/%s", slot->name, variable);
        if (!path) return TL_ENOMEM;
        TL_TRY(tl_map_set(&r->by_key, value->key, path));
    }
    return TL_OK;
}

static tl_status note_counter(reading *r, const char *theirs, const char *ours)
{
    const tl_bundle_object *o = tl_object_graph_find(&r->graph, theirs);
    const tl_object_attribute *value = o ? value_of(o) : NULL;
    return value ? tl_map_set(&r->by_key, value->key, (void *)(uintptr_t)ours) : TL_OK;
}

static tl_status note_all(reading *r)
{
    r->paths = tl_arena_array(r->arena, r->graph.count, sizeof *r->paths);
    if (!r->paths) return TL_ENOMEM;
    for (int64_t i = 0; i < r->names->layers.count; i++) TL_TRY(note_layer(r, &r->names->layers.items[i]));
    for (int64_t i = 0; i < r->graph.count; i++) TL_TRY(note_slots(r, &r->graph.nodes[i]));
    TL_TRY(note_counter(r, OPTIMIZER "/iter", ITERATIONS));
    return note_counter(r, STEP, STEP);
}

/* Numbers of the optimizer, of the run and of the file, which Model Garden writes beside the weights. */
static bool is_bookkeeping(const reading *r, const char *name)
{
    return tl_map_has(&r->bookkeeping, name) || below(name, OPTIMIZER) || below(name, "save_counter")
           || below(name, STEP) || strstr(name, "/.OPTIMIZER_SLOT/");
}

static tl_status to_state(const char **path, tl_arena *arena, const char *name, void *payload)
{
    reading *r = payload;
    *path = tl_map_get(&r->by_key, name);
    if (*path || is_bookkeeping(r, name)) return TL_OK;
    size_t length = strlen(name), tail = strlen(TL_TENSORBUNDLE_VALUE);
    if (length > tail && strcmp(name + length - tail, TL_TENSORBUNDLE_VALUE) == 0) length -= tail;
    if (below(name, "model")) name += strlen(MODEL), length -= strlen(MODEL);
    *path = tl_arena_printf(arena, MODEL "%.*s", (int)length, name);
    return *path ? TL_OK : TL_ENOMEM;
}

/* The step is a tensor there, and a number here. A seed is not kept there at all. */
static tl_status settle_numbers(tl_state *s)
{
    static const uint64_t seed = 0;
    tl_state_entry e;
    double step;
    TL_TRY(tl_state_put_words(s, "seed", &seed, 1));
    if (!tl_state_find(&e, s, STEP) || e.kind != TL_STATE_TENSOR) return TL_OK;
    TL_TRY(tl_tensor_get_doubles(e.tensor, &step, 1));
    tl_state_remove(s, STEP);
    return tl_state_put_int(s, STEP, (int64_t)step);
}

tl_status tl_original_read(tl_state **out, const char *prefix, const tl_original_names *names,
                           tl_engine *engine, tl_str *left_out)
{
    reading r = {.names = names};
    tl_tensorbundle *b = NULL;
    tl_status st;
    *out = NULL;
    TL_TRY_DONE(st, tl_arena_new(&r.arena));
    TL_TRY_DONE(st, tl_tensorbundle_open(&b, prefix));
    r.bundle = b;
    TL_TRY_DONE(st, tl_object_graph_init(&r.graph, b));
    TL_TRY_DONE(st, note_all(&r));
    TL_TRY_DONE(st, tl_tensorbundle_load(out, b, engine, &(tl_tensorbundle_names){.to_state = to_state, .payload = &r},
                                         left_out));
    st = settle_numbers(*out);
    if (st != TL_OK) tl_state_free(out);
done:
    tl_map_deinit(&r.by_key);
    tl_map_deinit(&r.bookkeeping);
    tl_object_graph_deinit(&r.graph);
    tl_tensorbundle_free(&b);
    tl_arena_free(&r.arena);
    return st;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The object of a weight: "backbone/layer_with_weights-0/kernel". NULL when no layer of the table has it. */
static tl_status object_of(const char **out, const tl_original_names *n, tl_arena *arena, const char *weight)
{
    *out = NULL;
    for (int64_t i = 0; i < n->layers.count; i++) {
        const tl_original_name *name = &n->layers.items[i];
        const char *rest = below(weight, name->ours);
        if (!rest || strchr(rest, '/')) continue;
        *out = tl_arena_printf(arena, "%s/%s", name->theirs, rest);
        return *out ? TL_OK : TL_ENOMEM;
    }
    return TL_OK;
}

typedef struct writing {
    const tl_original_names *names;
    tl_arena *arena;
    tl_str *left_out;
} writing;

static tl_status leave_out(writing *w, const char *path)
{
    if (w->left_out) tl_str_addf(w->left_out, "%s\n", path);
    return TL_OK;
}

static tl_status to_object(const char **object, tl_arena *arena, const char *path, void *payload)
{
    writing *w = payload;
    const char *weight = below(path, "model"), *slot = below(path, OPTIMIZER), *rest;
    *object = NULL;
    if (strcmp(path, STEP) == 0) {
        *object = STEP;
    } else if (strcmp(path, ITERATIONS) == 0) {
        *object = OPTIMIZER "/iter";
    } else if (weight) {
        TL_TRY(object_of(object, w->names, arena, weight));
        if (!*object)
            return TL_FAIL(TL_EINVAL, "the weight '%s' has no name in Model Garden: the table of the model lacks it",
                           weight);
    } else if (slot && (rest = strchr(slot, '/'))) {
        TL_TRY(object_of(object, w->names, arena, rest + 1));
        if (*object) {
            *object = tl_arena_printf(arena, "%s/.OPTIMIZER_SLOT/" OPTIMIZER "/%.*s", *object, (int)(rest - slot), slot);
            if (!*object) return TL_ENOMEM;
        }
    }
    return *object ? TL_OK : leave_out(w, path);
}

tl_status tl_original_write(const char *prefix, const tl_state *s, const tl_original_names *names,
                            tl_str *left_out)
{
    writing w = {.names = names, .left_out = left_out};
    tl_tensorbundle_writer *writer = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&w.arena));
    TL_TRY_DONE(st, tl_tensorbundle_writer_new(&writer));
    TL_TRY_DONE(st, tl_tensorbundle_writer_put_state(writer, s,
                                                     &(tl_tensorbundle_names){.to_object = to_object, .payload = &w}));
    TL_TRY_DONE(st, tl_tensorbundle_writer_put_int(writer, "save_counter", 1));
    for (int64_t i = 0; i < names->same.count; i++)
        TL_TRY_DONE(st, tl_tensorbundle_writer_put_same(writer, names->same.items[i].ours, names->same.items[i].theirs));
    st = tl_tensorbundle_writer_write(writer, prefix);
done:
    tl_tensorbundle_writer_free(&writer);
    tl_arena_free(&w.arena);
    return st;
}
