/* Experiments of language. */
#include "zoo/inner/zoo.h"
#include "zoo/language/build_encoder.h"
#include "zoo/language/encoder.h"
#include "zoo/language/lacks.h"
#include "zoo/language/texts.h"

#define ADAMW(rate)                                                                                \
    "  optimizer_config:\n"                                                                        \
    "    optimizer:\n"                                                                             \
    "      type: adamw\n"                                                                          \
    "      adamw:\n"                                                                               \
    "        weight_decay_rate: 0.01\n"                                                            \
    "        exclude_from_weight_decay: [LayerNorm, layer_norm, bias]\n"                           \
    "    learning_rate:\n"                                                                         \
    "      type: polynomial\n"                                                                     \
    "      polynomial: {initial_learning_rate: " rate ", end_learning_rate: 0.0}\n"                \
    "    warmup: {type: polynomial}\n"

#define PRETRAINING(data)                                                                          \
    "task:\n" data "  model:\n"                                                                    \
    "    encoder: {type: bert}\n"                                                                  \
    "    cls_heads:\n"                                                                             \
    "    - {inner_dim: 768, num_classes: 2, dropout_rate: 0.1, name: next_sentence}\n"             \
    "trainer:\n"                                                                                   \
    "  train_steps: 1000000\n" ADAMW("0.0001")

TLI_EXPERIMENT(pretraining, "bert/pretraining", NULL, tl_masked_lm_task_config_desc,
               "BERT learns a language from hidden words: set task.train_data, and decay_steps and "
               "warmup_steps of the rate",
               "runtime: {enable_xla: true}\n" PRETRAINING(""));
TLI_EXPERIMENT(pretraining_dynamic, "bert/pretraining_dynamic", NULL,
               tl_masked_lm_dynamic_task_config_desc,
               "bert/pretraining in batches of sequences of about one length",
               "runtime: {enable_xla: true}\n" PRETRAINING(""));

#define WIKI                                                                                       \
    "{tfds_name: wikipedia/20201201.en, tfds_split: train, vocab_file_path: " TLI_NO_VOCABULARY    \
    "}\n"
TLI_EXPERIMENT(
    text_wiki_pretraining, "bert/text_wiki_pretraining", NULL, tl_masked_lm_text_task_config_desc,
    "bert/pretraining of texts, whose words are hidden as they are read: set input_path, "
    "vocab_file_path, and tfds_name to ''",
    PRETRAINING("  train_data: " WIKI "  validation_data: " WIKI));
TLI_EXPERIMENT(sentence_prediction, "bert/sentence_prediction", NULL, tl_sentence_task_config_desc,
               "a class, or a number, for one sentence or two: set task.model.num_classes and "
               "task.train_data",
               "task:\n"
               "  model: {encoder: {type: bert}}\n"
               "  validation_data: {drop_remainder: false}\n"
               "trainer:\n" ADAMW("3.0e-05"));

TLI_EXPERIMENT(sentence_prediction_text, "bert/sentence_prediction_text", NULL,
               tl_sentence_text_task_config_desc,
               "bert/sentence_prediction from records of texts: set text_fields and vocab_file too",
               "task:\n"
               "  model: {encoder: {type: bert}}\n"
               "  validation_data: {drop_remainder: false}\n"
               "trainer:\n" ADAMW("3.0e-05"));

/* --- those that are not here yet -------------------------------------------------------------- */

#define ABSENT(id, name_, what, lacks_)                                                            \
    static const tl_experiment_class id = {.cls = {.class_size = sizeof(tl_experiment_class),      \
                                                   .name = name_,                                  \
                                                   .help = what " (not here yet)"},                \
                                           .task = &tl_task_config_desc,                           \
                                           .lacks = lacks_}
ABSENT(squad, "bert/squad", "where in a text the answer to a question stands",
       "answers within texts need a head for where they begin and end; pairs of texts have "
       "classes: 'bert/sentence_prediction'");
ABSENT(tagging, "bert/tagging", "a class for each word",
       "classes of words need a head that judges each of them; whole texts have classes: "
       "'bert/sentence_prediction'");
ABSENT(electra, "electra/pretraining", "words that were replaced are found out",
       "it trains two networks at once, one of which replaces words and one finds them out; hidden "
       "words are guessed by 'bert/pretraining'");
ABSENT(wmt, "wmt_transformer/large", "translations from English to German",
       "translations need a decoder, and beam search; encoders are trained by "
       "'bert/pretraining'");

/* --- small ones ------------------------------------------------------------------------------- */

#define A_HUNDRED_STEPS                                                                            \
    "trainer:\n"                                                                                   \
    "  train_steps: 100\n"                                                                         \
    "  steps_per_loop: 50\n"                                                                       \
    "  summary_interval: 50\n"                                                                     \
    "  checkpoint_interval: 50\n"                                                                  \
    "  validation_interval: 50\n"                                                                  \
    "  optimizer_config:\n"                                                                        \
    "    learning_rate: {polynomial: {decay_steps: 100}}\n"                                        \
    "    warmup: {polynomial: {warmup_steps: 10}}\n"

