/* `tilth WORDS` in this process, as people see it: what it wrote where, and its exit code. */
#ifndef TILTH_TESTS_TOOL_TOOL_RUN_H
#define TILTH_TESTS_TOOL_TOOL_RUN_H

#include "test.h"

#include <stdlib.h>

#include "tool/tool.h"

static char *out, *err;
static int code, width = 100;
static tl_main_options tool_options;

static inline void tool_forget(void)
{
    free(out);
    free(err);
    out = err = NULL;
}

/* Runs `tilth WORDS` and keeps what it wrote. */
static inline void run_list(const char *const *words)
{
    char *argv[48] = {"tilth"};
    int argc = 1;
    size_t out_size, err_size;
    tool_forget();
    for (; *words; words++) argv[argc++] = (char *)(uintptr_t)*words;
    tli_tool tool = {.program = "tilth",
                     .options = &tool_options,
                     .out = open_memstream(&out, &out_size),
                     .err = open_memstream(&err, &err_size),
                     .width = width};
    assert_non_null(tool.out);
    assert_non_null(tool.err);
    code = tli_tool_main(&tool, argc, argv);
    fclose(tool.out);
    fclose(tool.err);
}
#define run(...) run_list((const char *const[]){__VA_ARGS__, NULL})

static inline void text_has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("this is missing:\n%s\nin:\n%s", part, text);
}

static inline void text_has_not(const char *text, const char *part)
{
    if (strstr(text, part)) fail_msg("this should be missing:\n%s\nin:\n%s", part, text);
}

/* On standard output. */
static inline void has(const char *part)
{
    text_has(out, part);
}

static inline void has_not(const char *part)
{
    text_has_not(out, part);
}

/* With this exit code, and this on standard error. */
static inline void ended(int expected, const char *message)
{
    const char *told = err ? err : "";
    if (code != expected) fail_msg("exit code %d, not %d: %s", code, expected, told);
    text_has(told, message);
}

/* It went well and complained about nothing. */
static inline void went_well(void)
{
    if (code != 0 || *err) fail_msg("exit code %d, on standard error:\n%s", code, err);
}

/* With this exit code and message, and nothing on standard output. */
static inline void failed(int expected, const char *message)
{
    ended(expected, message);
    assert_string_equal(out, "");
}

#endif
