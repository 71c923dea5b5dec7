#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tilth/base/clock.h>
#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/io/tensorflow/tensorbundle.h>
#include <unistd.h>

#include "base/inner/folder.h"
#include "io/inner/checkpoint_manager.h"

double (*tli_checkpoint_clock)(void) = tl_clock_wall;

enum { TEMP_DIGITS = 16 };

/* Calls `fn` for each name in a directory; one that cannot be read has none, nor one that is a link
 * in the folder of a run. */
typedef tl_status name_fn(DIR *folder, const char *name, void *payload);
static tl_status each_name(const char *directory, name_fn *fn, void *payload)
{
    int fd;
    tl_error before;
    tl_error_save(&before);
    tl_status st = tli_folder_open(&fd, directory);
    if (st == TL_ENOMEM) return st;
    tl_error_restore(&before);
    if (st != TL_OK) return TL_OK;
    DIR *folder = fdopendir(fd);
    if (!folder) {
        close(fd);
        return TL_OK;
    }
    for (struct dirent *e; st == TL_OK && (e = readdir(folder));)
        st = fn(folder, e->d_name, payload);
    closedir(folder);
    return st;
}

/* --- leftovers -------------------------------------------------------------------------------- */

// What stands behind the number of a step: of a file, of an index, or of one of its files.
static bool is_ending(const char *text, size_t length)
{
    static const char piece[] = ".00000-of-00000" TL_CHECKPOINT_SUFFIX;
    const size_t file = strlen(TL_CHECKPOINT_SUFFIX), index = strlen(TL_SAFETENSORS_INDEX);
    if (length == file) return strncmp(text, TL_CHECKPOINT_SUFFIX, file) == 0;
    if (length == index) return strncmp(text, TL_SAFETENSORS_INDEX, index) == 0;
    if (length != sizeof piece - 1) return false;
    for (size_t i = 0; i < length; i++)
        if (piece[i] == '0' ? !isdigit((unsigned char)text[i]) : text[i] != piece[i]) return false;
    return true;
}

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
    size_t timed = strlen("-" TLI_CHECKPOINT_TIMED) - 1;
    if (strncmp(rest, "-" TLI_CHECKPOINT_TIMED, timed + 1) == 0) rest += timed;
    size_t number = *rest == '-' ? strspn(rest + 1, "0123456789") : 0;
    rest += 1 + number;
    return number && is_ending(rest, (size_t)(digits - 1 - rest));
}

/* A file of a divided checkpoint whose index was not written. */
static tl_status remove_orphan(DIR *folder, const char *name, const char *own)
{
    char index[NAME_MAX + 1];
    size_t stem;
    if (!tli_checkpoint_is_piece(name, &stem)) return TL_OK;
    int length = snprintf(index, sizeof index, "%.*s", (int)stem, name);
    if (length >= (int)sizeof index || !tli_checkpoint_is_own(index, own)) return TL_OK;
    length = snprintf(index, sizeof index, "%.*s" TL_SAFETENSORS_INDEX, (int)stem, name);
    if (length >= (int)sizeof index || faccessat(dirfd(folder), index, F_OK, 0) == 0) return TL_OK;
    TL_LOG_INFO("removing '%s', a file of a checkpoint that was not finished", name);
    (void)unlinkat(dirfd(folder), name, 0);
    return TL_OK;
}

static tl_status remove_temp(DIR *folder, const char *name, void *payload)
{
    if (is_temp_of(name, payload, true) || is_temp_of(name, TLI_CHECKPOINT_LIST_NAME, false)) {
        TL_LOG_INFO("removing '%s', which a process that was ended left half-written", name);
        (void)unlinkat(dirfd(folder), name, 0); // it is in nobody's way
    }
    return remove_orphan(folder, name, payload);
}

void tli_checkpoint_folder_sweep(const char *directory, const char *name)
{
    (void)each_name(directory, remove_temp, (void *)(uintptr_t)name);
}

/* --- files of divided checkpoints ------------------------------------------------------------- */

typedef struct pieces {
    const char *item, *suffix; /* no suffix: they are removed */
    char keep[16];             /* what those that stay have behind their number; "": none stays */
} pieces;

static tl_status change_piece(DIR *folder, const char *name, void *payload)
{
    enum { NUMBER = sizeof ".00001" - 1 };
    const pieces *p = payload;
    char aside[NAME_MAX + 1];
    size_t stem;
    if (!tli_checkpoint_is_piece(name, &stem) || strlen(p->item) != stem
        || strncmp(name, p->item, stem) != 0
        || (*p->keep && strncmp(name + stem + NUMBER, p->keep, strlen(p->keep)) == 0))
        return TL_OK;
    int error = p->suffix
                    ? snprintf(aside, sizeof aside, "%s.%s", name, p->suffix) >= (int)sizeof aside
                    : unlinkat(dirfd(folder), name, 0);
    if (p->suffix && !error) error = renameat(dirfd(folder), name, dirfd(folder), aside);
    if (error)
        TL_LOG_WARNING("'%s', a file of a checkpoint that is gone, stays: %s", name,
                       strerror(errno));
    return TL_OK;
}

