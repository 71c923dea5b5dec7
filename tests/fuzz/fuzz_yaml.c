/* YAML: any bytes are read or refused with a message; what was read is written, read again, and the
 * same; and it is applied to a described struct, with the same promise. */
#include "fuzz.h"

#include <tilth/base/log.h>

#include "../desc/sample.h"

/* A failure comes with a message, and is no defect of ours. */
static bool refused(tl_status st)
{
    if (st == TL_OK) return false;
    must(st != TL_EINTERNAL && *tl_error_message(), "a failure without a good message");
    return true;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    tl_log_set_level(TL_LEVEL_NONE); // unknown keys are skipped with a warning each
    return 0;
}

static void check_value(const tl_value *v, tl_arena *arena)
{
    tl_str text = TL_STR_INIT;
    const tl_value *again = NULL;
    must(tl_yaml_write_value(&text, v) == TL_OK, "what was read cannot be written");
    must(tl_yaml_parse(&again, arena, tl_str_text(&text), text.length, "again") == TL_OK,
         "what was written cannot be read");
    must(tl_value_equal(v, again), "what was written reads as another");
    must(tl_value_hash(1, v) == tl_value_hash(1, again), "equal values have two hashes");
    const tl_value *copy = tl_value_copy(arena, v);
    must(copy && tl_value_equal(v, copy), "a copy is another");
    tl_str name = TL_STR_INIT;
    tl_value_name(&name, v);
    must(name.length < 128, "a long name");
    tl_str_deinit(&name);
    tl_str_deinit(&text);
}

static void check_written(tl_config *c, bool explain)
{
    tl_str text = TL_STR_INIT;
    tl_config *again;
    must(tl_config_write(&text, c, explain) == TL_OK, "a configuration cannot be written");
    must(tl_config_new(&again, NULL, &sample_desc) == TL_OK, "no memory");
    must(tl_config_yaml(again, tl_str_text(&text), "again") == TL_OK,
         "what was written is refused");
    must(tl_desc_equal(&sample_desc, tl_config_value(c), tl_config_value(again)),
         "what was written reads as another");
    must(tl_desc_hash(1, &sample_desc, tl_config_value(c))
             == tl_desc_hash(1, &sample_desc, tl_config_value(again)),
         "equal structs have two hashes");
    tl_config_free(&again);
    tl_str_deinit(&text);
}

static void check_apply(const tl_value *v, bool strict, bool whole)
{
    tl_config *c;
    must(tl_config_new(&c, NULL, &sample_desc) == TL_OK, "no memory");
    tl_config_set_strict(c, strict);
    if (!refused(tl_config_apply(c, v)) && !refused(tl_config_finish(c)) && whole) {
        check_written(c, false);
        check_written(c, true);
    }
    tl_config_free(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_arena *arena;
    const tl_value *v = NULL;
    must(tl_arena_new(&arena) == TL_OK, "no memory");
    if (!refused(tl_yaml_parse(&v, arena, (const char *)data, size, "fuzz")) && v) {
        bool whole = is_chosen(data, size, 32);
        if (whole) check_value(v, arena);
        check_apply(v, size % 2, whole);
        if (whole) check_apply(v, !(size % 2), whole);
    }
    tl_arena_free(&arena);
    return 0;
}
