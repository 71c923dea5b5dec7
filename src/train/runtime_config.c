#include <tilth/train/experiment.h>

#include <string.h>

#include <tilth/base/str.h>

#include "train/strategy.h"

static const char *const precisions[] = {
    [TL_PRECISION_UNSET] = "null",
    [TL_PRECISION_FLOAT32] = "float32",
    [TL_PRECISION_FLOAT16] = "float16",
    [TL_PRECISION_BFLOAT16] = "bfloat16",
    [TL_PRECISION_MIXED_FLOAT16] = "mixed_float16",
    [TL_PRECISION_MIXED_BFLOAT16] = "mixed_bfloat16",
    NULL,
};

#define TPU_ROW(member, text, ...)                                                                 \
    TL_F(tl_runtime_config, member,                                                                \
         .help = text " of TPUs; instead, training runs on the processors of this machine",        \
         __VA_ARGS__)
/* Model Garden declares these, and nothing there looks at them. */
#define UNREAD_ROW(member, text, ...) TL_F(tl_runtime_config, member, .help = text, __VA_ARGS__)

static const tl_field runtime_fields[] = {
    TL_F(tl_runtime_config, distribution_strategy, .s = "mirrored",
         .help = "how processes work together: off and one_device are one process, mirrored is one "
                 "machine, multi_worker_mirrored several; parameter_server and tpu are refused"),
    TL_F(tl_runtime_config, enable_xla, .flags = TL_FIELD_UNREAD,
         .help = "compile the training step; in graph mode it always is (see run_eagerly)"),
    TL_F(tl_runtime_config, num_gpus, TL_AT_LEAST(0),
         .help = "GPUs to use, 0 or 1; 0 runs on the processors of this machine, unless "
                 "tilth.device says otherwise"),
    TL_F(tl_runtime_config, all_reduce_alg, .flags = TL_FIELD_NULLABLE,
         .help = "how gradients of several processes are added: null adds by lanes; "
                 "hierarchical_copy does so on each machine first, and then between machines, with "
                 "the same bits; nccl and ring are not there"),
    TL_F(tl_runtime_config, mixed_precision_dtype, .names = precisions,
         .help = "type to compute in: float32, float16 or bfloat16 (or with mixed_ before it), "
                 "weights staying float32; null is float32"),
    TL_F(tl_runtime_config, loss_scale, .accept = TL_ACCEPT_STRING | TL_ACCEPT_NUMBER,
         .flags = TL_FIELD_NULLABLE,
         .help = "factor of the loss under float16: dynamic (as is null) or a number"),
    TL_F(tl_runtime_config, run_eagerly, .help = "run operation by operation, not as one program"),
    TPU_ROW(tpu, "address", .flags = TL_FIELD_LATER | TL_FIELD_NULLABLE),
    TPU_ROW(tpu_enable_xla_dynamic_padder, "padding of inputs that change their shape, a matter",
            .flags = TL_FIELD_LATER),
    UNREAD_ROW(use_tpu_mp_strategy, "model parallelism on TPUs", .flags = TL_FIELD_UNREAD),
    UNREAD_ROW(num_cores_per_replica, "cores that share one copy of the model", .i = 1,
               .flags = TL_FIELD_UNREAD),
    UNREAD_ROW(default_shard_dim, "dimension along which the model is cut", .i = -1,
               .flags = TL_FIELD_UNREAD),
    UNREAD_ROW(gpu_thread_mode, "threads that feed GPUs",
               .flags = TL_FIELD_UNREAD | TL_FIELD_NULLABLE),
    UNREAD_ROW(per_gpu_thread_count, "threads that feed each GPU", .flags = TL_FIELD_UNREAD),
    UNREAD_ROW(dataset_num_private_threads, "threads of the input alone", .flags = TL_FIELD_UNREAD),
    TL_F(tl_runtime_config, worker_hosts,
         .flags = TL_FIELD_NULLABLE | TL_FIELD_UNSAVED | TL_FIELD_BLANK,
         .help =
             "host:port of all processes of the training, with commas, where TF_CONFIG does not "
             "name them; null: whoever starts them says"),
    TL_F(tl_runtime_config, task_index, .i = -1, TL_AT_LEAST(-1),
         .flags = TL_FIELD_UNSAVED | TL_FIELD_BLANK,
         .help = "which of worker_hosts this process is, from 0"),
    TL_F(tl_runtime_config, num_packs, .i = 1, TL_AT_LEAST(1),
         .help = "messages in which processes exchange a block of gradients, at least (see "
                 "tilth.bucket_mb); results do not depend on it"),
    UNREAD_ROW(batchnorm_spatial_persistent, "another kernel of batch normalization",
               .flags = TL_FIELD_UNREAD),
    TL_F_END,
};

static tl_status check_loss_scale(const tl_value *v)
{
    double scale;
    if (!v || tl_value_is_null(v)) return TL_OK;
    if (tl_value_double(v, &scale)) {
        if (scale > 0) return TL_OK;
    } else if (v->text && strcmp(v->text, "dynamic") == 0) {
        return TL_OK;
    }
    tl_str found = TL_STR_INIT;
    tl_value_name(&found, v);
    tl_status st =
        TL_FAIL(TL_EINVAL, "loss_scale: expected 'dynamic', a number above 0 or null, found %s",
                tl_str_text(&found));
    tl_str_deinit(&found);
    return st;
}

static tl_status check_runtime(const void *value)
{
    const tl_runtime_config *c = value;
    tli_strategy_kind strategy;
    TL_TRY(tli_strategy_find(&strategy, c->distribution_strategy));
    TL_TRY(tli_check_all_reduce(c->all_reduce_alg));
    return check_loss_scale(c->loss_scale);
}

const tl_desc tl_runtime_config_desc = {
    .name = "runtime",
    .help = "on what the training runs, and in which precision",
    .size = sizeof(tl_runtime_config),
    .fields = runtime_fields,
    .check = check_runtime,
};
