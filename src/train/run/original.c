#include <tilth/train/run/original.h>

#include <inttypes.h>
#include <string.h>

#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#define MODEL "model/"
#define OPTIMIZER "optimizer"
#define INNER OPTIMIZER "/ema_base_optimizer" /* of the one that keeps averages */
#define AVERAGE "average"
#define ITERATIONS OPTIMIZER "/iterations"
#define STEP "global_step"

/* Numbers of a run beside its weights and slots, by their objects there. An optimizer that averages
 * counts in the one inside it: of two that are one number here, the first that is there is read,
 * and number_of says which is written. */
static const tl_original_name numbers[] = {
    {ITERATIONS, INNER "/iter"},
    {ITERATIONS, OPTIMIZER "/iter"},
    {OPTIMIZER "/loss_scale/scale", OPTIMIZER "/loss_scale/current_loss_scale"},
    {OPTIMIZER "/loss_scale/good_steps", OPTIMIZER "/loss_scale/good_steps"},
    {STEP, STEP},
};

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
    TL_VEC_FREE(&n->renamed);
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

tl_status tl_original_names_rename(tl_original_names *n, const char *ours, const char *theirs)
{
    return add(&n->renamed, n->arena, ours, theirs);
}

/* What follows `layer` in a path that lies below it; NULL when it does not. */
static const char *below(const char *path, const char *layer)
{
    size_t length = strlen(layer);
    return strncmp(path, layer, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Names for a message: how many, and the first of them. */
typedef struct some {
    tl_str text;
    int64_t count;
} some;

static void note_one(some *s, const char *name)
{
    enum { SHOWN = 4 };
    if (s->count < SHOWN) tl_str_addf(&s->text, "%s'%.200s'", s->count ? ", " : "", name);
    if (s->count == SHOWN) tl_str_add(&s->text, ", ...");
    s->count++;
}

/* Which entry of the bundle has which path of ours. */
typedef struct reading {
    const tl_original_names *names;
    tl_tensorbundle *bundle;
    tl_object_graph graph;
    const char **paths; /* of the variables, by node; NULL: unknown */
    tl_map by_key;      /* names of entries to paths in the state */
    tl_map bookkeeping; /* names of entries that are no weights */
    some absent;        /* layers of the table */
    tl_str *left_out;
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

/* Of several edges from a layer to one variable, the one by the name that people see: not that of a
 * private attribute, nor one that is a path. */
static bool is_plain(const char *name)
{
    return *name != '_' && !strchr(name, '/');
}

/* What we call the variable of a layer that is called so there. */
static const char *our_name(const tl_original_names *n, const char *layer, const char *theirs)
{
    for (int64_t i = 0; i < n->renamed.count; i++) {
        const char *ours = below(n->renamed.items[i].ours, layer);
        if (ours && !strchr(ours, '/') && strcmp(n->renamed.items[i].theirs, theirs) == 0)
            return ours;
    }
    return theirs;
}

/* A variable that several layers share is the first one's. */
static tl_status note_variable(reading *r, const tl_original_name *name,
                               const tl_object_child *child, const tl_object_attribute *value)
{
    const char *before = r->paths[child->node], *known = before ? below(before, name->ours) : NULL;
    if (before && (!known || is_plain(known) || !is_plain(child->name))) return TL_OK;
    char *path = tl_arena_printf(r->arena, MODEL "%s/%s", name->ours,
                                 our_name(r->names, name->ours, child->name));
    if (!path) return TL_ENOMEM;
    r->paths[child->node] = path + strlen(MODEL);
    return tl_map_set(&r->by_key, value->key, path);
}

static tl_status note_layer(reading *r, const tl_original_name *name)
{
    const tl_bundle_object *layer;
    bool any = false;
    TL_TRY(find_object(&layer, r, name->theirs));
    for (int64_t i = 0; layer && i < layer->child_count; i++) {
        const tl_object_child *child = &layer->children[i];
        const tl_object_attribute *value = value_of(&r->graph.nodes[child->node]);
        if (!value) continue;
        TL_TRY(note_variable(r, name, child, value));
        any = true;
    }
    if (!any) note_one(&r->absent, name->theirs);
    return tl_str_status(&r->absent.text);
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

static tl_status note_numbers(reading *r)
{
    const char *found = "";
    for (int64_t i = 0; i < TL_COUNT(numbers); i++) {
        const tl_bundle_object *o = tl_object_graph_find(&r->graph, numbers[i].theirs);
        const tl_object_attribute *value = o ? value_of(o) : NULL;
        if (!value || strcmp(found, numbers[i].ours) == 0) continue;
        found = numbers[i].ours;
        TL_TRY(tl_map_set(&r->by_key, value->key, (void *)(uintptr_t)found));
    }
    return TL_OK;
}

static tl_status note_all(reading *r)
{
    r->paths = tl_arena_array(r->arena, r->graph.count, sizeof *r->paths);
    if (!r->paths) return TL_ENOMEM;
    for (int64_t i = 0; i < r->names->layers.count; i++)
        TL_TRY(note_layer(r, &r->names->layers.items[i]));
    for (int64_t i = 0; i < r->graph.count; i++) TL_TRY(note_slots(r, &r->graph.nodes[i]));
    return note_numbers(r);
}

static void reading_deinit(reading *r)
{
    tl_str_deinit(&r->absent.text);
    tl_map_deinit(&r->by_key);
    tl_map_deinit(&r->bookkeeping);
    tl_object_graph_deinit(&r->graph);
    tl_tensorbundle_free(&r->bundle);
    tl_arena_free(&r->arena);
}

/* Deinit is due also after a failure. */
static tl_status reading_init(reading *r, const char *prefix, const tl_original_names *names)
{
    *r = (reading){.names = names, .absent = {TL_STR_INIT, 0}};
    TL_TRY(tl_arena_new(&r->arena));
    TL_TRY(tl_tensorbundle_open(&r->bundle, prefix));
    TL_TRY(tl_object_graph_init(&r->graph, r->bundle));
    return note_all(r);
}

/* Numbers of the optimizer, of the run and of the file, which Model Garden writes beside the
 * weights. */
static bool is_bookkeeping(const reading *r, const char *name)
{
    return tl_map_has(&r->bookkeeping, name) || below(name, OPTIMIZER)
           || below(name, "save_counter") || below(name, STEP) || strstr(name, "/.OPTIMIZER_SLOT/");
}

static bool is_value(const char *name)
{
    size_t length = strlen(name), tail = strlen(TL_TENSORBUNDLE_VALUE);
    return length > tail && strcmp(name + length - tail, TL_TENSORBUNDLE_VALUE) == 0;
}

// How often the file was saved is of no use to anybody else.
static tl_status leave_entry(reading *r, const char *name)
{
    if (!r->left_out || below(name, "save_counter")) return TL_OK;
    tl_str_addf(r->left_out, "%s: ", name);
    tl_tensorbundle_spec(r->left_out, tl_tensorbundle_find(r->bundle, name));
    tl_str_addc(r->left_out, '\n');
    return tl_str_status(r->left_out);
}

static tl_status to_state(const char **path, tl_arena *arena, const char *name, void *payload)
{
    reading *r = payload;
    *path = tl_map_get(&r->by_key, name);
    if (*path) return TL_OK;
    if (is_bookkeeping(r, name)) return leave_entry(r, name);
    size_t length = strlen(name) - (is_value(name) ? strlen(TL_TENSORBUNDLE_VALUE) : 0);
    if (below(name, "model")) name += strlen(MODEL), length -= strlen(MODEL);
    *path = tl_arena_printf(arena, MODEL "%.*s", (int)length, name);
    return *path ? TL_OK : TL_ENOMEM;
}

static tl_status read_step(int64_t *out, const tl_tensor *t)
{
    char spec[TL_TENSOR_TEXT];
    tl_lease l;
    if (t->shape.rank != 0 || (t->dtype != TL_I64 && t->dtype != TL_I32))
        return TL_FAIL(TL_EINVAL, "it is %s, not one number of type int64 or int32",
                       tl_tensor_spec(spec, t));
    TL_TRY(tl_lease_read(&l, t));
    *out = t->dtype == TL_I64 ? *(const int64_t *)l.data : *(const int32_t *)l.data;
    tl_lease_drop(&l);
    return *out >= 0 ? TL_OK
                     : TL_FAIL(TL_EINVAL, "it is %" PRId64 ", not a number from 0 on", *out);
}

/* The step is a tensor there, and a number here. A seed is not kept there at all. */
static tl_status settle_numbers(tl_state *s, const char *prefix)
{
    static const uint64_t seed = 0;
    tl_state_entry e;
    int64_t step = 0;
    TL_TRY(tl_state_put_words(s, "seed", &seed, 1));
    if (!tl_state_find(&e, s, STEP)) return TL_OK;
    if (e.kind != TL_STATE_TENSOR)
        return TL_FAIL(TL_EINVAL, "'%s': '" STEP "': it is a %s, not a number", prefix,
                       tl_state_kind_name(e.kind));
    TL_TRY_NOTE(read_step(&step, e.tensor), "'%s': '" STEP "'", prefix);
    tl_state_remove(s, STEP);
    return tl_state_put_int(s, STEP, step);
}

tl_status tl_original_check(const char *prefix, const tl_original_names *names)
{
    reading r;
    some unknown = {TL_STR_INIT, 0};
    tl_status st;
    TL_TRY_DONE(st, reading_init(&r, prefix, names));
    for (int64_t i = 0; i < tl_tensorbundle_count(r.bundle); i++) {
        const tl_tensorbundle_entry *e = tl_tensorbundle_at(r.bundle, i);
        if (e->readable && is_value(e->name) && !tl_map_has(&r.by_key, e->name)
            && !is_bookkeeping(&r, e->name))
            note_one(&unknown, e->name);
    }
    TL_TRY_DONE(st, tl_str_status(&unknown.text));
    if (r.absent.count || unknown.count)
        st = TL_FAIL(TL_EINVAL,
                     "'%s' is a checkpoint of another model: it lacks %" PRId64 " of the %" PRId64
                     " layers of this one%s%s, and %" PRId64
                     " of its weights belong to no layer%s%s",
                     prefix, r.absent.count, names->layers.count, r.absent.count ? ": " : "",
                     tl_str_text(&r.absent.text), unknown.count, unknown.count ? ": " : "",
                     tl_str_text(&unknown.text));
done:
    tl_str_deinit(&unknown.text);
    reading_deinit(&r);
    return st;
}

tl_status tl_original_read(tl_state **out, const char *prefix, const tl_original_names *names,
                           tl_engine *engine, tl_str *left_out)
{
    reading r;
    tl_status st;
    *out = NULL;
    TL_TRY_DONE(st, reading_init(&r, prefix, names));
    r.left_out = left_out;
    TL_TRY_DONE(st, tl_tensorbundle_load(
                        out, r.bundle, engine,
                        &(tl_tensorbundle_names){.to_state = to_state, .payload = &r}, left_out));
    st = settle_numbers(*out, prefix);
    if (st != TL_OK) tl_state_free(out);
done:
    reading_deinit(&r);
    return st;
}

/* --- writing ---------------------------------------------------------------------------------- */

static const char *their_name(const tl_original_names *n, const char *weight, const char *ours)
{
    for (int64_t i = 0; i < n->renamed.count; i++)
        if (strcmp(n->renamed.items[i].ours, weight) == 0) return n->renamed.items[i].theirs;
    return ours;
}

/* The object of a weight: "backbone/layer_with_weights-0/kernel". NULL when no layer of the table
 * has it. */
static tl_status object_of(const char **out, const tl_original_names *n, tl_arena *arena,
                           const char *weight)
{
    *out = NULL;
    for (int64_t i = 0; i < n->layers.count; i++) {
        const tl_original_name *name = &n->layers.items[i];
        const char *rest = below(weight, name->ours);
        if (!rest || strchr(rest, '/')) continue;
        *out = tl_arena_printf(arena, "%s/%s", name->theirs, their_name(n, weight, rest));
        return *out ? TL_OK : TL_ENOMEM;
    }
    return TL_OK;
}

typedef struct writing {
    const tl_original_names *names;
    const char *optimizer; /* that has the slots, but for averages */
    bool *there;           /* of names->same: something was written below it */
    int64_t weights;
    tl_str *left_out;
} writing;

static tl_status leave_out(writing *w, const char *path)
{
    if (w->left_out) tl_str_addf(w->left_out, "%s\n", path);
    return TL_OK;
}

static tl_status name_weight(const char **object, writing *w, tl_arena *arena, const char *weight)
{
    TL_TRY(object_of(object, w->names, arena, weight));
    if (!*object) return TL_OK;
    w->weights++;
    for (int64_t i = 0; i < w->names->same.count; i++)
        w->there[i] = w->there[i] || below(*object, w->names->same.items[i].theirs);
    return TL_OK;
}

/* NAME/WEIGHT. */
static tl_status name_slot(const char **object, const writing *w, tl_arena *arena, const char *slot)
{
    const char *rest = strchr(slot, '/');
    if (!rest) return TL_OK;
    TL_TRY(object_of(object, w->names, arena, rest + 1));
    if (!*object) return TL_OK;
    *object =
        tl_arena_printf(arena, "%s/.OPTIMIZER_SLOT/%s/%.*s", *object,
                        below(slot, AVERAGE) ? OPTIMIZER : w->optimizer, (int)(rest - slot), slot);
    return *object ? TL_OK : TL_ENOMEM;
}

/* NULL when it is none. */
static const char *number_of(const writing *w, const char *path)
{
    bool averages = strcmp(w->optimizer, INNER) == 0;
    for (int64_t i = 0; i < TL_COUNT(numbers); i++)
        if (strcmp(path, numbers[i].ours) == 0 && (averages || !below(numbers[i].theirs, INNER)))
            return numbers[i].theirs;
    return NULL;
}

static tl_status to_object(const char **object, tl_arena *arena, const char *path, void *payload)
{
    writing *w = payload;
    const char *weight = below(path, "model"), *slot = below(path, OPTIMIZER);
    *object = number_of(w, path);
    if (*object) return TL_OK;
    if (weight) {
        TL_TRY(name_weight(object, w, arena, weight));
        if (!*object)
            return TL_FAIL(
                TL_EINVAL,
                "the weight '%s' has no name in Model Garden: the table of the model lacks it",
                weight);
    } else if (slot) {
        TL_TRY(name_slot(object, w, arena, slot));
    } else {
        TL_TRY(name_weight(object, w, arena, path));
    }
    return *object ? TL_OK : leave_out(w, path);
}

static tl_status put_all(tl_tensorbundle_writer *writer, writing *w, const tl_state *s)
{
    const tl_original_list *same = &w->names->same;
    TL_TRY(tl_tensorbundle_writer_put_state(
        writer, s, &(tl_tensorbundle_names){.to_object = to_object, .payload = w}));
    if (!w->weights) return TL_FAIL(TL_EINVAL, "no weight of the model is in it");
    if (w->left_out) TL_TRY(tl_str_status(w->left_out));
    for (int64_t i = 0; i < same->count; i++)
        if (w->there[i])
            TL_TRY(tl_tensorbundle_writer_put_same(writer, same->items[i].ours,
                                                   same->items[i].theirs));
    return tl_tensorbundle_writer_put_int(writer, "save_counter", 1);
}

tl_status tl_original_write(const char *prefix, const tl_state *s, const tl_original_names *names,
                            tl_str *left_out)
{
    tl_state_entry e;
    bool averages = tl_state_find(&e, s, OPTIMIZER "/" AVERAGE);
    writing w = {.names = names, .left_out = left_out, .optimizer = averages ? INNER : OPTIMIZER};
    tl_tensorbundle_writer *writer = NULL;
    tl_arena *arena = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&arena));
    w.there = tl_arena_array(arena, names->same.count, sizeof *w.there);
    TL_TRY_DONE(st, w.there ? TL_OK : TL_ENOMEM);
    TL_TRY_DONE(st, tl_tensorbundle_writer_new(&writer));
    TL_TRY_DONE(st, put_all(writer, &w, s));
    st = tl_tensorbundle_writer_write(writer, prefix);
done:
    tl_tensorbundle_writer_free(&writer);
    tl_arena_free(&arena);
    return st;
}
