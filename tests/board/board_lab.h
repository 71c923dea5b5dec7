/* What tests of the page share: an empty folder to stand in, runs to show in it, and questions. */
#ifndef TILTH_TESTS_BOARD_LAB_H
#define TILTH_TESTS_BOARD_LAB_H

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/io/tensorflow/event_file.h>

#include "test.h"

static char lab_home[TEMPORARY_PATH];

static inline int lab_enter(void **state)
{
    (void)state;
    temporary(lab_home, "tilth-test-board");
    return mkdtemp(lab_home) && chdir(lab_home) == 0 ? 0 : -1;
}

static inline int lab_remove(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static inline int lab_leave(void **state)
{
    (void)state;
    return chdir("/") == 0 && nftw(lab_home, lab_remove, 16, FTW_DEPTH | FTW_PHYS) == 0 ? 0 : -1;
}

static inline void lab_write(const char *path, const char *text)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    if (slash) assert_ok(tl_mkdirs(folder));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

/* A curve "loss" in an event file of that folder: 1/(1+step), at the steps from, from + 10, ... */
static inline void lab_add_events(tl_event_file *f, int64_t from, int64_t to)
{
    for (int64_t step = from; step < to; step += 10)
        assert_ok(tl_event_file_scalar(f, step, "loss", 1 / (1 + (double)step)));
    assert_ok(tl_event_file_flush(f));
}

static inline void lab_events(const char *folder, int64_t to)
{
    tl_event_file *f;
    assert_ok(tl_event_file_open(&f, &(tl_event_file_args){.folder = folder}));
    lab_add_events(f, 0, to);
    tl_event_file_close(&f);
}

/* A run of ours, and it is over. */
static inline void lab_run(const char *name, int64_t steps)
{
    char path[256];
    snprintf(path, sizeof path, "%s/train", name);
    lab_events(path, steps);
    snprintf(path, sizeof path, "%s/params.yaml", name);
    lab_write(path, "trainer:\n  train_steps: 100\n  best_checkpoint_eval_metric: accuracy\n"
                    "task:\n  train_data:\n    global_batch_size: 32\n");
    snprintf(path, sizeof path, "%s/metrics.jsonl", name);
    lab_write(
        path,
        "{\"event\": \"start\", \"step\": 0, \"time\": \"2026-11-16T06:45:40.000Z\", "
        "\"experiment\": \"vision/local\", \"mode\": \"train\"}\n"
        "{\"event\": \"train\", \"step\": 50, \"time\": \"2026-11-16T06:45:50.000Z\", "
        "\"metrics\": {\"training_loss\": 0.5}, \"steps_per_second\": 5}\n"
        "{\"event\": \"end\", \"step\": 100, \"time\": \"2026-11-16T06:46:00.000Z\", \"mode\": "
        "\"train\", \"reason\": \"done\", \"seconds\": 20}\n");
}

#endif
