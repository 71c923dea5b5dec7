/* What check_random.py asks of the library: batches for training, as a task makes them.
 *
 *     random_driver CONFIG BATCHES
 *
 * CONFIG is a file for the experiment image_classification. Writes "image" and then "label" of one
 * batch after the other, as they lie in memory. */
#include <stdio.h>
#include <stdlib.h>

#include <tilth/tilth.h>

typedef struct work {
    tl_registry *registry;
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    tl_dataset *data;
    tl_ctx *ctx;
} work;

static void give_back(work *w)
{
    tl_ctx_free(&w->ctx);
    tl_dataset_free(&w->data);
    tl_task_free(&w->task);
    tl_strategy_free(&w->strategy);
    tl_config_free(&w->config);
    tl_registry_free(&w->registry);
}

static tl_status prepare(work *w, const char *const *files)
{
    tl_parse_options parse = TL_PARSE_OPTIONS_INIT;
    parse.experiment = "image_classification";
    parse.config_file = (tl_strings){files, 1};
    TL_TRY(tl_registry_new_builtin(&w->registry));
    TL_TRY(tl_experiment_parse(&w->config, w->registry, &parse));
    const tl_experiment_config *params = tl_config_value(w->config);
    TL_TRY(tl_experiment_open(&w->strategy, &w->task, w->registry, params, NULL, 1));
    TL_TRY(tl_ctx_new(&w->ctx, tl_strategy_engine(w->strategy)));
    const tl_input_context one = {.pipelines = 1, .replicas = 1, .seed = 1};
    return tl_task_build_inputs(w->task, w->task->config->train_data, &one, &w->data);
}

static tl_status write_out(const tl_tensor *t)
{
    tl_lease lease;
    TL_TRY(tl_lease_read(&lease, t));
    size_t bytes = (size_t)tl_tensor_count(t) * tl_dtype_size(t->dtype);
    bool whole = fwrite(lease.data, 1, bytes, stdout) == bytes;
    tl_lease_drop(&lease);
    return whole ? TL_OK : TL_FAIL(TL_EIO, "cannot write what was drawn");
}

static tl_status write_batch(work *w)
{
    tl_tensors batch = {0};
    bool more = true;
    TL_TRY(tl_dataset_next(w->data, w->ctx, &batch, &more));
    if (!more) return TL_FAIL(TL_EINVAL, "the examples end; expected them to repeat");
    tl_tensor *image = tl_tensors_get(w->ctx, &batch, "image"),
              *label = tl_tensors_get(w->ctx, &batch, "label");
    TL_TRY(tl_ctx_status(w->ctx));
    TL_TRY(write_out(image));
    return write_out(label);
}

int main(int argc, char **argv)
{
    work w = {0};
    const char *const files[] = {argc > 1 ? argv[1] : NULL};
    tl_status st =
        argc == 3 ? prepare(&w, files) : TL_FAIL(TL_EINVAL, "usage: random_driver CONFIG BATCHES");
    for (long i = 0; st == TL_OK && i < strtol(argv[2], NULL, 10); i++) {
        tl_mark mark = tl_ctx_begin(w.ctx);
        st = write_batch(&w);
        tl_ctx_end(w.ctx, mark);
    }
    if (st != TL_OK) fprintf(stderr, "random_driver: %s\n", tl_error_message());
    give_back(&w);
    return tl_exit_code(st);
}
