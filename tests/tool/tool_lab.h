/* What tests of commands that look at runs have in common: `tilth WORDS` as people see it, in a
 * folder of its own. */
#ifndef TILTH_TESTS_TOOL_TOOL_LAB_H
#define TILTH_TESTS_TOOL_TOOL_LAB_H

#include "zoo/zoo_lab.h"

#include "tool/tool_run.h"

static tl_str tool_log = TL_STR_INIT;
static int64_t tool_sink;

static inline void tool_hear(const tl_log_record *record, void *payload)
{
    (void)payload;
    tl_str_addf(&tool_log, "%s\n", record->text);
}

static inline int tool_open(void **state)
{
    assert_ok(tl_log_sink_add(&tool_sink, &(tl_log_sink){TL_LEVEL_DEBUG, tool_hear, NULL, NULL}));
    return lab_open(state);
}

static inline int tool_close(void **state)
{
    tool_forget();
    tl_log_sink_remove(tool_sink);
    tl_str_deinit(&tool_log);
    tool_log = (tl_str)TL_STR_INIT;
    width = 100;
    return lab_close(state);
}

static inline void logged(const char *part)
{
    if (!strstr(tl_str_text(&tool_log), part))
        fail_msg("nobody is told:\n%s\nin:\n%s", part, tl_str_text(&tool_log));
}

/* 60 steps on made-up images, with a bar; `more` is one word more, or NULL. */
static inline void train_local(const char *folder, const char *more)
{
    char dir[64];
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    run("train", "--experiment=vision/local", "--mode=train_and_eval", dir, "--progress=bar",
        "tilth.seed=1", "tilth.threads=1", "task.train_data.global_batch_size=8",
        "trainer.train_steps=60", "trainer.validation_interval=30",
        "trainer.checkpoint_interval=30", more ? more : "tilth.jit=false");
    ended(0, "");
}

/* The number behind a word at the beginning of a line of what was told. */
static inline double number_behind(const char *word)
{
    for (const char *line = out; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, word, strlen(word)) == 0 && line[strlen(word)] == ' ')
            return atof(line + strlen(word));
    }
    fail_msg("no '%s' in:\n%s", word, out);
    return 0;
}

static inline void put_text(const char *path, const char *text)
{
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

static inline void add_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "a");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define TOOL_TEST(f) cmocka_unit_test_setup_teardown(f, tool_open, tool_close)

#endif
