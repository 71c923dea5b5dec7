#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <tilth/base/file.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>

#include "base/inner/utf8.h"
#include "data/image_folder_impl.h"

typedef struct name_list {
    const char **items;
    int64_t count, capacity;
} name_list;
typedef struct passed_list {
    tl_passed_files *items;
    int64_t count, capacity;
} passed_list;

/* A folder while it is listed. */
typedef struct listing {
    const tl_image_folder_args *args;
    tl_arena *arena;
    tl_image_folder *out;
    tli_image_files files;
    name_list classes, empty, missing;
    passed_list passed;
} listing;

/* --- what lies in a folder -------------------------------------------------------------------- */

static tl_status unreadable(const char *path)
{
    return TL_FAIL(errno == ENOENT ? TL_ENOTFOUND : TL_EIO, "'%s' cannot be read: %s", path,
                   strerror(errno));
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Whether an entry is a folder; links are followed, and lead to files when they lead nowhere.
static bool is_folder(const struct dirent *e, const char *path)
{
    if (e->d_type == DT_DIR) return true;
    return (e->d_type == DT_UNKNOWN || e->d_type == DT_LNK) && tl_dir_exists(path);
}

static tl_status read_entries(DIR *dir, name_list *into, tl_arena *arena, const char *folder,
                              bool folders)
{
    for (struct dirent *e; (errno = 0, e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        const char *path = tl_path_join(arena, folder, e->d_name);
        if (!path) return TL_ENOMEM;
        if (is_folder(e, path) == folders && !TL_VEC_PUSH(into, path)) return TL_ENOMEM;
    }
    return errno ? unreadable(folder) : TL_OK;
}

// Paths of the folders in a folder, or of all else, sorted by bytes.
static tl_status read_folder(name_list *into, tl_arena *arena, const char *folder, bool folders)
{
    DIR *dir = opendir(folder);
    if (!dir) return unreadable(folder);
    tl_status st = read_entries(dir, into, arena, folder, folders);
    closedir(dir);
    if (into->count) qsort(into->items, (size_t)into->count, sizeof *into->items, by_bytes);
    return st;
}

/* --- files ------------------------------------------------------------------------------------ */

static bool is_image(const char *path)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    size_t length = strlen(path);
    for (int64_t i = 0; i < TL_COUNT(endings); i++) {
        size_t n = strlen(endings[i]);
        if (length > n && strcasecmp(path + length - n, endings[i]) == 0) return true;
    }
    return false;
}

static tl_status pass_over(listing *l, const char *path)
{
    const char *dot = strrchr(tl_path_basename(path), '.');
    const char *ending = dot ? dot : "";
    for (int64_t i = 0; i < l->passed.count; i++)
        if (strcasecmp(l->passed.items[i].ending, ending) == 0) {
            l->passed.items[i].count++;
            return TL_OK;
        }
    return TL_VEC_PUSH(&l->passed, (tl_passed_files){ending, 1}) ? TL_OK : TL_ENOMEM;
}

static tl_status add_files(listing *l, const name_list *found, int64_t label)
{
    for (int64_t i = 0; i < found->count; i++) {
        if (!is_image(found->items[i])) TL_TRY(pass_over(l, found->items[i]));
        else if (!TL_VEC_PUSH(&l->files, (tl_image_file){.path = found->items[i], .label = label}))
            return TL_ENOMEM;
    }
    return TL_OK;
}

// `label` is the number that the class has, or gets when it has images.
static tl_status add_class(listing *l, const char *path, int64_t label)
{
    name_list found = {0};
    int64_t before = l->files.count;
    tl_status st = read_folder(&found, l->arena, path, false);
    if (st == TL_OK) st = add_files(l, &found, label);
    TL_VEC_FREE(&found);
    TL_TRY(st);
    bool empty = l->files.count == before;
    if (empty && !TL_VEC_PUSH(&l->empty, path)) return TL_ENOMEM;
    if (empty || l->args->classes.count) return TL_OK;
    return TL_VEC_PUSH(&l->classes, tl_path_basename(path)) ? TL_OK : TL_ENOMEM;
}

/* --- classes ---------------------------------------------------------------------------------- */

static void add_known(tl_str *out, tl_strings names)
{
    enum { MOST = 20 };
    for (int64_t i = 0; i < names.count && i < MOST; i++)
        tl_str_addf(out, "%s%s", i ? ", " : "", names.items[i]);
    if (names.count > MOST) tl_str_addf(out, " and %" PRId64 " more", names.count - MOST);
}

static tl_status unknown_class(const char *path, tl_strings names)
{
    tl_str known = TL_STR_INIT;
    add_known(&known, names);
    tl_status st = TL_FAIL(TL_EINVAL,
                           "the folder '%s' is no class: there are %s. Another name for one of "
                           "them, or a class that was not trained?",
                           path, tl_str_text(&known));
    tl_str_deinit(&known);
    return st;
}

// Which folder each class has: none, to begin with.
static tl_status put_names(listing *l, tl_map *by_name)
{
    tl_strings names = l->args->classes;
    for (int64_t i = 0; i < names.count; i++) {
        if (tl_map_has(by_name, names.items[i]))
            return TL_FAIL(TL_EINVAL, "the class '%s' stands twice in the list of classes",
                           names.items[i]);
        TL_TRY(tl_map_set(by_name, names.items[i], NULL));
        char *copy = tl_arena_strdup(l->arena, names.items[i]);
        if (!copy || !TL_VEC_PUSH(&l->classes, copy)) return TL_ENOMEM;
    }
    return TL_OK;
}

// A folder that is in no list is nothing as long as it holds no image.
static tl_status add_unlisted(listing *l, const char *path)
{
    int64_t before = l->files.count;
    TL_TRY(add_class(l, path, 0));
    return l->files.count == before ? TL_OK : unknown_class(path, l->args->classes);
}

static tl_status put_folders(listing *l, tl_map *by_name, const name_list *folders)
{
    for (int64_t i = 0; i < folders->count; i++) {
        const char *path = folders->items[i], *name = tl_path_basename(path);
        if (tl_map_has(by_name, name)) TL_TRY(tl_map_set(by_name, name, (void *)(uintptr_t)path));
        else TL_TRY(add_unlisted(l, path));
    }
    return TL_OK;
}

// Folders in the order of the list, so that files stand class after class.
static tl_status add_listed(listing *l, const name_list *folders)
{
    tl_map by_name = TL_MAP_INIT;
    tl_status st = put_names(l, &by_name);
    if (st == TL_OK) st = put_folders(l, &by_name, folders);
    for (int64_t i = 0; i < tl_map_count(&by_name) && st == TL_OK; i++) {
        const char *path = tl_map_at(&by_name, i);
        if (path) st = add_class(l, path, i);
        else if (!TL_VEC_PUSH(&l->missing, l->classes.items[i])) st = TL_ENOMEM;
    }
    tl_map_deinit(&by_name);
    return st;
}

// Names stand in lists, one a line, and in files of YAML and JSON.
static tl_status check_name(const char *path)
{
    const char *name = tl_path_basename(path);
    if (strchr(name, '\n'))
        return TL_FAIL(TL_EINVAL, "'%s': the name of a class has no line break", path);
    for (int length; *name; name += length)
        if (!(length = tli_utf8_length(name)))
            return TL_FAIL(
                TL_EINVAL,
                "'%s': the name of a class is UTF-8, and this folder's is not: rename it", path);
    return TL_OK;
}

static tl_status add_sorted(listing *l, const name_list *folders)
{
    for (int64_t i = 0; i < folders->count; i++) {
        int64_t before = l->classes.count;
        TL_TRY(add_class(l, folders->items[i], before));
        if (l->classes.count > before) TL_TRY(check_name(folders->items[i]));
    }
    return TL_OK;
}

static tl_status add_classes(listing *l)
{
    const char *path = l->args->path;
    name_list folders = {0};
    tl_status st = read_folder(&folders, l->arena, path, true);
    if (st == TL_OK && !folders.count)
        st = TL_FAIL(
            TL_EINVAL,
            "'%s' holds no folder: a folder of images has one for each class, named after it",
            path);
    if (st == TL_OK)
        st = l->args->classes.count ? add_listed(l, &folders) : add_sorted(l, &folders);
    TL_VEC_FREE(&folders);
    TL_TRY(st);
    if (l->files.count) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "'%s' holds no image: no file in its folders ends in .jpg, .jpeg or .png", path);
}

