/* Described structs: a plain C struct plus one table of its fields. From the table come defaults,
 * YAML in and out, flags, gin parameters, help, restrictions, deep copy, equality and hash.
 *
 *     typedef struct mnist_config {
 *         int64_t     hidden;
 *         double      dropout;
 *         const char *activation;
 *         tl_ints     sizes;
 *         tl_opt_int  seed;
 *     } mnist_config;
 *     static const tl_field mnist_fields[] = {
 *         TL_F(mnist_config, hidden,     .i = 512, TL_RANGE(1, 1e6), .help = "units inside"),
 *         TL_F(mnist_config, dropout,    .d = 0.1, TL_RANGE(0, 1),   .help = "units dropped"),
 *         TL_F(mnist_config, activation, .s = "relu",                .help = "relu, gelu or tanh"),
 *         TL_F(mnist_config, sizes, TL_DEFAULT_LIST(int64_t, 28, 28), .help = "height and width"),
 *         TL_F(mnist_config, seed,                                   .help = "null draws one"),
 *         TL_F_END
 *     };
 *     const tl_desc mnist_desc = {.name = "mnist", .help = "...", .size = sizeof(mnist_config),
 *                                 .fields = mnist_fields};
 *
 * The type of a row is taken from the member, so row and member cannot disagree. What the members
 * of a struct point at belongs to the arena that the struct was filled from (or is static); nothing
 * is freed on its own.
 *
 * In C++20 designators follow the order of tl_field's members: default, range, flags, help
 * (base/cxx.h). Thread word: immutable (tables); one thread at a time (a struct being filled). */
#ifndef TILTH_DESC_DESC_H
#define TILTH_DESC_DESC_H

#include <math.h>
#include <tilth/base/arena.h>
#include <tilth/desc/value.h>

TL_BEGIN

typedef struct tl_desc tl_desc;
typedef struct tl_field tl_field;
typedef struct tl_kind tl_kind;
typedef struct tl_class tl_class;
typedef struct tl_registry tl_registry;

/* --- member types, beside bool, int64_t, double, const char * and C enums --------------------- */
// clang-format off
typedef struct tl_opt_bool { bool set, value; } tl_opt_bool;                 /* null unless set */
typedef struct tl_opt_int { bool set; int64_t value; } tl_opt_int;
typedef struct tl_opt_double { bool set; double value; } tl_opt_double;
typedef struct tl_bools { const bool *items; int64_t count; } tl_bools;
typedef struct tl_ints { const int64_t *items; int64_t count; } tl_ints;
typedef struct tl_doubles { const double *items; int64_t count; } tl_doubles;
typedef struct tl_strings { const char *const *items; int64_t count; } tl_strings;
typedef struct tl_enums { const int *items; int64_t count; } tl_enums;
/* List of described structs, one behind the other. */
typedef struct tl_structs { void *items; int64_t count; } tl_structs;
/* A described struct that brings its own description: which one it is depends on the experiment. */
typedef struct tl_object { const tl_desc *desc; void *value; } tl_object;
// clang-format on

/* One of several described structs, chosen by name: `type: sgd` beside `sgd: {...}`. The others
 * that have been set keep their values, should the choice come back to them, but are not written
 * out. */
typedef struct tl_oneof_part {
    const char *name;
    const tl_desc *desc;
    void *value;
    struct tl_oneof_part *next;
} tl_oneof_part;
typedef struct tl_oneof {
    const char *type;     /* NULL: none */
    void *value;          /* the chosen struct; NULL when type is NULL or has no fields */
    const tl_desc *desc;  /* of value */
    tl_oneof_part *parts; /* every branch touched so far */
} tl_oneof;
typedef struct tl_branch {
    const char *name;
    const tl_desc *desc;
} tl_branch;

/* Names a configurable (gin.h): `@scope/name` before, the object after it was called. A row with a
 * kind takes classes of that kind alone. */
typedef struct tl_ref {
    const tl_class *target; /* NULL: none */
    const char *scope;      /* "" or "a/b" */
    void *object;           /* what `@name()` gave; of a class that one-ofs choose, a tl_oneof */
} tl_ref;

/* --- rows ------------------------------------------------------------------------------------- */
typedef enum tl_type {
    TL_TYPE_NONE, /* a member that no row can describe */
    TL_TYPE_BOOL,
    TL_TYPE_INT,
    TL_TYPE_DOUBLE,
    TL_TYPE_STRING,
    TL_TYPE_ENUM,
    TL_TYPE_STRUCT,
    TL_TYPE_OBJECT,
    TL_TYPE_ONEOF,
    TL_TYPE_VALUE, /* const tl_value *: anything that `accept` allows */
    TL_TYPE_REF
} tl_type;

