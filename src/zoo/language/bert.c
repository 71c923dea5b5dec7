/* BERT and ALBERT: words, places and types; blocks; the first place pooled. */
#include <tilth/ops/attention.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

#include "zoo/language/encoder.h"

tl_oneof tli_truncated_normal(tl_arena *arena, double stddev)
{
    tl_normal_initializer *n = tl_arena_alloc(arena, sizeof *n);
    if (n) n->stddev = (tl_opt_double){true, stddev};
    return (tl_oneof){.type = n ? "truncated_normal" : NULL, .value = n};
}

/* The fields of both, under one name. */
typedef struct sizes {
    tl_bert_config bert; /* ALBERT's too, as far as it has them */
    bool shared;         /* one block serves every layer */
    tl_encoder_parts parts;
} sizes;

typedef struct encoder {
    tl_layer base;
    tl_layer *words, *positions, *types, *norm, *projection, *pooler;
    tl_layer **blocks; /* num_layers, or one that is shared */
} encoder;

/* --- building --------------------------------------------------------------------------------- */

static tl_status make_tables(encoder *e, tl_scope *s, const sizes *z, tl_oneof first)
{
    const tl_bert_config *k = &z->bert;
    const int64_t width = k->embedding_size.set ? k->embedding_size.value : k->hidden_size;
    e->words = z->parts.embedding_layer.target
                   ? tl_scope_layer_ref(s, "word_embeddings", &z->parts.embedding_layer, NULL)
                   : tl_on_device_embedding(s, "word_embeddings", .vocab_size = k->vocab_size,
                                            .embedding_width = width, .initializer = first);
    e->positions = tl_position_embedding(
        s, "position_embedding", .max_length = k->max_position_embeddings, .initializer = first);
    e->types =
        tl_on_device_embedding(s, "type_embeddings", .vocab_size = k->type_vocab_size,
                               .embedding_width = width, .initializer = first, .use_one_hot = true);
    e->norm = tl_layer_norm(s, "embeddings_layer_norm", .epsilon = TL_SET(1e-12));
    if (width != k->hidden_size)
        e->projection = tl_dense(s, "embedding_projection", .units = k->hidden_size,
                                 .kernel_initializer = first);
    return tl_scope_status(s);
}

static tl_layer *make_block(tl_scope *s, const sizes *z, const char *name, bool last,
                            tl_oneof first)
{
    const tl_bert_config *k = &z->bert;
    return tl_transformer_encoder_block(
        s, name, .num_attention_heads = k->num_attention_heads, .inner_dim = k->intermediate_size,
        .inner_activation = k->hidden_activation, .norm_first = k->norm_first,
        .output_dropout = TL_SET(k->dropout_rate),
        .attention_dropout = TL_SET(k->attention_dropout_rate), .kernel_initializer = first,
        .return_attention_scores = k->return_attention_scores,
        .output_range = last ? k->output_range : (tl_opt_int){0});
}

static tl_status build(tl_layer *l, tl_scope *s, const void *config)
{
    encoder *e = (encoder *)l;
    const sizes *z = config;
    const tl_bert_config *k = &z->bert;
    tl_arena *arena = tl_scope_arena(s);
    tl_oneof first = tli_truncated_normal(arena, k->initializer_range);
    const int64_t count = z->shared ? 1 : k->num_layers;
    e->blocks = tl_arena_array(arena, count, sizeof *e->blocks);
    if (!first.type || !e->blocks) return TL_ENOMEM;
    TL_TRY(make_tables(e, s, z, first));
    for (int64_t i = 0; i < count; i++) {
        const char *name =
            z->shared ? "transformer" : tl_arena_printf(arena, "layer_%lld", (long long)i);
        if (!name) return TL_ENOMEM;
        e->blocks[i] = make_block(s, z, name, !z->shared && i == count - 1, first);
    }
    e->pooler = tl_dense(s, "pooler_transform", .units = k->hidden_size, .activation = TL_ACT_TANH,
                         .kernel_initializer = first);
    return tl_scope_status(s);
}

/* --- computing -------------------------------------------------------------------------------- */

/* Vectors of words that are given, and those of a layer of gin's, are as wide as they like; the
 * other tables are as the section says. */
