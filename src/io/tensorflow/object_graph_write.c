#include "io/tensorflow/object_graph_write.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "io/tensorflow/protobuf.h"
#include "base/inner/utf8.h"

/* --- the tree --------------------------------------------------------------------------------- */

tl_status tli_object_tree_init(tli_object_tree *t)
{
    *t = (tli_object_tree){0};
    TL_TRY(tl_arena_new(&t->arena));
    return TL_VEC_PUSH(&t->nodes, (tli_object_node){.path = ""}) ? TL_OK : TL_ENOMEM;
}

void tli_object_tree_deinit(tli_object_tree *t)
{
    for (int64_t i = 0; i < t->nodes.count; i++) {
        TL_VEC_FREE(&t->nodes.items[i].children);
        TL_VEC_FREE(&t->nodes.items[i].slots);
    }
    TL_VEC_FREE(&t->nodes);
    tl_arena_free(&t->arena);
}

static tl_status check_path(const char *path)
{
    int length = 1;
    for (const char *p = path; *p && length; p += length) {
        length = tli_utf8_length(p);
        if (!length)
            return TL_FAIL(TL_EINVAL, "'%s' is no path of an object: it is not UTF-8 (byte %zu)",
                           path, (size_t)(p - path));
    }
    for (const char *p = path;;) {
        size_t size = strcspn(p, "/");
        if (!size)
            return TL_FAIL(TL_EINVAL, "'%s' is no path of an object: names joined by '/'", path);
        // These mark what is no object in the names of entries.
        if ((size == 11 && strncmp(p, ".ATTRIBUTES", size) == 0)
            || (size == 15 && strncmp(p, ".OPTIMIZER_SLOT", size) == 0))
            return TL_FAIL(TL_EINVAL, "'%s' is no path of an object: '%.*s' cannot be in one", path,
                           (int)size, p);
        if (!p[size]) return TL_OK;
        p += size + 1;
    }
}

// -1 when there is none.
static int64_t find_child(const tli_object_node *n, const char *name, size_t size)
{
    for (int64_t i = 0; i < n->children.count; i++)
        if (strncmp(n->children.items[i].name, name, size) == 0 && !n->children.items[i].name[size])
            return n->children.items[i].node;
    return -1;
}

static tl_status add_child(tli_object_tree *t, int64_t parent, const char *name, size_t size,
                           int64_t node)
{
    tli_object_edge edge = {tl_arena_strndup(t->arena, name, size), node};
    if (!edge.name) return TL_ENOMEM;
    return TL_VEC_PUSH(&t->nodes.items[parent].children, edge) ? TL_OK : TL_ENOMEM;
}

static tl_status new_node(tli_object_tree *t, int64_t *out, int64_t parent, const char *name,
                          size_t size)
{
    const char *above = t->nodes.items[parent].path;
    tli_object_node n = {
        .path = tl_arena_printf(t->arena, "%s%s%.*s", above, *above ? "/" : "", (int)size, name)};
    if (!n.path) return TL_ENOMEM;
    *out = t->nodes.count;
    if (!TL_VEC_PUSH(&t->nodes, n)) return TL_ENOMEM;
    tl_status st = add_child(t, parent, name, size, *out);
    if (st != TL_OK) t->nodes.count--; // nothing leads to it
    return st;
}

/* The first `length` bytes of a path. */
static tl_status add_objects(tli_object_tree *t, int64_t *node, const char *path, size_t length)
{
    *node = 0;
    for (const char *p = path, *end = path + length; p < end;) {
        size_t size = strcspn(p, "/");
        int64_t next = find_child(&t->nodes.items[*node], p, size);
        if (next < 0) TL_TRY(new_node(t, &next, *node, p, size));
        *node = next;
        p += size + 1;
    }
    return TL_OK;
}

tl_status tli_object_tree_add(tli_object_tree *t, int64_t *node, const char *path)
{
    TL_TRY(check_path(path));
    return add_objects(t, node, path, strlen(path));
}

