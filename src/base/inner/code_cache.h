/* The cache of compiled code on the disk: C for this CPU (cpu/jit.c) and code of GPUs
 * (cuda/compile.c), in one folder with one bound.
 *
 * An entry is a folder named by a hash of source and identity, which is all else that the object
 * depends on. It holds source, object and checksums (k.sum), and appears whole or not at all. Code
 * is taken from it only where nobody else could have put it (inner/trust.h).
 *
 * Thread word: free-threaded, except where something is made or freed. */
#ifndef TILTH_SRC_BASE_CODE_CACHE_H
#define TILTH_SRC_BASE_CODE_CACHE_H

#include <tilth/base/status.h>

enum { TLI_CODE_IDENTITY = 12 << 10 }; /* two paths of PATH_MAX and a compiler's flags fit in */

typedef struct tli_code_cache {
    char *path; /* absolute, symbolic links resolved */
    int fd;
    size_t max_bytes;
    const char *source, *object; /* what these files of an entry are called: "k.c", "k.so" */
    bool in_memory; /* nothing is kept: path and fd are of a place to compile in, as /tmp is */
} tli_code_cache;

/* `wanted` is a folder, or NULL: TILTH_CACHE_DIR, else tilth in XDG_CACHE_HOME or ~/.cache. Refuses
 * a folder that cannot be written or that code cannot be loaded from. One that others could change
 * is told of and not used: then code is compiled into memory. The names are not copied. */
TL_NODISCARD tl_status tli_code_cache_init(tli_code_cache *c, const char *wanted, size_t max_bytes,
                                           const char *source, const char *object);
void tli_code_cache_deinit(tli_code_cache *c);
TL_NODISCARD tl_status tli_code_cache_measure(const tli_code_cache *c, int64_t *entries,
                                              size_t *bytes);
/* Makes the cache fit into its bounds, least recently used first, sparing what this process has
 * loaded; clears away what processes that were killed left behind. */
TL_NODISCARD tl_status tli_code_cache_trim(const tli_code_cache *c);
/* Removes every entry. */
TL_NODISCARD tl_status tli_code_cache_clear(const tli_code_cache *c);
/* Removes a folder of the cache with the files in it, or a file. */
void tli_code_cache_remove(const tli_code_cache *c, const char *name);

/* An entry that is wanted: its name in the cache and what it must hold. */
enum { TLI_CODE_KEY = 16 };
typedef struct tli_code_key {
    char name[TLI_CODE_KEY + 1];
    const char *identity;
    size_t source_size;
    uint32_t source_crc;
} tli_code_key;
tli_code_key tli_code_key_of(const char *identity, const char *source);
bool tli_code_is_key(const char *name);

typedef enum tli_code_entry { TLI_ENTRY_GOOD, TLI_ENTRY_ABSENT, TLI_ENTRY_BAD } tli_code_entry;
enum { TLI_CODE_REASON = 256 };
/* Looks whether the entry is there, is ours and holds what it should; a bad one has a reason. */
tli_code_entry tli_code_entry_check(const tli_code_cache *c, const tli_code_key *key,
                                    char reason[TLI_CODE_REASON]);
/* The same, and hands over the object that was looked at, open; -1 when it is not good. */
tli_code_entry tli_code_entry_open(int *object, const tli_code_cache *c, const tli_code_key *key,
                                   char reason[TLI_CODE_REASON]);
/* Notes that the entry was used now. */
void tli_code_entry_touch(const tli_code_cache *c, const tli_code_key *key);

/* A folder in which an entry is made, with the source in it. Its name is "" when there is none. */
enum { TLI_CODE_TEMP = 32 };
TL_NODISCARD tl_status tli_code_temp_new(char name[TLI_CODE_TEMP], const tli_code_cache *c,
                                         const char *source);
/* Puts an object there that was made elsewhere. */
TL_NODISCARD tl_status tli_code_temp_write(const char *name, const tli_code_cache *c,
                                           const void *object, size_t size);
/* Takes the object that the compiler left there into memory. */
TL_NODISCARD tl_status tli_code_temp_take(int *object, const char *name, const tli_code_cache *c);
/* Adds the checksums and puts the folder in place, unless a good entry is there by now, or (forced)
 * in any case. */
TL_NODISCARD tl_status tli_code_temp_publish(char name[TLI_CODE_TEMP], const tli_code_cache *c,
                                             const tli_code_key *key, bool force);

/* Holds others back from making the same entry, for a while: waits until nobody else makes it, at
 * most a minute, since making it twice only costs time. A descriptor, -1 when there is no lock. */
int tli_code_entry_lock(const tli_code_cache *c, const tli_code_key *key);
void tli_code_entry_unlock(const tli_code_cache *c, const tli_code_key *key, int lock);

#endif
