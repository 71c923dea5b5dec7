/* BERTs of others, for `tilth ckpt convert`: folders of Hugging Face, and the checkpoints of BERT's
 * first release.
 *
 *     tl_original_names names;
 *     TL_TRY(tl_original_names_init(&names));
 *     TL_TRY_DONE(st, tli_bert_read(&state, &names, "bert-base-uncased", engine, &left_out));
 *     st = tl_original_write("bert/ckpt-0", state, &names, NULL); // for Model Garden
 *
 * Thread word: one thread at a time. */
#ifndef TLI_ZOO_FOREIGN_H
#define TLI_ZOO_FOREIGN_H

#include <tilth/train/run/original.h>

/* Whether a path is one that says itself what its model is: by config.json, or bert_config.json. */
bool tli_bert_is_foreign(const char *path);
/* All its weights, as a state of a trainer has them ("model/encoder/..."), and the names that they
 * have in Model Garden. `left_out` gets a line for each weight that no model of ours has. */
TL_NODISCARD tl_status tli_bert_read(tl_state **out, tl_original_names *names, const char *path,
                                     tl_engine *engine, tl_str *left_out);

#endif
