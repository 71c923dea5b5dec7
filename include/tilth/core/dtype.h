/* Types of elements.
 *
 *     tl_dtype t;
 *     TL_TRY(tl_dtype_parse(&t, "bfloat16"));
 *     size_t bytes = (size_t)n * tl_dtype_size(t);
 *
 * bfloat16 and float16 are storage types: whatever is computed from them is computed in float32 and
 * rounded once (to nearest, ties to even) when it is stored.
 *
 * Thread word: immutable. */
#ifndef TILTH_CORE_DTYPE_H
#define TILTH_CORE_DTYPE_H

#include <tilth/base/status.h>

TL_BEGIN

/*    short name, name, bytes, class */
// clang-format off
#define TL_DTYPE_LIST(X)                                                                           \
    X(F32,  "float32",  4, TL_CLASS_FLOAT)                                                         \
    X(BF16, "bfloat16", 2, TL_CLASS_FLOAT)                                                         \
    X(F16,  "float16",  2, TL_CLASS_FLOAT)                                                         \
    X(F64,  "float64",  8, TL_CLASS_FLOAT)                                                         \
    X(I8,   "int8",     1, TL_CLASS_INT)                                                           \
    X(I16,  "int16",    2, TL_CLASS_INT)                                                           \
    X(I32,  "int32",    4, TL_CLASS_INT)                                                           \
    X(I64,  "int64",    8, TL_CLASS_INT)                                                           \
    X(U8,   "uint8",    1, TL_CLASS_INT)                                                           \
    X(BOOL, "bool",     1, TL_CLASS_BOOL)

typedef enum tl_dtype_class { TL_CLASS_BOOL, TL_CLASS_INT, TL_CLASS_FLOAT } tl_dtype_class;
typedef enum tl_dtype {
#define TL_DTYPE_ENUM(id, name, bytes, class_) TL_##id,
    TL_DTYPE_LIST(TL_DTYPE_ENUM)
#undef TL_DTYPE_ENUM
    TL_DTYPE_COUNT
} tl_dtype;
// clang-format on

/* "float32", "bfloat16", ...; never NULL. */
TL_API const char *tl_dtype_name(tl_dtype dtype);
/* Bytes of an element. */
TL_API inline size_t tl_dtype_size(tl_dtype dtype)
{
#define TL_DTYPE_BYTES(id, name, bytes, class_) bytes,
    static const unsigned char sizes[] = {TL_DTYPE_LIST(TL_DTYPE_BYTES)};
#undef TL_DTYPE_BYTES
    TL_ASSERT((unsigned)dtype < TL_DTYPE_COUNT);
    return sizes[dtype];
}
TL_API tl_dtype_class tl_dtype_classify(tl_dtype dtype);
TL_API bool tl_dtype_is_float(tl_dtype dtype);
/* By its name; an unknown one is TL_EINVAL with a suggestion. */
TL_API TL_NODISCARD tl_status tl_dtype_parse(tl_dtype *out, const char *name);
/* The names by number, then NULL: for the enum rows of described structs. */
TL_API extern const char *const tl_dtype_names[];

/* The type in which two operands meet: the higher class wins (bool < int < float), then the wider
 * type; bfloat16 with float16 gives float32, uint8 with int8 gives int16. */
TL_API tl_dtype tl_dtype_meet(tl_dtype a, tl_dtype b);

TL_END

#endif
