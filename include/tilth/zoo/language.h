/* Language: encoders of text, the models around them, and the tasks that train them.
 *
 *     tilth train --experiment=bert/pretraining --config_file=wiki_books_pretrain.yaml \
 *         --mode=train --model_dir=runs/bert task.train_data.input_path=records.tfrecord
 *     tilth train --experiment=bert/sentence_prediction --mode=train_and_eval ... \
 *         task.init_checkpoint=runs/bert
 *
 * In C, without a task:
 *
 *     tl_pretrainer_config m;
 *     TL_TRY(tl_desc_defaults(arena, &tl_pretrainer_config_desc, &m));
 *     TL_TRY(tl_pretrainer_new(&model, &(tl_pretrainer_args){
 *         .engine = e, .config = &m, .registry = r, .arena = arena, .seq_length = 128,
 *         .predictions = 20}));
 *     tl_call_all(c, model, &in, &out); // input_word_ids, input_mask, input_type_ids,
 *                                       // masked_lm_positions; gives mlm_logits, next_sentence
 *
 * Names, defaults and arithmetic are those of Model Garden's official/nlp. What it has and is not
 * here yet is refused when it is asked for. An encoder of one's own is a class of the kind
 * `encoder`: a described configuration and a function that makes a layer.
 *
 * Thread word: immutable (configurations, classes). */
#ifndef TILTH_ZOO_LANGUAGE_H
#define TILTH_ZOO_LANGUAGE_H

#include <tilth/data/image_folder.h>
#include <tilth/io/table.h>
#include <tilth/nn/model.h>
#include <tilth/nn/transformer.h>
#include <tilth/train/task.h>

TL_BEGIN

TL_API extern const tl_module tl_language_module;

/* --- encoders --------------------------------------------------------------------------------- */

/* What build_encoder (gin) gives to the encoder that it makes. */
typedef struct tl_encoder_parts {
    tl_ref embedding_layer; /* of words; none: a table */
} tl_encoder_parts;

typedef struct tl_encoder_class {
    tl_class cls;
    /* (optional: refused, there is no such encoder yet) A layer under the scope's that makes
     * "sequence_output" [batch, length, size] and "pooled_output" [batch, size] of
     * "input_word_ids", "input_mask" and "input_type_ids" [batch, length]. `config` stays valid as
     * long as the model. */
    tl_layer *(*make)(tl_scope *s, const char *name, const void *config,
                      const tl_encoder_parts *parts);
    /* (optional) Sizes, for whoever stands on it; 0 where it does not say. */
    int64_t (*hidden_size)(const void *config);
    /* (optional) Which objects its layers, below "encoder", are in checkpoints of Model Garden. */
    tl_status (*original_names)(const void *config, tl_original_names *into);
} tl_encoder_class;
TL_API extern const tl_kind tl_kind_encoder;

/* bert and bert_v2 compute the same; their checkpoints name things in other ways. */
typedef struct tl_bert_config {
    int64_t vocab_size, hidden_size, num_layers, num_attention_heads; /* 30522, 768, 12, 12 */
    const char *hidden_activation;                                    /* gelu */
    int64_t intermediate_size;                                        /* 3072 */
    double dropout_rate, attention_dropout_rate;                      /* 0.1 */
    int64_t max_position_embeddings, type_vocab_size;                 /* 512, 2 */
    double initializer_range;                                         /* 0.02 */
    tl_opt_int embedding_size; /* null: hidden_size; else tables are narrower */
    tl_opt_int output_range;   /* null: all; else only so many first places come out */
    bool return_all_encoder_outputs, return_attention_scores, return_word_embeddings;
    bool norm_first;
} tl_bert_config;

/* One block whose weights serve every layer. */
typedef struct tl_albert_config {
    int64_t vocab_size, embedding_width, hidden_size, num_layers, num_attention_heads;
    const char *hidden_activation;
    int64_t intermediate_size;
    double dropout_rate, attention_dropout_rate;
    int64_t max_position_embeddings, type_vocab_size;
    double initializer_range;
} tl_albert_config;
TL_API extern const tl_encoder_class tl_encoder_bert, tl_encoder_bert_v2, tl_encoder_albert,
    tl_encoder_any;

/* The encoder that a one-of chooses, or that gin's build_encoder makes of it, as the layer `name`.
 * NULL, with the scope's failure, when that failed. */
TL_API tl_layer *tl_build_encoder(tl_scope *s, const char *name, const tl_oneof *encoder);
/* Its table of words [words, width], a parameter; NULL when it has none. */
TL_API tl_tensor *tl_encoder_table(const tl_layer *encoder);

/* An encoder of parts that gin names: `EncoderScaffold.hidden_cls = @TransformerScaffold`. Takes
 * and gives what encoders do. */
