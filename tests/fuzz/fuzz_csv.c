/* Overrides: the CSV form, words and restrictions. The first line is an override string; each
 * further one is a word, or a restriction behind a '?'. Whatever is accepted is written and reads
 * back as the same. */
#include "fuzz.h"

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>

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

/* Writing and reading again costs more than all the rest, and one input in sixteen shows as much.
 */
static bool is_chosen(const char *text)
{
    return tl_hash_string(TL_HASH_SEED, text) % 16 == 0;
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

static void try_csv(const char *text)
{
    tl_arena *arena;
    const tl_value *v = NULL, *again = NULL;
    tl_str yaml = TL_STR_INIT;
    must(tl_arena_new(&arena) == TL_OK, "no memory");
    if (!refused(tl_csv_parse(&v, arena, text, "fuzz"))) {
        must(v && v->kind == TL_VALUE_MAP, "no map");
        if (tl_yaml_write_value(&yaml, v) == TL_OK) {
            must(tl_yaml_parse(&again, arena, tl_str_text(&yaml), yaml.length, "again") == TL_OK,
                 "what was written cannot be read");
            must(tl_value_equal(v, again), "what was written reads as another");
        }
    }
    tl_str_deinit(&yaml);
    tl_arena_free(&arena);
}

static void try_override(const char *text, bool strict)
{
    tl_config *c = new_config();
    tl_config_set_strict(c, strict);
    if (!refused(tl_config_override(c, text, "fuzz")) && is_chosen(text)) check_written(c, false);
    tl_config_free(&c);
}

/* True when the line was taken. */
static bool try_line(tl_config **c, const char *line)
{
    (void)tl_config_source(*c, line);
    tl_status st =
        *line == '?' ? tl_config_restrict(*c, line + 1) : tl_config_word(*c, line, "fuzz");
    if (!refused(st)) return true;
    tl_config_free(c); // it must not be used after a failure
    *c = new_config();
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    must(text != NULL, "no memory");
    memcpy(text, data, size);
    text[size] = '\0';
    char *rest = strchr(text, '\n');
    if (rest) *rest++ = '\0';
    try_csv(text);
    if (!tl_file_exists(text)) try_override(text, size % 2); // files are fuzz_yaml's
    if (!rest) {
        free(text);
        return 0;
    }
    tl_config *c = new_config();
    bool changed = false;
    for (char *line = rest; line && *line; line = rest) {
        rest = strchr(line, '\n');
        if (rest) *rest++ = '\0';
        changed = try_line(&c, line);
    }
    if (changed && is_chosen(text)) check_written(c, size % 2);
    (void)refused(tl_config_finish(c));
    tl_config_free(&c);
    free(text);
    return 0;
}
