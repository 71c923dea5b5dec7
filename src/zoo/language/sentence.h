/* The tasks that judge sentences, and what they are asked. Thread word: one thread at a time, but
 * for the methods of predictions. */
#ifndef TLI_ZOO_LANGUAGE_SENTENCE_H
#define TLI_ZOO_LANGUAGE_SENTENCE_H

#include "zoo/language/texts.h"

typedef struct tli_sentence_task {
    tl_task base;
    tl_tokenizer *tokenizers[2]; /* of validation and training, where records hold texts */
    tli_pieces pieces;           /* of the run; none yet, or none at all */
    tl_strings classes;          /* names, as the run has noted them */
    tli_words words;             /* that the model was built for */
} tli_sentence_task;

/* Which data it has: records of texts, own texts; else records of pieces. */
bool tli_sentence_reads_texts(const tl_task *t);
bool tli_sentence_reads_own(const tl_task *t);
int64_t tli_sentence_length(const tl_task *t);

/* --- what a run keeps: methods of the tasks --------------------------------------------------- */

/* Takes what lies in the folder of the run: it goes before what the configuration names. */
TL_NODISCARD tl_status tli_sentence_start(tl_task *t);
/* The vocabulary of own texts; learned, where there is none. */
TL_NODISCARD tl_status tli_sentence_need_pieces(tl_task *t);
TL_NODISCARD tl_status tli_sentence_notes(tl_task *t, tl_notes *into);
TL_NODISCARD tl_status tli_sentence_export_files(tl_task *t, tl_notes *into);
TL_NODISCARD tl_status tli_sentence_set_classes(tl_task *t, tl_strings names);

/* --- predictions: methods of the tasks -------------------------------------------------------- */

TL_NODISCARD tl_status tli_sentence_prepare_query(const tl_task *t, const tl_query *q,
                                                  void *const *inputs);
tl_tensor *tli_sentence_build_answers(const tl_task *t, tl_ctx *c, const tl_tensors *outputs);
void tli_sentence_answer_form(const tl_task *t, tl_answer_form *out);
/* The text of an example, put together from its pieces. */
TL_NODISCARD tl_status tli_sentence_show_example(const tl_task *t, const tl_batch *batch,
                                                 int64_t row, tl_example_view *out);

#endif
