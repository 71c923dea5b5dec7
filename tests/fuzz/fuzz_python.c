/* Configurations in Python: any bytes are read or refused with a message; what was read is written
 * as YAML, read again, and the same. */
#include "fuzz.h"

#include <tilth/base/log.h>
#include <tilth/desc/python.h>
#include <tilth/desc/yaml.h>

static const tl_python_file shipped[] = {
    {"common/train.py", "from omegaconf import DictConfig\n"
                        "train = DictConfig(dict(iter=10, amp=dict(enabled=False), a=[1, 2]))\n"},
    {"common/model.py", "from .train import train\nmodel = dict(depth=2, train=train)\nsize = 3\n"},
};
static const tl_python_options options = {.shipped = shipped, .shipped_count = TL_COUNT(shipped)};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    tl_log_set_level(TL_LEVEL_NONE);
    return 0;
}

static void check_value(const tl_value *v, tl_arena *arena)
{
    tl_str text = TL_STR_INIT;
    const tl_value *again = NULL;
    must(v && v->kind == TL_VALUE_MAP, "what was read is no map");
    must(v->weight <= 2 * TL_PYTHON_MAX_NODES, "what was read is larger than the limit");
    must(tl_yaml_write_value(&text, v) == TL_OK, "what was read cannot be written");
    tl_status st = tl_yaml_parse(&again, arena, tl_str_text(&text), text.length, "again");
    must(st == TL_OK || st == TL_ELIMIT, "what was written cannot be read");
    if (st == TL_OK && again) must(tl_value_equal(v, again), "what was written reads as another");
    tl_str_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_arena *arena;
    const tl_value *v = NULL;
    must(tl_arena_new(&arena) == TL_OK, "no memory");
    tl_status st = tl_python_parse(&v, arena, (const char *)data, size, "fuzz", &options);
    if (st == TL_OK && is_chosen(data, size, 8)) check_value(v, arena);
    must(st == TL_OK || (st != TL_EINTERNAL && *tl_error_message()),
         "a failure without a good message");
    tl_arena_free(&arena);
    return 0;
}
