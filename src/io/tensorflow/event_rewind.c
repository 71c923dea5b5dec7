#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <tilth/base/crc32c.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "base/inner/file_io.h"
#include "base/inner/folder.h"
#include "io/inner/append.h"
#include "io/tensorflow/event_impl.h"

enum { DEEPEST_FOLDER = 32 };

/* --- frames ----------------------------------------------------------------------------------- */

// A machine that stopped may leave zeros where data was to come.
static bool all_zero(const char *at, const char *end)
{
    while (at < end && *at == 0) at++;
    return at == end;
}

static bool crc_fits(const char *data, size_t size, const char *stored)
{
    return tl_crc32c_mask(tl_crc32c(0, data, size)) == tli_get_u32(stored);
}

tli_frame_kind tli_frame_next(tli_frame *out, const char **at, const char *end, bool check)
{
    const char *start = *at;
    size_t left = (size_t)(end - start);
    if (left == 0) return TLI_FRAME_END;
    if (left < TLI_FRAME_HEAD) return TLI_FRAME_CUT;
    if (!crc_fits(start, 8, start + 8))
        return all_zero(start, end) ? TLI_FRAME_CUT : TLI_FRAME_DAMAGED;
    uint64_t size = tli_get_u64(start);
    if (size > left - TLI_FRAME_HEAD || left - TLI_FRAME_HEAD - size < TLI_FRAME_TAIL)
        return TLI_FRAME_CUT;
    const char *data = start + TLI_FRAME_HEAD;
    if (check && !crc_fits(data, (size_t)size, data + size)) return TLI_FRAME_DAMAGED;
    *out = (tli_frame){start, data, (size_t)size};
    *at = data + size + TLI_FRAME_TAIL;
    return TLI_FRAME;
}

bool tli_field_is(const tli_pb_field *f, const char *text)
{
    return f->wire == TLI_PB_BYTES && f->size == strlen(text)
           && memcmp(f->data, text, f->size) == 0;
}

/* --- one file --------------------------------------------------------------------------------- */

/* A file that is looked through. */
typedef struct rewinding {
    const char *path;
    int64_t keep_to;
    tl_map *there; /* may be NULL */
    int64_t kept;  /* events that say something */
    int64_t dropped;
    bool ours, damaged, cut;
} rewinding;

static int64_t step_of(const tli_frame *frame)
{
    tli_pb in = {frame->data, frame->data + frame->size, false};
    tli_pb_field f;
    int64_t step = 0; // the last one counts
    while (tli_pb_next(&in, &f))
        if (f.number == TLI_EVENT_STEP && f.wire == TLI_PB_VARINT) step = (int64_t)f.bits;
    return step;
}

// Calls fn for the tag of each value until one says true; that is handed back.
static bool find_tag(const tli_frame *frame, bool (*fn)(const tli_pb_field *tag, void *payload),
                     void *payload)
{
    tli_pb event = {frame->data, frame->data + frame->size, false};
    tli_pb_field e, v, t;
    while (tli_pb_next(&event, &e)) {
        if (e.number != TLI_EVENT_SUMMARY || e.wire != TLI_PB_BYTES) continue;
        tli_pb summary = {e.data, e.data + e.size, false};
        while (tli_pb_next(&summary, &v)) {
            if (v.number != 1 || v.wire != TLI_PB_BYTES) continue;
            tli_pb value = {v.data, v.data + v.size, false};
            while (tli_pb_next(&value, &t))
                if (t.number == TLI_VALUE_TAG && t.wire == TLI_PB_BYTES && fn(&t, payload))
                    return true;
        }
    }
    return false;
}

static bool is_run_end(const tli_pb_field *tag, void *payload)
{
    (void)payload;
    return tli_field_is(tag, TLI_HPARAMS_END);
}

typedef struct tag_note {
    tl_map *there;
    tl_status status;
} tag_note;