typedef struct tl_scaffold_embedding {
    int64_t vocab_size, type_vocab_size, hidden_size, max_seq_length; /* required */
    tl_opt_int seq_length;                                            /* without effect */
    tl_oneof initializer;
    double dropout_rate;
} tl_scaffold_embedding;
typedef struct tl_scaffold_hidden {
    int64_t num_attention_heads, intermediate_size; /* required */
    const char *intermediate_activation;
    double dropout_rate, attention_dropout_rate;
    tl_oneof kernel_initializer;
} tl_scaffold_hidden;
typedef struct tl_encoder_scaffold_config {
    tl_layer_config layer;
    int64_t pooled_output_dim;            /* required */
    tl_oneof pooler_layer_initializer;    /* truncated normal, 0.02 */
    tl_ref embedding_cls;                 /* words, places and types */
    tl_scaffold_embedding *embedding_cfg; /* or NULL */
    tl_ref embedding_data;                /* (later) */
    int64_t num_hidden_instances;         /* 1 */
    tl_ref hidden_cls;                    /* transformer_encoder_block */
    tl_scaffold_hidden *hidden_cfg;       /* or NULL */
    tl_ref mask_cls;                      /* self_attention_mask */
    const tl_value *mask_cfg;             /* (later) */
    bool layer_norm_before_pooling;
    bool return_all_layer_outputs, dict_outputs;
    bool layer_idx_as_attention_seed; /* without effect: draws differ by layer */
    bool feed_layer_idx, recursive;   /* (later) */
} tl_encoder_scaffold_config;
TL_API extern const tl_layer_class tl_layer_encoder_scaffold;

/* --- models ----------------------------------------------------------------------------------- */

typedef struct tl_cls_head_config {
    int64_t inner_dim, num_classes; /* 0, 2 */
    const char *activation;         /* tanh */
    double dropout_rate;
    int64_t cls_token_idx;
    const char *name; /* null: cls */
} tl_cls_head_config;

/* An encoder, the head that guesses hidden words, and heads that judge the sequence. */
typedef struct tl_pretrainer_config {
    tl_oneof encoder;                 /* of tl_kind_encoder: bert */
    tl_structs cls_heads;             /* of tl_cls_head_config; none */
    const char *mlm_activation;       /* gelu */
    double mlm_initializer_range;     /* 0.02 */
    bool mlm_output_weights_use_proj; /* (later) */
} tl_pretrainer_config;
extern TL_API const tl_desc tl_cls_head_config_desc, tl_pretrainer_config_desc;

typedef struct tl_pretrainer_args {
    tl_engine *engine;
    const tl_pretrainer_config *config;          /* must outlive the model and its copies */
    int64_t batch_size, seq_length, predictions; /* (optional: 1) of the rehearsal */
    uint64_t seed;
    tl_dtype dtype;
    const tl_registry *registry; /* knows the encoder; must outlive the model and its copies */
    tl_arena *arena;             /* lives as long as the model and its copies */
} tl_pretrainer_args;
/* Gives what the encoder gives; "mlm_logits" [batch, P, words] where there are masked_lm_positions;
 * and the scores of each head under its name. */
TL_API TL_NODISCARD tl_status tl_pretrainer_new(tl_model **out, const tl_pretrainer_args *args);

/* Scores of classes, or one number, from the first place or from what the encoder pools. */
typedef struct tl_sentence_model_config {
    int64_t num_classes;     /* 0; 1 is a number */
    bool use_encoder_pooler; /* the head is given pooled_output */
    tl_oneof encoder;        /* of tl_kind_encoder: bert */
} tl_sentence_model_config;
extern TL_API const tl_desc tl_sentence_model_config_desc;

typedef struct tl_sentence_model_args {
    tl_engine *engine;
    const tl_sentence_model_config *config; /* must outlive the model and its copies */
    int64_t batch_size, seq_length;         /* (optional: 1) of the rehearsal */
    uint64_t seed;
    tl_dtype dtype;
    const tl_registry *registry; /* knows the encoder; must outlive the model and its copies */
} tl_sentence_model_args;
/* Gives [batch, num_classes]. The head is "sentence_prediction". */
TL_API TL_NODISCARD tl_status tl_sentence_model_new(tl_model **out,
                                                    const tl_sentence_model_args *args);

/* --- data ------------------------------------------------------------------------------------- */

typedef enum tl_language_files {
    TL_LANGUAGE_TFRECORD,
    TL_LANGUAGE_SSTABLE, /* (refused) */
    TL_LANGUAGE_RECORDIO /* (refused) */
} tl_language_files;

/* Records of hidden words, as create_pretraining_data writes them. With input_path: dummy there is
 * one example of zeros. */
typedef struct tl_pretrain_data_config {
    tl_data_config base;
    int64_t seq_length, max_predictions_per_seq; /* 512, 76 */
    bool use_next_sentence_label;                /* true */
    bool use_position_id;
    bool use_v2_feature_names; /* input_word_ids, input_type_ids; else input_ids, segment_ids */
    tl_language_files file_type;
} tl_pretrain_data_config;

/* The same, in batches of sequences of about one length. */
typedef struct tl_pretrain_dynamic_data_config {
    tl_data_config base;
    tl_ints seq_bucket_lengths; /* 128, 256, 384, 512 */
    int64_t seq_bucket_window_scale;
    bool use_next_sentence_label, use_position_id, use_v2_feature_names;
    bool enable_round_robin_tf_data_service; /* (later) */
} tl_pretrain_dynamic_data_config;