void tli_checkpoint_remove_pieces(const char *directory, const char *item, int64_t keep)
{
    pieces p = {.item = item};
    if (keep) snprintf(p.keep, sizeof p.keep, "-of-%05d.", (int)keep);
    (void)each_name(directory, change_piece, &p);
}

void tli_checkpoint_rename_pieces(const char *directory, const char *item, const char *suffix)
{
    pieces p = {.item = item, .suffix = suffix};
    (void)each_name(directory, change_piece, &p);
}

/* --- lists ------------------------------------------------------------------------------------ */

typedef struct scan {
    const char *name;
    struct found {
        int64_t number;
        double time;
        bool timed;
    } * items;
    int64_t count, capacity;
} scan;

bool tli_checkpoint_is_timed(const char *item, const char *name)
{
    size_t head = strlen(name);
    return strncmp(item, name, head) == 0
           && strncmp(item + head, "-" TLI_CHECKPOINT_TIMED, strlen("-" TLI_CHECKPOINT_TIMED)) == 0;
}

// NAME-NUMBER.safetensors, or that of an index or a bundle, or of one by time
static bool number_of(struct found *out, const char *file, const char *name)
{
    size_t head = strlen(name);
    if (strncmp(file, name, head) != 0 || file[head] != '-') return false;
    out->timed = tli_checkpoint_is_timed(file, name);
    const char *number = file + head + 1 + (out->timed ? strlen(TLI_CHECKPOINT_TIMED) : 0);
    if (!isdigit((unsigned char)*number)) return false;
    char *end;
    errno = 0;
    out->number = strtoll(number, &end, 10);
    return errno == 0
           && (strcmp(end, TL_CHECKPOINT_SUFFIX) == 0 || strcmp(end, TL_SAFETENSORS_INDEX) == 0
               || strcmp(end, TL_TENSORBUNDLE_SUFFIX) == 0);
}

static tl_status note_file(DIR *folder, const char *name, void *payload)
{
    scan *s = payload;
    struct found found;
    struct stat info;
    if (!number_of(&found, name, s->name) || fstatat(dirfd(folder), name, &info, 0) != 0)
        return TL_OK;
    found.time = (double)info.st_mtim.tv_sec + (double)info.st_mtim.tv_nsec * 1e-9;
    return TL_VEC_PUSH(s, found) ? TL_OK : TL_ENOMEM;
}

static int by_number(const void *a, const void *b)
{
    const struct found *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (int)y->timed - (int)x->timed; // what stays comes last
}

tl_status tli_checkpoint_folder_scan(tli_checkpoint_list *out, const char *directory,
                                     const char *name)
{
    scan s = {.name = name};
    tl_str path = TL_STR_INIT;
    *out = (tli_checkpoint_list){0};
    tl_status st = each_name(directory, note_file, &s);
    if (s.count) qsort(s.items, (size_t)s.count, sizeof *s.items, by_number);
    for (int64_t i = 0; i < s.count && st == TL_OK; i++) {
        const struct found *f = &s.items[i];
        // in several forms
        if (i > 0 && f->number == f[-1].number && f->timed == f[-1].timed) continue;
        tl_str_cut(&path, 0);
        tl_str_addf(&path, "%s-%s%lld", name, f->timed ? TLI_CHECKPOINT_TIMED : "",
                    (long long)f->number);
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
    for (int64_t i = 0; i < l->count; i++)
        if (!(l->items[i].time > l->preserved)) tli_checkpoint_list_drop(l, i);
    tli_checkpoint_list_pack(l);
}

// A run must not begin anew over the checkpoints of another because somebody has lost the file that
// names them.
static tl_status list_unnamed(tli_checkpoint_list *out, const char *directory, const char *name,
                              double now)
{
    TL_TRY(tli_checkpoint_folder_scan(out, directory, name));
    if (out->latest)
        TL_LOG_WARNING("'%s' has checkpoints, but no file '" TLI_CHECKPOINT_LIST_NAME
                       "' that names them: taking those that lie there, the newest being '%s'",
                       directory, out->latest);
    else out->preserved = now - 1; // a little earlier, so that what is saved at once is later
    return TL_OK;
}

tl_status tli_checkpoint_folder_list(tli_checkpoint_list *out, const char *directory,
                                     const char *name)
{
    double now = tli_checkpoint_clock();
    tl_status st = tli_checkpoint_list_read(out, directory, now);
    if (st == TL_ENOTFOUND) {
        tl_error_clear();
        return list_unnamed(out, directory, name, now);
    }
    if (st == TL_EINVAL || st == TL_ELIMIT) {
        TL_LOG_ERROR("%s; taking the checkpoints that lie in '%s' instead", tl_error_message(),
                     directory);
        tl_error_clear();
        TL_TRY(tli_checkpoint_folder_scan(out, directory, name));
        return TL_OK;
    }
    TL_TRY(st);
    drop_preserved(out, now);
    return TL_OK;
}
