/* State: all that is kept. An ordered tree of names to tensors and scalars; a checkpoint is a state
 * written down, and resuming is copying it back.
 *
 *     tl_state *s;
 *     TL_TRY(tl_state_new(&s));
 *     TL_TRY(tl_state_put(s, "model/dense/kernel", kernel));       // shares the tensor's storage
 *     TL_TRY(tl_state_bind_int(s, "global_step", &trainer->step)); // reads and writes the variable
 *     TL_TRY(tl_state_bind_rng(s, "data/shuffle", &pipeline->rng));
 *     ...
 *     TL_TRY(tl_state_copy(s, loaded, NULL, NULL));                // everything has its value back
 *     tl_state_free(&s);
 *
 * Paths are names joined by '/'; a name is any other text of 1 to 255 bytes. Entries stay in the
 * order in which they were added, and a name that is taken is refused.
 *
 * A tensor is put by reference: the state keeps its storage, so what is computed into the tensor is
 * what the state holds, and restoring writes into the tensor that the model has. The header stays
 * the caller's and may be freed; one that is moved to other storage later (tl_tensor_place) must be
 * put anew. A tensor that is put twice (tied parameters) is stored once; the second path is an
 * alias of the first.
 *
 * Scalars are bound to variables of the program, which are read when the state is and written when
 * it is restored; or they are values of the state's own (tl_state_put_int), for states that come
 * from files.
 *
 * States nest: tl_state_sub gives the part below a name, to hand to who fills it; tl_state_mount
 * shows a state of somebody else's under a name. Neither owns anything.
 *
 * Whoever computes something from bound values, such as what is read ahead from a position, asks to
 * be told when a restore has written them (tl_state_on_restore).
 *
 * Ownership: the caller's. Variables that are bound, states that are mounted and what on_restore
 * was given must outlive the state. Thread word: one thread at a time. */
#ifndef TILTH_CORE_STATE_H
#define TILTH_CORE_STATE_H

#include <tilth/base/rng.h>
#include <tilth/core/tensor.h>

TL_BEGIN

typedef struct tl_state tl_state;

TL_API TL_NODISCARD tl_status tl_state_new(tl_state **out);
/* For what tl_state_new made. NULL is fine. */
TL_API void tl_state_free(tl_state **s);

/* --- filling ---------------------------------------------------------------------------------- */

TL_API TL_NODISCARD tl_status tl_state_put(tl_state *s, const char *path, const tl_tensor *t);
/* A tensor without elements: what a file says it holds, for comparing. It cannot be copied from. */
TL_API TL_NODISCARD tl_status tl_state_describe(tl_state *s, const char *path, tl_dtype dtype,
                                                tl_shape shape);

/* Variables of the program. */
TL_API TL_NODISCARD tl_status tl_state_bind_int(tl_state *s, const char *path, int64_t *value);
TL_API TL_NODISCARD tl_status tl_state_bind_double(tl_state *s, const char *path, double *value);
TL_API TL_NODISCARD tl_status tl_state_bind_bool(tl_state *s, const char *path, bool *value);
TL_API TL_NODISCARD tl_status tl_state_bind_text(tl_state *s, const char *path, tl_str *value);
TL_API TL_NODISCARD tl_status tl_state_bind_words(tl_state *s, const char *path, uint64_t *words,
                                                  int64_t count);
/* Stream and position, as words. */
TL_API TL_NODISCARD tl_status tl_state_bind_rng(tl_state *s, const char *path, tl_rng *rng);

/* Values of the state's own. */
TL_API TL_NODISCARD tl_status tl_state_put_int(tl_state *s, const char *path, int64_t value);
TL_API TL_NODISCARD tl_status tl_state_put_double(tl_state *s, const char *path, double value);
TL_API TL_NODISCARD tl_status tl_state_put_bool(tl_state *s, const char *path, bool value);
TL_API TL_NODISCARD tl_status tl_state_put_text(tl_state *s, const char *path, const char *value);
TL_API TL_NODISCARD tl_status tl_state_put_words(tl_state *s, const char *path,
                                                 const uint64_t *words, int64_t count);

/* The state below a path, made when it is not there. It belongs to `s`. */
TL_API TL_NODISCARD tl_status tl_state_sub(tl_state **out, tl_state *s, const char *path);
/* Shows `other` under a path of `s`: what is added to it later is seen too. A state cannot hold
 * itself. */
TL_API TL_NODISCARD tl_status tl_state_mount(tl_state *s, const char *path, tl_state *other);
/* Calls `fn` after each restore (tl_state_copy, tl_state_set, that of a checkpoint) that wrote
 * something of `s`, or of what is below it: once, when all values are in their places, also those
 * that came before a failure. It must not change what the state holds. A restore into a part of `s`
 * alone is seen by that part. */
typedef void tl_state_restored_fn(void *self);
TL_API TL_NODISCARD tl_status tl_state_on_restore(tl_state *s, tl_state_restored_fn *fn,
                                                  void *self);
