/* BERT's weights as others keep them: in folders of Hugging Face (config.json, model.safetensors),
 * and in the checkpoints that were published with BERT (bert_model.ckpt), which have names of
 * variables and no objects. Thread word: one thread at a time. */
#ifndef TLI_ZOO_LANGUAGE_FOREIGN_H
#define TLI_ZOO_LANGUAGE_FOREIGN_H

#include <tilth/zoo/language.h>

#include "zoo/foreign_files.h"

/* --- what there is ---------------------------------------------------------------------------- */

/* What a weight belongs to. Files may lack all of them but the first. */
typedef enum tli_foreign_part {
    TLI_FOREIGN_ENCODER,
    TLI_FOREIGN_POOLER,
    TLI_FOREIGN_WORDS, /* the head that guesses hidden words */
    TLI_FOREIGN_NEXT,  /* the one that judges which sentence follows */
    TLI_FOREIGN_CLASSES,
    TLI_FOREIGN_PARTS
} tli_foreign_part;

/* The model of ours. */
typedef struct tli_foreign_model {
    const tl_bert_config *encoder;
    const char *section;                /* of its encoder: "task.model.encoder.bert" */
    const tl_pretrainer_config *words;  /* it guesses hidden words; NULL: it does not */
    const tl_cls_head_config *next;     /* its head next_sentence; NULL: it has none */
    const tl_sentence_model_config *of; /* it judges sentences; NULL: it does not */
    bool encoder_only;                  /* heads are left alone, also when they are there */
    bool pooler_of_head;                /* but for the dense layer of the one that judges */
} tli_foreign_model;
/* Which of them the model of a task is. What has no such form (norm_first, albert, ...) is
 * TL_EUNSUPPORTED. */
TL_NODISCARD tl_status tli_foreign_encoder(tli_foreign_model *out, const tl_task *t,
                                           const tl_oneof *encoder);
TL_NODISCARD tl_status tli_foreign_pretrainer(tli_foreign_model *out, const tl_task *t);
TL_NODISCARD tl_status tli_foreign_sentences(tli_foreign_model *out, const tl_task *t);

/* One weight. */
typedef struct tli_foreign_weight {
    const char *ours; /* its path in the model */
    tl_shape shape;   /* there */
    int inputs;       /* of a kernel: how many of its first axes are inputs; else 0 */
    bool table;       /* its shape is the same everywhere; else what is no kernel is flat there */
    const char *theirs[TLI_FOREIGN_FORMS]; /* NULL: they have none */
    const char *other; /* another name that Hugging Face has for it; NULL: it has one */
    bool turned;       /* outputs come first in all forms, not in Hugging Face's alone */
    bool only_read;    /* what is written under the name is another weight */
    tli_foreign_part part;
} tli_foreign_weight;
typedef struct tli_foreign_table {
    tli_foreign_weight *items;
    int64_t count, capacity;
} tli_foreign_table;
/* All weights that the model has, in the arena but for the list itself (TL_VEC_FREE). */
TL_NODISCARD tl_status tli_foreign_table_make(tli_foreign_table *out, tl_arena *arena,
                                              const tli_foreign_model *m);
/* Its shape in files of a form. */
tl_shape tli_foreign_shape(const tli_foreign_weight *w, tli_foreign_form form);
bool tli_foreign_is_turned(const tli_foreign_weight *w, tli_foreign_form form);

/* --- files ------------------------------------------------------------------------------------ */

/* The entry of a weight, under whichever of its names; NULL when there is none. */
const tli_foreign_entry *tli_foreign_find(const tli_foreign_files *f, const tli_foreign_weight *w);
/* What the weight is most likely called there; in the files' arena. */
const char *tli_foreign_name(const tli_foreign_files *f, const tli_foreign_weight *w);

/* --- config.json ------------------------------------------------------------------------------ */

/* What config.json says. */
typedef struct tli_foreign_config {
    tl_bert_config bert;
    tl_opt_double layer_norm_eps, hidden_dropout_prob, attention_probs_dropout_prob,
        classifier_dropout;
    const char *hidden_act;
    const char *architecture; /* the first of them; "": it names none */
} tli_foreign_config;
TL_NODISCARD tl_status tli_foreign_config_read(tli_foreign_config *out, tl_arena *arena,
                                               const char *path);
/* Whether the model is of these sizes; what else differs is warned of. */
TL_NODISCARD tl_status tli_foreign_config_check(const tli_foreign_config *c, const char *path,
                                                const tli_foreign_model *m);
/* Writes one for the model; `classes` may be none. */
TL_NODISCARD tl_status tli_foreign_config_write(tl_str *out, const tli_foreign_model *m,
                                                tl_strings classes);

/* --- weights ---------------------------------------------------------------------------------- */

/* The model of a task begins with what lies at a path. When something lacks or does not fit,
 * nothing is written. */
TL_NODISCARD tl_status tli_foreign_initialize(tl_model *m, const char *path,
                                              const tli_foreign_model *what);
/* The method export_weights of tasks: weights under the names of Hugging Face, and config.json. */
TL_NODISCARD tl_status tli_foreign_export(const tl_task *t, const tl_export_args *args,
                                          const tli_foreign_model *what, tl_state *weights,
                                          tl_notes *files);

#endif
