/* What LiBai evaluates with: its evaluators, and the test loaders behind the first. */
#include <inttypes.h>
#include <string.h>

#include <tilth/nn/metrics.h>

#include "train/libai/default_trainer.h"
#include "train/libai/libai.h"
#include "train/trainer/trainer.h"

/* --- evaluators ------------------------------------------------------------------------------- */

#define ACCURACY "Acc@"

static tl_status fail_at(tl_status failed, const tl_value *at)
{
    tl_str place = TL_STR_INIT;
    tl_place_write(&place, at->place);
    tl_status st = tl_error_note(failed, "%s: train.evaluation.evaluator", tl_str_text(&place));
    tl_str_deinit(&place);
    return st;
}

static tl_status add_accuracy(tl_metrics *into, int64_t k)
{
    char name[32];
    snprintf(name, sizeof name, ACCURACY "%" PRId64, k);
    return tl_metrics_add(NULL, into, &tl_metric_sparse_top_k_categorical_accuracy,
                          &(tl_top_k_config){.k = k}, name);
}

/* ClsEvaluator(topk=(1, 5)). */
static tl_status add_accuracies(tl_metrics *into, const tl_value *evaluator)
{
    const tl_value *list = tl_value_get(evaluator, "topk");
    for (int64_t i = 0; i < evaluator->count; i++) {
        const char *key = evaluator->pairs[i].key;
        if (strcmp(key, "topk") != 0 && strcmp(key, "_target_") != 0
            && strcmp(key, "_recursive_") != 0)
            return fail_at(TL_FAIL(TL_EINVAL, "ClsEvaluator has no '%.60s'; it has topk", key),
                           evaluator->pairs[i].value);
    }
    if (!list) {
        TL_TRY(add_accuracy(into, 1));
        return add_accuracy(into, 5);
    }
    for (int64_t i = 0; list->kind == TL_VALUE_LIST && i < list->count; i++) {
        int64_t k;
        if (!tl_value_int(list->items[i], &k) || k < 1)
            return fail_at(TL_FAIL(TL_EINVAL, "topk: expected integers from 1 on"), list->items[i]);
        TL_TRY(add_accuracy(into, k));
    }
    if (list->kind == TL_VALUE_LIST && list->count) return TL_OK;
    return fail_at(TL_FAIL(TL_EINVAL, "topk: expected a list of integers, such as [1, 5]"), list);
}

tl_status tli_default_evaluator(tl_default_trainer *t)
{
    const tl_value *evaluator = t->config->train.evaluation.evaluator;
    if (!evaluator || tl_value_is_null(evaluator) || !t->trainer->validation_metrics) return TL_OK;
    const tl_value *target = tl_value_get(evaluator, "_target_");
    const char *name = target && target->kind == TL_VALUE_SCALAR ? tli_last_part(target->text) : "";
    if (strcmp(name, "ClsEvaluator") == 0)
        return add_accuracies(t->trainer->validation_metrics, evaluator);
    return fail_at(TL_FAIL(TL_EUNSUPPORTED,
                           "there is no '%.60s' here (known: ClsEvaluator); a program may build "
                           "one (build_evaluator)",
                           name),
                   evaluator);
}

/* LiBai tells percent. */
static tl_status settle(tl_logs *results)
{
    for (int64_t i = 0; i < tl_logs_count(results); i++) {
        tl_logs_entry e;
        double value;
        tl_logs_at(&e, results, i);
        if (e.kind != TL_LOGS_NUMBER || strncmp(e.name, ACCURACY, strlen(ACCURACY)) != 0) continue;
        TL_TRY(tl_logs_entry_number(&value, &e));
        TL_TRY(tl_logs_put(results, e.name, 100 * value));
    }
    return TL_OK;
}

/* --- test loaders ----------------------------------------------------------------------------- */

typedef struct one_test {
    const char *name;
    tl_config *config; /* of the task, with the data of this loader */
    tl_dataset *data;
} one_test;
struct tli_libai_tests {
    one_test *items;
    int64_t count;
};

/* The task's section with this in the place of validation_data. */
static tl_status open_data(one_test *out, const tl_default_trainer *t, const tl_value *data)
{
    const tl_object *task = &t->experiment->task;
    const tl_task_config *first = task->value;
    TL_TRY(tl_config_new(&out->config, t->registry, task->desc));
    tl_arena *arena = tl_config_arena(out->config);
    TL_TRY(tl_desc_copy(arena, task->desc, tl_config_edit(out->config), task->value));
    tl_task_config *edit = tl_config_edit(out->config);
    edit->validation_data = NULL;
    const tl_value_pair pair = {.key = "validation_data", .place = data->place, .value = data};
    const tl_value *map = tl_value_new_map(arena, data->place, &pair, 1);
    if (!map) return TL_ENOMEM;
    TL_TRY(tl_config_apply(out->config, map));
    tl_data_config *made = edit->validation_data;
    if (!made) return TL_FAIL(TL_EINVAL, "data: expected a map");
    made->global_batch_size = first->validation_data->global_batch_size;
    if (!made->is_training.set) made->is_training = (tl_opt_bool){true, false};
    if (!made->seed.set) made->seed = first->validation_data->seed;
    TL_TRY(tl_config_finish(out->config));
    const tl_input_context input = tli_default_input(t);
    TL_TRY(tl_task_build_inputs(t->task, made, &input, &out->data));
    return tli_trainer_feed(t->trainer, &out->data, 1);
}

tl_status tli_default_tests_open(tl_default_trainer *t)
{
    const tl_libai_test_config *given = t->config->tests.items;
    const int64_t count = t->config->tests.count;
    if (!count || !t->trainer->validation_dataset) return TL_OK;
    t->tests = tl_arena_alloc(t->arena, sizeof *t->tests);
    one_test *items = tl_arena_array(t->arena, count, sizeof *items);
    if (!t->tests || !items) return TL_ENOMEM;
    *t->tests = (struct tli_libai_tests){.items = items};
    for (int64_t i = 0; i < count; i++) {
        items[i].name = given[i].name;
        t->tests->count = i + 1;
        if (!given[i].data || !given[i].name || !*given[i].name)
            return TL_FAIL(TL_EINVAL, "tests[%" PRId64 "]: it needs a name and data", i);
        TL_TRY_NOTE(open_data(&items[i], t, given[i].data), "tests[%" PRId64 "] ('%s')", i,
                    given[i].name);
    }
    return TL_OK;
}

void tli_default_tests_close(tl_default_trainer *t)
{
    for (int64_t i = 0; t->tests && i < t->tests->count; i++) {
        tl_dataset_free(&t->tests->items[i].data);
        tl_config_free(&t->tests->items[i].config);
    }
    t->tests = NULL;
}

tl_status tli_default_evaluate_all(tl_default_trainer *t, tl_logs *results)
{
    const int64_t steps = t->config->train.evaluation.eval_iter;
    TL_TRY(tl_trainer_evaluate(t->trainer, steps, results));
    TL_TRY(settle(results));
    tl_dataset *first = t->trainer->validation_dataset;
    tl_status st = TL_OK;
    for (int64_t i = 0; t->tests && i < t->tests->count && st == TL_OK; i++) {
        tl_logs *own;
        TL_TRY(tl_logs_sub(&own, results, t->tests->items[i].name));
        t->trainer->validation_dataset = t->tests->items[i].data;
        st = tl_trainer_evaluate(t->trainer, steps, own);
        if (st == TL_OK) st = settle(own);
        t->trainer->validation_dataset = first;
    }
    return st;
}
