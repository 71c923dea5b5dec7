/* TensorBundle: the checkpoint files of TensorFlow, PREFIX.index and PREFIX.data-00000-of-00001.
 *
 *     tl_tensorbundle *b;
 *     TL_TRY(tl_tensorbundle_open(&b, "resnet/ckpt-120"));
 *     for (int64_t i = 0; i < tl_tensorbundle_count(b); i++)
 *         puts(tl_tensorbundle_at(b, i)->name);         // "model/dense/kernel/.ATTRIBUTES/..."
 *     st = tl_tensorbundle_get(kernel, b, "model/dense/kernel" TL_TENSORBUNDLE_VALUE);
 *     tl_tensorbundle_free(&b);
 *
 *     tl_tensorbundle_writer *w;
 *     TL_TRY(tl_tensorbundle_writer_new(&w));
 *     TL_TRY_DONE(st, tl_tensorbundle_writer_put(w, "model/dense/kernel", kernel));
 *     TL_TRY_DONE(st, tl_tensorbundle_writer_put_int(w, "save_counter", 1));
 *     st = tl_tensorbundle_writer_write(w, "out/ckpt-1");     // tf.train.Checkpoint restores it
 * done:
 *     tl_tensorbundle_writer_free(&w);
 *
 * The index is checked when a bundle is opened: the checksum and form of every block, types,
 * shapes, names that occur twice, places outside of the data. The elements of an entry are checked
 * against their checksum each time they are asked for (tl_tensorbundle_verify: all of them).
 * Messages name the file, the place, and what was expected. Types that tensors do not have
 * (complex, ...) are listed, and refused by name when they are read. Variables that were saved in
 * pieces are one entry. Bundles that a big-endian machine wrote are refused.
 *
 * Ownership: an open bundle is the caller's, and what it shows lives as long. Whoever cuts an open
 * file short makes reading it fatal (see tl_file_map). Thread word: an open bundle and an object
 * graph are immutable; a writer one thread at a time. */
#ifndef TILTH_IO_TENSORBUNDLE_H
#define TILTH_IO_TENSORBUNDLE_H

#include <tilth/core/state.h>

TL_BEGIN

/* What follows the path of an object in the name of its value. */
#define TL_TENSORBUNDLE_VALUE "/.ATTRIBUTES/VARIABLE_VALUE"
/* The entry with the object graph. */
#define TL_TENSORBUNDLE_GRAPH "_CHECKPOINTABLE_OBJECT_GRAPH"
#define TL_TENSORBUNDLE_SUFFIX ".index"

/* --- reading ---------------------------------------------------------------------------------- */

typedef struct tl_tensorbundle tl_tensorbundle;

TL_API TL_NODISCARD tl_status tl_tensorbundle_open(tl_tensorbundle **out, const char *prefix);
/* NULL is fine. */
TL_API void tl_tensorbundle_free(tl_tensorbundle **b);
/* As it was opened. */
TL_API const char *tl_tensorbundle_prefix(const tl_tensorbundle *b);
/* How many files hold the data. */
TL_API int64_t tl_tensorbundle_shards(const tl_tensorbundle *b);

/* The prefix that is meant by a path: itself, one of the bundle's files, or the latest of a
 * directory with a state file ("checkpoint"). TL_ENOTFOUND when there is none. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_resolve(const char **prefix, tl_arena *arena,
                                                      const char *path);

typedef struct tl_tensorbundle_entry {
    const char *name;
    const char *type; /* as TensorFlow spells it: "float32", "string", "complex64" */
    bool readable;    /* tensors can have this type and shape; else `dtype` says nothing */
    bool is_string;
    tl_dtype dtype;
    int rank;
    const int64_t *dims; /* `rank` of them */
    size_t bytes;        /* of the elements; of strings: as they lie in the file, 0 in pieces */
    int64_t pieces;      /* in how many it was saved; 0: whole */
} tl_tensorbundle_entry;