typedef enum tl_arity { TL_ONE, TL_OPTIONAL, TL_LIST } tl_arity;

/* flags of a row */
enum {
    TL_FIELD_NULLABLE = 1, /* a string, value, object, one-of or list that may be null (optionals
                              * always may); a list is null when its items are NULL, a one-of
                              * when it chooses nothing */
    TL_FIELD_REQUIRED = 2, /* must be given: a flag, a gin parameter; of a configuration, a number
                              * whose range leaves its default out */
    /* the feature is not there yet: an error when it differs from its default */
    TL_FIELD_LATER = 4,
    /* Model Garden never reads it, nor do we: one notice when it is changed */
    TL_FIELD_UNREAD = 8,
    TL_FIELD_QUIET = 16,  /* left out of YAML while it is at its default */
    TL_FIELD_DENIED = 32, /* gin may not bind it */
    /* of who gives the command, not of what is run: never in YAML that is written, and two values
     * that differ in it alone are equal */
    TL_FIELD_UNSAVED = 64,
    /* strings and values that are paths: ~/ at their beginning is the user's home */
    TL_FIELD_PATH = 128,
    /* strings that name something in another folder, the model's: absolute paths and `..` are
     * refused */
    TL_FIELD_INSIDE = 256,
    TL_FIELD_FILLED = 512, /* an optional that is never null (TL_FILLED) */
    TL_FIELD_BARE = 1024,  /* a number that may, as a flag, stand without a value: --port is 0 */
    /* beside TL_FIELD_UNSAVED: YAML has the key, as the original's has; what is saved
     * (tl_config_write_saved) has it with the default */
    TL_FIELD_BLANK = 2048
};

/* what a TL_TYPE_VALUE row accepts, beside null when it is nullable */
enum {
    TL_ACCEPT_BOOL = 1,
    TL_ACCEPT_NUMBER = 2,
    TL_ACCEPT_STRING = 4,
    TL_ACCEPT_LIST = 8,
    TL_ACCEPT_MAP = 16
};

struct tl_field {
    const char *name;
    size_t offset, size;
    tl_type type;
    tl_arity arity;
    const tl_desc *desc; /* struct, list of structs; default of an object */
    /* default: the member that fits the type; nothing means false, 0, "" (or null), empty, none */
    bool b;
    int64_t i; /* also the enum's number */
    double d;
    const char *s;     /* string; type of a one-of with closed branches; YAML text of a value */
    bool set;          /* an optional, object or nullable list that is not null by default */
    const void *items; /* list */
    int64_t count;
    void (*init)(void *value); /* struct: changes its defaults after desc->init */
    /* restrictions */
    bool ranged;
    double min, max;     /* numbers, also in lists */
    const char *pattern; /* strings: POSIX extended regular expression */
    /* what it is made of */
    const char *const *names;  /* enum: its names by number, then NULL; the name "null" is null */
    const tl_branch *branches; /* one-of: closed list, then {NULL, NULL} ... */
    const tl_kind *kind;       /* ... or open: the registered classes of this kind; a reference:
                                   * those that it may name; a struct: gin binds its members as
                                   * those of the class whose config it is */
    int accept, flags;
    const char *help;
};

struct tl_desc {
    const char *name, *help;
    size_t size;
    const tl_field *fields; /* ends with TL_F_END */
    /* of the struct's first member; a row with an inherited name refines it */
    const tl_desc *base;
    void (*init)(void *value); /* optional: changes defaults after the rows', base's first */
    /* Optional: what concerns several fields at once. Runs after parsing, base's first, inner
     * structs first. The failure it makes is reported with the key of the struct and where it was
     * written; a message that begins with a field's name and a colon ("low: must be below high") is
     * reported at that field. */
    tl_status (*check)(const void *value);
    /* Optional: "task.train_data.is_training != None" and the like, then NULL. Paths start here. */
    const char *const *restrictions;
    /* Optional: true for a struct whose zeros are meant, so that tl_desc_complete copies it as it
     * is. A base's counts as well. */
    bool (*complete)(const void *value);
};

#define TL_MEMBER_(T, member) (((T *)0)->member)
// clang-format off
#ifndef __cplusplus
/* Enums have the type int or unsigned; everything unknown is NONE, which tl_desc_verify refuses. */
#define TL_TYPE_OF(T, member)                                                                      \
    _Generic(TL_MEMBER_(T, member), bool: TL_TYPE_BOOL, tl_opt_bool: TL_TYPE_BOOL,                 \
        tl_bools: TL_TYPE_BOOL, int64_t: TL_TYPE_INT, tl_opt_int: TL_TYPE_INT,                     \
        tl_ints: TL_TYPE_INT, double: TL_TYPE_DOUBLE, tl_opt_double: TL_TYPE_DOUBLE,               \
        tl_doubles: TL_TYPE_DOUBLE, const char *: TL_TYPE_STRING, tl_strings: TL_TYPE_STRING,      \
        int: TL_TYPE_ENUM, unsigned: TL_TYPE_ENUM, tl_enums: TL_TYPE_ENUM,                         \
        tl_structs: TL_TYPE_STRUCT, tl_object: TL_TYPE_OBJECT, tl_oneof: TL_TYPE_ONEOF,            \
        const tl_value *: TL_TYPE_VALUE, tl_ref: TL_TYPE_REF, default: TL_TYPE_NONE)