/* --- all of it -------------------------------------------------------------------------------- */

static tl_status check_path(const tl_image_folder_args *args)
{
    tl_file_info info;
    TL_TRY(tl_file_stat(&info, args->path));
    if (!info.exists)
        return TL_FAIL(TL_ENOTFOUND, "the folder of images '%s' does not exist", args->path);
    if (!info.is_dir)
        return TL_FAIL(TL_EINVAL, "'%s' is no folder; a folder of images is wanted", args->path);
    if (args->holdout >= 0 && args->holdout < 1) return TL_OK;
    return TL_FAIL(TL_EINVAL, "holdout is %g; a share from 0 to less than 1 is held out",
                   args->holdout);
}

static tl_status read_and_split(listing *l)
{
    const tl_image_folder_args *args = l->args;
    if (!args->check && !(args->holdout > 0)) return TL_OK;
    TL_TRY(tli_image_files_read(&l->files, l->out, l->arena, args));
    if (!l->files.count) return TL_FAIL(TL_EINVAL, "'%s': not one image can be read", args->path);
    if (!(args->holdout > 0)) return TL_OK;
    tli_image_files_split(&l->files, args);
    if (l->files.count) return TL_OK;
    return TL_FAIL(TL_EINVAL, "'%s': holdout %g leaves no image for %s; there are too few",
                   args->path, args->holdout,
                   args->part == TL_HOLDOUT_VALIDATION ? "validation" : "training");
}

