/* Blocks: attention and a feed-forward layer, each with a residual and a norm. */
#include <tilth/base/log.h>
#include <tilth/ops/attention.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>

#include "nn/transformer/parts.h"

/* Size of a head's keys. As in Model Garden a rest of the size is left out. */
static int64_t key_dim_of(const tl_layer *l, int64_t size, int64_t heads)
{
    if (size % heads)
        TL_LOG_WARNING("%s: %lld heads do not divide the size %lld; each gets %lld", l->path,
                       (long long)heads, (long long)size, (long long)(size / heads));
    return size / heads;
}

/* What the attention gives for a query; "scores" too, where it tells them. */
static tl_tensor *look(tl_ctx *c, tl_layer *attention, tl_tensor *query, tl_tensor *value,
                       tl_tensor *mask, tl_tensor **scores)
{
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(c, &in, "query", query);
    tl_tensors_put(c, &in, "value", value);
    if (mask) tl_tensors_put(c, &in, "mask", mask);
    tl_call_all(c, attention, &in, &out);
    if (tl_ctx_failed(c)) return NULL;
    if (scores) *scores = tl_tensors_peek(&out, "scores");
    return out.items[0].tensor;
}

static tl_tensor *input_of(const tl_tensors *in)
{
    tl_tensor *x = tl_tensors_peek(in, "x");
    return x ? x : in->items[0].tensor;
}

/* --- transformer_encoder_block ---------------------------------------------------------------- */

typedef struct block {
    tl_layer base;
    tl_layer *attention, *attention_norm, *kv_norm, *in, *out, *out_norm;
} block;

static tl_status block_parameters(tl_layer *l, tl_scope *s, const tl_tensors *tensors)
{
    block *b = (block *)l;
    const tl_transformer_encoder_block_config *k = l->config;
    int64_t size;
    tl_activation activation;
    TL_TRY(tli_channels(&size, input_of(tensors), 3));
    TL_TRY(tl_transformer_activation(&activation, k->inner_activation));
    b->attention = tl_multi_head_attention(
        s, "self_attention", .num_heads = k->num_attention_heads,
        .key_dim = k->key_dim.set ? k->key_dim.value : key_dim_of(l, size, k->num_attention_heads),
        .value_dim = k->value_dim, .dropout = k->attention_dropout, .use_bias = k->use_bias,
        .num_kv_heads = k->num_kv_heads, .return_attention_scores = k->return_attention_scores,
        .kernel_initializer =
            k->attention_initializer.type ? k->attention_initializer : k->kernel_initializer,
        .bias_initializer = k->bias_initializer);
    b->attention_norm = tl_layer_norm(s, "self_attention_layer_norm", .epsilon = k->norm_epsilon);
    if (k->diff_q_kv_att_layer_norm)
        b->kv_norm = tl_layer_norm(s, "kv_attention_layer_norm", .epsilon = k->norm_epsilon);
    b->in = tl_dense(s, "intermediate", .units = k->inner_dim, .activation = activation,
                     .kernel_initializer = k->kernel_initializer,
                     .bias_initializer = k->bias_initializer);
    b->out = tl_dense(
        s, "output", .units = k->output_last_dim.set ? k->output_last_dim.value : size,
        .kernel_initializer = k->kernel_initializer, .bias_initializer = k->bias_initializer);
    b->out_norm = tl_layer_norm(s, "output_layer_norm", .epsilon = k->norm_epsilon);
    return tl_scope_status(s);
}

// The first places of the time axis, or all of them.
static tl_tensor *first_places(tl_ctx *c, tl_tensor *x, tl_opt_int count)
{
    return count.set && x && x->shape.rank == 3 ? tl_slice(c, x, 1, 0, count.value, 1) : x;
}

static tl_tensor *inner(block *b, tl_ctx *c, tl_tensor *x)
{
    const tl_transformer_encoder_block_config *k = b->base.config;
    x = tl_dropout(c, tl_call(c, b->in, x), k->inner_dropout.value);
    return tl_dropout(c, tl_call(c, b->out, x), k->output_dropout.value);
}

