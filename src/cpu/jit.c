#include <tilth/sys/cpu/jit.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/lib-names.h>
#endif

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/base/pool.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>

#include "base/inner/code.h"
#include "cpu/jit_impl.h"

typedef struct loaded {
    void *handle;
    char *path;
} loaded;

struct tl_jit {
    tli_jit_compiler compiler;
    tli_code_cache cache;
    int threads;
    int64_t hits, misses;
    double compile_seconds;
    struct {
        loaded *items;
        int64_t count, capacity;
    } loaded;
    void *math; /* the mathematics library, see share_math */
};

/* Units are linked against nothing and find what they call in the process. Where this library was
 * itself loaded for one user alone, as language bindings do, the mathematics library is hidden from
 * them until it is opened for all. */
static void share_math(tl_jit *jit)
{
#if defined(LIBM_SO)
    jit->math = dlopen(LIBM_SO, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
#else
    (void)jit;
#endif
}

tl_status tl_jit_new(tl_jit **out, const tl_jit_args *args)
{
    static const tl_jit_args defaults;
    tl_status st;
    *out = NULL;
    if (!args) args = &defaults;
    tl_jit *jit = tl_alloc_zero(sizeof *jit);
    if (!jit) return TL_FAIL_NOMEM(sizeof *jit);
    jit->cache.fd = -1;
    jit->threads = args->threads > 0 ? args->threads : tl_pool_default_threads();
    TL_TRY_DONE(st, tli_jit_compiler_init(&jit->compiler, args->compiler));
    size_t most = args->max_bytes ? args->max_bytes : TL_JIT_MAX_BYTES;
    TL_TRY_DONE(st, tli_code_cache_init(&jit->cache, args->cache_dir, most, "k.c", "k.so"));
    share_math(jit);
    *out = jit;
    jit = NULL;
done:
    tl_jit_free(&jit);
    return st;
}

static void drop(loaded *code)
{
    TL_ASSERT(code->handle && code->path);
    dlclose(code->handle);
    tl_free(code->path);
}

void tl_jit_free(tl_jit **jit)
{
    tl_jit *j = *jit;
    if (!j) return;
    while (j->loaded.count > 0) drop(&j->loaded.items[--j->loaded.count]);
    TL_VEC_FREE(&j->loaded);
    if (j->math) dlclose(j->math);
    tli_code_cache_deinit(&j->cache);
    tli_jit_compiler_deinit(&j->compiler);
    tl_free(j);
    *jit = NULL;
}

/* --- one unit --------------------------------------------------------------------------------- */

/* A unit on its way: what the cache calls it, and how far it has come. */
typedef struct job {
    tl_jit_unit *unit;
    tli_code_key key;
    bool absent; /* to be compiled */
    bool force;  /* even if the cache holds what looks good */
    bool built;  /* this call compiled it */
    int object;  /* what was compiled into memory; -1 when there is none */
    double seconds, build_seconds;
} job;

typedef struct batch {
    tl_jit *jit;
    job **jobs; /* no two of the same key */
} batch;

/* "" where no cache has it. */
static tl_status object_path(char **out, const tl_jit *jit, const job *j)
{
    size_t size = strlen(jit->cache.path) + TLI_CODE_KEY + sizeof "//k.so";
    *out = tl_alloc(size);
    if (!*out) return TL_FAIL_NOMEM(size);
    if (jit->cache.in_memory) **out = '\0';
    else snprintf(*out, size, "%s/%s/k.so", jit->cache.path, j->key.name);
    return TL_OK;
}

/* The object that was looked at. Without /proc it is loaded by its path, which nobody else can
 * change: all folders above the cache were looked at as well. */
static tl_status load_object(loaded *code, int object)
{
    tl_status st = tli_code_open(&code->handle, object, -1, NULL);
    if (st != TL_EUNSUPPORTED || !*code->path) return st;
    code->handle = dlopen(code->path, RTLD_NOW | RTLD_LOCAL);
    if (code->handle) return TL_OK;
    const char *why = dlerror();
    return TL_FAIL(TL_EINVAL, "%s", why ? why : "no reason is given");
}

/* TL_EUNSUPPORTED, with the loader's words, when the object is none for this process. */
static tl_status open_object(tl_jit *jit, job *j, int object)
{
    loaded code = {0};
    TL_TRY(object_path(&code.path, jit, j));
    tl_status st = load_object(&code, object);
    if (st != TL_OK) {
        tl_free(code.path);
        if (st == TL_ENOMEM) return st;
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s' was compiled with '%s' but cannot be loaded: %s "
                       "(TILTH_CC names another compiler)",
                       j->unit->name, jit->compiler.path, tl_error_message());
    }
    if (!TL_VEC_PUSH(&jit->loaded, code)) {
        drop(&code);
        return TL_ENOMEM;
    }
    j->unit->handle = code.handle;
    TL_ASSERT(code.handle && code.path);
    j->unit->path = code.path;
    return TL_OK;
}