static bool is_as_wide(const sizes *z, tl_ctx *c, const tl_tensor *words, bool given)
{
    const tl_bert_config *k = &z->bert;
    const int64_t width = k->embedding_size.set ? k->embedding_size.value : k->hidden_size;
    if (!words || words->shape.rank != 3 || words->shape.dims[2] == width) return true;
    if (given)
        (void)TL_FAIL(TL_EINVAL,
                      "'input_word_embeddings' has vectors of %lld, and %lld are expected: give "
                      "such, or set embedding_size=%lld of the encoder",
                      (long long)words->shape.dims[2], (long long)width,
                      (long long)words->shape.dims[2]);
    else
        (void)TL_FAIL(TL_EINVAL,
                      "build_encoder.embedding_layer gives vectors of %lld, and %lld are expected: "
                      "set its embedding_width=%lld, or embedding_size=%lld of the encoder",
                      (long long)words->shape.dims[2], (long long)width, (long long)width,
                      (long long)words->shape.dims[2]);
    tl_ctx_fail(c);
    return false;
}

static tl_tensor *embed(encoder *e, tl_ctx *c, const tl_tensors *in)
{
    const sizes *z = e->base.config;
    tl_tensor *given = tl_tensors_peek(in, "input_word_embeddings"), *x = given;
    if (!x) x = tl_call(c, e->words, tl_tensors_get(c, in, "input_word_ids"));
    if (!is_as_wide(z, c, x, given != NULL)) return NULL;
    tl_tensor *types = tl_call(c, e->types, tl_tensors_get(c, in, "input_type_ids"));
    x = tl_add(c, tl_add(c, x, tl_call(c, e->positions, x)), types);
    x = tl_dropout(c, tl_call(c, e->norm, x), z->bert.dropout_rate);
    return e->projection ? tl_call(c, e->projection, x) : x;
}

static void tell(tl_ctx *c, tl_tensors *out, const char *what, int64_t layer, tl_tensor *t)
{
    char *name = tl_arena_printf(tl_ctx_arena(c), "%s/%lld", what, (long long)layer);
    if (name && t) tl_tensors_put(c, out, name, t);
}

static void forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    encoder *e = (encoder *)l;
    const sizes *z = l->config;
    const tl_bert_config *k = &z->bert;
    tl_tensor *mask = tl_tensors_get(c, in, "input_mask"), *words, *x = words = embed(e, c, in);
    tl_tensors extra = {0};
    if (!x) return;
    for (int64_t i = 0; i < k->num_layers && !tl_ctx_failed(c); i++) {
        tl_tensors into = {0}, from = {0};
        tl_tensors_put(c, &into, "x", x);
        tl_tensors_put(c, &into, "mask", mask);
        tl_call_all(c, e->blocks[z->shared ? 0 : i], &into, &from);
        x = tl_tensors_peek(&from, "y");
        if (k->return_all_encoder_outputs) tell(c, &extra, "encoder_outputs", i, x);
        if (k->return_attention_scores)
            tell(c, &extra, "attention_scores", i, tl_tensors_peek(&from, "scores"));
    }
    if (tl_ctx_failed(c) || !x) return;
    tl_tensors_put(c, out, "sequence_output", x);
    tl_tensors_put(c, out, "pooled_output", tl_call(c, e->pooler, tl_take(c, x, 1, 0)));
    for (int64_t i = 0; i < extra.count; i++)
        tl_tensors_put(c, out, extra.items[i].name, extra.items[i].tensor);
    if (k->return_word_embeddings) tl_tensors_put(c, out, "word_embeddings", words);
}

static const tl_layer_class encoder_class = {
    .cls = TL_CLASS(tl_layer_class, "bert_encoder", NULL, encoder, NULL),
    .build = build,
    .forward_all = forward,
};

tl_layer *tli_make_bert(tl_scope *s, const char *name, const void *config,
                        const tl_encoder_parts *parts)
{
    const sizes all = {.bert = *(const tl_bert_config *)config, .parts = *parts};
    const sizes *z = tl_arena_copy(tl_scope_arena(s), &all, sizeof all);
    return z ? tl_scope_layer(s, name, &encoder_class, z) : NULL;
}

tl_layer *tli_make_albert(tl_scope *s, const char *name, const void *config,
                          const tl_encoder_parts *parts)
{
    const tl_albert_config *k = config;
    const sizes all = {
        .bert = {.vocab_size = k->vocab_size,
                 .hidden_size = k->hidden_size,
                 .num_layers = k->num_layers,
                 .num_attention_heads = k->num_attention_heads,
                 .hidden_activation = k->hidden_activation,
                 .intermediate_size = k->intermediate_size,
                 .dropout_rate = k->dropout_rate,
                 .attention_dropout_rate = k->attention_dropout_rate,
                 .max_position_embeddings = k->max_position_embeddings,
                 .type_vocab_size = k->type_vocab_size,
                 .initializer_range = k->initializer_range,
                 .embedding_size = {true, k->embedding_width}},
        .shared = true,
        .parts = *parts,
    };
    const sizes *z = tl_arena_copy(tl_scope_arena(s), &all, sizeof all);
    return z ? tl_scope_layer(s, name, &encoder_class, z) : NULL;
}