static void block_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    block *b = (block *)l;
    const tl_transformer_encoder_block_config *k = l->config;
    tl_tensor *x = input_of(in), *from = x, *scores = NULL, *y;
    tl_tensor *value = tl_tensors_peek(in, "key_value"), *mask = tl_tensors_peek(in, "mask");
    if (k->norm_first) {
        x = tl_call(c, b->attention_norm, x);
        if (value) value = tl_call(c, b->kv_norm ? b->kv_norm : b->attention_norm, value);
    } else {
        from = x;
    }
    tl_tensor *query = first_places(c, x, k->output_range);
    from = first_places(c, from, k->output_range);
    mask = first_places(c, mask, k->output_range);
    tl_tensor *a = look(c, b->attention, query, value ? value : x, mask, &scores);
    a = tl_dropout(c, a, k->attention_dropout.value);
    if (k->use_query_residual.value) a = tl_add(c, from, a);
    if (k->norm_first) {
        y = tl_add(c, a, inner(b, c, tl_call(c, b->out_norm, a)));
    } else {
        a = tl_call(c, b->attention_norm, a);
        y = tl_call(c, b->out_norm, tl_add(c, inner(b, c, a), a));
    }
    tl_tensors_put(c, out, "y", y);
    if (k->return_attention_scores) tl_tensors_put(c, out, "scores", scores);
}

static tl_status check_block(const void *value)
{
    const tl_transformer_encoder_block_config *k = value;
    if (k->diff_q_kv_att_layer_norm && !k->norm_first)
        return TL_FAIL(TL_EINVAL, "diff_q_kv_att_layer_norm: needs norm_first");
    return TL_OK;
}

#define BLOCK_F(member, ...) TL_F(tl_transformer_encoder_block_config, member, __VA_ARGS__)
static const tl_field transformer_encoder_block_fields[] = {
    TLI_REQUIRED_ROW(tl_transformer_encoder_block_config, num_attention_heads,
                     "heads of the attention"),
    TLI_REQUIRED_ROW(tl_transformer_encoder_block_config, inner_dim,
                     "units inside the feed-forward layers"),
    BLOCK_F(inner_activation, .s = "gelu", .help = "function of the units inside"),
    BLOCK_F(output_range, TL_AT_LEAST(1), .help = "compute so many first places; null: all"),
    TLI_KERNEL_ROWS(tl_transformer_encoder_block_config),
    TLI_INITIALIZER_ROW(tl_transformer_encoder_block_config, attention_initializer,
                        "of the attention; kernel_initializer when null"),
    BLOCK_F(use_bias, TL_FILLED, .b = true, .help = "of the attention's projections"),
    BLOCK_F(norm_first, .help = "norm what goes into each part, not what comes out"),
    BLOCK_F(norm_epsilon, TL_FILLED, .d = 1e-12, TL_AT_LEAST(0), .help = "added to variances"),
    TLI_RATE_ROW(tl_transformer_encoder_block_config, output_dropout,
                 "share dropped behind the feed-forward layers"),
    TLI_RATE_ROW(tl_transformer_encoder_block_config, attention_dropout,
                 "share dropped of the attention's weights, and of what it gives"),
    TLI_RATE_ROW(tl_transformer_encoder_block_config, inner_dropout,
                 "share dropped behind the inner activation"),
    BLOCK_F(use_query_residual, TL_FILLED, .b = true,
            .help = "add the query to what the attention gives"),
    BLOCK_F(key_dim, TL_AT_LEAST(1), .help = "size of a head's keys; null: size / heads"),
    BLOCK_F(value_dim, TL_AT_LEAST(1), .help = "size of a head's values; null: key_dim"),
    BLOCK_F(output_last_dim, TL_AT_LEAST(1), .help = "size of the result; null: the input's"),
    BLOCK_F(num_kv_heads, TL_AT_LEAST(1), .help = "heads of keys and values; null: as many"),
    BLOCK_F(diff_q_kv_att_layer_norm, .help = "a norm of its own for key_value"),
    BLOCK_F(return_attention_scores, .help = "gives what each query looks at, too"),
    BLOCK_F(use_rms_norm, .flags = TL_FIELD_LATER, .help = "norms without means"),
    BLOCK_F(use_sigmoid_attn, .flags = TL_FIELD_LATER, .help = "sigmoid in place of softmax"),
    BLOCK_F(attention_axes, .flags = TL_FIELD_LATER, .help = "axes that are looked along"),
    BLOCK_F(src_block_size, .flags = TL_FIELD_LATER, .help = "block-sparse attention"),
    BLOCK_F(tgt_block_size, .flags = TL_FIELD_LATER, .help = "block-sparse attention"),
    BLOCK_F(linformer_dim, .flags = TL_FIELD_LATER, .help = "keys and values made fewer"),
    BLOCK_F(sigmoid_attn_bias, .flags = TL_FIELD_LATER, .help = "of use_sigmoid_attn"),
    TL_F_END,
};
TLI_CHECKED_LAYER_CLASS(transformer_encoder_block, block, check_block,
                        "attention and two dense layers, with residuals and norms",
                        .parameters_all = block_parameters, .forward_all = block_forward)