/* Loads it if the cache has it. An entry that is no good is told of and will be made anew. */
static tl_status load_from_cache(tl_jit *jit, job *j)
{
    char reason[TLI_CODE_REASON] = "";
    int object;
    int64_t begin = tl_clock_ns();
    tli_code_entry entry = tli_code_entry_open(&object, &jit->cache, &j->key, reason);
    tl_status st = TL_OK;
    j->absent = entry != TLI_ENTRY_GOOD;
    if (entry == TLI_ENTRY_BAD)
        TL_LOG_WARNING("'%s' is compiled again: its entry %s/%s is not used, because %s",
                       j->unit->name, jit->cache.path, j->key.name, reason);
    if (entry == TLI_ENTRY_GOOD) {
        st = open_object(jit, j, object);
        close(object);
        if (st == TL_OK) tli_code_entry_touch(&jit->cache, &j->key);
        // Another process may have taken the entry away between the look and the load.
        j->absent = st == TL_EUNSUPPORTED
                    && tli_code_entry_check(&jit->cache, &j->key, reason) != TLI_ENTRY_GOOD;
        if (j->absent) st = TL_OK;
    }
    j->seconds += (double)(tl_clock_ns() - begin) * 1e-9;
    return st;
}

static tl_status build_now(tl_jit *jit, job *j)
{
    char temp[TLI_CODE_TEMP];
    tl_str folder = TL_STR_INIT;
    tl_status st;
    TL_TRY(tli_code_temp_new(temp, &jit->cache, j->unit->source));
    tl_str_addf(&folder, "%s/%s", jit->cache.path, temp);
    TL_TRY_DONE(st, tl_str_status(&folder));
    TL_TRY_DONE(st, tli_jit_compile(&jit->compiler, j->unit->name, tl_str_text(&folder)));
    st = jit->cache.in_memory ? tli_code_temp_take(&j->object, temp, &jit->cache)
                              : tli_code_temp_publish(temp, &jit->cache, &j->key, j->force);
done:
    if (temp[0]) tli_code_cache_remove(&jit->cache, temp);
    tl_str_deinit(&folder);
    return st;
}

/* Runs on any thread of the pool. */
static tl_status build(tl_jit *jit, job *j)
{
    char reason[TLI_CODE_REASON];
    tl_status st = TL_OK;
    int64_t begin = tl_clock_ns();
    int lock = tli_code_entry_lock(&jit->cache, &j->key);
    // While we waited for the lock somebody else may have made it.
    bool needed = j->force || tli_code_entry_check(&jit->cache, &j->key, reason) != TLI_ENTRY_GOOD;
    if (needed) st = build_now(jit, j);
    tli_code_entry_unlock(&jit->cache, &j->key, lock);
    j->built = j->built || needed;
    j->build_seconds += (double)(tl_clock_ns() - begin) * 1e-9;
    return st;
}

static tl_status build_range(int64_t begin, int64_t end, void *payload)
{
    const batch *b = payload;
    for (int64_t i = begin; i < end; i++) TL_TRY(build(b->jit, b->jobs[i]));
    return TL_OK;
}

/* --- many units ------------------------------------------------------------------------------- */

static bool is_listed(const batch *b, int64_t count, const job *j)
{
    for (int64_t i = 0; i < count; i++)
        if (strcmp(b->jobs[i]->key.name, j->key.name) == 0) return true;
    return false;
}

/* Compiles what is absent, side by side; units of the same text once. */
static tl_status build_absent(tl_jit *jit, job *jobs, int64_t count)
{
    tl_status st = TL_OK;
    tl_pool *pool = NULL;
    int64_t wanted = 0;
    batch b = {jit, tl_alloc((size_t)count * sizeof(job *))};
    if (!b.jobs) return TL_FAIL_NOMEM((size_t)count * sizeof(job *));
    for (int64_t i = 0; i < count; i++)
        if (jobs[i].absent && !is_listed(&b, wanted, &jobs[i])) b.jobs[wanted++] = &jobs[i];
    TL_ASSERT(wanted > 0 && wanted <= count);
    int64_t threads = wanted < jit->threads ? wanted : jit->threads;
    if (threads > TL_POOL_MAX_THREADS) threads = TL_POOL_MAX_THREADS;
    if (threads > 1) TL_TRY_DONE(st, tl_pool_new(&pool, (int)threads));
    st = tl_parallel_for(pool, wanted, 1, build_range, &b);
done:
    tl_pool_free(&pool);
    tl_free(b.jobs);
    return st;
}

/* Of units with the same text one was compiled. */
static tl_status load_from_memory(tl_jit *jit, job *jobs, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t begin = tl_clock_ns(), made = i;
        for (int64_t k = 0; k < i && jobs[made].object < 0; k++)
            if (strcmp(jobs[k].key.name, jobs[i].key.name) == 0) made = k;
        TL_ASSERT(jobs[made].object >= 0); // one of the same text was compiled
        TL_TRY(open_object(jit, &jobs[i], jobs[made].object));
        jobs[i].seconds += (double)(tl_clock_ns() - begin) * 1e-9;
    }
    return TL_OK;
}

