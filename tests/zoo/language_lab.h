/* Small models of language whose weights follow a rule, so that numbers of Model Garden's can be
 * compared with. */
#ifndef TILTH_TESTS_ZOO_LANGUAGE_LAB_H
#define TILTH_TESTS_ZOO_LANGUAGE_LAB_H

#include "zoo/zoo_lab.h"

#include <math.h>

#include <tilth/zoo/language.h>

/* The i-th tensor, element k: 0.3 sin(i + 1 + 0.7 k), and 1 more in scales of norms. */
static inline void put_rule(tl_model *m, const char *path, int i)
{
    const tl_param *p = tl_model_find(m, path);
    if (!p) fail_msg("there is no parameter '%s'", path);
    tl_lease l;
    assert_ok(tl_lease_discard(&l, p->tensor));
    const size_t length = strlen(path);
    const bool scale = length >= 5 && strcmp(path + length - 5, "gamma") == 0;
    for (int64_t k = 0; k < tl_tensor_count(p->tensor); k++)
        ((float *)l.data)[k] = (float)(0.3 * sin(i + 1 + 0.7 * (double)k) + (scale ? 1 : 0));
    assert_ok(tl_lease_end(&l));
}

static inline int put_rules(tl_model *m, int i, const char *prefix, const char *const *names)
{
    char path[128];
    for (; *names; names++) {
        snprintf(path, sizeof path, "%s%s", prefix, *names);
        put_rule(m, path, i++);
    }
    return i;
}

static const char *const tables[] = {"word_embeddings/embeddings", "position_embedding/embeddings",
                                     "type_embeddings/embeddings", "embeddings_layer_norm/gamma",
                                     "embeddings_layer_norm/beta", NULL};
static const char *const block[] = {"self_attention/query/kernel",
                                    "self_attention/query/bias",
                                    "self_attention/key/kernel",
                                    "self_attention/key/bias",
                                    "self_attention/value/kernel",
                                    "self_attention/value/bias",
                                    "self_attention/attention_output/kernel",
                                    "self_attention/attention_output/bias",
                                    "self_attention_layer_norm/gamma",
                                    "self_attention_layer_norm/beta",
                                    "intermediate/kernel",
                                    "intermediate/bias",
                                    "output/kernel",
                                    "output/bias",
                                    "output_layer_norm/gamma",
                                    "output_layer_norm/beta",
                                    NULL};
static const char *const pooler[] = {"pooler_transform/kernel", "pooler_transform/bias", NULL};

static const char *const next_sentence[] = {"pooler_dense/kernel", "pooler_dense/bias",
                                            "logits/kernel", "logits/bias", NULL};
static const char *const guesses[] = {
    "bias", "dense/kernel", "dense/bias", "layer_norm/gamma", "layer_norm/beta", NULL};

/* The model of bert/pretraining with two layers. */
static inline void put_pretrainer_rules(tl_model *m)
{
    int i = put_rules(m, 0, "next_sentence/", next_sentence);
    i = put_rules(m, i, "encoder/", tables);
    i = put_rules(m, i, "encoder/layer_0/", block);
    i = put_rules(m, i, "encoder/layer_1/", block);
    i = put_rules(m, i, "encoder/", pooler);
    assert_int_equal(put_rules(m, i, "masked_lm/", guesses), 48);
    assert_int_equal(tl_model_param_count(m), 48);
}

#define SIZES                                                                                      \
    "vocab_size: 11, hidden_size: 4, num_layers: 2, num_attention_heads: 2, intermediate_size: "   \
    "6, "                                                                                          \
    "max_position_embeddings: 8, type_vocab_size: 2, dropout_rate: 0, attention_dropout_rate: 0"

static const int32_t ids[] = {2, 5, 4, 7, 3, 0, 2, 6, 8, 4, 9, 3},
                     mask[] = {1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1},
                     types[] = {0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1}, positions[] = {2, 0, 3, 1};

#endif
