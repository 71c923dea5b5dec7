/* Folders as runs leave them, written by hand. */
#ifndef TILTH_TESTS_TOOL_PAST_RUNS_H
#define TILTH_TESTS_TOOL_PAST_RUNS_H

#include "tool/tool_lab.h"

#define WHEN "\"time\": \"2026-11-16T06:45:4%d.500Z\""

/* params.yaml with a rate and a batch size, and metrics.jsonl with three losses and two
 * accuracies. */
static inline void past_run(const char *folder, double rate, int batch, double accuracy)
{
    char path[128], text[4096];
    assert_ok(tl_mkdirs(folder));
    snprintf(path, sizeof path, "%s/params.yaml", folder);
    snprintf(
        text, sizeof text,
        "task:\n  train_data: {global_batch_size: %d, cache: true}\ntrainer:\n"
        "  best_checkpoint_eval_metric: accuracy\n  best_checkpoint_metric_comp: higher\n"
        "  optimizer_config:\n    learning_rate: {type: constant, constant: {learning_rate: %g}}\n",
        batch, rate);
    put_text(path, text);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    size_t n = 0;
    n += (size_t)snprintf(
        text + n, sizeof text - n,
        "{\"event\": \"start\", \"step\": 0, " WHEN
        ", \"experiment\": \"mine\", \"mode\": \"train_and_eval\", \"resumed_from\": null}\n",
        0);
    for (int i = 1; i <= 3; i++) {
        n +=
            (size_t)snprintf(text + n, sizeof text - n,
                             "{\"event\": \"train\", \"step\": %d, " WHEN
                             ", \"metrics\": {\"training_loss\": %g}, \"steps_per_second\": 5.0}\n",
                             10 * i, i, 2.0 / i);
        if (i == 2) continue;
        n += (size_t)snprintf(text + n, sizeof text - n,
                              "{\"event\": \"evaluation\", \"step\": %d, " WHEN
                              ", \"metrics\": {\"accuracy\": %g, \"validation_loss\": %g}}\n",
                              10 * i, i, i == 1 ? accuracy : accuracy - 0.125, 1.0 / i);
    }
    snprintf(text + n, sizeof text - n,
             "{\"event\": \"end\", \"step\": 30, " WHEN
             ", \"mode\": \"train_and_eval\", \"reason\": \"done\", \"seconds\": 65.25}\n",
             4);
    put_text(path, text);
}

#endif