/* Takes everything out; the state itself stays, also where it is mounted or a part of another. */
TL_API void tl_state_clear(tl_state *s);
/* Takes an entry out, with all below it. False when it is not there. */
TL_API bool tl_state_remove(tl_state *s, const char *path);

/* --- reading ---------------------------------------------------------------------------------- */

typedef enum tl_state_kind {
    TL_STATE_TENSOR,
    TL_STATE_INT,
    TL_STATE_DOUBLE,
    TL_STATE_BOOL,
    TL_STATE_TEXT,
    TL_STATE_WORDS,
    TL_STATE_STATE /* a name with others below it */
} tl_state_kind;
/* "tensor", "int", ...; never NULL. */
TL_API const char *tl_state_kind_name(tl_state_kind kind);

/* One entry and its value as it is now: the member that its kind names. */
typedef struct tl_state_entry {
    const char *path;    /* from the state that was asked; NULL in what tl_state_find gives */
    const char *same_as; /* in a walk: the earlier path of the same tensor; NULL: there is none */
    tl_state_kind kind;
    tl_tensor *tensor; /* the state's header, valid as long as the entry */
    int64_t i;
    double d;
    bool b;
    const char *text;      /* valid until it changes */
    const uint64_t *words; /* valid until it changes, or the entry is read again */
    int64_t count;         /* of words */
    tl_state *state;
} tl_state_entry;

/* False when there is no such entry. */
TL_API bool tl_state_find(tl_state_entry *out, const tl_state *s, const char *path);
/* The same with a failure that names what is there instead: TL_ENOTFOUND, or TL_EINVAL for another
 * kind. */
TL_API TL_NODISCARD tl_status tl_state_get(tl_state_entry *out, const tl_state *s, const char *path,
                                           tl_state_kind kind);
/* Writes a scalar that is there; value->kind must be its kind. Words must be as many. */
TL_API TL_NODISCARD tl_status tl_state_set(tl_state *s, const char *path,
                                           const tl_state_entry *value);

/* Entries with values, aliases included, and the bytes of all tensors, each counted once. */
TL_API TL_NODISCARD tl_status tl_state_size(const tl_state *s, int64_t *entries, int64_t *bytes);

/* Called for each entry with a value, in order. A failure ends the walk and is handed on. */
typedef tl_status tl_state_fn(const tl_state_entry *entry, void *payload);
TL_API TL_NODISCARD tl_status tl_state_walk(const tl_state *s, tl_state_fn *fn, void *payload);

/* A line for each entry: "model/dense/kernel  float32[3, 4]". */
TL_API TL_NODISCARD tl_status tl_state_text(tl_str *out, const tl_state *s);

/* --- two states ------------------------------------------------------------------------------- */

typedef enum tl_state_verdict {
    TL_STATE_MISSING,    /* wanted, and not there */
    TL_STATE_UNEXPECTED, /* there, and not wanted */
    /* there with another kind, type, shape or (when those are compared) value */
    TL_STATE_DIFFERENT,
    TL_STATE_VERDICTS
} tl_state_verdict;
typedef struct tl_state_finding {
    tl_state_verdict verdict;
    const char *path;
    const char *wanted, *found; /* "float32[3, 4]"; NULL where there is none */
} tl_state_finding;
typedef struct tl_state_report {
    int64_t matched;
    int64_t counts[TL_STATE_VERDICTS];
    tl_state_finding *items; /* in the order of the states */
    int64_t count, capacity;
    tl_arena *arena;
} tl_state_report;
TL_API void tl_state_report_deinit(tl_state_report *r);
/* No findings. */
TL_API bool tl_state_report_clean(const tl_state_report *r);
/* What a person reads: the counts, then the findings by verdict, at most `most` of each (0:
 * all). */
TL_API void tl_state_report_text(tl_str *out, const tl_state_report *r, int64_t most);

typedef struct tl_state_compare_args {
    bool cast;   /* floats of different types match */
    bool values; /* values are compared too, bit for bit */
} tl_state_compare_args;
/* Compares what is there with what is wanted. An alias that is not there matches when the tensor is
 * there under one of its other paths. `args` NULL: all false. The report is filled anew; a failure
 * leaves it empty. */
TL_API TL_NODISCARD tl_status tl_state_compare(tl_state_report *out, const tl_state *wanted,
                                               const tl_state *there,
                                               const tl_state_compare_args *args);

typedef struct tl_state_copy_args {
    bool partial; /* copies what matches; otherwise any finding is a failure */
    bool cast;    /* floats of different types are converted */
} tl_state_copy_args;
/* Copies values into the tensors and variables of `to`. When the states do not fit it is TL_EINVAL
 * with the report's text, and nothing was copied. `args` NULL: all false; `report` may be NULL. */
TL_API TL_NODISCARD tl_status tl_state_copy(tl_state *to, const tl_state *from,
                                            const tl_state_copy_args *args,
                                            tl_state_report *report);
/* A state with values and tensors of its own: a snapshot, to be written while training goes on.
 * Aliases stay aliases. */
TL_API TL_NODISCARD tl_status tl_state_clone(tl_state **out, const tl_state *s);

TL_END

#endif
