#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>
#include <tilth/io/safetensors.h>

#include "board/answer.h"
#include "io/inner/checkpoint.h"
#include "io/inner/json_text.h"

/* --- what lies in the folder of a run --------------------------------------------------------- */

enum {
    LONGEST_PATH = 4700,
    MOST_FILES = 2000,
    LONGEST_LOG = 8 << 20,
    MOST_LINES = 2000,
    LONGEST_REPORT = 8 << 20
};

typedef enum file_kind { FILE_CHECKPOINT, FILE_LOG, FILE_OTHER } file_kind;
static const char *const kind_names[] = {"checkpoint", "log", "other"};

typedef struct file {
    char name[256];
    int64_t size, step; /* -1: the name tells none */
    double time;
    file_kind kind;
    bool best; /* in the folder of the best checkpoint */
} file;
typedef struct files {
    file *items;
    int64_t count, capacity;
} files;

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static file_kind kind_of(const char *name)
{
    if (ends_with(name, ".safetensors") || tli_safetensors_is_index(name)
        || (strstr(name, "ckpt-") && ends_with(name, ".index")))
        return FILE_CHECKPOINT;
    if (strcmp(name, "log.txt") == 0 || ends_with(name, ".log") || strstr(name, ".log."))
        return FILE_LOG;
    return FILE_OTHER;
}

/* "ckpt-120.safetensors", "best_ckpt-7.index", "model_0000999.safetensors". */
static int64_t step_of(const char *name)
{
    const char *at = name + strcspn(name, "0123456789");
    return *at ? strtoll(at, NULL, 10) : -1;
}

static void add_files(files *out, const tli_store *s, int32_t root, const char *path, bool best)
{
    int fd = tli_store_open_folder(s, root, path);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *e;
    if (fd >= 0 && !dir) close(fd);
    while (dir && (e = readdir(dir)) && out->count < MOST_FILES) {
        struct stat info;
        if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0
            || !S_ISREG(info.st_mode))
            continue;
        file f = {.best = best,
                  .size = info.st_size,
                  .time = (double)info.st_mtim.tv_sec,
                  .kind = kind_of(e->d_name)};
        snprintf(f.name, sizeof f.name, "%s", e->d_name);
        f.step = f.kind == FILE_CHECKPOINT ? step_of(f.name) : -1;
        if (!TL_VEC_PUSH(out, f)) break;
    }
    if (dir) closedir(dir);
}

static int by_time(const void *a, const void *b)
{
    const file *p = a, *q = b;
    if (p->best != q->best) return p->best - q->best;
    if (p->step != q->step) return p->step < q->step ? -1 : 1;
    return strcmp(p->name, q->name);
}

/* A checkpoint of TensorFlow is its index and the files "NAME.data-00000-of-00002". */
static void add_pieces(files *all)
{
    static const char middle[] = ".data-", end[] = ".index";
    for (int64_t i = 0; i < all->count; i++) {
        const file *piece = &all->items[i];
        const char *at = strstr(piece->name, middle);
        size_t stem = at ? (size_t)(at - piece->name) : 0;
        for (int64_t k = 0; k < all->count && at; k++) {
            file *f = &all->items[k];
            if (f->kind == FILE_CHECKPOINT && f->best == piece->best
                && strncmp(f->name, piece->name, stem) == 0 && strcmp(f->name + stem, end) == 0)
                f->size += piece->size;
        }
    }
}

typedef struct folder {
    char path[4096]; /* of the run */
    char best[256];  /* the one with the best checkpoint, in it */
    int32_t root;
    files files;
} folder;

/* Lists the files of the run that is asked for; false when the answer is made. */
static bool open_run(folder *out, tli_answer *a, tli_store *s, const tli_request *q)
{
    char best[4400];
    tli_store_lock(s);
    const tli_board_run *r = tli_request_run(a, s, q);
    if (r) {
        snprintf(out->path, sizeof out->path, "%s", r->path);
        snprintf(out->best, sizeof out->best, "%s", r->best_folder ? r->best_folder : "best");
        out->root = r->root;
    }
    tli_store_unlock(s);
    if (!r) return false;
    add_files(&out->files, s, out->root, out->path, false);
    snprintf(best, sizeof best, "%s%s%s", out->path, *out->path ? "/" : "", out->best);
    add_files(&out->files, s, out->root, best, true);
    add_pieces(&out->files);
    if (out->files.count)
        qsort(out->files.items, (size_t)out->files.count, sizeof *out->files.items, by_time);
    return true;
}

