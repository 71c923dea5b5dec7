#include <stdio.h>
#include <string.h>

#include <tilth/base/log.h>
#include <tilth/io/checkpoint/manager.h>
#include <tilth/train/run/original.h>
#include <tilth/train/task.h>

#include "train/trainer/trainer.h"

#define LOSS_SCALE "optimizer/loss_scale"

enum { SHOWN_WEIGHTS = 5 };

/* What follows `part` in a path below it; NULL when it is not. */
static const char *below(const char *path, const char *part)
{
    size_t length = strlen(part);
    return strncmp(path, part, length) == 0 && path[length] == '/' ? path + length + 1 : NULL;
}

/* "momentum" of "optimizer/momentum/head/kernel"; NULL for what is no slot. */
static const char *slot_of(const char *path, int *length)
{
    const char *slot = below(path, "optimizer");
    *length = slot ? (int)strcspn(slot, "/") : 0;
    return slot && slot[*length] && !below(path, LOSS_SCALE) ? slot : NULL;
}

/* Words, each once: what is found follows what is like it. */
static void add_word(tl_str *words, const char *word, int length)
{
    const char *text = tl_str_text(words), *last = strrchr(text, ' ');
    last = last ? last + 1 : text;
    if ((int)strlen(last) == length && strncmp(last, word, (size_t)length) == 0) return;
    tl_str_addf(words, "%s%.*s", words->length ? ", " : "", length, word);
}

/* What a comparison has found, by what it means for a run that goes on. */
typedef struct verdict {
    tl_str weights; /* that are not there, or other ones */
    int64_t weight_count;
    tl_str lacking; /* slots that the optimizer keeps */
    tl_str unused;  /* of them those that some weights have: others had no gradient there */
    tl_str foreign; /* slots that it does not keep */
    tl_str rest;    /* what Model Garden does not keep: parts of the state */
} verdict;

/* Whether any weight has such a slot. */
static bool has_slot(const tl_state *given, const char *slot, int length)
{
    tl_state_entry e;
    char path[128];
    int size = snprintf(path, sizeof path, "optimizer/%.*s", length, slot);
    return size < (int)sizeof path && tl_state_find(&e, given, path);
}

static void judge_one(verdict *v, const tl_state *given, const tl_state_finding *f)
{
    int length;
    const char *slot = slot_of(f->path, &length);
    if (slot) {
        bool unused = f->verdict == TL_STATE_MISSING && has_slot(given, slot, length);
        add_word(f->verdict == TL_STATE_UNEXPECTED ? &v->foreign
                 : unused                          ? &v->unused
                                                   : &v->lacking,
                 slot, length);
    } else if (f->verdict == TL_STATE_UNEXPECTED) {
        return;
    } else if (below(f->path, "model") || strcmp(f->path, "global_step") == 0
               || strcmp(f->path, "optimizer/iterations") == 0) {
        if (v->weight_count++ < SHOWN_WEIGHTS)
            tl_str_addf(&v->weights, "%s'%s' should be %s and is %s", v->weights.length ? "; " : "",
                        f->path, f->wanted, f->found ? f->found : "not in it");
    } else if (strcmp(f->path, "seed") != 0 && !below(f->path, "optimizer")) {
        add_word(&v->rest, f->path, (int)strcspn(f->path, "/"));
    }
}

/* Slots of another optimizer are no state to go on from, whatever their names; averages may be
 * given up. */
static tl_status judge(const verdict *v, const tl_trainer *t, const char *prefix)
{
    const char *foreign = tl_str_text(&v->foreign),
               *hint = "; task.init_checkpoint takes weights alone";
    bool averages_alone = strcmp(foreign, "average") == 0;
    if (v->weight_count)
        return TL_FAIL(TL_EINVAL, "'%s' does not fit this model: %s%s", prefix,
                       tl_str_text(&v->weights),
                       v->weight_count > SHOWN_WEIGHTS ? "; and more" : "");
    if (v->lacking.length)
        return TL_FAIL(
            TL_EINVAL,
            "'%s' does not fit the optimizer, which keeps slots that are not in it: %s%s", prefix,
            tl_str_text(&v->lacking), hint);
    if (t->optimizer && *foreign && !averages_alone)
        return TL_FAIL(TL_EINVAL,
                       "'%s' does not fit the optimizer, which keeps none of these slots: %s%s",
                       prefix, foreign, hint);
    if (v->unused.length)
        TL_LOG_INFO("'%s' has no slots of weights without a gradient; theirs begin with 0: %s",
                    prefix, tl_str_text(&v->unused));
    if (averages_alone)
        TL_LOG_WARNING("'%s' holds averaged weights, and trainer.optimizer_config.ema is not set: "
                       "they are left out",
                       prefix);
    if (v->rest.length)
        TL_LOG_INFO(
            "'%s' is a checkpoint of Model Garden; what it does not hold stays as it is: %s",
            prefix, tl_str_text(&v->rest));
    return TL_OK;
}