#define TL_ARITY_OF(T, member)                                                                     \
    _Generic(TL_MEMBER_(T, member), tl_opt_bool: TL_OPTIONAL, tl_opt_int: TL_OPTIONAL,             \
        tl_opt_double: TL_OPTIONAL, tl_bools: TL_LIST, tl_ints: TL_LIST, tl_doubles: TL_LIST,      \
        tl_strings: TL_LIST, tl_enums: TL_LIST, tl_structs: TL_LIST, default: TL_ONE)
#else
TL_END
namespace tl_cxx {
template <class T> struct row {
    static constexpr tl_type type = __is_enum(T) ? TL_TYPE_ENUM : TL_TYPE_NONE;
    static constexpr tl_arity arity = TL_ONE;
};
template <class T> struct row<T &> : row<T> {};
template <tl_type t, tl_arity a = TL_ONE> struct row_of {
    static constexpr tl_type type = t;
    static constexpr tl_arity arity = a;
};
template <> struct row<bool> : row_of<TL_TYPE_BOOL> {};
template <> struct row<tl_opt_bool> : row_of<TL_TYPE_BOOL, TL_OPTIONAL> {};
template <> struct row<tl_bools> : row_of<TL_TYPE_BOOL, TL_LIST> {};
template <> struct row<int64_t> : row_of<TL_TYPE_INT> {};
template <> struct row<tl_opt_int> : row_of<TL_TYPE_INT, TL_OPTIONAL> {};
template <> struct row<tl_ints> : row_of<TL_TYPE_INT, TL_LIST> {};
template <> struct row<double> : row_of<TL_TYPE_DOUBLE> {};
template <> struct row<tl_opt_double> : row_of<TL_TYPE_DOUBLE, TL_OPTIONAL> {};
template <> struct row<tl_doubles> : row_of<TL_TYPE_DOUBLE, TL_LIST> {};
template <> struct row<const char *> : row_of<TL_TYPE_STRING> {};
template <> struct row<tl_strings> : row_of<TL_TYPE_STRING, TL_LIST> {};
template <> struct row<int> : row_of<TL_TYPE_ENUM> {};
template <> struct row<unsigned> : row_of<TL_TYPE_ENUM> {};
template <> struct row<tl_enums> : row_of<TL_TYPE_ENUM, TL_LIST> {};
template <> struct row<tl_structs> : row_of<TL_TYPE_STRUCT, TL_LIST> {};
template <> struct row<tl_object> : row_of<TL_TYPE_OBJECT> {};
template <> struct row<tl_oneof> : row_of<TL_TYPE_ONEOF> {};
template <> struct row<const tl_value *> : row_of<TL_TYPE_VALUE> {};
template <> struct row<tl_ref> : row_of<TL_TYPE_REF> {};
} // namespace tl_cxx
TL_BEGIN
#define TL_TYPE_OF(T, member) tl_cxx::row<decltype(TL_MEMBER_(T, member))>::type
#define TL_ARITY_OF(T, member) tl_cxx::row<decltype(TL_MEMBER_(T, member))>::arity
// clang-format on
#endif

#define TL_F_PLACE_(T, member, label)                                                              \
    .name = label, .offset = offsetof(T, member), .size = sizeof TL_MEMBER_(T, member)

/* A row for any member but an embedded or optional struct. */
#define TL_F(T, member, ...) TL_F_AS(T, member, #member, __VA_ARGS__)
/* The same under another name: for refining `base.model` as "model", or a key that is a C
 * keyword. */
#define TL_F_AS(T, member, label, ...)                                                             \
    TL_TABLE_(tl_field, TL_F_PLACE_(T, member, label), .type = TL_TYPE_OF(T, member),              \
              .arity = TL_ARITY_OF(T, member), __VA_ARGS__)