static void path_of(char *out, size_t size, const folder *d, const file *f)
{
    snprintf(out, size, "%s%s%s%s%s", d->path, *d->path ? "/" : "", f->best ? d->best : "",
             f->best ? "/" : "", f->name);
}

void tli_answer_files(tli_answer *a, tli_store *s, const tli_request *q)
{
    folder d = {0};
    tli_json j = {.out = &a->body};
    if (!open_run(&d, a, s, q)) return;
    tli_json_begin(&j, NULL, '[');
    for (int64_t i = 0; i < d.files.count; i++) {
        const file *f = &d.files.items[i];
        tli_json_begin(&j, NULL, '{');
        tli_json_text(&j, "name", f->name);
        tli_json_text(&j, "kind", kind_names[f->kind]);
        if (f->best) tli_json_bool(&j, "best", true);
        if (f->step >= 0) tli_json_int(&j, "step", f->step);
        tli_json_int(&j, "size", f->size);
        tli_json_number(&j, "time", f->time);
        tli_json_end(&j, '}');
    }
    tli_json_end(&j, ']');
    TL_VEC_FREE(&d.files);
}

/* --- the log ---------------------------------------------------------------------------------- */

/* The last bytes of a file. */
static char *read_tail(size_t *size, const tli_store *s, const folder *d, const file *f)
{
    char path[LONGEST_PATH];
    struct stat info;
    path_of(path, sizeof path, d, f);
    int fd = tli_store_open(s, d->root, path);
    char *data = fd >= 0 ? tl_alloc(LONGEST_LOG + 1) : NULL;
    *size = 0;
    if (data && fstat(fd, &info) == 0) {
        off_t from = info.st_size > LONGEST_LOG ? info.st_size - LONGEST_LOG : 0;
        ssize_t got = pread(fd, data, LONGEST_LOG, from);
        *size = got > 0 ? (size_t)got : 0;
        for (size_t i = 0; i < *size; i++)
            if (!data[i]) data[i] = ' ';
        data[*size] = '\0';
    }
    if (fd >= 0) close(fd);
    return data;
}

/* The last lines that have the text in them. */
static void add_lines(tli_json *j, char *data, const char *search)
{
    struct {
        const char **items;
        int64_t count, capacity;
    } found = {0};
    for (char *line = data; *line;) {
        size_t length = strcspn(line, "\n");
        bool last = !line[length];
        line[length] = '\0';
        if ((!*search || strcasestr(line, search)) && !TL_VEC_PUSH(&found, (const char *)line))
            break;
        line += length + !last;
    }
    tli_json_int(j, "found", found.count);
    tli_json_begin(j, "lines", '[');
    for (int64_t i = found.count > MOST_LINES ? found.count - MOST_LINES : 0; i < found.count; i++)
        tli_json_text(j, NULL, found.items[i]);
    tli_json_end(j, ']');
    TL_VEC_FREE(&found);
}

void tli_answer_log(tli_answer *a, tli_store *s, const tli_request *q)
{
    const char *name = tli_request_text(q, "file", "");
    folder d = {0};
    tli_json j = {.out = &a->body};
    char *data = NULL;
    size_t size = 0;
    if (!open_run(&d, a, s, q)) return;
    for (int64_t i = 0; i < d.files.count && !data; i++)
        if (d.files.items[i].kind == FILE_LOG && strcmp(d.files.items[i].name, name) == 0)
            data = read_tail(&size, s, &d, &d.files.items[i]);
    if (data) {
        tli_json_begin(&j, NULL, '{');
        tli_json_bool(&j, "tail", size == LONGEST_LOG);
        add_lines(&j, data, tli_request_text(q, "search", ""));
        tli_json_end(&j, '}');
    } else {
        tli_answer_fail(a, 404, "there is no such log");
    }
    tl_free(data);
    TL_VEC_FREE(&d.files);
}

/* --- what the newest checkpoint holds --------------------------------------------------------- */

