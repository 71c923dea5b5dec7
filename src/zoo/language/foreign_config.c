/* config.json of Hugging Face: read, held against a model of ours, written. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>

#include "io/inner/json_text.h"
#include "zoo/language/foreign.h"

enum { LONGEST_JSON = 16 << 20, LARGEST_SIZE = 1 << 26, MOST_LAYERS = 1024 };
static const double epsilon = 1e-12;    // of every norm of ours
static const double head_dropout = 0.1; // of sentence_prediction

/* --- activations ------------------------------------------------------------------------------ */

/* Theirs, and what it is called here; of several the first is written. */
static const struct {
    const char *theirs, *ours;
    tl_activation function;
} activations[] = {
    {"gelu_new", "gelu", TL_ACT_GELU_TANH},   {"gelu_pytorch_tanh", "gelu", TL_ACT_GELU_TANH},
    {"gelu_fast", "gelu", TL_ACT_GELU_TANH},  {"gelu", "gelu_erf", TL_ACT_GELU},
    {"gelu_python", "gelu_erf", TL_ACT_GELU}, {"relu", "relu", TL_ACT_RELU},
    {"relu6", "relu6", TL_ACT_RELU6},         {"silu", "silu", TL_ACT_SILU},
    {"swish", "silu", TL_ACT_SILU},           {"tanh", "tanh", TL_ACT_TANH},
    {"sigmoid", "sigmoid", TL_ACT_SIGMOID},   {"mish", "mish", TL_ACT_MISH},
    {"linear", "linear", TL_ACT_NONE},
};

static const char *activation_here(const char *theirs)
{
    for (int64_t i = 0; i < TL_COUNT(activations); i++)
        if (strcmp(activations[i].theirs, theirs) == 0) return activations[i].ours;
    return NULL;
}

static tl_status activation_there(const char **out, const char *section, const char *ours)
{
    tl_activation function;
    TL_TRY_NOTE(tl_transformer_activation(&function, ours), "%s", section);
    for (int64_t i = 0; i < TL_COUNT(activations); i++)
        if (activations[i].function == function) {
            *out = activations[i].theirs;
            return TL_OK;
        }
    return TL_FAIL(TL_EUNSUPPORTED, "%s: Hugging Face's BERT has no activation '%s'", section,
                   ours);
}

/* --- reading ---------------------------------------------------------------------------------- */

#define BERT(member) offsetof(tl_bert_config, member)
static const struct {
    const char *theirs, *ours;
    size_t at;
    int64_t most;
    int64_t default_; /* 0: it must be there */
} sizes[] = {
    {"vocab_size", "vocab_size", BERT(vocab_size), LARGEST_SIZE, 0},
    {"hidden_size", "hidden_size", BERT(hidden_size), LARGEST_SIZE, 0},
    {"num_hidden_layers", "num_layers", BERT(num_layers), MOST_LAYERS, 0},
    {"num_attention_heads", "num_attention_heads", BERT(num_attention_heads), LARGEST_SIZE, 0},
    {"intermediate_size", "intermediate_size", BERT(intermediate_size), LARGEST_SIZE, 0},
    {"max_position_embeddings", "max_position_embeddings", BERT(max_position_embeddings),
     LARGEST_SIZE, 512},
    {"type_vocab_size", "type_vocab_size", BERT(type_vocab_size), LARGEST_SIZE, 2},
};

static int64_t size_of(const tl_bert_config *k, int64_t i)
{
    return *(const int64_t *)((const char *)k + sizes[i].at);
}

static tl_status read_size(tl_bert_config *k, const json_t *json, const char *path, int64_t i)
{
    const json_t *v = json_object_get(json, sizes[i].theirs);
    int64_t value = v ? json_integer_value(v) : sizes[i].default_;
    if ((v && !json_is_integer(v)) || value < 1 || value > sizes[i].most)
        return TL_FAIL(TL_EINVAL, "%s: \"%s\" should be a whole number from 1 to %" PRId64, path,
                       sizes[i].theirs, sizes[i].most);
    *(int64_t *)((char *)k + sizes[i].at) = value;
    return TL_OK;
}

static tl_opt_double number(const json_t *json, const char *key)
{
    const json_t *v = json_object_get(json, key);
    return json_is_number(v) ? (tl_opt_double){true, json_number_value(v)} : (tl_opt_double){0};
}

/* "" when it is not there. */
static const char *text(const json_t *json, const char *key)
{
    const char *v = json_string_value(json_object_get(json, key));
    return v ? v : "";
}