/* --- transformer_scaffold --------------------------------------------------------------------- */

typedef struct scaffold {
    tl_layer base;
    tl_layer *attention, *attention_norm, *feedforward, *in, *out, *out_norm;
} scaffold;

static const tl_ref usual_attention = {.target = &tl_layer_multi_head_attention.cls, .scope = ""};

static tl_status scaffold_parameters(tl_layer *l, tl_scope *s, const tl_tensors *tensors)
{
    scaffold *b = (scaffold *)l;
    const tl_transformer_scaffold_config *k = l->config;
    int64_t size, inner_dim = k->intermediate_size.set ? k->intermediate_size.value : k->inner_dim;
    tl_activation activation;
    TL_TRY(tli_channels(&size, input_of(tensors), 3));
    if (size % k->num_attention_heads)
        return TL_FAIL(TL_EINVAL,
                       "num_attention_heads is %lld, which does not divide the size %lld",
                       (long long)k->num_attention_heads, (long long)size);
    TL_TRY(tl_transformer_activation(&activation, k->inner_activation));
    b->attention = tl_scope_layer_ref(
        s, "self_attention", k->attention_cls.target ? &k->attention_cls : &usual_attention,
        (const tl_layer_given[]){
            {"num_heads", TL_TYPE_INT, .i = k->num_attention_heads},
            {"key_dim", TL_TYPE_INT, .i = size / k->num_attention_heads},
            {"dropout", TL_TYPE_DOUBLE, .d = k->attention_dropout_rate.value},
            {"kernel_initializer", TL_TYPE_ONEOF, .choice = &k->kernel_initializer},
            {"bias_initializer", TL_TYPE_ONEOF, .choice = &k->bias_initializer},
            {"kernel_regularizer", TL_TYPE_ONEOF, .choice = &k->kernel_regularizer},
            {"bias_regularizer", TL_TYPE_ONEOF, .choice = &k->bias_regularizer},
            {.field = NULL}});
    b->attention_norm = tl_layer_norm(s, "self_attention_layer_norm", .epsilon = k->norm_epsilon);
    if (k->feedforward_cls.target) {
        b->feedforward = tl_scope_layer_ref(
            s, "feedforward", &k->feedforward_cls,
            (const tl_layer_given[]){
                {"inner_dim", TL_TYPE_INT, .i = inner_dim},
                {"inner_activation", TL_TYPE_STRING, .s = k->inner_activation},
                {"dropout", TL_TYPE_DOUBLE, .d = k->dropout_rate.value},
                {"kernel_initializer", TL_TYPE_ONEOF, .choice = &k->kernel_initializer},
                {"bias_initializer", TL_TYPE_ONEOF, .choice = &k->bias_initializer},
                {"kernel_regularizer", TL_TYPE_ONEOF, .choice = &k->kernel_regularizer},
                {"bias_regularizer", TL_TYPE_ONEOF, .choice = &k->bias_regularizer},
                {.field = NULL}});
    } else {
        b->in = tl_dense(
            s, "intermediate", .units = inner_dim, .activation = activation,
            .kernel_initializer = k->kernel_initializer, .bias_initializer = k->bias_initializer,
            .kernel_regularizer = k->kernel_regularizer, .bias_regularizer = k->bias_regularizer);
        b->out = tl_dense(s, "output", .units = size, .kernel_initializer = k->kernel_initializer,
                          .bias_initializer = k->bias_initializer,
                          .kernel_regularizer = k->kernel_regularizer,
                          .bias_regularizer = k->bias_regularizer);
    }
    if (!b->feedforward || k->norm_first) // else the feed-forward layer brings its norm
        b->out_norm = tl_layer_norm(s, "output_layer_norm", .epsilon = k->norm_epsilon);
    return tl_scope_status(s);
}

