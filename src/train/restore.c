#include <string.h>

#include <tilth/base/log.h>
#include <tilth/io/checkpoint_manager.h>
#include <tilth/train/original.h>
#include <tilth/train/task.h>
#include <tilth/train/trainer.h>

#define MODEL "model/"
#define OPTIMIZER "optimizer/"

/* Weights, slots and the two counters; other numbers of the optimizer are ours alone, or begin anew when another
 * precision is gone on with. */
static bool is_in_every_original(const char *path)
{
    const char *of_optimizer = strncmp(path, OPTIMIZER, strlen(OPTIMIZER)) == 0 ? path + strlen(OPTIMIZER) : NULL;
    if (of_optimizer && strncmp(of_optimizer, "loss_scale/", 11) == 0) return false;
    if (of_optimizer) return strchr(of_optimizer, '/') || strcmp(of_optimizer, "iterations") == 0;
    return strncmp(path, MODEL, strlen(MODEL)) == 0 || strcmp(path, "global_step") == 0;
}

/* Adds the part of the state that a path lies in, once: findings of a part follow each other. */
static void note_part(tl_str *parts, const char *path)
{
    int length = (int)strcspn(path, "/");
    size_t before = parts->length;
    const char *last = before ? strrchr(tl_str_text(parts), ' ') : NULL;
    last = last ? last + 1 : tl_str_text(parts);
    if ((int)strlen(last) == length && strncmp(last, path, (size_t)length) == 0) return;
    tl_str_addf(parts, "%s%.*s", before ? ", " : "", length, path);
}

/* Which of the findings stand in the way, for a message; what starts anew is told in the log. */
static tl_status judge(const tl_state_report *report, const char *prefix)
{
    enum { SHOWN = 5 };
    tl_str needed = TL_STR_INIT, anew = TL_STR_INIT;
    int64_t count = 0;
    tl_status st = TL_OK;
    for (int64_t i = 0; i < report->count; i++) {
        const tl_state_finding *f = &report->items[i];
        if (f->verdict == TL_STATE_UNEXPECTED) continue;
        if (!is_in_every_original(f->path)) {
            bool kept = strcmp(f->path, "seed") == 0 || strncmp(f->path, OPTIMIZER, strlen(OPTIMIZER)) == 0;
            if (!kept) note_part(&anew, f->path); // they are what the configuration says
        } else if (count++ < SHOWN) {
            tl_str_addf(&needed, "%s'%s' should be %s and is %s", count > 1 ? "; " : "", f->path, f->wanted,
                        f->found ? f->found : "not in it");
        }
    }
    if (count > 0)
        st = TL_FAIL(TL_EINVAL, "'%s' does not fit this model and optimizer (task.init_checkpoint takes weights alone): "
                     "%s%s", prefix, tl_str_text(&needed), count > SHOWN ? "; and more" : "");
    else if (anew.length)
        TL_LOG_INFO("'%s' is a checkpoint of Model Garden; what it does not hold begins anew: %s", prefix,
                    tl_str_text(&anew));
    tl_str_deinit(&needed);
    tl_str_deinit(&anew);
    return st;
}

static tl_status read_original(tl_state **out, tl_trainer *t, const char *prefix)
{
    tl_original_names names;
    TL_TRY(tl_original_names_init(&names));
    tl_status st = tl_task_original_names(t->task, &names);
    if (st == TL_OK) st = tl_original_check(prefix, &names);
    if (st == TL_OK) st = tl_original_read(out, prefix, &names, t->engine, NULL);
    tl_original_names_deinit(&names);
    if (st == TL_OK) tl_state_remove(*out, "seed"); // the run's own: Model Garden has none
    return st;
}

tl_status tl_trainer_restore_original(tl_trainer *t, const char *prefix)
{
    tl_state *into = tl_trainer_checkpoint(t), *given = NULL;
    tl_state_report report = {0};
    tl_status st;
    if (!into) return tl_error_code();
    if (!t->task)
        return TL_FAIL(TL_ESTATE, "'%s' is a checkpoint of Model Garden, and without a task nobody knows its names",
                       prefix);
    TL_TRY_DONE(st, read_original(&given, t, prefix));
    TL_TRY_DONE(st, tl_state_compare(&report, into, given, NULL));
    TL_TRY_DONE(st, judge(&report, prefix));
    st = tl_state_copy(into, given, &(tl_state_copy_args){.partial = true}, NULL);
done:
    tl_state_report_deinit(&report);
    tl_state_free(&given);
    return st;
}

tl_status tl_trainer_restore_to_evaluate(tl_trainer *t, const char *path)
{
    tl_state *state = tl_trainer_checkpoint(t);
    if (!state) return tl_error_code();
    if (tl_checkpoint_is_bundle(path)) return tl_trainer_restore_original(t, path);
    return tl_checkpoint_restore(state, path, &(tl_checkpoint_restore_args){.beside = true}, NULL);
}