static tl_status check_kind(const json_t *json, const char *path)
{
    const char *type = text(json, "model_type"), *place = text(json, "position_embedding_type");
    if (!json_is_object(json)) return TL_FAIL(TL_EINVAL, "%s: expected an object", path);
    if (*type && strcmp(type, "bert") != 0)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "%s: \"model_type\" is '%.80s'; weights of 'bert' alone can be read", path,
                       type);
    if (*place && strcmp(place, "absolute") != 0)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "%s: \"position_embedding_type\" is '%.80s'; there is 'absolute' alone",
                       path, place);
    if (json_is_true(json_object_get(json, "is_decoder")))
        return TL_FAIL(TL_EUNSUPPORTED, "%s: \"is_decoder\" is true; there are encoders alone",
                       path);
    return TL_OK;
}

static tl_status fill(tli_foreign_config *out, tl_arena *arena, const json_t *json,
                      const char *path)
{
    TL_TRY(check_kind(json, path));
    for (int64_t i = 0; i < TL_COUNT(sizes); i++) TL_TRY(read_size(&out->bert, json, path, i));
    if (out->bert.hidden_size % out->bert.num_attention_heads)
        return TL_FAIL(TL_EINVAL, "%s: \"hidden_size\" is no multiple of \"num_attention_heads\"",
                       path);
    out->layer_norm_eps = number(json, "layer_norm_eps");
    out->hidden_dropout_prob = number(json, "hidden_dropout_prob");
    out->attention_probs_dropout_prob = number(json, "attention_probs_dropout_prob");
    out->classifier_dropout = number(json, "classifier_dropout");
    const char *act = text(json, "hidden_act");
    const char *first =
        json_string_value(json_array_get(json_object_get(json, "architectures"), 0));
    out->hidden_act = tl_arena_strdup(arena, *act ? act : "gelu");
    out->bert.hidden_activation = out->hidden_act ? activation_here(out->hidden_act) : NULL;
    out->bert.dropout_rate = out->hidden_dropout_prob.value;
    out->bert.attention_dropout_rate = out->attention_probs_dropout_prob.value;
    out->architecture = tl_arena_strdup(arena, first ? first : "");
    return out->hidden_act && out->architecture ? TL_OK : TL_ENOMEM;
}

tl_status tli_foreign_config_read(tli_foreign_config *out, tl_arena *arena, const char *path)
{
    json_error_t error;
    char *data;
    size_t size;
    *out = (tli_foreign_config){0};
    TL_TRY(tl_file_read(&data, &size, path, LONGEST_JSON));
    json_t *json = json_loadb(data, size, JSON_REJECT_DUPLICATES, &error);
    tl_status st = json ? fill(out, arena, json, path)
                        : TL_FAIL(TL_EINVAL, "%s:%d: %s", path, error.line, error.text);
    json_decref(json);
    tl_free(data);
    return st;
}

/* --- comparing -------------------------------------------------------------------------------- */

static tl_status check_sizes(const tli_foreign_config *c, const char *path,
                             const tli_foreign_model *m)
{
    tl_str differ = TL_STR_INIT, set = TL_STR_INIT;
    tl_status st = TL_OK;
    bool words = c->bert.vocab_size != m->encoder->vocab_size;
    for (int64_t i = 0; i < TL_COUNT(sizes); i++) {
        const int64_t there = size_of(&c->bert, i), here = size_of(m->encoder, i);
        if (there == here) continue;
        tl_str_addf(&differ, "%s%s is %" PRId64 " there, and %s is %" PRId64,
                    differ.length ? "; " : "", sizes[i].theirs, there, sizes[i].ours, here);
        tl_str_addf(&set, "%s%s.%s=%" PRId64, set.length ? " " : "", m->section, sizes[i].ours,
                    there);
    }
    if (differ.length)
        st = TL_FAIL(TL_EINVAL, "%s: the model has other sizes than %s: %s; set %s%s", path,
                     m->section, tl_str_text(&differ), tl_str_text(&set),
                     words ? " (the vocabulary is another one: data must be made with the one of "
                             "these weights, vocab.txt)"
                           : "");
    tl_str_deinit(&differ);
    tl_str_deinit(&set);
    return st;
}

static void warn_activation(const tli_foreign_config *c, const char *path, const char *key,
                            const char *ours)
{
    const char *wanted = activation_here(c->hidden_act);
    tl_activation a, b;
    if (!wanted) {
        TL_LOG_WARNING("%s: hidden_act is '%.80s', which is not known here, and %s is '%s': what "
                       "is computed may differ",
                       path, c->hidden_act, key, ours);
        return;
    }
    if (tl_transformer_activation(&a, wanted) == TL_OK
        && tl_transformer_activation(&b, ours) == TL_OK && a == b)
        return;
    TL_LOG_WARNING("%s: hidden_act is '%.80s', and %s is '%s': set %s=%s to compute what these "
                   "weights were trained for",
                   path, c->hidden_act, key, ours, key, wanted);
}