static bool note_tag(const tli_pb_field *tag, void *payload)
{
    tag_note *note = payload;
    tl_str name = TL_STR_INIT;
    tl_str_addn(&name, tag->data, tag->size);
    note->status = tl_str_status(&name);
    if (note->status == TL_OK) note->status = tl_map_set(note->there, tl_str_text(&name), NULL);
    tl_str_deinit(&name);
    return note->status != TL_OK;
}

// The first event says who wrote the file.
static bool is_ours(const tli_frame *frame)
{
    tli_pb in = {frame->data, frame->data + frame->size, false};
    tli_pb_field f, w;
    while (tli_pb_next(&in, &f)) {
        if (f.number != TLI_EVENT_SOURCE || f.wire != TLI_PB_BYTES) continue;
        tli_pb source = {f.data, f.data + f.size, false};
        while (tli_pb_next(&source, &w))
            if (w.number == 1 && tli_field_is(&w, TLI_EVENT_WRITER)) return true;
    }
    return false;
}

static bool says_nothing(const tli_frame *frame)
{
    tli_pb in = {frame->data, frame->data + frame->size, false};
    tli_pb_field f;
    while (tli_pb_next(&in, &f))
        if (f.number == TLI_EVENT_SUMMARY) return false;
    return true;
}

// Whether the event stays. A run that goes on has not ended.
static bool stays(const rewinding *r, const tli_frame *frame)
{
    return step_of(frame) <= r->keep_to && !find_tag(frame, is_run_end, NULL);
}

/* Looks at all frames; `to` NULL only counts them. */
static tl_status pass(rewinding *r, const tl_file_mapping *file, tl_file_writer *to)
{
    const char *at = file->data, *end = file->data + file->size;
    tli_frame frame;
    tli_frame_kind kind;
    bool first = true;
    while ((kind = tli_frame_next(&frame, &at, end, false)) == TLI_FRAME) {
        if (first && !(r->ours = is_ours(&frame))) return TL_OK;
        bool keep = first || stays(r, &frame);
        first = false;
        if (to && keep) TL_TRY(tl_file_writer_write(to, frame.start, (size_t)(at - frame.start)));
        if (to) continue;
        if (!keep) r->dropped++;
        else if (!says_nothing(&frame)) r->kept++;
        if (keep && r->there && step_of(&frame) == r->keep_to) {
            tag_note note = {r->there, TL_OK};
            find_tag(&frame, note_tag, &note);
            TL_TRY(note.status);
        }
    }
    r->damaged = kind == TLI_FRAME_DAMAGED;
    r->cut = kind == TLI_FRAME_CUT;
    return TL_OK;
}

static tl_status rewrite(rewinding *r, const tl_file_mapping *file)
{
    tl_file_writer *w = NULL;
    tl_status st;
    TL_TRY_DONE(st, tl_file_writer_begin(&w, r->path));
    TL_TRY_DONE(st, pass(r, file, w));
    st = tl_file_writer_commit(&w);
done:
    tl_file_writer_abort(&w);
    return st;
}

// The newest file of a folder stays even when nothing is left in it: whoever was reading it goes on
// to files whose names come after its own. `seen` is the file, no link: what has got its name since
// is left alone.
static tl_status rewind_file(const char *path, const struct stat *seen, int64_t keep_to,
                             bool newest, tl_map *there)
{
    rewinding r = {.path = path, .keep_to = keep_to, .there = there};
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    if (tli_append_is_locked(path)) {
        TL_LOG_DEBUG("'%s' is being written and stays as it is", path);
        return TL_OK;
    }
    tl_status st;
    TL_TRY_DONE(st, tl_file_map(&file, path));
    if (file.size
        && (file.device != (uint64_t)seen->st_dev || file.inode != (uint64_t)seen->st_ino))
        goto done;
    TL_TRY_DONE(st, pass(&r, &file, NULL));
    if (!r.ours) goto done;
    if (r.damaged)
        TL_LOG_WARNING("'%s' is damaged; what follows the damage is left out of it", path);
    if (r.kept == 0 && !newest) st = tl_file_remove(path);
    else if (r.dropped || r.damaged || r.cut) st = rewrite(&r, &file);
done:
    tl_file_unmap(&file);
    return st;
}