// A copy in the arena; NULL of nothing.
static void *kept(tl_arena *arena, const void *items, int64_t count, size_t size, tl_status *st)
{
    if (*st != TL_OK || !count) return NULL;
    void *copy = tl_arena_copy(arena, items, (size_t)count * size);
    if (!copy) *st = TL_ENOMEM;
    return copy;
}
#define KEPT(l, list, st)                                                                          \
    kept((l)->arena, (l)->list.items, (l)->list.count, sizeof *(l)->list.items, st)

static tl_status give(listing *l)
{
    tl_image_folder *out = l->out;
    tl_status st = TL_OK;
    out->path = tl_arena_strdup(l->arena, l->args->path);
    int64_t *counts = tl_arena_array(l->arena, l->classes.count, sizeof *counts);
    if (!out->path || !counts) return TL_ENOMEM;
    out->classes = KEPT(l, classes, &st);
    out->class_count = l->classes.count;
    out->empty = (tl_strings){KEPT(l, empty, &st), l->empty.count};
    out->missing = (tl_strings){KEPT(l, missing, &st), l->missing.count};
    out->passed = KEPT(l, passed, &st);
    out->passed_count = l->passed.count;
    out->files = KEPT(l, files, &st);
    out->count = l->files.count;
    TL_TRY(st);
    for (int64_t i = 0; i < out->count; i++) counts[out->files[i].label]++;
    out->counts = counts;
    return TL_OK;
}

tl_status tl_image_folder_list(tl_image_folder *out, tl_arena *arena,
                               const tl_image_folder_args *args)
{
    listing l = {.args = args, .arena = arena, .out = out};
    tl_status st;
    *out = (tl_image_folder){0};
    TL_TRY(check_path(args));
    TL_TRY_DONE(st, add_classes(&l));
    TL_TRY_DONE(st, read_and_split(&l));
    st = give(&l);
done:
    if (st != TL_OK) *out = (tl_image_folder){0};
    TL_VEC_FREE(&l.files);
    TL_VEC_FREE(&l.classes);
    TL_VEC_FREE(&l.empty);
    TL_VEC_FREE(&l.missing);
    TL_VEC_FREE(&l.passed);
    return st;
}

/* --- what is told ----------------------------------------------------------------------------- */

static void note_passed(tl_str *out, const tl_image_folder *f)
{
    int64_t all = 0;
    if (!f->passed_count) return;
    tl_str_addf(out, "'%s': ", f->path);
    for (int64_t i = 0; i < f->passed_count; i++) {
        const tl_passed_files *p = &f->passed[i];
        all += p->count;
        tl_str_addf(out, "%s%" PRId64 " %s", i ? ", " : "", p->count,
                    *p->ending ? p->ending : "without an ending");
    }
    tl_str_addf(out, " %s not read: .jpg, .jpeg and .png are\n", all == 1 ? "is" : "are");
}

static void note_bad(tl_str *out, const tl_image_folder *f)
{
    enum { MOST = 5 };
    if (!f->bad_count) return;
    tl_str_addf(out, "'%s': %" PRId64 " image%s cannot be read and %s left out: ", f->path,
                f->bad_count, f->bad_count == 1 ? "" : "s", f->bad_count == 1 ? "is" : "are");
    for (int64_t i = 0; i < f->bad_count && i < MOST; i++)
        tl_str_addf(out, "%s'%s' (%s)", i ? ", " : "", f->bad[i].path, f->bad[i].why);
    if (f->bad_count > MOST) tl_str_addf(out, " and %" PRId64 " more", f->bad_count - MOST);
    tl_str_addc(out, '\n');
}

void tl_image_folder_notes(tl_str *out, const tl_image_folder *f)
{
    for (int64_t i = 0; i < f->empty.count; i++)
        tl_str_addf(out, "the class folder '%s' holds no image\n", f->empty.items[i]);
    for (int64_t i = 0; i < f->missing.count; i++)
        tl_str_addf(out, "'%s' has no folder for the class '%s'\n", f->path, f->missing.items[i]);
    note_passed(out, f);
    note_bad(out, f);
}
