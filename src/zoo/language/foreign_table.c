/* Which weight of a BERT of ours is which of theirs. */
#include <inttypes.h>
#include <string.h>
#include <tilth/base/vec.h>

#include "zoo/language/build_encoder.h"
#include "zoo/language/foreign.h"

/* --- which model it is ------------------------------------------------------------------------ */

static tl_status refuse(const char *section, const char *what)
{
    return TL_FAIL(TL_EUNSUPPORTED, "%s: %s; Hugging Face's BERT has no such form", section, what);
}

tl_status tli_foreign_encoder(tli_foreign_model *out, const tl_task *t, const tl_oneof *encoder)
{
    const tl_class *cls;
    tli_encoder_choice choice;
    void *config = encoder->value;
    *out = (tli_foreign_model){0};
    if (!encoder->type) return TL_FAIL(TL_EINVAL, "task.model has no encoder");
    TL_TRY(tli_encoder_ask(&choice, t->gin));
    if (choice.encoder_cls.target)
        return refuse("task.model.encoder", tli_encoder_is_scaffold(&choice)
                                                ? "gin makes an EncoderScaffold of it"
                                                : "gin makes it");
    if (strcmp(encoder->type, "bert") != 0 && strcmp(encoder->type, "bert_v2") != 0)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "task.model.encoder.type is '%s'; weights of Hugging Face's BERT go with "
                       "'bert' and 'bert_v2'",
                       encoder->type);
    TL_TRY(tl_registry_find(&cls, t->registry, &tl_kind_encoder, encoder->type));
    if (!config) TL_TRY(tl_desc_new(&config, t->arena, cls->config));
    const tl_bert_config *k = config;
    const char *section = tl_arena_printf(t->arena, "task.model.encoder.%s", encoder->type);
    if (!section) return TL_ENOMEM;
    if (k->norm_first) return refuse(section, "norm_first is true");
    if (k->embedding_size.set && k->embedding_size.value != k->hidden_size)
        return refuse(section, "embedding_size is not hidden_size");
    if (k->num_attention_heads < 1 || k->hidden_size % k->num_attention_heads)
        return TL_FAIL(TL_EINVAL,
                       "%s: hidden_size, %" PRId64 ", is no multiple of "
                       "num_attention_heads, %" PRId64,
                       section, k->hidden_size, k->num_attention_heads);
    *out = (tli_foreign_model){.encoder = k, .section = section};
    return TL_OK;
}

tl_status tli_foreign_pretrainer(tli_foreign_model *out, const tl_task *t)
{
    const tl_pretrainer_config *k = t->config->model.value;
    if (!k) return TL_FAIL(TL_EINVAL, "task.model is null");
    TL_TRY(tli_foreign_encoder(out, t, &k->encoder));
    out->words = k;
    const tl_cls_head_config *heads = k->cls_heads.items;
    for (int64_t i = 0; i < k->cls_heads.count; i++)
        if (heads[i].name && strcmp(heads[i].name, "next_sentence") == 0 && heads[i].inner_dim > 0)
            out->next = &heads[i];
    return TL_OK;
}

tl_status tli_foreign_sentences(tli_foreign_model *out, const tl_task *t)
{
    const tl_sentence_model_config *k = t->config->model.value;
    if (!k) return TL_FAIL(TL_EINVAL, "task.model is null");
    TL_TRY(tli_foreign_encoder(out, t, &k->encoder));
    out->of = k;
    return TL_OK;
}

/* --- shapes ----------------------------------------------------------------------------------- */

bool tli_foreign_is_turned(const tli_foreign_weight *w, tli_foreign_form form)
{
    return w->inputs && (form == TLI_FOREIGN_HF || w->turned);
}

