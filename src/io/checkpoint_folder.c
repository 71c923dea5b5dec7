#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/io/tensorbundle.h>
#include <unistd.h>

#include "io/checkpoint_manager_impl.h"

double (*tli_checkpoint_clock)(void) = tl_clock_wall;

enum { TEMP_DIGITS = 16 };

/* Calls `fn` for each name in a directory; one that cannot be read has none. */
typedef tl_status name_fn(DIR *folder, const char *name, void *payload);
static tl_status each_name(const char *directory, name_fn *fn, void *payload)
{
    DIR *folder = opendir(directory);
    tl_status st = TL_OK;
    if (!folder) return TL_OK;
    for (struct dirent *e; st == TL_OK && (e = readdir(folder));)
        st = fn(folder, e->d_name, payload);
    closedir(folder);
    return st;
}

/* --- leftovers -------------------------------------------------------------------------------- */

// As tl_file_writer names them: .FILE.<16 hexadecimal digits>.tmp
static bool is_temp_of(const char *name, const char *stem, bool numbered)
{
    size_t length = strlen(name), tail = TEMP_DIGITS + sizeof ".tmp", head = strlen(stem);
    if (length < 1 + head + tail || name[0] != '.' || strncmp(name + 1, stem, head) != 0)
        return false;
    const char *digits = name + length - tail;
    if (*digits++ != '.' || strspn(digits, "0123456789abcdef") != TEMP_DIGITS
        || strcmp(digits + TEMP_DIGITS, ".tmp") != 0)
        return false;
    const char *rest = name + 1 + head;
    if (!numbered) return rest == digits - 1;
    size_t number = *rest == '-' ? strspn(rest + 1, "0123456789") : 0;
    rest += 1 + number;
    return number && strncmp(rest, TL_CHECKPOINT_SUFFIX, strlen(TL_CHECKPOINT_SUFFIX)) == 0
           && rest + strlen(TL_CHECKPOINT_SUFFIX) == digits - 1;
}

static tl_status remove_temp(DIR *folder, const char *name, void *payload)
{
    if (is_temp_of(name, payload, true) || is_temp_of(name, TLI_CHECKPOINT_LIST_NAME, false)) {
        TL_LOG_INFO("removing '%s', which a process that was ended left half-written", name);
        (void)unlinkat(dirfd(folder), name, 0); // it is in nobody's way
    }
    return TL_OK;
}

void tli_checkpoint_folder_sweep(const char *directory, const char *name)
{
    (void)each_name(directory, remove_temp, (void *)(uintptr_t)name);
}

/* --- lists ------------------------------------------------------------------------------------ */

typedef struct scan {
    const char *name;
    struct found {
        int64_t number;
        double time;
    } *items;
    int64_t count, capacity;
} scan;

// NAME-NUMBER.safetensors, or that of a bundle
static bool number_of(int64_t *out, const char *file, const char *name)
{
    size_t head = strlen(name);
    if (strncmp(file, name, head) != 0 || file[head] != '-'
        || !isdigit((unsigned char)file[head + 1]))
        return false;
    char *end;
    errno = 0;
    *out = strtoll(file + head + 1, &end, 10);
    return errno == 0
           && (strcmp(end, TL_CHECKPOINT_SUFFIX) == 0 || strcmp(end, TL_TENSORBUNDLE_SUFFIX) == 0);
}

static tl_status note_file(DIR *folder, const char *name, void *payload)
{
    scan *s = payload;
    struct found found;
    struct stat info;
    if (!number_of(&found.number, name, s->name) || fstatat(dirfd(folder), name, &info, 0) != 0)
        return TL_OK;
    found.time = (double)info.st_mtim.tv_sec + (double)info.st_mtim.tv_nsec * 1e-9;
    return TL_VEC_PUSH(s, found) ? TL_OK : TL_ENOMEM;
}

static int by_number(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static tl_status list_files(tli_checkpoint_list *out, const char *directory, const char *name)
{
    scan s = {.name = name};
    tl_str path = TL_STR_INIT;
    tl_status st = each_name(directory, note_file, &s);
    if (s.count) qsort(s.items, (size_t)s.count, sizeof *s.items, by_number);
    for (int64_t i = 0; i < s.count && st == TL_OK; i++) {
        if (i > 0 && s.items[i].number == s.items[i - 1].number) continue; // in both forms
        tl_str_cut(&path, 0);
        tl_str_addf(&path, "%s-%lld", name, (long long)s.items[i].number);
        st = tl_str_status(&path);
        if (st == TL_OK) st = tli_checkpoint_list_add(out, tl_str_text(&path), s.items[i].time);
    }
    if (st == TL_OK && s.count) st = tli_checkpoint_list_set_latest(out, tl_str_text(&path));
    if (st != TL_OK) tli_checkpoint_list_deinit(out);
    tl_str_deinit(&path);
    TL_VEC_FREE(&s);
    return st;
}

// Clocks that went back must not make everything older than what is kept for good.
static void drop_preserved(tli_checkpoint_list *l, double now)
{
    if (l->preserved > now) {
        TL_LOG_WARNING(
            "the clock is %.0f s behind the time of the last checkpoint that was kept for good",
            l->preserved - now);
        l->preserved = now;
    }
    for (int64_t i = l->count - 1; i >= 0; i--)
        if (!(l->items[i].time > l->preserved)) tli_checkpoint_list_remove(l, l->items[i].path);
}

tl_status tli_checkpoint_folder_list(tli_checkpoint_list *out, const char *directory,
                                     const char *name)
{
    double now = tli_checkpoint_clock();
    tl_status st = tli_checkpoint_list_read(out, directory, now);
    if (st == TL_ENOTFOUND) {
        tl_error_clear();
        // A little earlier, so that what is saved at once is later.
        *out = (tli_checkpoint_list){.preserved = now - 1};
        return TL_OK;
    }
    if (st == TL_EINVAL || st == TL_ELIMIT) {
        TL_LOG_ERROR("%s; taking the checkpoints that lie in '%s' instead", tl_error_message(),
                     directory);
        tl_error_clear();
        TL_TRY(list_files(out, directory, name));
        return TL_OK;
    }
    TL_TRY(st);
    drop_preserved(out, now);
    return TL_OK;
}
