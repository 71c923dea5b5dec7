/* What a set of examples is configured with: where it lies, how it is read, shuffled and batched.
 *
 *     task:
 *       train_data: {input_path: 'train*.tfrecord', global_batch_size: 64, is_training: true}
 *
 *     typedef struct my_data_config { tl_data_config base; int64_t width; } my_data_config;
 *     const tl_desc my_data_desc = {.name = "my_data", .size = sizeof(my_data_config),
 *                                   .fields = my_fields, .base = &tl_data_config_desc};
 *
 * Names and defaults are those of Model Garden's DataConfig, but for `sampler`, which is LiBai's
 * and left out of what is written while it is null; tasks derive from it.
 *
 * Thread word: immutable. */
#ifndef TILTH_DATA_CONFIG_H
#define TILTH_DATA_CONFIG_H

#include <tilth/data/sampler.h>

TL_BEGIN

typedef struct tl_data_config {
    /* A pattern, several separated by commas, a list of them, a map of names to such, or NULL. */
    const tl_value *input_path;
    const tl_value *tfds_name; /* a string or a map */
    const char *tfds_split;
    int64_t global_batch_size;
    tl_opt_bool is_training;
    bool drop_remainder;
    int64_t shuffle_buffer_size;
    bool cache;
    tl_opt_int cycle_length;
    int64_t block_length;
    tl_opt_int ram_budget;
    tl_opt_bool deterministic;
    bool sharding;
    bool enable_tf_data_service;
    const char *tf_data_service_address, *tf_data_service_job_name; /* or NULL */
    const char *tfds_data_dir;
    bool tfds_as_supervised;
    const char *tfds_skip_decoding_feature;
    bool enable_shared_tf_data_service_between_parallel_trainers;
    bool apply_tf_data_service_before_batching;
    const char *trainer_id; /* or NULL */
    tl_opt_int seed;
    tl_opt_int prefetch_buffer_size;
    const char *autotune_algorithm; /* or NULL */
    tl_sampler_config *sampler;     /* of LiBai; NULL: the order is what stands above */
} tl_data_config;

extern TL_API const tl_desc tl_data_config_desc;

/* Whether a value of it such as input_path says anything: NULL, null, an empty text, list or map do
 * not. */
TL_API bool tl_paths_given(const tl_value *paths);

TL_END

#endif
