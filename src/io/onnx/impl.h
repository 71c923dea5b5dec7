/* Private to ONNX: a file in the making, and the calls that become its nodes.
 *
 * Names of values are what nodes are joined by. A function that gives one gives NULL once something
 * has failed, and one that is given NULL does nothing: the first failure stays in `status`.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_IO_ONNX_IMPL_H
#define TILTH_SRC_IO_ONNX_IMPL_H

#include <tilth/base/vec.h>
#include <tilth/core/attrs.h>
#include <tilth/io/onnx.h>
#include <tilth/sys/graph/graph.h>

#include "base/inner/pointer_map.h"

enum { TLI_ONNX_VERSION = 8, TLI_ONNX_OPERATORS = 17 };

/* --- a file in the making: proto.c ------------------------------------------------------------ */

/* A constant: elements of a tensor, its axes in another order, or numbers. */
typedef struct tli_onnx_constant {
    const char *name;
    tl_dtype dtype; /* float32 where the tensor has half of its bits */
    tl_shape shape; /* in the file */
    const tl_tensor *tensor;
    tl_shape seen; /* of the tensor's elements, before `perm` */
    int perm[TL_MAX_RANK];
    bool turned;         /* by `perm` */
    const void *numbers; /* in place of a tensor */
} tli_onnx_constant;

typedef struct tli_onnx_file {
    tl_arena *arena;
    tl_str nodes, ends; /* fields of the graph: its nodes, its inputs and outputs */
    struct {
        tli_onnx_constant *items;
        int64_t count, capacity;
    } constants;
} tli_onnx_file;

typedef enum tli_onnx_attr_kind {
    TLI_ONNX_INT,
    TLI_ONNX_FLOAT,
    TLI_ONNX_TEXT,
    TLI_ONNX_INTS
} tli_onnx_attr_kind;
typedef struct tli_onnx_attr {
    const char *name; /* NULL: the end */
    tli_onnx_attr_kind kind;
    int64_t i;
    double f;
    const char *s;
    const int64_t *ints;
    int64_t count;
} tli_onnx_attr;
#define TLI_INT(name_, value_)                                                                     \
    {                                                                                              \
        .name = (name_), .kind = TLI_ONNX_INT, .i = (value_)                                       \
    }
#define TLI_FLOAT(name_, value_)                                                                   \
    {                                                                                              \
        .name = (name_), .kind = TLI_ONNX_FLOAT, .f = (value_)                                     \
    }
#define TLI_TEXT(name_, value_)                                                                    \
    {                                                                                              \
        .name = (name_), .kind = TLI_ONNX_TEXT, .s = (value_)                                      \
    }
#define TLI_INTS(name_, count_, values_)                                                           \
    {                                                                                              \
        .name = (name_), .kind = TLI_ONNX_INTS, .ints = (values_), .count = (count_)               \
    }

typedef struct tli_onnx_node {
    const char *op;
    const char *in[6];       /* up to the first NULL; "": left out */
    const char *const *many; /* in place of `in` */
    int64_t many_count;
    tli_onnx_attr attrs[6];
    const char *out;
} tli_onnx_node;
void tli_onnx_file_node(tli_onnx_file *f, const tli_onnx_node *n);
/* One of its inputs or outputs; a dim of -1 is that of the examples. */
void tli_onnx_file_end(tli_onnx_file *f, bool output, const char *name, tl_dtype dtype,
                       const tl_shape *shape);
TL_NODISCARD tl_status tli_onnx_file_write(const tli_onnx_file *f, const char *path,
                                           const tl_onnx_args *args);
/* What types are called there; 0: it has none. */
int tli_onnx_type(tl_dtype dtype);
/* The type that elements have there. */
tl_dtype tli_onnx_stored(tl_dtype dtype);

/* --- values: values.c ------------------------------------------------------------------------- */

/* What captures were made of, so that what follows from the number of examples can be told from
 * what does not. */
enum { TLI_ONNX_FEW = 2, TLI_ONNX_MORE = 3 };

/* A tensor of the first capture, and the names under which it lies in the file. */
typedef struct tli_onnx_value {
    const char *last, *first; /* as it is; channels before rows and columns. NULL: not made yet */
} tli_onnx_value;

typedef struct tli_onnx {
    tli_onnx_file file;
    const tl_onnx_args *args;
    tl_graph *few, *more; /* the two captures */
    tli_pointer_map by_tensor;
    struct {
        tli_onnx_value *items;
        int64_t count, capacity;
    } values;
    struct {
        tl_state_entry *items;
        int64_t count, capacity;
    } weights;
    const tl_node *call; /* that is being written */
    const char *batch;   /* int64[1]: the number of examples */
    int64_t made;        /* values that have names of ours */
    tl_status status;
} tli_onnx;

void tli_onnx_fail(tli_onnx *x, tl_status st);
/* Refuses the call that is being written. */
void tli_onnx_refuse(tli_onnx *x, const char *why);

/* A node with one output, under its name or under a new one. */
const char *tli_onnx_emit(tli_onnx *x, const tli_onnx_node *n);
#define TLI_EMIT(x, ...) tli_onnx_emit((x), &(tli_onnx_node){__VA_ARGS__})
/* Constants. */
const char *tli_onnx_ints(tli_onnx *x, int64_t count, const int64_t *values);
const char *tli_onnx_number(tli_onnx *x, tl_dtype dtype, double value);
const char *tli_onnx_floats(tli_onnx *x, int64_t count, double value);
/* int64[count] with the dims of a shape, some of which follow from the number of examples. */
const char *tli_onnx_dims(tli_onnx *x, int64_t count, const int64_t *few, const int64_t *more);

/* The weight whose elements `t` shows, in its shape or in another one; NULL: it is computed. */
const tl_tensor *tli_onnx_weight(const tl_tensor *t);
/* A weight that is seen in another shape; with `perm`, which may be NULL, its axes then come in
 * that order. */
const char *tli_onnx_turned(tli_onnx *x, const tl_tensor *weight, tl_shape seen, const int *perm);

/* As it is. */
const char *tli_onnx_get(tli_onnx *x, const tl_tensor *t);
void tli_onnx_set(tli_onnx *x, const tl_tensor *t, const char *name);
/* [N, channels, height, width] of an image that is [N, height, width, channels]. */
const char *tli_onnx_get_first(tli_onnx *x, const tl_tensor *t);
void tli_onnx_set_first(tli_onnx *x, const tl_tensor *t, const char *name);
bool tli_onnx_is_first(const tli_onnx *x, const tl_tensor *t);
/* Where an axis of an image goes when channels come first. */
extern const int tli_onnx_axis_first[4];

/* --- calls ------------------------------------------------------------------------------------ */

/* The same call of both captures. */
typedef void tli_onnx_fn(tli_onnx *x, const tl_node *few, const tl_node *more);
/* NULL: the op has no counterpart. */
tli_onnx_fn *tli_onnx_arithmetic(tl_op op); /* arithmetic.c */
tli_onnx_fn *tli_onnx_moves(tl_op op);      /* moves.c */
tli_onnx_fn *tli_onnx_layers(tl_op op);     /* layers.c */
/* Whether attributes of the op may differ between the captures. */
bool tli_onnx_has_sizes(tl_op op);

/* An elementwise op of one value; NULL with a refusal where there is none. */
const char *tli_onnx_unary(tli_onnx *x, tl_op op, const void *attr, tl_dtype dtype, const char *in);
const char *tli_onnx_activation(tli_onnx *x, tl_activation a, tl_dtype dtype, const char *in);

#endif
