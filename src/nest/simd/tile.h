/* Functions over tiles, which the interpreter is made of: one table for each instruction set.
 *
 *     const tli_tile_fns *f = tli_tile_fns_of(isa);
 *     f->op[TL_OP_add][TLI_KIND_F](y, (const void *const[]){a, b}, NULL, n);
 *
 * Values are of the kinds of kind.h, without gaps. The output is none of the inputs.
 *
 * Thread word: free-threaded. */
#ifndef TLI_NEST_SIMD_TILE_H
#define TLI_NEST_SIMD_TILE_H

#include "base/inner/isa.h"
#include "nest/kind.h"

typedef void tli_tile_op(void *y, const void *const *in, const tli_value *params, int64_t n);

/* A reduction of one kind. */
typedef struct tli_tile_reduce {
    /* Elements join their lanes. */
    void (*lanes)(void *lanes, const void *x, int64_t n);
    /* Lanes join the value, and start again. */
    void (*all)(void *value, void *lanes, tli_value start);
    /* Each element of x joins that of y. */
    void (*join)(void *y, const void *x, int64_t n);
} tli_tile_reduce;

enum { TLI_TILE_REDUCES = 6 }; /* sum, prod, max, min, any, all */

typedef struct tli_tile_fns {
    tli_tile_op *op[TL_OP_COUNT][TLI_KIND_COUNT]; /* by the kind of the input; not cast */
    tli_tile_op *other[TL_OP_COUNT];              /* of floats, where tli_op_takes_other */
    tli_tile_op *cast[TLI_KIND_COUNT][TL_DTYPE_COUNT];
    /* To what the type holds; NULL: nothing to do. */
    void (*round[TL_DTYPE_COUNT])(void *y, int64_t n);
    void (*load[TL_DTYPE_COUNT])(void *y, const void *from, int64_t stride, int64_t n);
    void (*store[TL_DTYPE_COUNT])(void *to, int64_t stride, const void *x, int64_t n);
    void (*splat[TLI_KIND_COUNT])(void *y, tli_value value, int64_t n);
    void (*count)(int64_t *y, int64_t first, int64_t step, int64_t n);
    tli_tile_reduce reduce[TLI_TILE_REDUCES][TLI_KIND_COUNT];
} tli_tile_fns;

/* The place of a reduction in the table. */
static inline int tli_tile_reduce_at(tl_op op)
{
    TL_ASSERT(tli_nest_op_of(op) && tli_nest_op_of(op)->reduces);
    switch (op) {
    case TL_OP_sum: return 0;
    case TL_OP_prod: return 1;
    case TL_OP_max: return 2;
    case TL_OP_min: return 3;
    case TL_OP_any: return 4;
    default: return 5;
    }
}

#define TLI_TILE_DECLARE(isa) extern const tli_tile_fns tli_tile_fns_##isa;
TLI_ISA_LIST(TLI_TILE_DECLARE)
#undef TLI_TILE_DECLARE

static inline const tli_tile_fns *tli_tile_fns_of(tli_isa isa)
{
    static const tli_tile_fns *const tables[TLI_ISA_COUNT] = {
#define TLI_TILE_TABLE(name) [TLI_##name] = &tli_tile_fns_##name,
        TLI_ISA_LIST(TLI_TILE_TABLE)
#undef TLI_TILE_TABLE
    };
    TL_ASSERT((int)isa >= 0 && isa < TLI_ISA_COUNT);
    return tables[isa];
}

#endif
