/* Overrides: the CSV form, words and restrictions. The first line is an override string; each
 * further one is a word, or a restriction behind a '?'. Whatever is accepted is written and reads
 * back as the same. */
#include "fuzz.h"

#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "../desc/sample.h"

/* A failure comes with a message, and is no defect of ours. */
static bool refused(tl_status st)
{
    if (st == TL_OK) return false;
    must(st != TL_EINTERNAL && *tl_error_message(), "a failure without a good message");
    return true;
}

static const tl_value *seed; /* something for words to lead to */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    static const char text[] = "{layers: [{}, {kernel: [1]}], extra: {a: {b: [1]}}, target: {}, "
                               "optimizer: {type: adam, sgd: {}}}";
    static tl_arena *arena; // lives as long as the process
    tl_log_set_level(TL_LEVEL_NONE);
    must(tl_arena_new(&arena) == TL_OK, "no memory");
    must(tl_yaml_parse(&seed, arena, text, sizeof text - 1, "seed") == TL_OK, "no seed");
    return 0;
}

static tl_config *new_config(void)
{
    tl_config *c;
    must(tl_config_new(&c, NULL, &sample_desc) == TL_OK, "no memory");
    must(tl_config_apply(c, seed) == TL_OK, "no seed");
    return c;
}

/* Bytes of a command line need not be text; what is not cannot be written. */
static bool written(tl_str *out, tl_config *c, bool explain)
{
    tl_status st = tl_config_write(out, c, explain);
    must(st == TL_OK || (st == TL_EINVAL && strstr(tl_error_message(), "UTF-8")),
         "cannot be written");
    return st == TL_OK;
}

static void check_written(tl_config *c, bool explain)
{
    tl_str text = TL_STR_INIT;
    if (written(&text, c, explain)) {
        tl_config *again;
        must(tl_config_new(&again, NULL, &sample_desc) == TL_OK, "no memory");
        tl_status st = tl_config_yaml(again, tl_str_text(&text), "again");
        // Words can nest free-form values deeper than a file may.
        must(st == TL_OK || st == TL_ELIMIT, "what was written is refused");
        must(st != TL_OK || tl_desc_equal(&sample_desc, tl_config_value(c), tl_config_value(again)),
             "what was written reads as another");
        tl_config_free(&again);
    }
    tl_str_deinit(&text);
}

static void try_csv(const char *text, bool whole)
{
    tl_arena *arena;
    const tl_value *v = NULL, *again = NULL;
    tl_str yaml = TL_STR_INIT;
    must(tl_arena_new(&arena) == TL_OK, "no memory");
    if (!refused(tl_csv_parse(&v, arena, text, "fuzz"))) {
        must(v && v->kind == TL_VALUE_MAP, "no map");
        if (whole && tl_yaml_write_value(&yaml, v) == TL_OK) {
            must(tl_yaml_parse(&again, arena, tl_str_text(&yaml), yaml.length, "again") == TL_OK,
                 "what was written cannot be read");
            must(tl_value_equal(v, again), "what was written reads as another");
        }
    }
    tl_str_deinit(&yaml);
    tl_arena_free(&arena);
}

static void try_override(const char *text, bool strict, bool whole)
{
    tl_config *c = new_config();
    tl_config_set_strict(c, strict);
    if (!refused(tl_config_override(c, text, "fuzz")) && whole) check_written(c, false);
    tl_config_free(&c);
}

static bool try_line(tl_config *c, const char *line)
{
    (void)tl_config_source(c, line);
    return !refused(*line == '?' ? tl_config_restrict(c, line + 1)
                                 : tl_config_word(c, line, "fuzz"));
}

/* Up to the first that is refused: from then on the configuration must not be used. */
static void try_lines(char *rest, bool explain, bool whole)
{
    tl_config *c = new_config();
    bool fine = true;
    for (char *line = rest; fine && line && *line; line = rest) {
        rest = strchr(line, '\n');
        if (rest) *rest++ = '\0';
        fine = try_line(c, line);
    }
    if (fine && whole) check_written(c, explain);
    if (fine) (void)refused(tl_config_finish(c));
    tl_config_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool whole = is_chosen(data, size, 32);
    char *text = malloc(size + 1);
    must(text != NULL, "no memory");
    memcpy(text, data, size);
    text[size] = '\0';
    char *rest = strchr(text, '\n');
    if (rest) *rest++ = '\0';
    try_csv(text, whole);
    bool lines = rest && size & 2; // making a configuration costs most: one of the two
    if ((whole || !lines) && !tl_file_exists(text)) // files are fuzz_yaml's
        try_override(text, size % 2, whole);
    if ((whole && rest) || lines) try_lines(rest, size % 2, whole);
    free(text);
    return 0;
}
