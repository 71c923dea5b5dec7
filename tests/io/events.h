/* What tests of event files share: an empty folder to stand in, and all that a folder's event files
 * say as one line of text. */
#ifndef TILTH_TESTS_IO_EVENTS_H
#define TILTH_TESTS_IO_EVENTS_H

#include <stdlib.h>
#include <unistd.h>

#include "core/lab.h"

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/io/tensorflow/event_file.h>

/* Stand in for the C library's: disks are slow, and it is enough to know that they were asked. */
static int event_syncs;
int fsync(int fd)
{
    (void)fd;
    event_syncs++;
    return 0;
}
int fdatasync(int fd)
{
    return fsync(fd);
}

static char events_home[TEMPORARY_PATH];

static inline int enter_folder(void)
{
    temporary(events_home, "tilth-test-events");
    return mkdtemp(events_home) && chdir(events_home) == 0 ? 0 : -1;
}

static inline int leave_folder(void)
{
    tl_alloc_fail_at(0, 0);
    return chdir("/") == 0 && remove_tree(events_home) == 0 ? 0 : -1;
}

static inline tl_path_list event_files(tl_arena *arena, const char *folder)
{
    tl_path_list files;
    char *pattern = tl_path_join(arena, folder, "events.out.tfevents.*");
    assert_non_null(pattern);
    assert_ok(tl_glob(&files, arena, pattern));
    return files;
}

static inline int64_t event_file_count(const char *folder)
{
    tl_arena *arena;
    assert_ok(tl_arena_new(&arena));
    int64_t count = event_files(arena, folder).count;
    tl_arena_free(&arena);
    return count;
}

static inline void tell_value(tl_str *out, int64_t step, const tl_event_value *v)
{
    double sum = 0;
    for (int64_t i = 0; i < v->row_count; i++) sum += v->rows[3 * i + 2];
    tl_str_addf(out, "%s@%lld=", v->tag, (long long)step);
    if (strcmp(v->plugin, "scalars") == 0) tl_str_addf(out, "%g ", v->number);
    else if (strcmp(v->plugin, "text") == 0) tl_str_addf(out, "'%s' ", v->strings[0].data);
    else if (strcmp(v->plugin, "images") == 0)
        tl_str_addf(out, "%sx%s*%lld ", v->strings[0].data, v->strings[1].data,
                    (long long)v->string_count - 2);
    else if (strcmp(v->plugin, "histograms") == 0)
        tl_str_addf(out, "%g/%lld ", sum, (long long)v->row_count);
    else tl_str_addf(out, "%s ", v->plugin);
}

/* The next event; false at the end. */
static inline bool next_event(tl_event *e, tl_event_reader *r)
{
    bool more;
    assert_ok(tl_event_reader_next(r, e, &more));
    return more;
}

static inline void tell_file(tl_str *out, const char *path)
{
    tl_event_reader *r;
    tl_event e;
    bool first = true, started = false;
    assert_ok(tl_event_reader_open(&r, path));
    while (next_event(&e, r)) {
        if (first) assert_string_equal(e.file_version, "brain.Event:2");
        started = e.session == 1 && !started;
        if (started) tl_str_addf(out, "START@%lld ", (long long)e.step); // there are two of them
        for (int64_t i = 0; i < e.count; i++) tell_value(out, e.step, &e.values[i]);
        first = false;
    }
    if (tl_event_reader_cut(r)) tl_str_add(out, "CUT ");
    tl_event_reader_close(&r);
}

/* All event files of the folder say just this: "tag@step=value " for each value, in the order of
 * reading. */
static inline void assert_events(const char *folder, const char *want)
{
    tl_arena *arena;
    tl_str said = TL_STR_INIT;
    assert_ok(tl_arena_new(&arena));
    tl_path_list files = event_files(arena, folder);
    for (int64_t i = 0; i < files.count; i++) tell_file(&said, files.items[i]);
    assert_ok(tl_str_status(&said));
    assert_string_equal(tl_str_text(&said), want);
    tl_str_deinit(&said);
    tl_arena_free(&arena);
}

#endif
