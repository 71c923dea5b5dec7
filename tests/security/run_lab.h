/* What tests of run folders that mean harm have in common: a small run, and something precious
 * beside it. */
#ifndef TILTH_TESTS_SECURITY_RUN_LAB_H
#define TILTH_TESTS_SECURITY_RUN_LAB_H

#include "tool/tool_lab.h"

#include <sys/stat.h>

#define PRECIOUS "somebody else's\n"

/* On to that step, with a checkpoint every second one of which the newest is kept. */
static inline void train_on(const char *folder, int steps, const char *more)
{
    char dir[64], last[64];
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    snprintf(last, sizeof last, "trainer.train_steps=%d", steps);
    run("train", "--experiment=vision/local", "--mode=train_and_eval", dir, last, "tilth.seed=1",
        "tilth.threads=1", "tilth.jit=false", "trainer.steps_per_loop=2",
        "trainer.summary_interval=2", "trainer.checkpoint_interval=2",
        "trainer.validation_interval=2", "trainer.validation_steps=1", "trainer.max_to_keep=1",
        "trainer.best_checkpoint_export_subdir=best",
        "trainer.best_checkpoint_eval_metric=accuracy", more ? more : "tilth.checkpoint_minutes=0");
}

static inline void begin_run(const char *folder)
{
    train_on(folder, 2, NULL);
    ended(0, "");
}

static inline void make_victim(void)
{
    assert_ok(tl_mkdirs("victim"));
    put_text("victim/model.safetensors", PRECIOUS);
}

static inline void holds(const char *path, const char *text)
{
    char *data;
    assert_ok(tl_file_read(&data, NULL, path, 1 << 20));
    assert_string_equal(data, text);
    tl_free(data);
}

/* Nothing was written to it, added beside it, or taken away. */
static inline void victim_is_unharmed(void)
{
    tl_path_list there;
    holds("victim/model.safetensors", PRECIOUS);
    assert_ok(tl_glob(&there, lab_arena, "victim/*"));
    assert_int_equal(there.count, 1);
    assert_ok(tl_glob(&there, lab_arena, "victim/.*.tmp"));
    assert_int_equal(there.count, 0);
}

static inline bool is_link(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISLNK(info.st_mode);
}

static inline void put_link(const char *to, const char *path)
{
    unlink(path);
    assert_int_equal(symlink(to, path), 0);
}

#endif
