#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/desc/yaml.h>

#include "board/store.h"

/* --- params.yaml, or config.yaml of LiBai's trainer ------------------------------------------- */

static const char *first_of(const tli_board_run *r, const char *const *keys, int count)
{
    for (int i = 0; i < count; i++) {
        const char *value = tli_settings_find(&r->settings, keys[i]);
        if (value && *value && strcmp(value, "null") != 0) return value;
    }
    return "";
}

/* What the page asks for by itself, in the words of Model Garden or of LiBai. */
static void find_known(tli_board_run *r)
{
    static const char *const metrics[] = {"trainer.best_checkpoint_eval_metric",
                                          "train.evaluation.eval_metric"};
    static const char *const comps[] = {"trainer.best_checkpoint_metric_comp",
                                        "train.evaluation.eval_mode"};
    static const char *const steps[] = {"trainer.train_steps", "train.train_iter"};
    static const char *const folders[] = {"trainer.best_checkpoint_export_subdir"};
    const char *folder = first_of(r, folders, TL_COUNT(folders));
    const char *comp = first_of(r, comps, TL_COUNT(comps));
    r->best_metric = first_of(r, metrics, TL_COUNT(metrics));
    r->best_folder = *folder ? folder : NULL;
    r->best_lower = strcmp(comp, "lower") == 0 || strcmp(comp, "min") == 0;
    r->train_steps = strtoll(first_of(r, steps, TL_COUNT(steps)), NULL, 10);
}

/* The lock is held. */
static void take_settings(tli_board_run *r, const char *text, size_t size, const char *name)
{
    const tl_value *v = NULL;
    r->settings.count = 0;
    r->best_metric = "";
    r->best_folder = NULL;
    tl_arena_free(&r->settings_arena);
    if (tl_arena_new(&r->settings_arena) != TL_OK) return;
    if (tl_yaml_parse(&v, r->settings_arena, text, size, name) != TL_OK
        || tli_settings_add(&r->settings, v, r->settings_arena) != TL_OK)
        r->settings.count = 0; // half-written, or damaged: the next change is looked at again
    find_known(r);
}

static bool read_file(tli_store *s, tli_board_run *r, const char *name)
{
    char path[4096];
    struct stat info;
    size_t size;
    if (snprintf(path, sizeof path, "%s%s%s", r->path, *r->path ? "/" : "", name)
        >= (int)sizeof path)
        return false;
    int fd = tli_store_open(s, r->root, path);
    if (fd < 0) return false;
    bool known = fstat(fd, &info) == 0;
    close(fd);
    int64_t stamp = (int64_t)info.st_mtim.tv_sec * 1000003 + info.st_mtim.tv_nsec + info.st_size;
    if (!known || stamp == r->settings_stamp) return false;
    char *text = tli_store_read(&size, s, r->root, path, TL_YAML_MAX_BYTES);
    if (!text) return false;
    tli_store_lock(s);
    take_settings(r, text, size, name);
    r->settings_stamp = stamp;
    tli_store_unlock(s);
    tl_free(text);
    return true;
}

bool tli_run_read_settings(tli_store *s, tli_board_run *r)
{
    return read_file(s, r, "params.yaml") || (!r->settings.count && read_file(s, r, "config.yaml"));
}