/* --- folders ---------------------------------------------------------------------------------- */

typedef struct names {
    char **items;
    int64_t count, capacity;
} names;

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// The names in a folder but "." and "..", sorted, in the arena. A folder that is not there has
// none.
static tl_status list(names *out, tl_arena *arena, const char *folder)
{
    DIR *dir;
    tl_status st = tli_folder_list(&dir, folder);
    if (st != TL_OK || !dir) return st;
    int64_t capacity = 0;
    const struct dirent *entry;
    while (st == TL_OK && (errno = 0, entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (out->count == capacity) {
            int64_t wider = capacity ? capacity * 2 : 16;
            char **items = tl_arena_array(arena, wider, sizeof *items);
            if (items && capacity) memcpy(items, out->items, (size_t)capacity * sizeof *items);
            if (items) out->items = items;
            st = items ? TL_OK : TL_ENOMEM;
            capacity = wider;
        }
        char *name = st == TL_OK ? tl_arena_strdup(arena, entry->d_name) : NULL;
        if (name) out->items[out->count++] = name;
        else st = TL_ENOMEM;
    }
    if (st == TL_OK && errno != 0) st = TLI_FAIL_SYSTEM(errno, "search the directory", folder);
    closedir(dir);
    if (st == TL_OK && out->count)
        qsort(out->items, (size_t)out->count, sizeof *out->items, by_bytes);
    return st;
}

static bool is_event_file(const char *name)
{
    return strncmp(name, "events.out.tfevents.", 20) == 0;
}

static tl_status rewind_folder(tl_arena *arena, const char *folder, int64_t keep_to, int depth,
                               tl_map *there)
{
    names found = {0};
    TL_TRY(list(&found, arena, folder));
    int64_t newest = found.count - 1;
    while (newest >= 0 && !is_event_file(found.items[newest])) newest--;
    for (int64_t i = 0; i < found.count; i++) {
        struct stat info;
        char *path = tl_path_join(arena, folder, found.items[i]);
        if (!path) return TL_ENOMEM;
        if (lstat(path, &info) != 0) continue; // gone meanwhile
        if (S_ISREG(info.st_mode) && is_event_file(found.items[i])) {
            tl_status st = rewind_file(path, &info, keep_to, i == newest, there);
            if (st == TL_ENOTFOUND) continue;
            TL_TRY_NOTE(st, "taking the steps after %lld out of '%s'", (long long)keep_to, path);
        } else if (S_ISDIR(info.st_mode) && depth > 0) {
            TL_TRY(rewind_folder(arena, path, keep_to, depth - 1, NULL));
        }
    }
    return TL_OK;
}

tl_status tli_event_rewind(const char *folder, int64_t keep_to, bool deep, tl_map *there)
{
    tl_arena *arena = NULL;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = rewind_folder(arena, folder, keep_to, deep ? DEEPEST_FOLDER : 0, there);
    tl_arena_free(&arena);
    return st;
}

tl_status tl_event_folder_rewind(const char *folder, int64_t keep_to, bool deep)
{
    return tli_event_rewind(folder, keep_to, deep, NULL);
}

tl_status tli_event_newest(int64_t *out, const char *folder)
{
    tl_arena *arena = NULL;
    names found = {0};
    *out = 0;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = list(&found, arena, folder);
    for (int64_t i = 0; i < found.count && st == TL_OK; i++) {
        if (!is_event_file(found.items[i])) continue;
        int64_t time = strtoll(found.items[i] + 20, NULL, 10);
        if (time > *out && time < INT64_C(9999999999)) *out = time;
    }
    tl_arena_free(&arena);
    return st;
}
