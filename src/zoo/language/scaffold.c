/* EncoderScaffold: an encoder whose embedding, layers and mask are classes of one's choice. */
#include <tilth/ops/attention.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

#include "zoo/language/encoder.h"

typedef struct scaffold {
    tl_layer base;
    tl_layer *embedding; /* of one's choice; else the four below */
    tl_layer *words, *positions, *types, *norm;
    tl_layer *mask, *final_norm, *pooler; /* mask, final_norm: NULL when left out */
    tl_layer **hidden;                    /* num_hidden_instances; a shared one repeats */
} scaffold;

/* --- building --------------------------------------------------------------------------------- */

static tl_status make_embedding(scaffold *e, tl_scope *s, const tl_encoder_scaffold_config *k)
{
    const tl_scaffold_embedding *m = k->embedding_cfg;
    if (k->embedding_cls.target) {
        const tl_layer_given given[] = {
            {"vocab_size", TL_TYPE_INT, .i = m ? m->vocab_size : 0},
            {"type_vocab_size", TL_TYPE_INT, .i = m ? m->type_vocab_size : 0},
            {"hidden_size", TL_TYPE_INT, .i = m ? m->hidden_size : 0},
            {"max_seq_length", TL_TYPE_INT, .i = m ? m->max_seq_length : 0},
            {"initializer", TL_TYPE_ONEOF, .choice = m ? &m->initializer : &(tl_oneof){0}},
            {"dropout_rate", TL_TYPE_DOUBLE, .d = m ? m->dropout_rate : 0},
            {.field = NULL}};
        e->embedding = tl_scope_layer_ref(s, "embeddings", &k->embedding_cls, m ? given : NULL);
        return tl_scope_status(s);
    }
    if (!m)
        return TL_FAIL(TL_EINVAL, "embedding_cfg is null: give the sizes of the embedding, or a "
                                  "class, embedding_cls");
    e->words =
        tl_on_device_embedding(s, "word_embeddings", .vocab_size = m->vocab_size,
                               .embedding_width = m->hidden_size, .initializer = m->initializer);
    e->positions = tl_position_embedding(s, "position_embedding", .max_length = m->max_seq_length,
                                         .initializer = m->initializer);
    e->types = tl_on_device_embedding(s, "type_embeddings", .vocab_size = m->type_vocab_size,
                                      .embedding_width = m->hidden_size,
                                      .initializer = m->initializer, .use_one_hot = true);
    e->norm = tl_layer_norm(s, "embeddings_layer_norm", .epsilon = TL_SET(1e-12));
    return tl_scope_status(s);
}

/* A block by the names that hidden_cfg has; blocks of one's own are asked for the same ones. */
static tl_layer *make_hidden(tl_scope *s, const char *name, const tl_encoder_scaffold_config *k)
{
    const tl_scaffold_hidden *h = k->hidden_cfg;
    if (k->hidden_cls.target && k->hidden_cls.target != &tl_layer_transformer_encoder_block.cls) {
        const tl_layer_given given[] = {
            {"num_attention_heads", TL_TYPE_INT, .i = h ? h->num_attention_heads : 0},
            {"intermediate_size", TL_TYPE_INT, .i = h ? h->intermediate_size : 0},
            {"intermediate_activation", TL_TYPE_STRING, .s = h ? h->intermediate_activation : ""},
            {"dropout_rate", TL_TYPE_DOUBLE, .d = h ? h->dropout_rate : 0},
            {"attention_dropout_rate", TL_TYPE_DOUBLE, .d = h ? h->attention_dropout_rate : 0},
            {"kernel_initializer", TL_TYPE_ONEOF,
             .choice = h ? &h->kernel_initializer : &(tl_oneof){0}},
            {.field = NULL}};
        return tl_scope_layer_ref(s, name, &k->hidden_cls, h ? given : NULL);
    }
    if (!h || k->hidden_cls.object)
        return k->hidden_cls.target
                   ? tl_scope_layer_ref(s, name, &k->hidden_cls, NULL)
                   : tl_scope_layer(s, name, &tl_layer_transformer_encoder_block, NULL);
    return tl_transformer_encoder_block(
        s, name, .num_attention_heads = h->num_attention_heads, .inner_dim = h->intermediate_size,
        .inner_activation = h->intermediate_activation, .output_dropout = TL_SET(h->dropout_rate),
        .attention_dropout = TL_SET(h->attention_dropout_rate),
        .kernel_initializer = h->kernel_initializer);
}

static tl_status make_hiddens(scaffold *e, tl_scope *s, const tl_encoder_scaffold_config *k)
{
    const bool shared = k->hidden_cls.object != NULL; // one that was made serves all
    e->hidden = tl_arena_array(tl_scope_arena(s), k->num_hidden_instances, sizeof *e->hidden);
    if (!e->hidden) return TL_ENOMEM;
    for (int64_t i = 0; i < k->num_hidden_instances; i++) {
        char *name = tl_arena_printf(tl_scope_arena(s), "layer_%lld", (long long)i);
        if (!name) return TL_ENOMEM;
        e->hidden[i] = shared && i ? e->hidden[0] : make_hidden(s, name, k);
    }
    return tl_scope_status(s);
}

