/* Private to zoo: tables.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_ZOO_TABLE_ZOO_H
#define TILTH_SRC_ZOO_TABLE_ZOO_H

#include <tilth/data/pipeline.h>
#include <tilth/zoo/table.h>

/* --- files ------------------------------------------------------------------------------------ */

/* How the files of a data section are read. */
tl_table_args tli_table_args_of(const tl_table_data_config *data);
/* A table that a model is asked about, from memory or from the file, with the coder bound to it.
 * What separates its cells is found out; where columns lack then, it is what the run was told. */
TL_NODISCARD tl_status tli_table_open_asked(tl_table **out, tl_table_coder *coder,
                                            const tl_task_config *task, const tl_query *q);
/* Whether a section names files. */
bool tli_table_is_named(const tl_data_config *data);

/* --- what an evaluation tells ----------------------------------------------------------------- */

/* In the step: logs what tli_table_report_keep reads. `labels` and `outputs` as the task has
 * them. */
TL_NODISCARD tl_status tli_table_report_step(tl_step *s, tl_tensor *labels, tl_tensor *outputs,
                                             bool classes);

/* What is told: of which schema, and of which files the rows are. */
typedef struct tli_table_report_of {
    const tl_table_schema *schema;
    tl_path_list files;
} tli_table_report_of;
TL_NODISCARD tl_status tli_table_report_keep(void **state, const tli_table_report_of *of,
                                             const tl_logs *step);
/* "report": mistakes, or errors, and the worst rows; "balanced_accuracy" of classes. */
TL_NODISCARD tl_status tli_table_report_tell(void *state, const tli_table_report_of *of,
                                             tl_logs *into);
void tli_table_report_free(void *state);
/* The cells of the row that an example is, as they stand in its file. */
TL_NODISCARD tl_status tli_table_show(const tli_table_report_of *of, const tl_table_args *args,
                                      const tl_batch *batch, int64_t row, tl_example_view *out);

/* --- predictions: methods of the task --------------------------------------------------------- */

TL_NODISCARD tl_status tli_table_prepare_query(const tl_task *t, const tl_query *q,
                                               void *const *inputs);
tl_tensor *tli_table_build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs);
void tli_table_answer_form(const tl_task *t, tl_answer_form *out);

/* --- the experiment --------------------------------------------------------------------------- */

extern const tl_experiment_class tli_table_experiment;

#endif
