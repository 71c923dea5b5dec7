/* A value that has been read but not yet typed: a tree of scalars, lists and maps, each of which
 * knows where it was written. YAML, override strings, flags and gin all read into it; a described
 * struct (desc.h) gives it types. Scalars keep their text, so that the member they end up in
 * decides whether `1e-4` is a number.
 *
 * Values live in an arena and are never changed once built. Thread word: immutable. */
#ifndef TILTH_DESC_VALUE_H
#define TILTH_DESC_VALUE_H

#include <tilth/base/arena.h>
#include <tilth/base/str.h>

TL_BEGIN

/* Where something was written. `line` is 0 when the source has no lines worth naming. */
typedef struct tl_place {
    const char *source; /* "configs/a.yaml", "--params_override", "experiment 'mock'" */
    int line, column;
} tl_place;

/* Adds "a.yaml:7:3" or "--params_override". */
TL_API void tl_place_write(tl_str *out, tl_place place);

typedef enum tl_value_kind {
    TL_VALUE_SCALAR,
    TL_VALUE_LIST,
    TL_VALUE_MAP,
    TL_VALUE_REFERENCE, /* gin: @scope/name, or @scope/name() when `called` */
    TL_VALUE_MACRO      /* gin: %name */
} tl_value_kind;

typedef struct tl_value tl_value;

typedef struct tl_value_pair {
    const char *key;
    bool key_quoted;
    tl_place place; /* of the key */
    const tl_value *value;
} tl_value_pair;

struct tl_value {
    tl_value_kind kind;
    bool quoted; /* scalar written in quotes, or tagged as a string */
    bool tuple;  /* list written as a tuple */
    bool called; /* reference with () */
    tl_place place;
    const char *text; /* scalar, reference ("scope/name") and macro */
    int64_t count;    /* items of a list, pairs of a map */
    const tl_value *const *items;
    const tl_value_pair *pairs; /* in the order written, keys unique */
    int64_t weight;             /* nodes below and including this one, and one for each 64 bytes of
                                 * text, aliases counted each time: what it would take to copy it */
};

/* What a scalar is when no member says: the rules of Model Garden's YAML loader, without its slips
 * (`1.0e6` is a number, `None` is null, `10:30` and dates are strings). */
typedef enum tl_scalar {
    TL_SCALAR_NULL,
    TL_SCALAR_BOOL,
    TL_SCALAR_INT,
    TL_SCALAR_DOUBLE,
    TL_SCALAR_STRING
} tl_scalar;
TL_API tl_scalar tl_value_scalar(const tl_value *v);

/* Readings of a scalar; false when it cannot be read so. What stands in quotes is a string only. */
TL_API bool tl_value_is_null(const tl_value *v);
TL_API bool tl_value_bool(const tl_value *v, bool *out);
/* also 0x10, 1_000, and 1e3 as it is whole */
TL_API bool tl_value_int(const tl_value *v, int64_t *out);
TL_API bool tl_value_double(const tl_value *v, double *out);

/* Builders. NULL, with the error set, when there is no memory. */
TL_API tl_value *tl_value_new_scalar(tl_arena *arena, tl_place place, const char *text,
                                     bool quoted);
TL_API tl_value *tl_value_new_list(tl_arena *arena, tl_place place, const tl_value *const *items,
                                   int64_t count);
TL_API tl_value *tl_value_new_map(tl_arena *arena, tl_place place, const tl_value_pair *pairs,
                                  int64_t count);

/* The value under a key of a map; NULL when absent or when `v` is no map. */
TL_API const tl_value *tl_value_get(const tl_value *v, const char *key);
/* Same data: scalars by what they mean (1 and 1.0 differ), maps in any order. Places do not
 * count. */
TL_API bool tl_value_equal(const tl_value *a, const tl_value *b);
TL_API uint64_t tl_value_hash(uint64_t seed, const tl_value *v);
TL_API const tl_value *tl_value_copy(tl_arena *arena, const tl_value *v);
/* "the string \"abc\"", "a list of 3", "the number 5", for messages; at most about 40
 * characters. */
TL_API void tl_value_name(tl_str *out, const tl_value *v);

TL_END

#endif