static tl_status build(tl_layer *l, tl_scope *s, const void *config)
{
    scaffold *e = (scaffold *)l;
    const tl_encoder_scaffold_config *k = config;
    tl_oneof first = k->pooler_layer_initializer;
    if (!first.type) first = tli_truncated_normal(tl_scope_arena(s), 0.02);
    if (!first.type) return TL_ENOMEM;
    TL_TRY(make_embedding(e, s, k));
    // An embedding of one's choice brings its mask.
    if (k->mask_cls.target && !e->embedding)
        e->mask = tl_scope_layer_ref(s, "mask", &k->mask_cls, NULL);
    TL_TRY(make_hiddens(e, s, k));
    if (k->layer_norm_before_pooling)
        e->final_norm = tl_layer_norm(s, "final_layer_norm", .epsilon = TL_SET(1e-12));
    e->pooler = tl_dense(s, "cls_transform", .units = k->pooled_output_dim,
                         .activation = TL_ACT_TANH, .kernel_initializer = first);
    return tl_scope_status(s);
}

/* --- computing -------------------------------------------------------------------------------- */

/* Vectors of the words; `mask` becomes what layers are given. */
static tl_tensor *embed(scaffold *e, tl_ctx *c, const tl_tensors *in, tl_tensor **mask)
{
    const tl_encoder_scaffold_config *k = e->base.config;
    tl_tensor *words = tl_tensors_get(c, in, "input_word_ids");
    tl_tensor *types = tl_tensors_get(c, in, "input_type_ids");
    *mask = tl_tensors_get(c, in, "input_mask");
    if (!e->embedding) {
        tl_tensor *x = tl_call(c, e->words, words);
        x = tl_add(c, tl_add(c, x, tl_call(c, e->positions, x)), tl_call(c, e->types, types));
        return tl_dropout(c, tl_call(c, e->norm, x), k->embedding_cfg->dropout_rate);
    }
    tl_tensors into = {0}, from = {0};
    tl_tensors_put(c, &into, "word_ids", words);
    tl_tensors_put(c, &into, "mask", *mask);
    tl_tensors_put(c, &into, "type_ids", types);
    if (tl_tensors_peek(in, "position_ids"))
        tl_tensors_put(c, &into, "position_ids", tl_tensors_peek(in, "position_ids"));
    tl_call_all(c, e->embedding, &into, &from);
    if (tl_ctx_failed(c)) return NULL;
    tl_tensor *own = tl_tensors_peek(&from, "attention_mask");
    if (own) *mask = own;
    return from.items[0].tensor;
}

static tl_tensor *mask_by_layer(scaffold *e, tl_ctx *c, tl_tensor *x, tl_tensor *mask)
{
    tl_tensors into = {0}, from = {0};
    if (!e->mask || !x) return mask;
    tl_tensors_put(c, &into, "inputs", x);
    tl_tensors_put(c, &into, "to_mask", mask);
    tl_call_all(c, e->mask, &into, &from);
    return tl_ctx_failed(c) ? NULL : from.items[0].tensor;
}

static void forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    scaffold *e = (scaffold *)l;
    const tl_encoder_scaffold_config *k = l->config;
    tl_tensor *mask, *x = embed(e, c, in, &mask);
    tl_tensors all = {0};
    mask = mask_by_layer(e, c, x, mask);
    for (int64_t i = 0; i < k->num_hidden_instances && !tl_ctx_failed(c); i++) {
        tl_tensors into = {0}, from = {0};
        tl_tensors_put(c, &into, "x", x);
        tl_tensors_put(c, &into, "mask", mask);
        tl_call_all(c, e->hidden[i], &into, &from);
        if (tl_ctx_failed(c)) return;
        x = from.items[0].tensor;
        // In place of what the last layer gives, as in Model Garden.
        if (e->final_norm && i == k->num_hidden_instances - 1) x = tl_call(c, e->final_norm, x);
        char *name = tl_arena_printf(tl_ctx_arena(c), "encoder_outputs/%lld", (long long)i);
        if (name && x && k->return_all_layer_outputs) tl_tensors_put(c, &all, name, x);
    }
    if (tl_ctx_failed(c) || !x) return;
    tl_tensors_put(c, out, "sequence_output", x);
    tl_tensors_put(c, out, "pooled_output", tl_call(c, e->pooler, tl_take(c, x, 1, 0)));
    for (int64_t i = 0; i < all.count; i++)
        tl_tensors_put(c, out, all.items[i].name, all.items[i].tensor);
}

/* --- what is configured ----------------------------------------------------------------------- */