/* A member that is a described struct itself. */
#define TL_F_STRUCT(T, member, description, ...)                                                   \
    TL_TABLE_(tl_field, TL_F_PLACE_(T, member, #member), .type = TL_TYPE_STRUCT, .arity = TL_ONE,  \
              .desc = (description), __VA_ARGS__)
/* A member that points to a described struct or is NULL (null); `.set = true` makes one by
 * default. */
#define TL_F_OPTIONAL(T, member, description, ...)                                                 \
    TL_F_OPTIONAL_AS(T, member, #member, description, __VA_ARGS__)
#define TL_F_OPTIONAL_AS(T, member, label, description, ...)                                       \
    TL_TABLE_(tl_field, TL_F_PLACE_(T, member, label), .type = TL_TYPE_STRUCT,                     \
              .arity = TL_OPTIONAL, .desc = (description), __VA_ARGS__)
#define TL_F_END TL_TABLE_(tl_field, .name = NULL)

/* In a row of a tl_opt_int, tl_opt_double or tl_opt_bool that always has a value: it is an optional
 * for the sake of C literals alone, where what is left out gets its default, and TL_SET(0) is zero.
 * Read, written and described it is a plain number: TL_F(my_config, momentum, TL_FILLED, .d = 0.9,
 * TL_RANGE(0, 1), .help = "...") */
#define TL_FILLED .set = true, .flags = TL_FIELD_FILLED
/* An optional with a value, in a literal: (my_config){.momentum = TL_SET(0)} */
#define TL_SET(number) TL_INIT(true, (number))

#define TL_RANGE(low, high) .ranged = true, .min = (low), .max = (high)
#define TL_AT_LEAST(low) .ranged = true, .min = (low), .max = HUGE_VAL
#define TL_DEFAULT_LIST(type, ...)                                                                 \
    .items = TL_STATIC_ITEMS_(type, __VA_ARGS__), .count = TL_COUNT_OF_(const type, __VA_ARGS__)

/* --- what can be done with a description ------------------------------------------------------ */

/* Finds rows that lie outside the struct or over each other, lack help or have a type that no row
 * can have, defaults that break their own restrictions, rows that refine what they do not fit, and
 * bytes that no row describes (unless they could be padding). Registration calls it. */
TL_API TL_NODISCARD tl_status tl_desc_verify(const tl_desc *desc);

/* The row of that name, refined ones before inherited ones; NULL when there is none. */
TL_API const tl_field *tl_desc_field(const tl_desc *desc, const char *name);
/* All rows sorted by name, in the arena; refined rows stand for inherited ones. NULL: no memory. */
TL_API const tl_field **tl_desc_sorted(tl_arena *arena, const tl_desc *desc, int64_t *count);
/* True when `desc` is `base` or derives from it. */
TL_API bool tl_desc_is(const tl_desc *desc, const tl_desc *base);

/* Fills a struct of desc->size bytes with its defaults. */
TL_API TL_NODISCARD tl_status tl_desc_defaults(tl_arena *arena, const tl_desc *desc, void *value);
/* A new struct with its defaults. */
TL_API TL_NODISCARD tl_status tl_desc_new(void **out, tl_arena *arena, const tl_desc *desc);
/* Deep copy: `to` shares nothing with `from` but what is static in the tables. */
TL_API TL_NODISCARD tl_status tl_desc_copy(tl_arena *arena, const tl_desc *desc, void *to,
                                           const void *from);
/* For structs written as C literals, where a member that is left out is zero: `to` becomes a deep
 * copy of `from` with every zero member at its default, also in structs inside it and in lists of
 * structs. An optional that is set is not zero, whatever its value (TL_SET). One-ofs may name a
 * branch and point at its struct, the rest is found in the registry. */
TL_API TL_NODISCARD tl_status tl_desc_complete(tl_arena *arena, const tl_desc *desc, void *to,
                                               const void *from, const tl_registry *registry);
/* Deep equality; two NaNs are equal. Branches of a one-of that are not chosen do not count. */
TL_API bool tl_desc_equal(const tl_desc *desc, const void *a, const void *b);
/* Equal structs have equal hashes, on every machine. */
TL_API uint64_t tl_desc_hash(uint64_t seed, const tl_desc *desc, const void *value);
/* Runs the checks of the struct and of all inside it, and reports every violation at once. */
TL_API TL_NODISCARD tl_status tl_desc_check(const tl_desc *desc, const void *value);

/* Where the member of a row lies. */
static inline void *tl_field_at(const tl_field *field, const void *value)
{
    return (char *)(uintptr_t)value + field->offset;
}
/* True when the member has the value that tl_desc_defaults gives it. */
TL_API TL_NODISCARD tl_status tl_field_is_default(bool *out, const tl_desc *desc,
                                                  const tl_field *field, const void *value);
/* "int", "list of float", "string or null", "one of constant, cosine, ...". */
TL_API void tl_field_type_text(tl_str *out, const tl_field *field);
/* The default as YAML flow text: `512`, `[28, 28]`, `null`, `''`. */
TL_API TL_NODISCARD tl_status tl_field_default_text(tl_str *out, const tl_desc *desc,
                                                    const tl_field *field);

TL_END

#endif
