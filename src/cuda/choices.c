#include "cuda/choices.h"

#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>
#include <tilth/sys/cuda/cuda.h>

static const char head[] = "# measured on ";

void tli_choices_init(tli_choices *c, const char *gpu, tli_cuda_codes *codes)
{
    *c = (tli_choices){.table = TL_MAP_INIT, .gpu = gpu, .about = TL_STR_INIT, .codes = codes};
    pthread_mutex_init(&c->lock, NULL);
}

void tli_choices_deinit(tli_choices *c)
{
    for (int64_t i = 0; i < tl_map_count(&c->table); i++) tl_free(tl_map_at(&c->table, i));
    tl_map_deinit(&c->table);
    tl_str_deinit(&c->about);
    pthread_mutex_destroy(&c->lock);
}

/* What all choices depend on. The driver and the compiler choose nothing. */
static tl_status tell_about(tli_choices *c)
{
    int64_t count;
    if (c->about.length) return TL_OK;
    const tl_gpu_library *libraries = tl_gpu_libraries(&count);
    tl_str_add(&c->about, c->gpu);
    for (int64_t i = 0; i < count; i++)
        if (libraries[i].version
            && (strcmp(libraries[i].name, "cublaslt") == 0
                || strcmp(libraries[i].name, "cudnn") == 0))
            tl_str_addf(&c->about, ", %s %s", libraries[i].name, libraries[i].version);
    return tl_str_status(&c->about);
}

static tl_status set(tli_choices *c, const char *key, const char *choice)
{
    char *copy = tl_strdup(choice);
    if (!copy) return TL_FAIL_NOMEM(strlen(choice) + 1);
    char *before = tl_map_get(&c->table, key);
    const tl_status st = tl_map_set(&c->table, key, copy);
    tl_free(st == TL_OK ? before : copy);
    return st;
}

/* --- single ones ------------------------------------------------------------------------------ */

/* The text that a kept choice belongs to. */
static tl_status name(tli_choices *c, tl_str *out, const char *key)
{
    TL_TRY(tell_about(c));
    tl_str_addf(out, "choice on %s: %s", tl_str_text(&c->about), key);
    return tl_str_status(out);
}

static tl_status find_kept(tli_choices *c, const char *key, char out[TLI_CHOICE])
{
    tl_str text = TL_STR_INIT;
    tl_status st = name(c, &text, key);
    if (st == TL_OK) st = tli_cuda_note_find(out, TLI_CHOICE, c->codes, tl_str_text(&text));
    if (st == TL_OK && out[0]) st = set(c, key, out);
    tl_str_deinit(&text);
    return st;
}

tl_status tli_choice_find(tli_choices *c, const char *key, char out[TLI_CHOICE])
{
    tl_status st = TL_OK;
    out[0] = '\0';
    pthread_mutex_lock(&c->lock);
    const char *known = tl_map_get(&c->table, key);
    if (known) memcpy(out, known, strlen(known) + 1);
    else if (c->codes) st = find_kept(c, key, out);
    pthread_mutex_unlock(&c->lock);
    return st;
}

static tl_status note(tli_choices *c, const char *key, const char *choice)
{
    tl_str text = TL_STR_INIT;
    TL_TRY(set(c, key, choice));
    if (!c->codes) return TL_OK;
    tl_status st = name(c, &text, key);
    if (st == TL_OK) st = tli_cuda_note_keep(c->codes, tl_str_text(&text), choice);
    tl_str_deinit(&text);
    return st;
}

tl_status tli_choice_note(tli_choices *c, const char *key, const char *choice)
{
    TL_ASSERT(strlen(choice) < TLI_CHOICE && !strpbrk(key, "\t\n") && !strpbrk(choice, "\t\n"));
    pthread_mutex_lock(&c->lock);
    const tl_status st = note(c, key, choice);
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* --- all of them ------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tl_status print(tli_choices *c, tl_str *out)
{
    const int64_t count = tl_map_count(&c->table);
    TL_TRY(tell_about(c));
    const char **keys = tl_alloc((size_t)(count + 1) * sizeof *keys);
    if (!keys) return TL_FAIL_NOMEM((size_t)(count + 1) * sizeof *keys);
    for (int64_t i = 0; i < count; i++) keys[i] = tl_map_key(&c->table, i);
    qsort(keys, (size_t)count, sizeof *keys, by_key);
    tl_str_addf(out, "%s%s\n", head, tl_str_text(&c->about));
    for (int64_t i = 0; i < count; i++)
        tl_str_addf(out, "%s\t%s\n", keys[i], (const char *)tl_map_get(&c->table, keys[i]));
    tl_free(keys);
    return tl_str_status(out);
}

tl_status tli_choices_export(tli_choices *c, tl_str *out)
{
    pthread_mutex_lock(&c->lock);
    const tl_status st = print(c, out);
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* A line without its end, which is changed. */
static tl_status take_line(tli_choices *c, char *line, int number)
{
    char *tab = strchr(line, '\t');
    if (!tab || tab == line || !tab[1] || strchr(tab + 1, '\t') || strlen(tab + 1) >= TLI_CHOICE)
        return TL_FAIL(TL_EDATA,
                       "line %d of the choices of kernels is no key, tab and choice of at most %d "
                       "bytes",
                       number, TLI_CHOICE - 1);
    *tab = '\0';
    return set(c, line, tab + 1);
}

static tl_status take(tli_choices *c, char *text)
{
    char *end = strchr(text, '\n');
    if (strncmp(text, head, sizeof head - 1) != 0 || !end)
        return TL_FAIL(TL_EDATA, "choices of kernels begin with the line '%sGPU, libraries'", head);
    *end = '\0';
    TL_TRY(tell_about(c));
    const char *about = text + sizeof head - 1;
    if (strcmp(about, tl_str_text(&c->about)) != 0) {
        TL_LOG_WARNING("kernels were chosen on %s; here it is %s: results will differ in their "
                       "last bits",
                       about, tl_str_text(&c->about));
        return TL_OK;
    }
    int number = 2;
    for (char *line = end + 1; *line; line = end + 1, number++) {
        if (!(end = strchr(line, '\n')))
            return TL_FAIL(TL_EDATA, "line %d of the choices of kernels has no end", number);
        *end = '\0';
        TL_TRY(take_line(c, line, number));
    }
    return TL_OK;
}

tl_status tli_choices_import(tli_choices *c, const char *text)
{
    char *copy = tl_strdup(text);
    if (!copy) return TL_FAIL_NOMEM(strlen(text) + 1);
    pthread_mutex_lock(&c->lock);
    const tl_status st = take(c, copy);
    pthread_mutex_unlock(&c->lock);
    tl_free(copy);
    return st;
}