/* In the order of their names' bytes. */
TL_API int64_t tl_tensorbundle_count(const tl_tensorbundle *b);
TL_API const tl_tensorbundle_entry *tl_tensorbundle_at(const tl_tensorbundle *b, int64_t index);
/* NULL when there is none of that name. */
TL_API const tl_tensorbundle_entry *tl_tensorbundle_find(const tl_tensorbundle *b,
                                                         const char *name);
/* "float32[3, 4]", appended. */
TL_API void tl_tensorbundle_spec(tl_str *out, const tl_tensorbundle_entry *entry);

/* Where the bytes of an entry lie, once their checksum was found right: row-major, little-endian,
 * aligned to nothing. An entry in pieces lies nowhere as a whole: TL_EUNSUPPORTED. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_borrow(const void **data, const tl_tensorbundle *b,
                                                     const tl_tensorbundle_entry *entry);
/* Copies entry->bytes bytes, pieces put together. Pieces whose elements have no fixed size
 * (strings, variants) are TL_EUNSUPPORTED. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_copy(void *to, const tl_tensorbundle *b,
                                                   const tl_tensorbundle_entry *entry);
/* Copies the elements of an entry into a tensor of its type and shape. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_get(tl_tensor *to, const tl_tensorbundle *b,
                                                  const char *name);

/* One string; not NUL-terminated. */
typedef struct tl_tensorbundle_string {
    const char *data;
    size_t size;
} tl_tensorbundle_string;
/* The elements of a string tensor, row-major, as the file has them now: list and strings live in
 * the arena. `count` may be NULL. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_strings(const tl_tensorbundle_string **out,
                                                      int64_t *count, tl_arena *arena,
                                                      const tl_tensorbundle *b,
                                                      const tl_tensorbundle_entry *entry);

/* Checks the checksum of every entry. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_verify(const tl_tensorbundle *b);

/* --- the object graph ------------------------------------------------------------------------- */

/* Which Python objects a checkpoint was made of: node 0 is the root, its children are the arguments
 * of tf.train.Checkpoint. */
typedef struct tl_object_child {
    const char *name;
    int64_t node;
} tl_object_child;
typedef struct tl_object_attribute {
    const char *name;      /* "VARIABLE_VALUE" */
    const char *full_name; /* what Python called the variable */
    const char *key;       /* the entry that holds the value */
} tl_object_attribute;
typedef struct tl_object_slot {
    int64_t variable; /* node of what is trained */
    const char *name; /* "momentum" */
    int64_t node;     /* of the slot variable */
} tl_object_slot;
typedef struct tl_bundle_object {
    const char
        *path; /* the shortest from the root, as names of entries begin; the root's is "", and
                * slots' are VARIABLE/.OPTIMIZER_SLOT/OPTIMIZER/NAME; NULL: nothing leads there */
    const tl_object_child *children;
    int64_t child_count;
    const tl_object_attribute *attributes;
    int64_t attribute_count;
    const tl_object_slot *slots; /* of an optimizer */
    int64_t slot_count;
} tl_bundle_object;
typedef struct tl_object_graph {
    const tl_bundle_object *nodes;
    int64_t count;
    tl_arena *arena;
} tl_object_graph;

/* A bundle without one (written by tf.compat.v1.train.Saver) is TL_ENOTFOUND. */
TL_API TL_NODISCARD tl_status tl_object_graph_init(tl_object_graph *out, const tl_tensorbundle *b);
TL_API void tl_object_graph_deinit(tl_object_graph *g);
/* The node at a path ("model/layers/1/kernel"), whichever of several it is; NULL when there is
 * none. In a path '.' in the name of a child is "..", and '/' is ".S". */
TL_API const tl_bundle_object *tl_object_graph_find(const tl_object_graph *g, const char *path);

/* --- writing ---------------------------------------------------------------------------------- */

/* Collects what a bundle will hold. Tensors are kept by their storage, so what is computed into
 * them before the bundle is written is written; all else is copied. Once a put failed, all that is
 * left to do is to free the writer. */