tl_status tli_object_tree_value(tli_object_tree *t, const char **key, int64_t node)
{
    tli_object_node *n = &t->nodes.items[node];
    if (n->key) return TL_FAIL(TL_EEXISTS, "the object '%s' has a value already", n->path);
    *key = tl_arena_printf(t->arena, "%s%s", n->path, TL_TENSORBUNDLE_VALUE);
    n->key = *key;
    return *key ? TL_OK : TL_ENOMEM;
}

tl_status tli_object_tree_slot(tli_object_tree *t, const char **key, const char *variable,
                               const char *optimizer, const char *name)
{
    int64_t of, by;
    if (!*name || strchr(name, '/'))
        return TL_FAIL(TL_EINVAL, "'%s' is no name of a slot variable", name);
    TL_TRY(tli_object_tree_add(t, &of, variable));
    TL_TRY(tli_object_tree_add(t, &by, optimizer));
    tli_object_node *n = &t->nodes.items[by];
    for (int64_t i = 0; i < n->slots.count; i++)
        if (n->slots.items[i].variable == of && strcmp(n->slots.items[i].name, name) == 0)
            return TL_FAIL(TL_EEXISTS, "'%s' has a slot '%s' for '%s' already", optimizer, name,
                           variable);
    tli_object_slot_edge slot = {.variable = of, .name = tl_arena_strdup(t->arena, name)};
    slot.key = tl_arena_printf(t->arena, "%s/.OPTIMIZER_SLOT/%s/%s%s", t->nodes.items[of].path,
                               n->path, name, TL_TENSORBUNDLE_VALUE);
    *key = slot.key;
    if (!slot.name || !slot.key) return TL_ENOMEM;
    return TL_VEC_PUSH(&n->slots, slot) ? TL_OK : TL_ENOMEM;
}

static int64_t find_object(const tli_object_tree *t, const char *path)
{
    int64_t node = 0;
    for (const char *p = path; *p && node >= 0;) {
        size_t size = strcspn(p, "/");
        node = find_child(&t->nodes.items[node], p, size);
        p += size + (p[size] == '/');
    }
    return node;
}

tl_status tli_object_tree_same(tli_object_tree *t, const char *path, const char *other)
{
    TL_TRY(check_path(path));
    TL_TRY(check_path(other));
    int64_t node = find_object(t, other), parent;
    if (node < 0) return TL_FAIL(TL_ENOTFOUND, "there is no object '%s'", other);
    if (find_object(t, path) >= 0)
        return TL_FAIL(TL_EEXISTS, "there is an object '%s' already", path);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    TL_TRY(add_objects(t, &parent, path, slash ? (size_t)(slash - path) : 0));
    return add_child(t, parent, name, strlen(name), node);
}

/* --- the message ------------------------------------------------------------------------------ */

/* Nodes in the order of the message: breadth first, children by name. */
typedef struct layout {
    const tli_object_tree *tree;
    int64_t *order;   /* nodes of the tree */
    int64_t *numbers; /* of each node of the tree; -1: not yet */
    int64_t count;
} layout;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tli_object_edge *)a)->name, ((const tli_object_edge *)b)->name);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const tli_object_slot_edge *)a)->key, ((const tli_object_slot_edge *)b)->key);
}

static void sort_node(const tli_object_node *n)
{
    if (n->children.count)
        qsort(n->children.items, (size_t)n->children.count, sizeof *n->children.items, by_name);
    if (n->slots.count)
        qsort(n->slots.items, (size_t)n->slots.count, sizeof *n->slots.items, by_key);
}

static void lay_out(layout *l)
{
    const tli_object_node *nodes = l->tree->nodes.items;
    for (int64_t i = 0; i < l->tree->nodes.count; i++) l->numbers[i] = -1;
    l->order[0] = l->numbers[0] = 0;
    l->count = 1;
    for (int64_t i = 0; i < l->count; i++) {
        const tli_object_node *n = &nodes[l->order[i]];
        sort_node(n);
        for (int64_t k = 0; k < n->children.count; k++) {
            int64_t child = n->children.items[k].node;
            if (l->numbers[child] >= 0) continue;
            l->numbers[child] = l->count;
            l->order[l->count++] = child;
        }
    }
}