/* Loads what was just made. Another process may have taken it away again, or replaced it; and an
 * entry that cannot be loaded, though it is as it was written, may have been made for another
 * system: such ones are made once more. */
static tl_status load_built(tl_jit *jit, job *j)
{
    enum { TRIES = 3 };
    tl_status st = TL_OK;
    for (int i = 0; i < TRIES; i++) {
        st = load_from_cache(jit, j);
        if (st == TL_OK && !j->absent) return TL_OK;
        if (st == TL_ENOMEM || (st != TL_OK && j->built)) return st;
        j->force = st != TL_OK;
        TL_TRY(build(jit, j));
    }
    if (st == TL_OK)
        st = TL_FAIL(TL_EUNSUPPORTED,
                     "'%s' was compiled, but its entry in '%s' is removed or damaged "
                     "each time; set TILTH_CACHE_DIR to another folder",
                     j->unit->name, jit->cache.path);
    return st;
}

static tl_status load_jobs(tl_jit *jit, job *jobs, int64_t count)
{
    bool all = true;
    for (int64_t i = 0; i < count; i++) {
        tl_status st = load_from_cache(jit, &jobs[i]);
        if (st == TL_ENOMEM) return st;
        if (st != TL_OK) jobs[i].absent = jobs[i].force = true;
        all = all && !jobs[i].absent;
    }
    if (all) return TL_OK;
    TL_TRY(build_absent(jit, jobs, count));
    if (jit->cache.in_memory) return load_from_memory(jit, jobs, count);
    for (int64_t i = 0; i < count; i++)
        if (jobs[i].absent) TL_TRY(load_built(jit, &jobs[i]));
    return tli_code_cache_trim(&jit->cache);
}

static void report(tl_jit *jit, const job *jobs, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        tl_jit_unit *unit = jobs[i].unit;
        unit->cached = !jobs[i].built;
        TL_ASSERT(unit->handle && unit->path);
        unit->seconds = jobs[i].seconds + jobs[i].build_seconds;
        jit->hits += !jobs[i].built;
        jit->misses += jobs[i].built;
        if (jobs[i].built) jit->compile_seconds += jobs[i].build_seconds;
    }
}

tl_status tl_jit_load(tl_jit *jit, tl_jit_unit *units, int64_t count)
{
    if (count <= 0) return TL_OK;
    job *jobs = tl_alloc_zero((size_t)count * sizeof *jobs);
    if (!jobs) return TL_FAIL_NOMEM((size_t)count * sizeof *jobs);
    for (int64_t i = 0; i < count; i++) {
        TL_ASSERT(units[i].name && units[i].source && !units[i].handle);
        jobs[i].unit = &units[i];
        jobs[i].key = tli_code_key_of(jit->compiler.identity, units[i].source);
        TL_ASSERT(tli_code_is_key(jobs[i].key.name));
        jobs[i].object = -1;
    }
    tl_status st = load_jobs(jit, jobs, count);
    if (st == TL_OK) report(jit, jobs, count);
    else tl_jit_unload(jit, units, count);
    for (int64_t i = 0; i < count; i++)
        if (jobs[i].object >= 0) close(jobs[i].object);
    tl_free(jobs);
    return st;
}

void tl_jit_unload(tl_jit *jit, tl_jit_unit *units, int64_t count)
{
    for (int64_t u = 0; u < count; u++) {
        // The path is this unit's own; a handle may be shared by units of the same text.
        for (int64_t i = 0; i < jit->loaded.count; i++) {
            if (jit->loaded.items[i].path != units[u].path) continue;
            drop(&jit->loaded.items[i]);
            jit->loaded.items[i] = jit->loaded.items[--jit->loaded.count];
            break;
        }
        units[u].handle = NULL;
        units[u].path = NULL;
    }
}

tl_jit_fn *tl_jit_symbol(const tl_jit_unit *unit, const char *name)
{
    tl_jit_fn *fn = NULL;
    void *address = unit->handle ? dlsym(unit->handle, name) : NULL;
    if (address) memcpy(&fn, &address, sizeof fn);
    else
        (void)TL_FAIL(TL_ENOTFOUND, "'%s' %s a function '%s'", unit->name,
                      unit->handle ? "does not export" : "is not loaded and has not", name);
    return fn;
}

tl_status tl_jit_read_stats(tl_jit_stats *out, const tl_jit *jit)
{
    *out = (tl_jit_stats){
        .hits = jit->hits,
        .misses = jit->misses,
        .compile_seconds = jit->compile_seconds,
        .cache_dir = jit->cache.in_memory ? "" : jit->cache.path,
        .compiler = jit->compiler.path,
        .flags = jit->compiler.flags_text,
    };
    return tli_code_cache_measure(&jit->cache, &out->entries, &out->bytes);
}

tl_status tl_jit_clear(tl_jit *jit)
{
    return tli_code_cache_clear(&jit->cache);
}