typedef struct tl_tensorbundle_writer tl_tensorbundle_writer;

TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_new(tl_tensorbundle_writer **out);
/* NULL is fine. */
TL_API void tl_tensorbundle_writer_free(tl_tensorbundle_writer **w);

/* The variable of the object at a path. All objects on the way become nodes of the object graph. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_put(tl_tensorbundle_writer *w,
                                                         const char *path, const tl_tensor *t);
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_put_int(tl_tensorbundle_writer *w,
                                                             const char *path, int64_t value);
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_put_text(tl_tensorbundle_writer *w,
                                                              const char *path, const char *text,
                                                              size_t size);
/* Elements of any type that TensorFlow has but "string", as they lie in memory. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_put_bytes(tl_tensorbundle_writer *w,
                                                               const char *path, const char *type,
                                                               int rank, const int64_t *dims,
                                                               const void *data, size_t bytes);
/* The slot variable `name` that an optimizer (a path) keeps for a variable (a path). */
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_put_slot(tl_tensorbundle_writer *w,
                                                              const char *variable,
                                                              const char *optimizer,
                                                              const char *name, const tl_tensor *t);
/* The object at `path` is that at `other`, which is there already. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_put_same(tl_tensorbundle_writer *w,
                                                              const char *path, const char *other);
/* An entry of this very name, which no object of the graph has: for readers that go by names. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_put_named(tl_tensorbundle_writer *w,
                                                               const char *name,
                                                               const tl_tensor *t);

/* Writes PREFIX.data-00000-of-00001 and PREFIX.index beside what is there, and puts both in place
 * only when both are complete: the data, then the index. A failure before that leaves a bundle that
 * was there as it was. Should the index alone fail to be put in place, the data is taken away: an
 * index that was there has none then, and says so. The bytes depend on what was put alone, not on
 * the order. A bundle without objects gets no graph. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_write(tl_tensorbundle_writer *w,
                                                           const char *prefix);

/* --- whole states ----------------------------------------------------------------------------- */

/* What an entry of a bundle is called in a state, and back; see tl_tensorbundle_load. */
typedef struct tl_tensorbundle_names {
    /* The path in a state for the name of an entry. NULL in `*path`: it is left out. */
    tl_status (*to_state)(const char **path, tl_arena *arena, const char *name, void *payload);
    /* The path of an object for a path in a state: "a/b", or "a/b/.OPTIMIZER_SLOT/optimizer/m" for
     * a slot. NULL in `*object`: it is left out. */
    tl_status (*to_object)(const char **object, tl_arena *arena, const char *path, void *payload);
    void *payload;
} tl_tensorbundle_names;
/* The names without TL_TENSORBUNDLE_VALUE. A variable of a state has nothing below it, so the slot
 * VARIABLE/.OPTIMIZER_SLOT/OPTIMIZER/NAME is OPTIMIZER/.OPTIMIZER_SLOT/NAME/VARIABLE there. */
TL_API extern const tl_tensorbundle_names tl_tensorbundle_plain_names;

/* A state with the entries that tensors can be, under the names that `names` gives (NULL:
 * tl_tensorbundle_plain_names). Scalar strings become texts, rows of uint64 words. The object graph
 * is left out, and so is what a state cannot hold: `left_out`, which may be NULL, gets a line for
 * each. Without an engine (NULL) tensors are only described. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_load(tl_state **out, const tl_tensorbundle *b,
                                                   tl_engine *engine,
                                                   const tl_tensorbundle_names *names,
                                                   tl_str *left_out);
/* Puts all entries of a state: tensors, ints (int64), doubles (float64), bools, texts (string),
 * words (uint64). Paths of one tensor become one object. `names` NULL: objects have the paths of
 * the state. */
TL_API TL_NODISCARD tl_status tl_tensorbundle_writer_put_state(tl_tensorbundle_writer *w,
                                                               const tl_state *s,
                                                               const tl_tensorbundle_names *names);

TL_END

#endif
