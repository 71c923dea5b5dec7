#include <inttypes.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "io/tensorflow/protobuf.h"
#include "io/inner/tensorbundle.h"

/* --- messages --------------------------------------------------------------------------------- */

typedef struct reader {
    tl_object_graph *g;
    const char *file;
    int64_t node; /* that is being read */
} reader;

static tl_status fail_node(const reader *r, const char *what)
{
    return TL_FAIL(TL_EINVAL, "'%s': entry '%s': node %" PRId64 " of the object graph %s", r->file,
                   TL_TENSORBUNDLE_GRAPH, r->node, what);
}

// Text is UTF-8 without zero bytes; what has one is none.
static tl_status read_text(const reader *r, const char **out, tli_pb_field f)
{
    if (f.wire != TLI_PB_BYTES || memchr(f.data, '\0', f.size))
        return fail_node(r, "has a name that is no text");
    *out = tl_arena_strndup(r->g->arena, f.data, f.size);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status read_node_id(const reader *r, int64_t *out, tli_pb_field f)
{
    if (f.wire != TLI_PB_VARINT || f.bits >= (uint64_t)r->g->count)
        return fail_node(r, "refers to a node that does not exist");
    *out = (int64_t)f.bits;
    return TL_OK;
}

static tl_status read_child(const reader *r, tl_object_child *out, tli_pb in)
{
    tli_pb_field f;
    *out = (tl_object_child){.name = ""};
    while (tli_pb_next(&in, &f)) {
        if (f.number == 1) TL_TRY(read_node_id(r, &out->node, f));
        if (f.number == 2) TL_TRY(read_text(r, &out->name, f));
    }
    return in.damaged ? fail_node(r, "has a damaged child") : TL_OK;
}

static tl_status read_attribute(const reader *r, tl_object_attribute *out, tli_pb in)
{
    tli_pb_field f;
    *out = (tl_object_attribute){"", "", ""};
    while (tli_pb_next(&in, &f)) {
        if (f.number == 1) TL_TRY(read_text(r, &out->name, f));
        if (f.number == 2) TL_TRY(read_text(r, &out->full_name, f));
        if (f.number == 3) TL_TRY(read_text(r, &out->key, f));
    }
    return in.damaged ? fail_node(r, "has a damaged attribute") : TL_OK;
}

static tl_status read_slot(const reader *r, tl_object_slot *out, tli_pb in)
{
    tli_pb_field f;
    *out = (tl_object_slot){.name = ""};
    while (tli_pb_next(&in, &f)) {
        if (f.number == 1) TL_TRY(read_node_id(r, &out->variable, f));
        if (f.number == 2) TL_TRY(read_text(r, &out->name, f));
        if (f.number == 3) TL_TRY(read_node_id(r, &out->node, f));
    }
    return in.damaged ? fail_node(r, "has a damaged slot variable") : TL_OK;
}

static tli_pb message_of(tli_pb_field f)
{
    return (tli_pb){f.data, f.data + f.size, false};
}

static tl_status read_node(const reader *r, tl_bundle_object *out, tli_pb_field node)
{
    enum { CHILD = 1, ATTRIBUTE, SLOT, KINDS };
    int64_t counts[KINDS] = {0};
    tli_pb_field f;
    tli_pb in = message_of(node);
    while (tli_pb_next(&in, &f))
        if (f.number < KINDS && f.wire == TLI_PB_BYTES) counts[f.number]++;
    if (in.damaged) return fail_node(r, "is no protocol buffer");
    tl_arena *a = r->g->arena;
    tl_object_child *children = tl_arena_array(a, counts[CHILD], sizeof *children);
    tl_object_attribute *attributes = tl_arena_array(a, counts[ATTRIBUTE], sizeof *attributes);
    tl_object_slot *slots = tl_arena_array(a, counts[SLOT], sizeof *slots);
    if (!children || !attributes || !slots) return TL_ENOMEM;
    out->children = children;
    out->attributes = attributes;
    out->slots = slots;
    in = message_of(node);
    while (tli_pb_next(&in, &f)) {
        if (f.wire != TLI_PB_BYTES) continue;
        tli_pb message = message_of(f);
        if (f.number == CHILD) TL_TRY(read_child(r, &children[out->child_count++], message));
        if (f.number == ATTRIBUTE)
            TL_TRY(read_attribute(r, &attributes[out->attribute_count++], message));
        if (f.number == SLOT) TL_TRY(read_slot(r, &slots[out->slot_count++], message));
    }
    return TL_OK;
}

static tl_status read_nodes(reader *r, tli_pb_field graph)
{
    tli_pb_field f;
    tli_pb in = message_of(graph);
    while (tli_pb_next(&in, &f)) r->g->count += f.number == 1 && f.wire == TLI_PB_BYTES;
    if (in.damaged || !r->g->count)
        return TL_FAIL(TL_EINVAL, "'%s': entry '%s' is no object graph: %s", r->file,
                       TL_TENSORBUNDLE_GRAPH,
                       in.damaged ? "no protocol buffer" : "it has no nodes");
    tl_bundle_object *nodes = tl_arena_array(r->g->arena, r->g->count, sizeof *nodes);
    if (!nodes) return TL_ENOMEM;
    r->g->nodes = nodes;
    in = message_of(graph);
    while (tli_pb_next(&in, &f)) {
        if (f.number != 1 || f.wire != TLI_PB_BYTES) continue;
        TL_TRY(read_node(r, &nodes[r->node], f));
        r->node++;
    }
    return TL_OK;
}

/* --- paths ------------------------------------------------------------------------------------ */

// A child's name as it stands in a path.
static void add_escaped(tl_str *out, const char *name)
{
    for (; *name; name++) {
        if (*name == '.') tl_str_add(out, "..");
        else if (*name == '/') tl_str_add(out, ".S");
        else tl_str_addc(out, *name);
    }
}

static const char *child_path(tl_arena *arena, const char *parent, const char *name)
{
    tl_str path = TL_STR_INIT;
    tl_str_add(&path, parent);
    if (*parent) tl_str_addc(&path, '/');
    add_escaped(&path, name);
    const char *copy = tl_str_copy(&path, arena);
    tl_str_deinit(&path);
    return copy;
}

/* Paths of damaged graphs would need memory by the square of their length. */
typedef struct naming {
    tl_object_graph *g;
    const char *file;
    size_t room; /* bytes that paths may still take */
} naming;

static tl_status check_path(naming *n, const char *path)
{
    enum { LONGEST = 1 << 16 };
    size_t size = path ? strlen(path) : 0;
    if (!path) return TL_ENOMEM;
    if (size > LONGEST || size > n->room)
        return TL_FAIL(TL_ELIMIT, "'%s': its object graph is too deep", n->file);
    n->room -= size;
    return TL_OK;
}

// Slots are nobody's children: they have paths when variable and optimizer do.
static tl_status name_slots(naming *n, tl_bundle_object *nodes)
{
    tl_object_graph *g = n->g;
    for (int64_t i = 0; i < g->count; i++) {
        for (int64_t k = 0; k < nodes[i].slot_count && nodes[i].path; k++) {
            const tl_object_slot *s = &nodes[i].slots[k];
            tl_bundle_object *slot = &nodes[s->node];
            const char *variable = nodes[s->variable].path;
            if (slot->path || !variable) continue;
            const char *head =
                tl_arena_printf(g->arena, "%s/.OPTIMIZER_SLOT/%s", variable, nodes[i].path);
            slot->path = head ? child_path(g->arena, head, s->name) : NULL;
            TL_TRY(check_path(n, slot->path));
        }
    }
    return TL_OK;
}

// Breadth first, so that the first path of a node is a shortest one.
static tl_status name_nodes(naming *n)
{
    tl_object_graph *g = n->g;
    tl_bundle_object *nodes = (tl_bundle_object *)(uintptr_t)g->nodes;
    int64_t *queue = tl_arena_array(g->arena, g->count, sizeof *queue), filled = 1;
    if (!queue) return TL_ENOMEM;
    nodes[0].path = "";
    for (int64_t i = 0; i < filled; i++) {
        const tl_bundle_object *o = &nodes[queue[i]];
        for (int64_t k = 0; k < o->child_count; k++) {
            tl_bundle_object *child = &nodes[o->children[k].node];
            if (child->path) continue;
            child->path = child_path(g->arena, o->path, o->children[k].name);
            TL_TRY(check_path(n, child->path));
            queue[filled++] = o->children[k].node;
        }
    }
    return name_slots(n, nodes);
}

/* --- the graph -------------------------------------------------------------------------------- */

tl_status tl_object_graph_init(tl_object_graph *out, const tl_tensorbundle *b)
{
    const tl_tensorbundle_string *text;
    int64_t count;
    tl_status st;
    *out = (tl_object_graph){0};
    const tl_tensorbundle_entry *e = tl_tensorbundle_find(b, TL_TENSORBUNDLE_GRAPH);
    if (!e)
        return TL_FAIL(TL_ENOTFOUND, "'%s' has no object graph (no entry '%s')", b->index_path,
                       TL_TENSORBUNDLE_GRAPH);
    TL_TRY_DONE(st, tl_arena_new(&out->arena));
    TL_TRY_DONE(st, tl_tensorbundle_strings(&text, &count, out->arena, b, e));
    reader r = {out, b->index_path, 0};
    if (count == 1) st = read_nodes(&r, (tli_pb_field){.data = text->data, .size = text->size});
    else
        st = TL_FAIL(TL_EINVAL, "'%s': entry '%s' holds %" PRId64 " strings, not one",
                     b->index_path, TL_TENSORBUNDLE_GRAPH, count);
    // The graph spells out the paths of all that has a value, so all paths are not much longer.
    naming n = {out, b->index_path, ((size_t)1 << 20) + 64 * text->size};
    if (st == TL_OK) st = name_nodes(&n);
done:
    if (st != TL_OK) tl_object_graph_deinit(out);
    return st;
}

void tl_object_graph_deinit(tl_object_graph *g)
{
    tl_arena_free(&g->arena);
    *g = (tl_object_graph){0};
}

// Is it the name, as it stands in a path?
static bool is_escaped(const char *name, const char *text, size_t size)
{
    const char *end = text + size;
    for (; *name && text < end; name++, text++) {
        if (*name != '.' && *name != '/') {
            if (*text != *name) return false;
            continue;
        }
        if (*text != '.' || ++text == end || *text != (*name == '.' ? '.' : 'S')) return false;
    }
    return !*name && text == end;
}

const tl_bundle_object *tl_object_graph_find(const tl_object_graph *g, const char *path)
{
    const tl_bundle_object *o = &g->nodes[0];
    while (*path && o) {
        size_t size = strcspn(path, "/");
        const tl_bundle_object *next = NULL;
        for (int64_t i = 0; i < o->child_count && !next; i++)
            if (is_escaped(o->children[i].name, path, size)) next = &g->nodes[o->children[i].node];
        o = next;
        path += size + (path[size] == '/');
    }
    return o;
}