#define TINY                                                                                       \
    "{type: bert, bert: {vocab_size: 100, hidden_size: 32, num_layers: 2, num_attention_heads: "   \
    "2, intermediate_size: 64, max_position_embeddings: 32}}"

TLI_EXPERIMENT(local, "bert/local", &pretraining.cls, tl_masked_lm_task_config_desc,
               "a tiny BERT on an example of zeros: no files are needed, and it takes a second",
               "runtime: {distribution_strategy: one_device}\n"
               "task:\n"
               "  model:\n"
               "    encoder: " TINY "\n"
               "    cls_heads:\n"
               "    - {inner_dim: 32, num_classes: 2, dropout_rate: 0.1, name: next_sentence}\n"
               "  train_data: &data\n"
               "    input_path: dummy\n"
               "    seq_length: 32\n"
               "    max_predictions_per_seq: 5\n"
               "    global_batch_size: 1\n"
               "  validation_data: *data\n" A_HUNDRED_STEPS);

TLI_EXPERIMENT(sentence_local, "sentence/local", &sentence_prediction.cls,
               tl_sentence_task_config_desc,
               "a tiny BERT judges an example of zeros: no files are needed, and it takes a second",
               "runtime: {distribution_strategy: one_device}\n"
               "task:\n"
               "  model: {num_classes: 2, encoder: " TINY "}\n"
               "  train_data: &data {input_path: dummy, seq_length: 32, global_batch_size: 1}\n"
               "  validation_data: *data\n" A_HUNDRED_STEPS);

/* --- names in Model Garden -------------------------------------------------------------------- */

/* As its gin has them, with the file of each class, and as Python imports them. */
#define ALIAS(id, selector, class_)                                                                \
    static const tl_configurable_class id = TL_GIN_ALIAS("official.nlp." selector, &class_.cls)
#define LAYER_ALIAS(id, file, name)                                                                \
    ALIAS(id##_in_file, "modeling.layers." file "." name, tl_layer_##id);                          \
    ALIAS(id##_in_package, "modeling.layers." name, tl_layer_##id)

ALIAS(build_encoder_alias, "configs.encoders.build_encoder", tli_build_encoder);
ALIAS(encoder_scaffold_in_file, "modeling.networks.encoder_scaffold.EncoderScaffold",
      tl_layer_encoder_scaffold);
ALIAS(encoder_scaffold_in_package, "modeling.networks.EncoderScaffold", tl_layer_encoder_scaffold);
LAYER_ALIAS(transformer_scaffold, "transformer_scaffold", "TransformerScaffold");
LAYER_ALIAS(talking_heads_attention, "talking_heads_attention", "TalkingHeadsAttention");
LAYER_ALIAS(gated_feedforward, "gated_feedforward", "GatedFeedforward");

static const tl_entry entries[] = {
#define ENCODER_ENTRY(id) {&tl_kind_encoder, &tl_encoder_##id.cls},
    TLI_ENCODERS(ENCODER_ENTRY)
#undef ENCODER_ENTRY
        {&tl_kind_layer, &tl_layer_encoder_scaffold.cls},
    {&tl_kind_configurable, &tli_build_encoder.cls},
    {&tl_kind_configurable, &build_encoder_alias.cls},
    {&tl_kind_configurable, &encoder_scaffold_in_file.cls},
    {&tl_kind_configurable, &encoder_scaffold_in_package.cls},
    {&tl_kind_configurable, &transformer_scaffold_in_file.cls},
    {&tl_kind_configurable, &transformer_scaffold_in_package.cls},
    {&tl_kind_configurable, &talking_heads_attention_in_file.cls},
    {&tl_kind_configurable, &talking_heads_attention_in_package.cls},
    {&tl_kind_configurable, &gated_feedforward_in_file.cls},
    {&tl_kind_configurable, &gated_feedforward_in_package.cls},
    {&tl_kind_task, &tl_masked_lm_task.cls},
    {&tl_kind_task, &tl_masked_lm_dynamic_task.cls},
    {&tl_kind_task, &tl_masked_lm_text_task.cls},
    {&tl_kind_task, &tl_sentence_prediction_task.cls},
    {&tl_kind_task, &tl_sentence_prediction_text_task.cls},
    {&tl_kind_task, &tl_text_classification_task.cls},
    {&tl_kind_experiment, &tli_texts_experiment.cls},
    {&tl_kind_experiment, &pretraining.cls},
    {&tl_kind_experiment, &pretraining_dynamic.cls},
    {&tl_kind_experiment, &text_wiki_pretraining.cls},
    {&tl_kind_experiment, &sentence_prediction.cls},
    {&tl_kind_experiment, &sentence_prediction_text.cls},
    {&tl_kind_experiment, &squad.cls},
    {&tl_kind_experiment, &tagging.cls},
    {&tl_kind_experiment, &electra.cls},
    {&tl_kind_experiment, &wmt.cls},
    {&tl_kind_experiment, &local.cls},
    {&tl_kind_experiment, &sentence_local.cls},
};
const tl_module tl_language_module = {TL_MODULE_HEAD("language"), entries, TL_COUNT(entries)};