/* Records of sequences with a label. */
typedef struct tl_sentence_data_config {
    tl_data_config base;
    int64_t seq_length;      /* 128 */
    const char *label_type;  /* int or float */
    bool include_example_id; /* examples have a number, example_id */
    const char *label_field; /* label_ids */
    const char *label_name;  /* null: label_field; under which the label is told */
    tl_language_files file_type;
} tl_sentence_data_config;

typedef enum tl_tokenization {
    TL_TOKENIZE_WORDPIECE,
    TL_TOKENIZE_SENTENCEPIECE /* (later) */
} tl_tokenization;

/* Records of texts with a label; texts are cut by tensorflow-text's rules. */
typedef struct tl_sentence_text_data_config {
    tl_data_config base;
    tl_strings text_fields;  /* required: one feature, or two for pairs */
    const char *label_field; /* label */
    const char *label_type;  /* int or float */
    bool include_example_id; /* examples have a number, example_id */
    int64_t seq_length;      /* 128 */
    tl_tokenization tokenization;
    const char *vocab_file;                   /* required */
    bool lower_case;                          /* true */
    const char *preprocessing_hub_module_url; /* (later) */
    tl_language_files file_type;
} tl_sentence_text_data_config;

/* Own texts with a class each: tables (CSV, TSV), files with a JSON object on each line, or folders
 * with one of .txt files for each class. */
typedef struct tl_text_data_config {
    tl_data_config base;
    /* of tables and JSON: which column is what; "": as the experiment `texts` finds them */
    const char *text_column, *second_text_column, *label_column;
    tl_table_header header;
    const char *delimiter; /* what separates cells, or tab; "": it is found out */
    /* of training: share of the pieces that are hidden behind [MASK], others in each pass */
    double word_dropout;
    /* share that is held out for validation, by what the text is: data/image_folder.h */
    double holdout;
    /* auto: what is left for train_data, what is held out for validation_data */
    tl_holdout_part holdout_part;
} tl_text_data_config;
/* Texts whose words are hidden as they are read, others in each pass: TFRecords, or .txt files with
 * a sentence on each line and an empty line between documents. tensorflow-text's rules cut them;
 * they are lowered where the vocabulary has no capital letters. */
typedef struct tl_pretrain_text_data_config {
    tl_data_config base;    /* deterministic: the first words are hidden, not random ones */
    int64_t doc_batch_size; /* 8: documents among which sentences are drawn that do not follow */
    int64_t seq_length, max_predictions_per_seq; /* 512, 76 */
    bool use_next_sentence_label;                /* true */
    tl_strings text_field_names;                 /* text */
    const char *vocab_file_path;
    double masking_rate; /* 0.15 */
    bool use_whole_word_masking;
    tl_language_files file_type;
} tl_pretrain_text_data_config;
extern TL_API const tl_desc tl_pretrain_data_config_desc, tl_pretrain_dynamic_data_config_desc,
    tl_pretrain_text_data_config_desc, tl_sentence_data_config_desc,
    tl_sentence_text_data_config_desc, tl_text_data_config_desc;

/* --- tasks ------------------------------------------------------------------------------------ */

typedef struct tl_masked_lm_task_config {
    tl_task_config base;
    bool scale_loss; /* by the number of replicas */
} tl_masked_lm_task_config;
extern TL_API const tl_desc tl_masked_lm_task_config_desc, tl_masked_lm_dynamic_task_config_desc,
    tl_masked_lm_text_task_config_desc;
/* masked_lm: hidden words, and whether the second sentence follows the first. */
TL_API extern const tl_task_class tl_masked_lm_task, tl_masked_lm_dynamic_task,
    tl_masked_lm_text_task;

typedef struct tl_sentence_task_config {
    tl_task_config base;
    bool init_cls_pooler;       /* the head begins with what judged next sentences */
    const char *hub_module_url; /* a folder of weights; "": none */
    const char *metric_type;    /* accuracy, f1, matthews_corrcoef, pearson_spearman_corr */
} tl_sentence_task_config;

/* The same for own texts. The vocabulary is, in this order: that of the run, vocab.txt or
 * tokenizer.json in its folder; vocab_file; that which lies beside init_checkpoint; one that is
 * learned from the texts to train with. It is kept in the run's folder. */
typedef struct tl_text_task_config {
    tl_sentence_task_config base;
    tl_strings class_names; /* in the order of their numbers; found in the data by `texts` */
    const char *vocab_file; /* vocab.txt, tokenizer.json, or a folder with one; "": as above */
    int64_t vocab_size;     /* 8000: pieces that are learned, at most */
    tl_opt_bool lower_case; /* null: as the vocabulary says, else texts are lowered */
    int64_t seq_length;     /* 128 */
} tl_text_task_config;
extern TL_API const tl_desc tl_sentence_task_config_desc, tl_sentence_text_task_config_desc,
    tl_text_task_config_desc;
TL_API extern const tl_task_class tl_sentence_prediction_task, tl_sentence_prediction_text_task,
    tl_text_classification_task;

TL_END

#endif