tl_shape tli_foreign_shape(const tli_foreign_weight *w, tli_foreign_form form)
{
    if (w->table) return w->shape;
    if (!w->inputs) return TL_SHAPE(tl_shape_count(&w->shape));
    int64_t inputs = 1;
    for (int i = 0; i < w->inputs; i++) inputs *= w->shape.dims[i];
    const int64_t outputs = tl_shape_count(&w->shape) / inputs;
    return tli_foreign_is_turned(w, form) ? TL_SHAPE(outputs, inputs) : TL_SHAPE(inputs, outputs);
}

/* --- the rows --------------------------------------------------------------------------------- */

typedef struct making {
    tli_foreign_table *table;
    tl_arena *arena;
    tl_status status;
} making;

/* Names are prefixes of the rows' and what follows them. */
static void add(making *m, tli_foreign_weight w, const char *ours, const char *ours_name,
                const char *hf, const char *hf_name, const char *v1, const char *v1_name)
{
    w.ours = tl_arena_printf(m->arena, "%s/%s", ours, ours_name);
    w.theirs[TLI_FOREIGN_HF] = tl_arena_printf(m->arena, "%s.%s", hf, hf_name);
    w.theirs[TLI_FOREIGN_V1] = v1 ? tl_arena_printf(m->arena, "%s/%s", v1, v1_name) : NULL;
    bool made = w.ours && w.theirs[TLI_FOREIGN_HF] && (!v1 || w.theirs[TLI_FOREIGN_V1]);
    if (!made || !TL_VEC_PUSH(m->table, w)) m->status = TL_ENOMEM;
}

/* A kernel and its bias. */
static void add_dense(making *m, tli_foreign_weight like, const char *ours, const char *hf,
                      const char *v1, tl_shape kernel, int inputs)
{
    tli_foreign_weight bias = like;
    like.shape = kernel;
    like.inputs = inputs;
    bias.shape = tl_shape_of(kernel.rank - inputs, kernel.dims + inputs);
    add(m, like, ours, "kernel", hf, "weight", v1, "kernel");
    add(m, bias, ours, "bias", hf, "bias", v1, "bias");
}

static void add_norm(making *m, tli_foreign_weight like, const char *ours, const char *hf,
                     const char *v1, int64_t size)
{
    like.shape = TL_SHAPE(size);
    add(m, like, ours, "gamma", hf, "weight", v1, "gamma");
    add(m, like, ours, "beta", hf, "bias", v1, "beta");
}

static void add_tables(making *m, const tl_bert_config *k)
{
    const struct {
        const char *ours, *name;
        int64_t rows;
    } tables[] = {
        {"encoder/word_embeddings", "word_embeddings", k->vocab_size},
        {"encoder/position_embedding", "position_embeddings", k->max_position_embeddings},
        {"encoder/type_embeddings", "token_type_embeddings", k->type_vocab_size},
    };
    for (int64_t i = 0; i < TL_COUNT(tables); i++) {
        tli_foreign_weight w = {.table = true, .shape = TL_SHAPE(tables[i].rows, k->hidden_size)};
        char hf[64];
        snprintf(hf, sizeof hf, "%s.weight", tables[i].name);
        if (i == 0) w.other = "cls.predictions.decoder.weight"; // the same, where they are tied
        add(m, w, tables[i].ours, "embeddings", "embeddings", hf, "bert/embeddings",
            tables[i].name);
    }
    add_norm(m, (tli_foreign_weight){0}, "encoder/embeddings_layer_norm", "embeddings.LayerNorm",
             "bert/embeddings/LayerNorm", k->hidden_size);
}

