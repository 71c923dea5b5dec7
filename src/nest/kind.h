/* In which kinds of numbers ops are computed in a nest, and by which formulas.
 *
 * Thread word: immutable. */
#ifndef TLI_NEST_KIND_H
#define TLI_NEST_KIND_H

#include <tilth/sys/core/op.h>

/* The last letter of the names of formulas and of the functions of scalar.h. */
typedef enum tli_kind {
    TLI_KIND_F, /* float: float32, bfloat16, float16 */
    TLI_KIND_D, /* double: float64 */
    TLI_KIND_I, /* int32: int8, int16, int32, uint8, bool */
    TLI_KIND_L, /* int64 */
    TLI_KIND_COUNT
} tli_kind;

typedef union tli_value {
    float f;
    double d;
    int32_t i;
    int64_t l;
} tli_value;
_Static_assert(sizeof(tli_value) == 8,
               "values of all kinds take the same room: tiles and points are arrays of them");

static inline tli_kind tli_kind_of(tl_dtype dtype)
{
    switch (dtype) {
    case TL_F32:
    case TL_BF16:
    case TL_F16: return TLI_KIND_F;
    case TL_F64: return TLI_KIND_D;
    case TL_I64: return TLI_KIND_L;
    default: return TLI_KIND_I;
    }
}

static inline int64_t tli_kind_size(tli_kind kind)
{
    return kind == TLI_KIND_D || kind == TLI_KIND_L ? 8 : 4;
}

/* classes of types that an op takes */
enum {
    TLI_TAKES_F = 1, /* float32, bfloat16, float16 */
    TLI_TAKES_D = 2, /* float64 */
    TLI_TAKES_N = 4, /* integers */
    TLI_TAKES_B = 8  /* bool */
};

typedef enum tli_op_result { TLI_SAME, TLI_TRUTH, TLI_CAST } tli_op_result;

/* How an op is computed in a nest. */
typedef struct tli_nest_op {
    const char *function; /* without the letter; of gelu that which is exact. NULL: not in nests */
    int takes;            /* TLI_TAKES_... of the input that op_class->by names */
    tli_op_result result;
    int params; /* numbers from its attributes that follow the inputs */
    int cost;   /* beside an addition */
    bool reduces;
} tli_nest_op;

/* NULL when it cannot stand in a nest. */
const tli_nest_op *tli_nest_op_of(tl_op op);

/* Attributes as numbers of the kind in which the op is computed. TL_EUNSUPPORTED where they cannot
 * be such. */
TL_NODISCARD tl_status tli_op_params(tli_value out[2], tl_op op, tl_dtype dtype, const void *attr);
/* Whether its attributes choose another formula: `approximate` is set. */
bool tli_op_takes_other(tl_op op, const void *attr);
/* "gelu_tanh" for gelu with the approximation, else the function's name. */
const char *tli_op_function(tl_op op, const void *attr);
/* A number as a value of the type. */
tli_value tli_value_of(tl_dtype dtype, double number);
/* What a reduction begins with: that of `x` alone is x. */
tli_value tli_reduce_start(tl_op op, tli_kind kind);

#endif
