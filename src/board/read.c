#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/vec.h>

#include "board/store.h"
#include "io/inner/event_scan.h"

/* --- event files, as they grow ---------------------------------------------------------------- */

/* Longer records are passed over: the graph of a large model may be one, and is not shown. */
enum { LONGEST_RECORD = 64 << 20 };

typedef struct reading {
    tli_store *s;
    tli_board_run *r;
    tli_followed *f;
    bool failed; /* no memory */
} reading;

static tli_tag_kind kind_of(const tli_scan_value *v)
{
    static const struct {
        const char *plugin;
        tli_tag_kind kind;
    } kinds[] = {{"scalars", TLI_TAG_NUMBER},
                 {"images", TLI_TAG_IMAGE},
                 {"histograms", TLI_TAG_HISTOGRAM},
                 {"text", TLI_TAG_TEXT}};
    for (int i = 0; i < TL_COUNT(kinds); i++)
        if (v->plugin_size == strlen(kinds[i].plugin)
            && memcmp(v->plugin, kinds[i].plugin, v->plugin_size) == 0)
            return kinds[i].kind;
    return TLI_TAG_OTHER;
}

/* Every second one goes; the last one stays. */
static void thin_media(tli_tag *t)
{
    int64_t kept = 0;
    for (int64_t i = t->media.count % 2 == 0; i < t->media.count; i += 2)
        t->media.items[kept++] = t->media.items[i];
    t->media.count = kept;
}

static bool add_medium(reading *g, tli_tag *t, const tli_scan_value *v)
{
    tli_medium m = {.step = v->step,
                    .time = v->wall_time,
                    .offset = g->f->offset + (int64_t)v->at,
                    .file = (int32_t)(g->f - g->r->files.items)};
    if (t->media.count >= TLI_MOST_MEDIA) thin_media(t);
    return TL_VEC_PUSH(&t->media, m);
}

static bool take_value(const tli_scan_value *v, void *payload)
{
    reading *g = payload;
    tli_board_run *r = g->r;
    int32_t last = g->f->last_tag;
    int32_t guess = last >= 0 ? r->tags.items[last].next : -1;
    int32_t place = tli_run_tag(r, g->f->part, v->tag, v->tag_size, guess);
    if (place < 0) return true;
    if (last >= 0) r->tags.items[last].next = place;
    g->f->last_tag = place;
    tli_tag *t = &r->tags.items[place];
    // Only the first value of a tag need say what it is.
    if (t->kind == TLI_TAG_OTHER) t->kind = kind_of(v);
    if (t->kind == TLI_TAG_NUMBER && v->is_number) {
        r->has_events = true;
        if (v->step > r->step) r->step = v->step;
        if (v->wall_time > r->now) r->now = v->wall_time;
        if (r->began == 0 || v->wall_time < r->began) r->began = v->wall_time;
        if (!tli_store_add(g->s, r, place, &(tli_point){v->step, v->wall_time, v->number}))
            g->failed = true;
    } else if (t->kind != TLI_TAG_NUMBER && t->kind != TLI_TAG_OTHER) {
        g->failed |= !add_medium(g, t, v);
    }
    return !g->failed;
}

/* What the part said of this step and of later ones is void, as TensorBoard has it. */
static bool take_start(int64_t step, void *payload)
{
    reading *g = payload;
    for (int64_t i = 0; i < g->r->tags.count; i++) {
        tli_tag *t = &g->r->tags.items[i];
        int64_t kept = 0, before = t->series.points;
        if (t->part != g->f->part || t->from_lines) continue;
        tli_series_cut(&t->series, step);
        g->s->points += t->series.points - before;
        for (int64_t k = 0; k < t->media.count; k++)
            if (t->media.items[k].step < step) t->media.items[kept++] = t->media.items[k];
        t->media.count = kept;
    }
    return true;
}

/* Those who ask go first. */
static void let_others(const tli_store *s)
{
    for (int i = 0; i < 200 && atomic_load(&s->waiting) > 0; i++)
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

/* Walks what was read; false when it cannot be gone on. */
static bool walk_bytes(reading *g, const char *bytes, size_t size, size_t *used)
{
    static const tli_scan_calls calls = {take_value, take_start};
    tli_followed *f = g->f;
    let_others(g->s);
    tli_store_lock(g->s);
    f->damaged = tli_event_scan(used, bytes, size, &calls, g) == TLI_SCAN_DAMAGED;
    f->offset += (int64_t)*used;
    g->s->bytes_read += (int64_t)*used;
    tli_store_unlock(g->s);
    return !f->damaged && !g->failed;
}

/* A record that is longer than a stretch: read as a whole when it is all there. */
static bool read_long(reading *g, int fd, uint64_t size)
{
    tli_followed *f = g->f;
    size_t used = 0;
    if (size > (uint64_t)(f->size - f->offset)) return false;
    if (size > LONGEST_RECORD) {
        tli_store_lock(g->s);
        f->offset += (int64_t)size;
        g->s->bytes_read += (int64_t)size;
        tli_store_unlock(g->s);
        return true;
    }
    char *bytes = tl_alloc((size_t)size);
    bool good = bytes && pread(fd, bytes, (size_t)size, (off_t)f->offset) == (ssize_t)size
                && walk_bytes(g, bytes, (size_t)size, &used);
    tl_free(bytes);
    return good && used;
}

/* Reads on from where it was; false when there is nothing more, or it cannot be gone on. */
static bool read_on(reading *g, int fd)
{
    char *buffer = g->s->buffer;
    ssize_t got = pread(fd, buffer, TLI_STRETCH, (off_t)g->f->offset);
    size_t used = 0;
    if (got <= 0 || !walk_bytes(g, buffer, (size_t)got, &used)) return false;
    if (used || got < TLI_STRETCH) return used > 0;
    uint64_t size = tli_event_record_size(buffer, (size_t)got);
    return size > TLI_STRETCH && read_long(g, fd, size);
}

bool tli_run_read_events(tli_store *s, tli_board_run *r, tli_followed *f)
{
    struct stat info;
    int fd = tli_store_open(s, r->root, f->path);
    int64_t before = f->offset;
    reading g = {.s = s, .r = r, .f = f};
    if (fd < 0) return false;
    if (fstat(fd, &info) != 0) {
        close(fd);
        return false;
    }
    tli_store_lock(s);
    bool other = f->inode && (f->inode != info.st_ino || f->device != info.st_dev);
    bool anew = other || info.st_size < f->offset;
    s->bytes_total += info.st_size - f->size;
    if (info.st_size != f->size) f->damaged = false; // it may have been half-written
    f->size = info.st_size;
    f->inode = info.st_ino;
    f->device = info.st_dev;
    if ((double)info.st_mtim.tv_sec > r->active) r->active = (double)info.st_mtim.tv_sec;
    if (anew) tli_run_clear(s, r); // the other files of the run are read again the next time
    tli_store_unlock(s);
    while (f->offset < f->size && !f->damaged && !s->stop && read_on(&g, fd)) continue;
    close(fd);
    return f->offset != before || anew;
}