static void add_layer(making *m, const tl_bert_config *k, int64_t layer)
{
    enum { HEADS, JOINED, WIDE, NARROW, NORM };
    static const struct {
        const char *ours, *hf;
        int what;
    } parts[] = {{"self_attention/query", "attention.self.query", HEADS},
                 {"self_attention/key", "attention.self.key", HEADS},
                 {"self_attention/value", "attention.self.value", HEADS},
                 {"self_attention/attention_output", "attention.output.dense", JOINED},
                 {"self_attention_layer_norm", "attention.output.LayerNorm", NORM},
                 {"intermediate", "intermediate.dense", WIDE},
                 {"output", "output.dense", NARROW},
                 {"output_layer_norm", "output.LayerNorm", NORM}};
    const int64_t size = k->hidden_size, heads = k->num_attention_heads, each = size / heads,
                  inner = k->intermediate_size;
    const tl_shape shapes[] = {[HEADS] = TL_SHAPE(size, heads, each),
                               [JOINED] = TL_SHAPE(heads, each, size),
                               [WIDE] = TL_SHAPE(size, inner),
                               [NARROW] = TL_SHAPE(inner, size)};
    const tli_foreign_weight plain = {0};
    for (int64_t i = 0; i < TL_COUNT(parts); i++) {
        char ours[96], hf[96], v1[96];
        snprintf(ours, sizeof ours, "encoder/layer_%" PRId64 "/%s", layer, parts[i].ours);
        snprintf(hf, sizeof hf, "encoder.layer.%" PRId64 ".%s", layer, parts[i].hf);
        int length = snprintf(v1, sizeof v1, "bert/encoder/layer_%" PRId64 "/", layer);
        snprintf(v1 + length, sizeof v1 - (size_t)length, "%s", parts[i].hf);
        for (char *p = v1 + length; *p; p++)
            if (*p == '.') *p = '/';
        if (parts[i].what == NORM) add_norm(m, plain, ours, hf, v1, size);
        else
            add_dense(m, plain, ours, hf, v1, shapes[parts[i].what],
                      parts[i].what == JOINED ? 2 : 1);
    }
}

/* Hugging Face has one pooler, which its heads read. Here heads have dense layers of their own, and
 * the encoder's then learns nothing. */
static void add_poolers(making *m, const tli_foreign_model *k)
{
    const int64_t size = k->encoder->hidden_size;
    const bool head = k->of && !k->of->use_encoder_pooler;
    const bool of_head = head && (!k->encoder_only || k->pooler_of_head);
    tli_foreign_weight w = {.part = TLI_FOREIGN_POOLER, .only_read = k->words || head};
    add_dense(m, w, "encoder/pooler_transform", "pooler.dense", "bert/pooler/dense",
              TL_SHAPE(size, size), 1);
    w.only_read = false;
    if (k->next && !k->encoder_only)
        add_dense(m, w, "next_sentence/pooler_dense", "pooler.dense", "bert/pooler/dense",
                  TL_SHAPE(size, k->next->inner_dim), 1);
    if (of_head)
        add_dense(m, w, "sentence_prediction/pooler_dense", "pooler.dense", "bert/pooler/dense",
                  TL_SHAPE(size, size), 1);
}

#define PREDICTIONS "cls.predictions"
#define PREDICTIONS_V1 "cls/predictions"

static void add_heads(making *m, const tli_foreign_model *k)
{
    const int64_t size = k->encoder->hidden_size;
    tli_foreign_weight w = {.part = TLI_FOREIGN_WORDS};
    if (k->words) {
        add_dense(m, w, "masked_lm/dense", PREDICTIONS ".transform.dense",
                  PREDICTIONS_V1 "/transform/dense", TL_SHAPE(size, size), 1);
        add_norm(m, w, "masked_lm/layer_norm", PREDICTIONS ".transform.LayerNorm",
                 PREDICTIONS_V1 "/transform/LayerNorm", size);
        w.shape = TL_SHAPE(k->encoder->vocab_size);
        w.other = PREDICTIONS ".decoder.bias";
        add(m, w, "masked_lm", "bias", PREDICTIONS, "bias", PREDICTIONS_V1, "output_bias");
        w.other = NULL;
    }
    if (k->next) {
        w = (tli_foreign_weight){.part = TLI_FOREIGN_NEXT,
                                 .shape = TL_SHAPE(k->next->inner_dim, k->next->num_classes),
                                 .inputs = 1,
                                 .turned = true};
        add(m, w, "next_sentence/logits", "kernel", "cls.seq_relationship", "weight",
            "cls/seq_relationship", "output_weights");
        w = (tli_foreign_weight){.part = TLI_FOREIGN_NEXT, .shape = TL_SHAPE(k->next->num_classes)};
        add(m, w, "next_sentence/logits", "bias", "cls.seq_relationship", "bias",
            "cls/seq_relationship", "output_bias");
    }
    if (k->of)
        add_dense(m, (tli_foreign_weight){.part = TLI_FOREIGN_CLASSES},
                  "sentence_prediction/logits", "classifier", NULL,
                  TL_SHAPE(size, k->of->num_classes), 1);
}

