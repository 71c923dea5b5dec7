/* The other side of check_libai_config.py: reads configurations in Python, and prints what they
 * bind as YAML, or why one was refused.
 *
 *     python_driver ROOT FILE...
 *
 * Before each one stands a line "=== STATUS", behind it the values or the message. ROOT/shipped
 * holds what get_config finds. */
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/desc/python.h>
#include <tilth/desc/yaml.h>

enum { MOST = 64 };

static tl_python_file shipped[MOST];

/* All files of a folder, by their paths below it. */
static tl_status find_shipped(tl_python_options *options, tl_arena *arena, const char *folder)
{
    tl_path_list list;
    size_t skip = strlen(folder) + 1, size;
    options->shipped = shipped;
    for (int level = 0; level < 4; level++) {
        static const char *const patterns[] = {"/*.py", "/*/*.py", "/*/*/*.py", "/*/*/*/*.py"};
        TL_TRY(tl_glob(&list, arena, tl_arena_printf(arena, "%s%s", folder, patterns[level])));
        for (int64_t i = 0; i < list.count && options->shipped_count < MOST; i++) {
            char *text;
            TL_TRY(tl_file_read(&text, &size, list.items[i], 1 << 20));
            shipped[options->shipped_count++] = (tl_python_file){list.items[i] + skip, text};
        }
    }
    return TL_OK;
}

static void read_one(const char *path, const tl_python_options *options)
{
    tl_arena *arena;
    const tl_value *v = NULL;
    tl_str text = TL_STR_INIT;
    if (tl_arena_new(&arena) != TL_OK) return;
    tl_status st = tl_python_read(&v, arena, path, options);
    if (st == TL_OK) st = tl_yaml_write_value(&text, v);
    printf("=== %s\n%s\n", tl_status_name(st),
           st == TL_OK ? tl_str_text(&text) : tl_error_message());
    tl_str_deinit(&text);
    tl_arena_free(&arena);
}

int main(int argc, char **argv)
{
    tl_arena *arena;
    if (argc < 2 || tl_arena_new(&arena) != TL_OK) return 1;
    tl_python_options options = {.root = argv[1]};
    tl_log_set_level(TL_LEVEL_WARNING);
    if (find_shipped(&options, arena, tl_arena_printf(arena, "%s/shipped", argv[1])) != TL_OK)
        return 1;
    for (int i = 2; i < argc; i++) read_one(argv[i], &options);
    for (int64_t i = 0; i < options.shipped_count; i++) tl_free((void *)(uintptr_t)shipped[i].text);
    tl_arena_free(&arena);
    return 0;
}
