/* C compiled while the program runs: units of source go through the system's compiler into shared
 * objects, are loaded, and stay in a cache on the disk for the next run.
 *
 *     tl_jit *jit;
 *     TL_TRY(tl_jit_new(&jit, NULL));
 *     tl_jit_unit unit = {.name = "scale", .source = "void scale(float *x) { *x *= 2; }"};
 *     TL_TRY_DONE(st, tl_jit_load(jit, &unit, 1));
 *     scale_fn *scale = (scale_fn *)tl_jit_symbol(&unit, "scale");
 *     if (!scale) ...
 * done:
 *     tl_jit_free(&jit);                                  // the code is gone as well
 *
 * Functions that are not static are exported. No headers are needed: sources that include none
 * compile fastest. The flags are those of flags_of in src/cpu/jit_compiler.c: no contraction and
 * no fast-math, so that the code gives the bits that its text says, and the instruction set that
 * the CPU reports (or TILTH_ISA names), never what the compiler believes the CPU to be.
 *
 * An entry of the cache is a folder named by a hash of source, compiler, target and flags. It holds
 * the source for whoever wants to read it (k.c), the object (k.so) and the checksums (k.sum). It
 * appears whole or not at all, so that processes may share a cache; one that is damaged, or that
 * others could have written, is built again. A cache that grows too large loses what was used least
 * recently.
 *
 * Loading runs code: every folder on the way to the cache must belong to the user or to root, and
 * nobody else may write to it (docs/security.md). Where that is not so the cache is not used: code
 * is compiled into memory, in every process anew, and one warning says why.
 *
 * When code cannot be compiled here (no compiler; a cache that cannot be written or that lies on a
 * noexec mount; a compiler that fails) the status is TL_EUNSUPPORTED, and the message says what,
 * why and what to do: the caller goes on without.
 *
 * Ownership: the caller's, from tl_jit_new to tl_jit_free. Thread word: one thread at a time; any
 * number of tl_jit, in any number of threads and processes, may use one cache. */
#ifndef TILTH_CPU_JIT_H
#define TILTH_CPU_JIT_H

#include <tilth/base/status.h>

TL_BEGIN

typedef struct tl_jit tl_jit;

#define TL_JIT_MAX_BYTES ((size_t)512 << 20)

typedef struct tl_jit_args {
    const char *cache_dir; /* NULL: TILTH_CACHE_DIR, else tilth in XDG_CACHE_HOME or ~/.cache */
    const char *compiler;  /* path, or name to find in PATH; NULL: TILTH_CC, cc, gcc or clang */
    size_t max_bytes;      /* what the cache may hold; 0 is TL_JIT_MAX_BYTES */
    int threads;           /* compilers that run side by side; 0 is tl_pool_default_threads() */
} tl_jit_args;

/* Finds the compiler and opens the cache, which is made (mode 0700) when it is not there. Nothing
 * is compiled yet. NULL args are all defaults; the strings are copied. */
TL_API TL_NODISCARD tl_status tl_jit_new(tl_jit **out, const tl_jit_args *args);
/* Unloads all that is still loaded. NULL is fine. */
TL_API void tl_jit_free(tl_jit **jit);

typedef struct tl_jit_unit {
    const char *name;   /* for messages */
    const char *source; /* C17; needed during tl_jit_load only */

    /* Set by tl_jit_load, valid until the unit is unloaded or the tl_jit freed: */
    bool cached;      /* it needed no compilation of its own */
    double seconds;   /* from its cache entry or its source to loaded code */
    const char *path; /* of the object; the source is the k.c beside it; "": in memory */
    void *handle;
} tl_jit_unit;

/* Loads the units from the cache and compiles those that are not in it, side by side. After a
 * failure none of them is loaded; the message is that of the first unit that failed. */
TL_API TL_NODISCARD tl_status tl_jit_load(tl_jit *jit, tl_jit_unit *units, int64_t count);
/* Unloads these before the rest; their functions must not be called again. Units that are not
 * loaded are fine. */
TL_API void tl_jit_unload(tl_jit *jit, tl_jit_unit *units, int64_t count);

/* An exported function, to be cast to its type; NULL, with the error set, when there is none of
 * that name. */
typedef void tl_jit_fn(void);
TL_API tl_jit_fn *tl_jit_symbol(const tl_jit_unit *unit, const char *name);

/* What a report says of it. The strings belong to the tl_jit. */
typedef struct tl_jit_stats {
    int64_t entries; /* in the cache, of all processes that use it */
    size_t bytes;
    int64_t hits, misses;   /* units of this tl_jit that were not, and that were, compiled */
    double compile_seconds; /* of the misses, added up */
    const char *cache_dir, *compiler, *flags; /* no cache is "" */
} tl_jit_stats;
TL_API TL_NODISCARD tl_status tl_jit_read_stats(tl_jit_stats *out, const tl_jit *jit);

/* Removes all entries from the disk. Loaded code stays, and so do other files in the folder. */
TL_API TL_NODISCARD tl_status tl_jit_clear(tl_jit *jit);

TL_END

#endif
