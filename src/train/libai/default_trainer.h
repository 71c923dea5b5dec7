/* Private to train: pieces of the default trainer by file.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_DEFAULT_TRAINER_H
#define TLI_TRAIN_DEFAULT_TRAINER_H

#include <tilth/train/libai/default_trainer.h>

/* The nearest class up the chain that fills a method, the base at last. */
#define TLI_DEFAULT_CALL(t, method)                                                                \
    TL_CLASS_METHOD_OR(tl_default_trainer_class, (t)->cls, method, tl_base_default_trainer)

/* The base's methods. */
TL_NODISCARD tl_status tli_default_build_hooks(tl_default_trainer *t);
TL_NODISCARD tl_status tli_default_build_writers(tl_default_trainer *t);
TL_NODISCARD tl_status tli_default_test(tl_default_trainer *t, tl_logs *results);

/* Which part of the data is read. */
tl_input_context tli_default_input(const tl_default_trainer *t);
/* Adds what train.evaluation.evaluator tells to what the trainer tells of evaluations. */
TL_NODISCARD tl_status tli_default_evaluator(tl_default_trainer *t);
/* The test loaders behind the first, once there is a trainer. */
TL_NODISCARD tl_status tli_default_tests_open(tl_default_trainer *t);
void tli_default_tests_close(tl_default_trainer *t);
/* Evaluates with all of them: results of the first as they are, those of others below their
 * names. */
TL_NODISCARD tl_status tli_default_evaluate_all(tl_default_trainer *t, tl_logs *results);

/* A run in the words of experiments: all but its optimizer and schedule. Batch sizes are resolved
 * already. */
TL_NODISCARD tl_status tli_libai_experiment(tl_experiment_config **out, tl_arena *arena,
                                            const tl_libai_config *config, int64_t replicas);
/* What of it follows from scaling. */
void tli_libai_scaled(tl_experiment_config *experiment, const tl_libai_train_config *train);

/* Fills t->experiment, but for what is scaled later, from t->config. */
TL_NODISCARD tl_status tli_default_experiment(tl_default_trainer *t);
/* What follows from scaling. */
void tli_default_scaled(tl_default_trainer *t);

/* The last iteration in the folder's metrics.json that is not after `most`; `most` when there is no
 * such file. */
TL_NODISCARD tl_status tli_last_told(int64_t *out, const char *folder, int64_t most);
/* Moves what a run has left in a folder into previous-N below it; `notes` are those of the run that
 * takes its place. */
TL_NODISCARD tl_status tli_set_aside(const char *folder, const tl_notes *notes);

#endif