#define EMBEDDING_F(member, ...) TL_F(tl_scaffold_embedding, member, __VA_ARGS__)
static const tl_field embedding_fields[] = {
    EMBEDDING_F(vocab_size, .i = 30522, TL_AT_LEAST(1), .help = "words"),
    EMBEDDING_F(type_vocab_size, .i = 2, TL_AT_LEAST(1), .help = "types of segments"),
    EMBEDDING_F(hidden_size, .i = 768, TL_AT_LEAST(1), .help = "size of the vectors"),
    EMBEDDING_F(max_seq_length, .i = 512, TL_AT_LEAST(1), .help = "longest sequence"),
    EMBEDDING_F(seq_length, .flags = TL_FIELD_UNREAD, .help = "without effect"),
    EMBEDDING_F(initializer, .kind = &tl_kind_initializer, .help = "glorot_uniform when null"),
    EMBEDDING_F(dropout_rate, TL_RANGE(0, 1), .help = "share dropped"),
    TL_F_END,
};
static const tl_desc embedding_desc = {
    .name = "embedding_cfg",
    .help = "of EncoderScaffold's own embedding",
    .size = sizeof(tl_scaffold_embedding),
    .fields = embedding_fields,
};

#define HIDDEN_F(member, ...) TL_F(tl_scaffold_hidden, member, __VA_ARGS__)
static const tl_field hidden_fields[] = {
    HIDDEN_F(num_attention_heads, .i = 12, TL_AT_LEAST(1), .help = "heads of the attention"),
    HIDDEN_F(intermediate_size, .i = 3072, TL_AT_LEAST(1), .help = "units inside a layer"),
    HIDDEN_F(intermediate_activation, .s = "gelu", .help = "function of the units inside"),
    HIDDEN_F(dropout_rate, TL_RANGE(0, 1), .help = "share dropped of what each part gives"),
    HIDDEN_F(attention_dropout_rate, TL_RANGE(0, 1), .help = "share dropped of weights"),
    HIDDEN_F(kernel_initializer, .kind = &tl_kind_initializer, .help = "glorot_uniform when null"),
    TL_F_END,
};
static const tl_desc hidden_desc = {
    .name = "hidden_cfg",
    .help = "of EncoderScaffold's layers",
    .size = sizeof(tl_scaffold_hidden),
    .fields = hidden_fields,
};

#define SCAFFOLD_F(member, ...) TL_F(tl_encoder_scaffold_config, member, __VA_ARGS__)
static const tl_field fields[] = {
    SCAFFOLD_F(pooled_output_dim, TL_AT_LEAST(1), .flags = TL_FIELD_REQUIRED,
               .help = "size of what is made of the first place"),
    SCAFFOLD_F(pooler_layer_initializer, .kind = &tl_kind_initializer, .flags = TL_FIELD_QUIET,
               .help = "truncated normal of deviation 0.02 when null"),
    SCAFFOLD_F(embedding_cls, .kind = &tl_kind_layer,
               .help = "gives vectors and mask; words, places and types when null"),
    TL_F_OPTIONAL(tl_encoder_scaffold_config, embedding_cfg, &embedding_desc,
                  .help = "sizes of the embedding"),
    SCAFFOLD_F(embedding_data, .kind = &tl_kind_layer, .flags = TL_FIELD_LATER,
               .help = "a table to begin with"),
    SCAFFOLD_F(num_hidden_instances, .i = 1, TL_AT_LEAST(1), .help = "layers"),
    SCAFFOLD_F(hidden_cls, .kind = &tl_kind_layer, .flags = TL_FIELD_QUIET,
               .help = "of the layers; transformer_encoder_block when null"),
    TL_F_OPTIONAL(tl_encoder_scaffold_config, hidden_cfg, &hidden_desc,
                  .help = "sizes of the layers"),
    SCAFFOLD_F(mask_cls, .kind = &tl_kind_layer, .flags = TL_FIELD_QUIET,
               .help = "self_attention_mask when null"),
    SCAFFOLD_F(mask_cfg, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE | TL_FIELD_LATER,
               .help = "of mask_cls"),
    SCAFFOLD_F(layer_norm_before_pooling, .help = "a norm behind the last layer"),
    SCAFFOLD_F(return_all_layer_outputs, .help = "gives what each layer gives, too"),
    SCAFFOLD_F(dict_outputs, .flags = TL_FIELD_UNREAD, .help = "here outputs always have names"),
    SCAFFOLD_F(layer_idx_as_attention_seed, .flags = TL_FIELD_UNREAD,
               .help = "here draws differ by layer anyway"),
    SCAFFOLD_F(feed_layer_idx, .flags = TL_FIELD_LATER, .help = "layers are told their number"),
    SCAFFOLD_F(recursive, .flags = TL_FIELD_LATER, .help = "layers pass a state on"),
    TL_F_END,
};
static const tl_desc desc = {
    .name = "encoder_scaffold",
    .help = "an encoder of parts of one's choice",
    .size = sizeof(tl_encoder_scaffold_config),
    .fields = fields,
    .base = &tl_layer_config_desc,
};
const tl_layer_class tl_layer_encoder_scaffold = {
    .cls = {.class_size = sizeof(tl_layer_class),
            .name = "encoder_scaffold",
            .help = "an encoder of parts of one's choice",
            .size = sizeof(scaffold),
            .config = &desc},
    .build = build,
    .forward_all = forward,
};