static void warn_rate(const char *path, const char *theirs, tl_opt_double there,
                      const char *section, const char *ours, double here)
{
    if (!there.set || there.value == here) return;
    TL_LOG_WARNING("%s: %s is %g, and %s.%s is %g: set %s.%s=%g to train as before", path, theirs,
                   there.value, section, ours, here, section, ours, there.value);
}

tl_status tli_foreign_config_check(const tli_foreign_config *c, const char *path,
                                   const tli_foreign_model *m)
{
    const tl_bert_config *k = m->encoder;
    char key[128];
    TL_TRY(check_sizes(c, path, m));
    snprintf(key, sizeof key, "%s.hidden_activation", m->section);
    warn_activation(c, path, key, k->hidden_activation);
    if (m->words) warn_activation(c, path, "task.model.mlm_activation", m->words->mlm_activation);
    warn_rate(path, "hidden_dropout_prob", c->hidden_dropout_prob, m->section, "dropout_rate",
              k->dropout_rate);
    warn_rate(path, "attention_probs_dropout_prob", c->attention_probs_dropout_prob, m->section,
              "attention_dropout_rate", k->attention_dropout_rate);
    if (m->of && c->classifier_dropout.set && c->classifier_dropout.value != head_dropout)
        TL_LOG_WARNING("%s: classifier_dropout is %g, and that of sentence_prediction is %g, which "
                       "cannot be set",
                       path, c->classifier_dropout.value, head_dropout);
    if (c->layer_norm_eps.set && c->layer_norm_eps.value != epsilon)
        TL_LOG_WARNING("%s: layer_norm_eps is %g, and that of %s is %g, which cannot be set: what "
                       "is computed may differ a little",
                       path, c->layer_norm_eps.value, m->section, epsilon);
    return TL_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

static tl_status check_writable(const tli_foreign_model *m, const char *act)
{
    const char *other;
    if (m->words) {
        TL_TRY(activation_there(&other, "task.model.mlm_activation", m->words->mlm_activation));
        if (strcmp(act, other) != 0)
            return TL_FAIL(TL_EUNSUPPORTED,
                           "task.model.mlm_activation is '%s' and %s.hidden_activation '%s': "
                           "Hugging Face's BERT has one hidden_act for both",
                           m->words->mlm_activation, m->section, m->encoder->hidden_activation);
    }
    if (!m->next) return TL_OK;
    TL_TRY(activation_there(&other, "task.model.cls_heads",
                            m->next->activation ? m->next->activation : ""));
    if (strcmp(other, "tanh") == 0 && m->next->cls_token_idx == 0
        && m->next->inner_dim == m->encoder->hidden_size && m->next->num_classes == 2)
        return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "task.model.cls_heads: the head next_sentence is not that of Hugging Face's "
                   "BERT: inner_dim %" PRId64 ", activation tanh, cls_token_idx 0, 2 classes",
                   m->encoder->hidden_size);
}

tl_status tli_foreign_config_write(tl_str *out, const tli_foreign_model *m, tl_strings classes)
{
    const tl_bert_config *k = m->encoder;
    tli_json j = {.out = out, .indent = 2};
    const char *act;
    char key[128];
    snprintf(key, sizeof key, "%s.hidden_activation", m->section);
    TL_TRY(activation_there(&act, key, k->hidden_activation));
    TL_TRY(check_writable(m, act));
    tli_json_begin(&j, NULL, '{');
    tli_json_begin(&j, "architectures", '[');
    tli_json_text(&j, NULL,
                  m->of     ? "BertForSequenceClassification"
                  : m->next ? "BertForPreTraining"
                            : "BertForMaskedLM");
    tli_json_end(&j, ']');
    tli_json_text(&j, "model_type", "bert");
    for (int64_t i = 0; i < TL_COUNT(sizes); i++) tli_json_int(&j, sizes[i].theirs, size_of(k, i));
    tli_json_text(&j, "hidden_act", act);
    tli_json_number(&j, "hidden_dropout_prob", k->dropout_rate);
    tli_json_number(&j, "attention_probs_dropout_prob", k->attention_dropout_rate);
    if (m->of) tli_json_number(&j, "classifier_dropout", head_dropout);
    else tli_json_raw(&j, "classifier_dropout", "null");
    tli_json_number(&j, "initializer_range", k->initializer_range);
    tli_json_number(&j, "layer_norm_eps", epsilon);
    tli_json_int(&j, "pad_token_id", 0);
    tli_json_text(&j, "position_embedding_type", "absolute");
    tli_json_bool(&j, "tie_word_embeddings", true);
    tli_json_text(&j, "torch_dtype", "float32");
    if (m->of) {
        tli_foreign_labels(&j, m->of->num_classes, classes);
        tli_json_text(&j, "problem_type",
                      m->of->num_classes == 1 ? "regression" : "single_label_classification");
    }
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
    return tl_str_status(out);
}
