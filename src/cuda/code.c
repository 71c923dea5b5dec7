#include "cuda/code.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/sys/cpu/jit.h>
#include <tilth/sys/nest/gpu.h>

#include "base/inner/code_cache.h"
#include "cuda/ahead.h"
#include "cuda/compile.h"

struct tli_cuda_codes {
    int major, minor; /* compute capability */
    tl_str identity;
    tli_code_cache cache;
    bool keeps;   /* the cache can be used */
    size_t added; /* bytes put there since its size was looked after; atomic */
    tli_cuda_ahead ahead;
};

static tli_cuda_ahead_make make;

/* --- open and close --------------------------------------------------------------------------- */

tl_status tli_cuda_codes_open(tli_cuda_codes **out, int major, int minor)
{
    tli_cuda_codes *c = *out = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    *c = (tli_cuda_codes){
        .major = major, .minor = minor, .identity = TL_STR_INIT, .cache = {.fd = -1}};
    // It opens the compiler's library, which then is closed behind the threads that call it.
    tl_status st = tli_cuda_identify(&c->identity, major, minor);
    tli_cuda_ahead_init(&c->ahead, make, c);
    if (st != TL_OK) {
        tli_cuda_codes_close(out);
        return st;
    }
    st = tli_code_cache_init(&c->cache, NULL, TL_JIT_MAX_BYTES, "k.cu", "k.cubin");
    c->keeps = st == TL_OK && !c->cache.in_memory;
    if (st == TL_EUNSUPPORTED) {
        TL_LOG_ONCE(TL_LEVEL_WARNING, "%s; kernels are compiled in every run anew",
                    tl_error_message());
        tl_error_clear();
        st = TL_OK;
    }
    if (st != TL_OK) tli_cuda_codes_close(out);
    return st;
}

void tli_cuda_codes_close(tli_cuda_codes **codes)
{
    tli_cuda_codes *c = *codes;
    if (!c) return;
    tli_cuda_ahead_deinit(&c->ahead);
    tli_code_cache_deinit(&c->cache);
    tl_str_deinit(&c->identity);
    tl_free(c);
    *codes = NULL;
}

/* --- from the cache --------------------------------------------------------------------------- */

/* False: it changed while it was read. */
static bool read_all(char *to, size_t bytes, int object)
{
    size_t have = 0;
    ssize_t got;
    while (have < bytes && (got = pread(object, to + have, bytes - have, (off_t)have)) > 0)
        have += (size_t)got;
    return have == bytes;
}

/* *code is NULL when the cache does not have it. */
static tl_status find(char **code, size_t *bytes, const tli_cuda_codes *c, const tli_code_key *key)
{
    char reason[TLI_CODE_REASON];
    struct stat info;
    int object;
    const tli_code_entry entry = tli_code_entry_open(&object, &c->cache, key, reason);
    *code = NULL;
    if (entry == TLI_ENTRY_BAD)
        TL_LOG_WARNING("a kernel is compiled again: its entry %s/%s is not used, because %s",
                       c->cache.path, key->name, reason);
    if (entry != TLI_ENTRY_GOOD) return TL_OK;
    tl_status st = TL_OK;
    if (fstat(object, &info) == 0 && info.st_size > 0) {
        *bytes = (size_t)info.st_size;
        *code = tl_alloc(*bytes);
        if (!*code) st = TL_FAIL_NOMEM(*bytes);
    }
    if (*code && !read_all(*code, *bytes, object)) {
        tl_free(*code);
        *code = NULL;
    }
    close(object);
    if (*code) tli_code_entry_touch(&c->cache, key);
    return st;
}

/* --- into the cache --------------------------------------------------------------------------- */

/* A look at the size goes through all entries, and a program has hundreds of kernels: it is looked
 * after at the first one, and whenever this process has put in a part of what there may be. */
static tl_status look_after(tli_cuda_codes *c, size_t bytes)
{
    enum { PART = 16 };
    const size_t before = __atomic_fetch_add(&c->added, bytes, __ATOMIC_RELAXED);
    if (before && before + bytes < c->cache.max_bytes / PART) return TL_OK;
    __atomic_store_n(&c->added, 1, __ATOMIC_RELAXED);
    return tli_code_cache_trim(&c->cache);
}

static tl_status put(tli_cuda_codes *c, const tli_code_key *key, const char *text, const char *code,
                     size_t bytes)
{
    char temp[TLI_CODE_TEMP];
    TL_TRY(tli_code_temp_new(temp, &c->cache, text));
    tl_status st = tli_code_temp_write(temp, &c->cache, code, bytes);
    if (st == TL_OK) st = tli_code_temp_publish(temp, &c->cache, key, true);
    if (temp[0]) tli_code_cache_remove(&c->cache, temp);
    return st == TL_OK ? look_after(c, key->source_size + bytes) : st;
}

/* The code is good whether or not it can be kept. */
static tl_status keep(tli_cuda_codes *c, const tli_code_key *key, const char *text,
                      const char *code, size_t bytes)
{
    const tl_status st = put(c, key, text, code, bytes);
    if (st != TL_EUNSUPPORTED) return st;
    TL_LOG_ONCE(TL_LEVEL_WARNING, "kernels are not kept for the next run: %s", tl_error_message());
    tl_error_clear();
    return TL_OK;
}

static tl_status find_or_make(char **code, size_t *bytes, tli_cuda_codes *c, const char *text)
{
    if (!c->keeps) return tli_cuda_compile(code, bytes, text, c->major, c->minor, NULL);
    const tli_code_key key = tli_code_key_of(tl_str_text(&c->identity), text);
    TL_TRY(find(code, bytes, c, &key));
    if (*code) return TL_OK;
    TL_TRY(tli_cuda_compile(code, bytes, text, c->major, c->minor, NULL));
    const tl_status st = keep(c, &key, text, *code, *bytes);
    if (st != TL_OK) {
        tl_free(*code);
        *code = NULL;
    }
    return st;
}

static tl_status make(void *self, const char *text, char **code, size_t *bytes)
{
    tl_str pruned = TL_STR_INIT;
    *code = NULL;
    tl_status st = tl_gpu_prune(&pruned, text);
    if (st == TL_OK) st = find_or_make(code, bytes, self, tl_str_text(&pruned));
    tl_str_deinit(&pruned);
    return st;
}

tl_status tli_cuda_code(char **code, size_t *bytes, tli_cuda_codes *c, const char *text)
{
    return tli_cuda_ahead_take(&c->ahead, text, code, bytes) ? TL_OK : make(c, text, code, bytes);
}

tl_status tli_cuda_code_ahead(tli_cuda_codes *c, const char *text)
{
    return tli_cuda_ahead_add(&c->ahead, text);
}

/* --- notes ------------------------------------------------------------------------------------ */

tl_status tli_cuda_note_find(char *out, size_t size, const tli_cuda_codes *c, const char *text)
{
    char *kept;
    size_t bytes;
    out[0] = '\0';
    if (!c->keeps) return TL_OK;
    const tli_code_key key = tli_code_key_of(tl_str_text(&c->identity), text);
    TL_TRY(find(&kept, &bytes, c, &key));
    if (kept && bytes < size) {
        memcpy(out, kept, bytes);
        out[bytes] = '\0';
    }
    tl_free(kept);
    return TL_OK;
}

tl_status tli_cuda_note_keep(tli_cuda_codes *c, const char *text, const char *note)
{
    if (!c->keeps) return TL_OK;
    const tli_code_key key = tli_code_key_of(tl_str_text(&c->identity), text);
    return keep(c, &key, text, note, strlen(note));
}