static tl_tensor *scaffold_inner(scaffold *b, tl_ctx *c, tl_tensor *x)
{
    const tl_transformer_scaffold_config *k = b->base.config;
    if (b->feedforward) return tl_call(c, b->feedforward, x);
    return tl_dropout(c, tl_call(c, b->out, tl_call(c, b->in, x)), k->dropout_rate.value);
}

static void scaffold_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    scaffold *b = (scaffold *)l;
    const tl_transformer_scaffold_config *k = l->config;
    tl_tensor *x = input_of(in), *y;
    // As in Model Garden the values have no norm.
    tl_tensor *query = k->norm_first ? tl_call(c, b->attention_norm, x) : x;
    tl_tensor *a = look(c, b->attention, query, x, tl_tensors_peek(in, "mask"), NULL);
    a = tl_add(c, x, tl_dropout(c, a, k->dropout_rate.value));
    if (k->norm_first) {
        y = tl_add(c, a, scaffold_inner(b, c, tl_call(c, b->out_norm, a)));
    } else {
        a = tl_call(c, b->attention_norm, a);
        y = scaffold_inner(b, c, a);
        if (!b->feedforward) y = tl_call(c, b->out_norm, tl_add(c, y, a));
    }
    tl_tensors_put(c, out, "y", y);
}

#define SCAFFOLD_F(member, ...) TL_F(tl_transformer_scaffold_config, member, __VA_ARGS__)
#define SCAFFOLD_LATER(member, help_)                                                              \
    SCAFFOLD_F(member, .accept = TL_ACCEPT_STRING | TL_ACCEPT_MAP,                                 \
               .flags = TL_FIELD_NULLABLE | TL_FIELD_LATER, .help = help_)
static const tl_field transformer_scaffold_fields[] = {
    TLI_REQUIRED_ROW(tl_transformer_scaffold_config, num_attention_heads, "heads of the attention"),
    SCAFFOLD_F(inner_dim, .i = 768, TL_AT_LEAST(1), .help = "units inside"),
    SCAFFOLD_F(inner_activation, .s = "gelu", .flags = TL_FIELD_QUIET,
               .help = "function of the units inside"),
    SCAFFOLD_F(intermediate_size, TL_AT_LEAST(1), .flags = TL_FIELD_QUIET,
               .help = "another name of inner_dim"),
    SCAFFOLD_F(intermediate_activation, .s = "", .flags = TL_FIELD_QUIET | TL_FIELD_UNREAD,
               .help = "without effect, as in Model Garden"),
    SCAFFOLD_F(attention_cls, .kind = &tl_kind_layer, .flags = TL_FIELD_QUIET,
               .help = "the attention; multi_head_attention when null"),
    SCAFFOLD_F(feedforward_cls, .kind = &tl_kind_layer,
               .help = "what follows the attention; two dense layers when null"),
    SCAFFOLD_F(attention_cfg, .accept = TL_ACCEPT_MAP, .flags = TL_FIELD_NULLABLE | TL_FIELD_LATER,
               .help = "of attention_cls"),
    SCAFFOLD_F(feedforward_cfg, .accept = TL_ACCEPT_MAP,
               .flags = TL_FIELD_NULLABLE | TL_FIELD_LATER, .help = "of feedforward_cls"),
    TLI_RATE_ROW(tl_transformer_scaffold_config, dropout_rate,
                 "share dropped of what each part gives"),
    TLI_RATE_ROW(tl_transformer_scaffold_config, attention_dropout_rate,
                 "share dropped of the attention's weights"),
    SCAFFOLD_F(norm_first, .help = "norm what goes into each part, not what comes out"),
    SCAFFOLD_F(norm_epsilon, TL_FILLED, .d = 1e-12, TL_AT_LEAST(0), .help = "added to variances"),
    TLI_KERNEL_ROWS(tl_transformer_scaffold_config),
    TLI_REGULARIZER_ROWS(tl_transformer_scaffold_config),
    SCAFFOLD_LATER(activity_regularizer, "of what comes out"),
    SCAFFOLD_LATER(kernel_constraint, "of kernels"),
    SCAFFOLD_LATER(bias_constraint, "of biases"),
    TL_F_END,
};
TLI_LAYER_CLASS(transformer_scaffold, scaffold,
                "a block with an attention and a feed-forward layer of one's choice",
                .parameters_all = scaffold_parameters, .forward_all = scaffold_forward)
