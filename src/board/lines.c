#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>

#include "base/inner/utc.h"
#include "board/store.h"

/* --- metrics.jsonl, as it grows --------------------------------------------------------------- */

enum { LONGEST_LINE = 1 << 22, STRETCH = 256 << 10 };

static void set_text(char **to, const char *text)
{
    tl_free(*to);
    *to = text ? tl_strdup(text) : NULL;
}

static bool add_number(tli_store *s, tli_board_run *r, const char *part, const char *name,
                       const tli_point *p)
{
    int32_t place = tli_run_own_tag(r, part, name, strcmp(part, "system") != 0);
    return place < 0 || tli_store_add(s, r, place, p);
}

static bool add_metrics(tli_store *s, tli_board_run *r, json_t *line, const char *part,
                        const tli_point *at)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(line, "metrics"), name, value)
    {
        tli_point p = *at;
        if (!json_is_number(value) && !json_is_null(value)) continue;
        p.value = json_is_number(value) ? json_number_value(value) : NAN;
        if (!add_number(s, r, part, name, &p)) return false;
    }
    return true;
}

static void take_line(tli_store *s, tli_board_run *r, json_t *line)
{
    const char *event = json_string_value(json_object_get(line, "event"));
    double now = tli_utc_seconds(json_string_value(json_object_get(line, "time")));
    const json_t *speed = json_object_get(line, "steps_per_second");
    tli_point at = {.step = json_integer_value(json_object_get(line, "step")), .time = now};
    if (!event || isnan(now) || at.step < 0) return;
    if (at.step > r->step) r->step = at.step;
    if (now > r->now) r->now = now;
    if (r->began == 0 || now < r->began) r->began = now;
    if (json_is_number(speed)) {
        r->speed = at.value = json_number_value(speed);
        add_number(s, r, "system", "steps_per_second", &at);
    }
    if (strcmp(event, "start") == 0) {
        set_text(&r->experiment, json_string_value(json_object_get(line, "experiment")));
        r->ended = false;
    } else if (strcmp(event, "end") == 0) {
        set_text(&r->reason, json_string_value(json_object_get(line, "reason")));
        set_text(&r->message, json_string_value(json_object_get(line, "message")));
        r->ended = true;
    } else {
        const char *part = strcmp(event, "evaluation") == 0 ? "validation" : "train";
        add_metrics(s, r, line, part, &at);
    }
}

/* Lines that are whole; a line that is no JSON is passed over. The lock is held. */
static void take_lines(tli_store *s, tli_board_run *r)
{
    const char *text = tl_str_text(&r->rest), *at = text, *end;
    while ((end = strchr(at, '\n'))) {
        json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL);
        if (line) take_line(s, r, line);
        json_decref(line);
        at = end + 1;
    }
    size_t left = r->rest.length - (size_t)(at - text);
    if (left > LONGEST_LINE) left = 0;
    memmove(r->rest.data, at, left);
    tl_str_cut(&r->rest, left);
}

bool tli_run_read_lines(tli_store *s, tli_board_run *r)
{
    struct stat info;
    tli_followed *f = &r->lines;
    int fd = tli_store_open(s, r->root, f->path);
    char buffer[8192];
    int64_t before = f->offset;
    if (fd < 0) return false;
    if (fstat(fd, &info) != 0) info.st_size = 0;
    bool anew =
        f->inode
        && (f->inode != info.st_ino || f->device != info.st_dev || info.st_size < f->offset);
    f->inode = info.st_ino;
    f->device = info.st_dev;
    if (anew || info.st_size > f->offset) {
        tli_store_lock(s);
        if (anew) tli_run_clear(s, r);
        if ((double)info.st_mtim.tv_sec > r->active) r->active = (double)info.st_mtim.tv_sec;
        tli_store_unlock(s);
    }
    while (f->offset < info.st_size && !s->stop) {
        ssize_t got = pread(fd, buffer, sizeof buffer, (off_t)f->offset);
        if (got <= 0) break;
        tli_store_lock(s);
        f->offset += got;
        for (ssize_t i = 0; i < got; i++)
            if (!buffer[i]) buffer[i] = '?';
        tl_str_addn(&r->rest, buffer, (size_t)got);
        if (tl_str_status(&r->rest) == TL_OK) take_lines(s, r);
        tli_store_unlock(s);
    }
    close(fd);
    return f->offset != before || anew;
}