static void add_weights(tli_json *j, const tl_safetensors *f)
{
    tli_json_begin(j, "weights", '[');
    for (int64_t i = 0; i < tl_safetensors_count(f); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(f, i);
        if (strncmp(e->name, "model/", 6) != 0) continue;
        tli_json_begin(j, NULL, '{');
        tli_json_text(j, "name", e->name + 6);
        tli_json_text(j, "type", e->type);
        tli_json_begin(j, "dims", '[');
        for (int k = 0; k < e->rank; k++) tli_json_int(j, NULL, e->dims[k]);
        tli_json_end(j, ']');
        tli_json_end(j, '}');
    }
    tli_json_end(j, ']');
}

/* A file beside another one. */
typedef struct beside {
    const tli_store *store;
    const folder *folder;
    const file *file;
} beside;

static tl_status map_beside(tl_file_mapping *out, const char *name, void *payload)
{
    const beside *b = payload;
    file named = {.best = b->file->best};
    char path[LONGEST_PATH];
    snprintf(named.name, sizeof named.name, "%s", name);
    path_of(path, sizeof path, b->folder, &named);
    int fd = tli_store_open(b->store, b->folder->root, path);
    if (fd < 0) return TL_FAIL(TL_ENOTFOUND, "there is no file '%.200s'", name);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    tl_status st = tl_file_map(out, path);
    close(fd);
    return st;
}

static tl_safetensors *open_weights(const tli_store *s, const folder *d, const file *f)
{
    enum { LONGEST_INDEX = 16 << 20 };
    beside b = {s, d, f};
    tl_safetensors *opened = NULL;
    tl_file_mapping mapping;
    char path[LONGEST_PATH];
    size_t size;
    if (!tli_safetensors_is_index(f->name)) {
        if (map_beside(&mapping, f->name, &b) != TL_OK) return NULL;
        return tli_safetensors_open(&opened, f->name, &mapping) == TL_OK ? opened : NULL;
    }
    path_of(path, sizeof path, d, f);
    char *text = tli_store_read(&size, s, d->root, path, LONGEST_INDEX);
    if (text
        && tli_safetensors_open_index(&opened, f->name, text, size,
                                      &(tli_st_index_args){.map = map_beside, .payload = &b})
               != TL_OK)
        opened = NULL;
    tl_free(text);
    return opened;
}

/* One of the files of a divided checkpoint is none by itself. */
static bool has_weights(const file *f)
{
    size_t stem;
    return f->kind == FILE_CHECKPOINT && !tli_checkpoint_is_piece(f->name, &stem)
           && (ends_with(f->name, ".safetensors") || tli_safetensors_is_index(f->name));
}

void tli_answer_weights(tli_answer *a, tli_store *s, const tli_request *q)
{
    folder d = {0};
    tli_json j = {.out = &a->body};
    const file *newest = NULL;
    if (!open_run(&d, a, s, q)) return;
    for (int64_t i = 0; i < d.files.count; i++) {
        const file *f = &d.files.items[i];
        if (has_weights(f) && (!newest || f->step > newest->step)) newest = f;
    }
    tl_safetensors *f = newest ? open_weights(s, &d, newest) : NULL;
    tli_json_begin(&j, NULL, '{');
    if (f) {
        tli_json_text(&j, "checkpoint", newest->name);
        add_weights(&j, f);
    }
    tli_json_end(&j, '}');
    tl_safetensors_free(&f);
    TL_VEC_FREE(&d.files);
}

/* --- what `eval --page` and `explain --trace` have left there --------------------------------- */

void tli_answer_reports(tli_answer *a, tli_store *s, const tli_request *q)
{
    static const char *const names[] = {"confusion.json", "mistakes.json", "trace.json"};
    folder d = {0};
    tli_json j = {.out = &a->body};
    if (!open_run(&d, a, s, q)) return;
    tli_json_begin(&j, NULL, '{');
    for (int64_t i = 0; i < d.files.count; i++)
        for (int k = 0; k < TL_COUNT(names); k++) {
            const file *f = &d.files.items[i];
            char path[LONGEST_PATH];
            size_t size;
            if (f->best || strcmp(f->name, names[k]) != 0 || f->size > LONGEST_REPORT) continue;
            path_of(path, sizeof path, &d, f);
            char *text = tli_store_read(&size, s, d.root, path, LONGEST_REPORT);
            if (text) tli_json_text(&j, names[k], text); // whether it is JSON, the page sees
            tl_free(text);
        }
    tli_json_end(&j, '}');
    TL_VEC_FREE(&d.files);
}