// In a path ".." is a '.', and ".S" a '/'.
static void add_name(tl_str *out, int field, const char *escaped)
{
    tl_str name = TL_STR_INIT;
    for (const char *p = escaped; *p; p++) {
        bool pair = *p == '.' && (p[1] == '.' || p[1] == 'S');
        tl_str_addc(&name, pair && p[1] == 'S' ? '/' : *p);
        p += pair;
    }
    tli_pb_text(out, field, tl_str_text(&name));
    if (name.failed) out->failed = true;
    tl_str_deinit(&name);
}

static void add_value(tl_str *out, const char *key)
{
    size_t mark = tli_pb_begin(out, 2);
    size_t path = strlen(key) - strlen(TL_TENSORBUNDLE_VALUE);
    tli_pb_text(out, 1, strrchr(TL_TENSORBUNDLE_VALUE, '/') + 1);
    tli_pb_bytes(out, 2, key, path);
    tli_pb_text(out, 3, key);
    tli_pb_end(out, mark);
}

// Says that this object, or one that it leads to, has a value.
static void add_has_values(tl_str *out)
{
    size_t mark = tli_pb_begin(out, 5);
    tli_pb_int(out, 1, 1);
    tli_pb_end(out, mark);
}

static void add_if(tl_str *out, int field, int64_t value)
{
    if (value) tli_pb_int(out, field, value);
}

static void add_node(tl_str *out, const layout *l, const tli_object_node *n, int64_t *next_slot)
{
    size_t mark = tli_pb_begin(out, 1);
    for (int64_t i = 0; i < n->children.count; i++) {
        size_t child = tli_pb_begin(out, 1);
        add_if(out, 1, l->numbers[n->children.items[i].node]);
        add_name(out, 2, n->children.items[i].name);
        tli_pb_end(out, child);
    }
    if (n->key) add_value(out, n->key);
    for (int64_t i = 0; i < n->slots.count; i++) {
        size_t slot = tli_pb_begin(out, 3);
        add_if(out, 1, l->numbers[n->slots.items[i].variable]);
        add_name(out, 2, n->slots.items[i].name);
        tli_pb_int(out, 3, (*next_slot)++);
        tli_pb_end(out, slot);
    }
    add_has_values(out);
    tli_pb_end(out, mark);
}

static void add_slot_node(tl_str *out, const tli_object_slot_edge *slot)
{
    size_t mark = tli_pb_begin(out, 1);
    add_value(out, slot->key);
    add_has_values(out);
    tli_pb_end(out, mark);
}

static tl_status check_slots(const tli_object_tree *t)
{
    for (int64_t i = 0; i < t->nodes.count; i++) {
        const tli_object_node *n = &t->nodes.items[i];
        for (int64_t k = 0; k < n->slots.count; k++) {
            const tli_object_node *of = &t->nodes.items[n->slots.items[k].variable];
            if (!of->key)
                return TL_FAIL(TL_EINVAL, "'%s' has a slot '%s' for '%s', which is no variable",
                               n->path, n->slots.items[k].name, of->path);
        }
    }
    return TL_OK;
}

tl_status tli_object_tree_message(tl_str *out, const tli_object_tree *t)
{
    TL_TRY(check_slots(t));
    size_t bytes = (size_t)t->nodes.count * 2 * sizeof(int64_t);
    int64_t *numbers = tl_alloc(bytes);
    if (!numbers) return TL_FAIL_NOMEM(bytes);
    layout l = {.tree = t, .order = numbers + t->nodes.count, .numbers = numbers};
    lay_out(&l);
    int64_t next_slot = l.count;
    for (int64_t i = 0; i < l.count; i++)
        add_node(out, &l, &t->nodes.items[l.order[i]], &next_slot);
    for (int64_t i = 0; i < l.count; i++) {
        const tli_object_node *n = &t->nodes.items[l.order[i]];
        for (int64_t k = 0; k < n->slots.count; k++) add_slot_node(out, &n->slots.items[k]);
    }
    tl_free(numbers);
    return tl_str_status(out);
}
