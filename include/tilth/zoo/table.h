/* Tables: a CSV, TSV or npy file, a target column, and a network that learns it; classification or
 * regression.
 *
 *     tilth train --experiment=table --mode=train_and_eval --model_dir=runs/t \
 *         task.train_data.input_path=houses.csv task.target=price
 *     tilth predict --model_dir=runs/t new.csv
 *
 * What the columns are is found from the training data (data/table.h), once: it becomes
 * task.schema, part of the run's params.yaml, of its schema.yaml and of its checkpoints. By the
 * number of rows the experiment chooses what nobody has set: the network, the batch, the steps, the
 * rate. Without task.validation_data.input_path a fifth of the rows is held out.
 *
 * In C, the answers of a model to the rows of a file:
 *
 *     static tl_status show(const tl_table_answer *a, void *payload)
 *     {
 *         printf("line %lld: %s\n", (long long)a->line, a->class_name);
 *         return TL_OK;
 *     }
 *     TL_TRY(tl_table_predict(&(tl_table_predict_args){.model = model, .task = task,
 *                                                      .path = "new.csv", .row = show}));
 *
 * Thread word: immutable (configurations, classes); one thread at a time. */
#ifndef TILTH_ZOO_TABLE_H
#define TILTH_ZOO_TABLE_H

#include <tilth/data/table.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/model.h>
#include <tilth/train/task.h>

TL_BEGIN

/* --- the model -------------------------------------------------------------------------------- */

typedef struct tl_table_model_config {
    tl_ints units;            /* 64, 64: of the dense layers */
    tl_activation activation; /* relu */
    double dropout_rate;      /* 0: behind each */
    bool batch_norm;          /* behind each, before the activation */
    bool linear;              /* true: the inputs reach the result directly as well */
    int64_t embedding_size;   /* 0, by the number of values: numbers that stand for a category */
} tl_table_model_config;
extern TL_API const tl_desc tl_table_model_config_desc;

typedef struct tl_table_model_args {
    tl_engine *engine;
    const tl_table_model_config *config; /* must outlive the model and its copies */
    const tl_table_schema *schema;       /* as well */
    int64_t batch_size;                  /* (optional: 1) of the rehearsal */
    uint64_t seed;
    tl_dtype dtype;
    const tl_registry *registry;
    tl_arena *arena; /* lives as long as the model and its copies */
} tl_table_model_args;
/* Inputs "numbers" float32 [batch, numbers] and "categories" int32 [batch, categories], where the
 * schema has such; gives logits [batch, classes], or standardised numbers [batch, 1]. */
TL_API TL_NODISCARD tl_status tl_table_model_new(tl_model **out, const tl_table_model_args *args);

/* --- the task --------------------------------------------------------------------------------- */

typedef struct tl_table_data_config {
    tl_data_config base;
    tl_table_header header;
    const char *delimiter; /* "": found out */
} tl_table_data_config;
extern TL_API const tl_desc tl_table_data_config_desc;

typedef struct tl_table_task_config {
    tl_task_config base; /* model: tl_table_model_config; data: tl_table_data_config */
    const char *target;  /* "": the last column */
    tl_table_kind kind;  /* auto */
    tl_strings ignore, categories;
    int64_t max_categories;
    double validation_split;
    tl_table_schema *schema; /* NULL: not found yet */
} tl_table_task_config;
extern TL_API const tl_desc tl_table_task_config_desc;
TL_API extern const tl_task_class tl_table_task;

/* --- answers ---------------------------------------------------------------------------------- */

/* Borrowed until the function returns. */
typedef struct tl_table_answer {
    const tl_table *table;
    const tl_cell *cells; /* the row as it is in the file */
    int64_t line;
    double value;     /* of regression: the answer */
    int64_t class_id; /* of classification: the likeliest class */
    const char *class_name;
    const float *shares; /* probabilities of all classes; NULL for regression */
    int64_t classes;
} tl_table_answer;
typedef tl_status tl_table_answer_fn(const tl_table_answer *a, void *payload);

typedef struct tl_table_predict_args {
    tl_model *model;
    const tl_table_task_config *task; /* with a schema */
    tl_engine *engine;
    const char *path;
    int64_t batch_size; /* (optional: 256) */
    /* (optional) Called once before the rows, of which there may be none. */
    tl_status (*begin)(const tl_table *table, void *payload);
    /* called for each row, in order; a failure ends it, and is handed on */
    tl_table_answer_fn *row;
    void *payload;
} tl_table_predict_args;
/* The file needs the columns that the model was trained with, by their names; others, and the
 * target, may be there or not. Values that the training data did not have count as one that is
 * rare. Rows before one that cannot be read are answered. */
TL_API TL_NODISCARD tl_status tl_table_predict(const tl_table_predict_args *args);

/* The task and the experiment, ready for a registry. */
TL_API extern const tl_module tl_table_module;

TL_END

#endif
