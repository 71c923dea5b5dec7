/* The two halves of jit.c: the compiler, and the cache on the disk.
 * Thread word: free-threaded, except where something is made or freed. */
#ifndef TLI_CPU_JIT_IMPL_H
#define TLI_CPU_JIT_IMPL_H

#include <tilth/sys/cpu/jit.h>

/* --- the compiler (jit_compiler.c) ------------------------------------------------------------ */

/* Flags are some twenty; an identity holds two paths of PATH_MAX and the flags. */
enum { TLI_JIT_FLAGS = 32, TLI_JIT_IDENTITY = 12 << 10 };

typedef struct tli_jit_compiler {
    char *path;                       /* absolute; what is started */
    const char *flags[TLI_JIT_FLAGS]; /* ends with NULL */
    char *flags_text;                 /* the same with spaces between them */
    char *identity;                   /* all that an object depends on besides its source */
} tli_jit_compiler;

/* `wanted` as in tl_jit_args. */
TL_NODISCARD tl_status tli_jit_compiler_init(tli_jit_compiler *c, const char *wanted);
void tli_jit_compiler_deinit(tli_jit_compiler *c);
/* Compiles k.c of the folder, an absolute path, to k.so; `unit` is for the message. */
TL_NODISCARD tl_status tli_jit_compile(const tli_jit_compiler *c, const char *unit,
                                       const char *folder);

/* --- the cache (jit_cache.c, jit_entry.c) ----------------------------------------------------- */

typedef struct tli_jit_cache {
    char *path; /* absolute, symbolic links resolved */
    int fd;
    size_t max_bytes;
    bool in_memory; /* nothing is kept: path and fd are of a place to compile in, as /tmp is */
} tli_jit_cache;

/* `wanted` as in tl_jit_args. Refuses a folder that cannot be written or that code cannot be loaded
 * from. One that others could change (base/inner/trust.h) is told of and not used: then code is
 * compiled into memory. */
TL_NODISCARD tl_status tli_jit_cache_init(tli_jit_cache *c, const char *wanted, size_t max_bytes);
void tli_jit_cache_deinit(tli_jit_cache *c);
TL_NODISCARD tl_status tli_jit_cache_measure(const tli_jit_cache *c, int64_t *entries,
                                             size_t *bytes);
/* Makes the cache fit into its bounds, least recently used first, sparing what this process has
 * loaded; clears away what processes that were killed left behind. */
TL_NODISCARD tl_status tli_jit_cache_trim(const tli_jit_cache *c);
/* Removes every entry. */
TL_NODISCARD tl_status tli_jit_cache_clear(const tli_jit_cache *c);
/* Removes a folder of the cache with the files in it, or a file. */
void tli_jit_cache_remove(const tli_jit_cache *c, const char *name);

/* An entry that is wanted: its name in the cache and what it must hold. */
enum { TLI_JIT_KEY = 16 };
typedef struct tli_jit_key {
    char name[TLI_JIT_KEY + 1];
    const char *identity;
    size_t source_size;
    uint32_t source_crc;
} tli_jit_key;
tli_jit_key tli_jit_key_of(const char *identity, const char *source);
bool tli_jit_is_key(const char *name);

typedef enum tli_jit_entry { TLI_ENTRY_GOOD, TLI_ENTRY_ABSENT, TLI_ENTRY_BAD } tli_jit_entry;
enum { TLI_JIT_REASON = 256 };
/* Looks whether the entry is there, is ours and holds what it should; a bad one has a reason. */
tli_jit_entry tli_jit_entry_check(const tli_jit_cache *c, const tli_jit_key *key,
                                  char reason[TLI_JIT_REASON]);
/* The same, and hands over the object that was looked at, open; -1 when it is not good. */
tli_jit_entry tli_jit_entry_open(int *object, const tli_jit_cache *c, const tli_jit_key *key,
                                 char reason[TLI_JIT_REASON]);
/* Notes that the entry was used now. */
void tli_jit_entry_touch(const tli_jit_cache *c, const tli_jit_key *key);

/* A folder in which an entry is made, with the source in it. Its name is "" when there is none. */
enum { TLI_JIT_TEMP = 32 };
TL_NODISCARD tl_status tli_jit_temp_new(char name[TLI_JIT_TEMP], const tli_jit_cache *c,
                                        const char *source);
/* Takes the object that the compiler left there into memory. */
TL_NODISCARD tl_status tli_jit_temp_take(int *object, const char *name, const tli_jit_cache *c);
/* Adds the checksums and puts the folder in place, unless a good entry is there by now, or (forced)
 * in any case. */
TL_NODISCARD tl_status tli_jit_temp_publish(char name[TLI_JIT_TEMP], const tli_jit_cache *c,
                                            const tli_jit_key *key, bool force);

/* Holds others back from making the same entry, for a while: waits until nobody else makes it, at
 * most a minute, since making it twice only costs time. A descriptor, -1 when there is no lock. */
int tli_jit_entry_lock(const tli_jit_cache *c, const tli_jit_key *key);
void tli_jit_entry_unlock(const tli_jit_cache *c, const tli_jit_key *key, int lock);

#endif
