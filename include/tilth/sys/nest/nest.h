/* Loop nests: many small ops computed in one sweep over memory.
 *
 * A nest says what is computed for each point of an iteration space: terms, each made of earlier
 * ones, and stores of some of them. It says nothing about how: tiles, order of loops, tasks and
 * vectors are those of a plan (plan.h), which is made from the nest and follows from its sizes
 * alone. A plan is printed as C (print_c.h) or interpreted (interpret.h), with the same bits.
 *
 *     gelu(x + bias) with the sums of its columns, x of float32[128, 64]:
 *
 *     axes     a0: 128, a1: 64
 *     t0       load buffer 0 [a0 * 64 + a1]         float32
 *     t1       load buffer 1 [a1]                   float32
 *     t2       add t0 t1                            float32
 *     t3       gelu t2 {approximate: true}          float32
 *     t4       sum t3 over a0                       float32
 *     store    t3 -> buffer 2 [a0 * 64 + a1]        float32
 *     store    t4 -> buffer 3 [a1]                  float32
 *
 * A term varies over axes: those of its access, or of the terms it is made of; a reduction takes
 * some of them away. A store is done once for each point of the axes over which its term varies,
 * and its strides along all others are 0.
 *
 * Every term has the type of the tensor that it stands for: what an op gives in bfloat16, float16
 * or a small integer is rounded, or wrapped, to that at once, as if it had been stored and loaded.
 * So a nest has the bits of its ops called one by one, wherever these compute alike.
 *
 * Ownership: plain data; arrays are borrowed. Thread word: immutable once made. */
#ifndef TILTH_NEST_NEST_H
#define TILTH_NEST_NEST_H

#include <tilth/base/str.h>
#include <tilth/sys/core/op.h>

TL_BEGIN

/* Element offset + sum of index[a] * strides[a] of a buffer. */
typedef struct tl_access {
    int buffer;
    tl_dtype dtype; /* of the elements in memory; a term that is stored has the same */
    int64_t offset;
    int64_t strides[TL_MAX_RANK];
} tl_access;

typedef enum tl_term_kind {
    TL_TERM_LOAD,   /* `from` */
    TL_TERM_NUMBER, /* `number`, converted */
    TL_TERM_INDEX,  /* shift + scale * index of `axis`, an int64 converted: arange, one_hot */
    TL_TERM_OP,     /* an elementwise op of up to three terms; kinds of types as the op has them */
    TL_TERM_REDUCE  /* sum, prod, max, min, any or all of a term over `axes` */
} tl_term_kind;

enum { TL_TERM_INPUTS = 3 };
typedef struct tl_term {
    tl_term_kind kind;
    tl_dtype dtype; /* of the value */
    tl_op op;
    int in[TL_TERM_INPUTS], inputs; /* numbers of earlier terms */
    const void *attr;               /* as that of the op, NULL when it has none */
    uint32_t axes; /* REDUCE: one bit for each axis; all points count, also of equal values */
    int axis;      /* INDEX */
    int64_t shift, scale; /* INDEX */
    double number;        /* NUMBER */
    tl_access from;       /* LOAD */
    const char *note;     /* (optional) whose op it was, for who reads what is printed */
} tl_term;

typedef struct tl_nest_store {
    int term;
    tl_access to;
} tl_nest_store;

typedef struct tl_nest {
    int rank;                  /* 0 to TL_MAX_RANK */
    int64_t dims[TL_MAX_RANK]; /* of 0: what an empty reduction gives is stored, or nothing */
    const tl_term *terms;
    int64_t term_count;
    const tl_nest_store *stores;
    int64_t store_count;
    /* Loads and stores name buffers below it. Each is of one type; none overlap. A buffer that is
     * stored may also be loaded, at the same elements of the same points. */
    int buffer_count;
} tl_nest;

/* How a nest is walked: what every backend's own plan begins with. Others know no more of it. */
typedef struct tl_nest_walk {
    tl_nest nest;         /* as it was given */
    size_t scratch_bytes; /* beside the buffers of a run, aligned as memory of the device is */
    double flops, bytes;  /* of all ops; that are loaded and stored */
} tl_nest_walk;

/* Whether a term of this op and type can stand in a nest (the type of the result, and of the input
 * that op_class->by names). */
TL_API bool tl_nest_has_op(tl_op op, tl_dtype out, tl_dtype in);
/* Over which axes each term varies: `varies` has room for term_count bit sets. */
TL_API void tl_nest_variance(const tl_nest *n, uint32_t *varies);
/* Everything above that can be checked. */
TL_API TL_NODISCARD tl_status tl_nest_verify(const tl_nest *n);
/* Whether two nests compute the same, whatever their notes say. */
TL_API bool tl_nest_equal(const tl_nest *a, const tl_nest *b);
/* As in the example. */
TL_API void tl_nest_text(const tl_nest *n, tl_str *out);

TL_END

#endif