static tl_status compare(tl_trainer *t, const tl_state *into, const tl_state *given,
                         const char *prefix)
{
    tl_state_report report = {0};
    verdict v = {.weights = TL_STR_INIT,
                 .lacking = TL_STR_INIT,
                 .unused = TL_STR_INIT,
                 .foreign = TL_STR_INIT,
                 .rest = TL_STR_INIT};
    tl_status st = tl_state_compare(&report, into, given, NULL);
    for (int64_t i = 0; i < report.count && st == TL_OK; i++)
        judge_one(&v, given, &report.items[i]);
    const tl_str *all[] = {&v.weights, &v.lacking, &v.unused, &v.foreign, &v.rest};
    for (int i = 0; i < TL_COUNT(all) && st == TL_OK; i++) st = tl_str_status(all[i]);
    if (st == TL_OK) st = judge(&v, t, prefix);
    tl_str_deinit(&v.weights);
    tl_str_deinit(&v.lacking);
    tl_str_deinit(&v.unused);
    tl_str_deinit(&v.foreign);
    tl_str_deinit(&v.rest);
    tl_state_report_deinit(&report);
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
    return st;
}

/* A seed is the run's own, and so is a loss scale that the configuration says. */
static void keep_own(tl_state *given, const tl_state *into)
{
    tl_state_entry e;
    tl_state_remove(given, "seed");
    if (!tl_state_find(&e, into, LOSS_SCALE "/good_steps") && tl_state_find(&e, given, LOSS_SCALE))
        tl_state_remove(given, LOSS_SCALE);
}

tl_status tl_trainer_restore_original(tl_trainer *t, const char *prefix)
{
    tl_state *into = tl_trainer_checkpoint(t), *given = NULL;
    tl_status st;
    if (!into) return tl_error_code();
    if (!t->task)
        return TL_FAIL(
            TL_ESTATE,
            "'%s' is a checkpoint of Model Garden, and only a task knows the names in it", prefix);
    TL_TRY_DONE(st, read_original(&given, t, prefix));
    keep_own(given, into);
    TL_TRY_DONE(st, compare(t, into, given, prefix));
    st = tl_state_copy(into, given, &(tl_state_copy_args){.partial = true}, NULL);
    // which task is drawn follows from the step, which is known
    if (st == TL_OK) tli_mix_set_step(t->parts->subjects.mix, t->global_step);
done:
    tl_state_free(&given);
    return st;
}

/* Of a training in stages, the one that the checkpoint is of. */
static tl_status make_fit(tl_trainer *t, const char *path)
{
    tl_checkpoint *c;
    if (!TL_CLASS_METHOD(tl_trainer_class, t->cls, before_restore)) return TL_OK;
    TL_TRY(tl_checkpoint_open(&c, path));
    tl_status st = tli_trainer_before_restore(t, tl_checkpoint_state(c));
    tl_checkpoint_free(&c);
    return st == TL_OK ? st : tl_error_note(st, "'%s'", path);
}

tl_status tl_trainer_restore_to_evaluate(tl_trainer *t, const char *path)
{
    tl_state *state = tl_trainer_checkpoint(t);
    tl_arena *arena = NULL;
    bool bundle;
    tl_status st;
    if (!state) return tl_error_code();
    TL_TRY_DONE(st, tl_arena_new(&arena));
    TL_TRY_DONE(st, tl_checkpoint_locate(&path, &bundle, arena, path));
    if (bundle) {
        st = tl_trainer_restore_original(t, path);
        goto done;
    }
    TL_TRY_DONE(st, make_fit(t, path));
    st = tl_checkpoint_restore(state, path, &(tl_checkpoint_restore_args){.beside = true}, NULL);
done:
    tl_arena_free(&arena);
    return st;
}
