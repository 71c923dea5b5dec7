/* Private to io: the objects of a TensorBundle that is being written, and the message that
 * describes them (TrackableObjectGraph).
 *
 * Objects stand at paths; those on the way are made. The message depends on what is there, not on
 * the order in which it came. Thread word: one thread at a time. */
#ifndef TLI_IO_OBJECT_GRAPH_WRITE_H
#define TLI_IO_OBJECT_GRAPH_WRITE_H

#include <tilth/base/str.h>
#include <tilth/base/vec.h>

typedef struct tli_object_edge {
    const char *name; /* as it stands in a path */
    int64_t node;
} tli_object_edge;

typedef struct tli_object_slot_edge {
    int64_t variable;
    const char *name; /* as it stands in a path */
    const char *key;
} tli_object_slot_edge;

typedef struct tli_object_node {
    const char *path;
    const char *key; /* of its value; NULL: it has none */
    struct {
        tli_object_edge *items;
        int64_t count, capacity;
    } children;
    struct {
        tli_object_slot_edge *items;
        int64_t count, capacity;
    } slots;
} tli_object_node;

typedef struct tli_object_tree {
    tl_arena *arena;
    struct {
        tli_object_node *items; /* the first is the root */
        int64_t count, capacity;
    } nodes;
} tli_object_tree;

TL_NODISCARD tl_status tli_object_tree_init(tli_object_tree *t);
void tli_object_tree_deinit(tli_object_tree *t);

/* The object at a path, made when it is not there. */
TL_NODISCARD tl_status tli_object_tree_add(tli_object_tree *t, int64_t *node, const char *path);
/* Gives an object a value, and that a key. */
TL_NODISCARD tl_status tli_object_tree_value(tli_object_tree *t, const char **key, int64_t node);
/* A slot of a variable, and its key. */
TL_NODISCARD tl_status tli_object_tree_slot(tli_object_tree *t, const char **key,
                                            const char *variable, const char *optimizer,
                                            const char *name);
/* Another path to an object that is there. */
TL_NODISCARD tl_status tli_object_tree_same(tli_object_tree *t, const char *path,
                                            const char *other);

/* Appends the message. */
TL_NODISCARD tl_status tli_object_tree_message(tl_str *out, const tli_object_tree *t);

#endif