tl_status tli_foreign_table_make(tli_foreign_table *out, tl_arena *arena,
                                 const tli_foreign_model *k)
{
    making m = {.table = out, .arena = arena};
    *out = (tli_foreign_table){0};
    add_tables(&m, k->encoder);
    for (int64_t i = 0; i < k->encoder->num_layers && m.status == TL_OK; i++)
        add_layer(&m, k->encoder, i);
    add_poolers(&m, k);
    if (!k->encoder_only) add_heads(&m, k);
    return m.status;
}

/* --- finding them in files -------------------------------------------------------------------- */

enum { LONGEST_NAME = 160 };

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* How the name is spelt in files of these ways. */
static void spell(char out[LONGEST_NAME], const char *name, bool prefixed, bool gamma)
{
    static const char weight[] = "LayerNorm.weight", bias[] = "LayerNorm.bias";
    const bool head = strncmp(name, "cls.", 4) == 0 || strncmp(name, "classifier.", 11) == 0;
    int length = snprintf(out, LONGEST_NAME, "%s%s", prefixed && !head ? "bert." : "", name);
    TL_ASSERT(length > 0 && length < LONGEST_NAME);
    if (!gamma) return;
    char *end = out + length;
    if (ends_with(out, weight)) memcpy(end - strlen("weight"), "gamma", sizeof "gamma");
    else if (ends_with(out, bias)) memcpy(end - strlen("bias"), "beta", sizeof "beta");
}

static const tli_foreign_entry *find_spelt(const tli_foreign_files *f, const char *name)
{
    char spelt[LONGEST_NAME];
    const tli_foreign_entry *e = NULL;
    for (int i = 0; !e && i < 4; i++) {
        spell(spelt, name, i & 1, i & 2);
        e = tl_map_get(&f->by_name, spelt);
    }
    return e;
}

/* Whether names there begin with "bert.", and whether norms have gamma and beta. */
static void find_ways(const tli_foreign_files *f, bool *prefixed, bool *gamma)
{
    *prefixed = *gamma = false;
    for (int64_t i = 0; i < f->count; i++) {
        *prefixed = *prefixed || strncmp(f->items[i].name, "bert.", 5) == 0;
        *gamma = *gamma || ends_with(f->items[i].name, "LayerNorm.gamma");
    }
}

const tli_foreign_entry *tli_foreign_find(const tli_foreign_files *f, const tli_foreign_weight *w)
{
    const char *name = w->theirs[f->form];
    if (!name) return NULL;
    if (f->form != TLI_FOREIGN_HF) return tl_map_get(&f->by_name, name);
    const tli_foreign_entry *e = find_spelt(f, name);
    return e || !w->other ? e : find_spelt(f, w->other);
}

const char *tli_foreign_name(const tli_foreign_files *f, const tli_foreign_weight *w)
{
    char spelt[LONGEST_NAME];
    bool prefixed, gamma;
    if (f->form != TLI_FOREIGN_HF) return w->theirs[f->form];
    find_ways(f, &prefixed, &gamma);
    spell(spelt, w->theirs[f->form], prefixed, gamma);
    return tl_arena_strdup(f->arena, spelt);
}
