/* Words, places and types as vectors, and masks. */
#include <tilth/ops/attention.h>
#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/index.h>
#include <tilth/ops/matmul.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "nn/transformer/parts.h"

typedef struct table {
    tl_layer base;
    tl_tensor *embeddings; /* [rows, width] */
} table;

/* --- on_device_embedding ---------------------------------------------------------------------- */

// The table does not depend on the input: heads may ask for it first.
static tl_status embedding_build(tl_layer *l, tl_scope *s, const void *config)
{
    const tl_on_device_embedding_config *k = config;
    ((table *)l)->embeddings =
        tli_param(s, "embeddings", TL_SHAPE(k->vocab_size, k->embedding_width), &k->initializer,
                  "glorot_uniform", NULL);
    return tl_scope_status(s);
}

static tl_tensor *embedding_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    const tl_on_device_embedding_config *k = l->config;
    tl_tensor *rows = tl_layer_value(c, l, ((table *)l)->embeddings);
    if (!rows) return NULL;
    tl_tensor *y = k->use_one_hot ? tl_matmul(c, tl_one_hot(c, x, k->vocab_size, rows->dtype), rows)
                                  : tl_lookup(c, rows, x);
    if (!k->use_one_hot) tl_layer_looked_up(c, l, ((table *)l)->embeddings, y);
    return k->scale_factor.set ? tl_scale(c, y, k->scale_factor.value) : y;
}

static const tl_field on_device_embedding_fields[] = {
    TLI_REQUIRED_ROW(tl_on_device_embedding_config, vocab_size, "rows of the table"),
    TLI_REQUIRED_ROW(tl_on_device_embedding_config, embedding_width, "size of a row"),
    TLI_INITIALIZER_ROW(tl_on_device_embedding_config, initializer, "glorot_uniform when null"),
    TL_F(tl_on_device_embedding_config, use_one_hot,
         .help = "a product instead of a look-up; numbers outside of the table give zeros"),
    TL_F(tl_on_device_embedding_config, scale_factor,
         .help = "what rows are multiplied by; null: nothing"),
    TL_F_END,
};
TLI_LAYER_CLASS(on_device_embedding, table, "rows of a table by integer", .build = embedding_build,
                .forward = embedding_forward)

/* --- position_embedding ----------------------------------------------------------------------- */

static tl_status position_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    const tl_position_embedding_config *k = l->config;
    int64_t width;
    TL_TRY(tli_channels(&width, x, -1));
    if (k->seq_axis >= x->shape.rank - 1)
        return TL_FAIL(TL_EINVAL,
                       "seq_axis is %lld, and the input has %d axes, of which the last "
                       "is the size",
                       (long long)k->seq_axis, x->shape.rank);
    ((table *)l)->embeddings = tli_param(s, "embeddings", TL_SHAPE(k->max_length, width),
                                         &k->initializer, "glorot_uniform", NULL);
    return tl_scope_status(s);
}

static void position_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const tl_position_embedding_config *k = l->config;
    const tl_tensor *x = in->items[0].tensor;
    tl_tensor *places = tl_tensors_peek(in, "position_ids");
    const int64_t length = x->shape.dims[k->seq_axis];
    if (length > k->max_length) {
        (void)TL_FAIL(TL_EINVAL,
                      "the sequence has %lld places, and max_length is %lld; shorten the sequence "
                      "(seq_length), or raise max_position_embeddings",
                      (long long)length, (long long)k->max_length);
        tl_ctx_fail(c);
        return;
    }
    tl_tensor *rows = tl_layer_value(c, l, ((table *)l)->embeddings);
    if (length < k->max_length) rows = tl_slice(c, rows, 0, 0, length, 1);
    if (places) rows = tl_lookup(c, rows, places);
    for (int axis = (int)k->seq_axis + 1; rows && !places && axis < x->shape.rank - 1; axis++)
        rows = tl_expand_dims(c, rows, 1);
    tl_tensors_put(c, out, "y", rows);
}

static const tl_field position_embedding_fields[] = {
    TLI_REQUIRED_ROW(tl_position_embedding_config, max_length, "places that have a row"),
    TLI_INITIALIZER_ROW(tl_position_embedding_config, initializer, "glorot_uniform when null"),
    TL_F(tl_position_embedding_config, seq_axis, .i = 1, TL_AT_LEAST(0),
         .help = "axis of the places"),
    TL_F_END,
};
TLI_LAYER_CLASS(position_embedding, table, "a row for each place of a sequence",
                .parameters = position_parameters, .forward_all = position_forward)

/* --- self_attention_mask ---------------------------------------------------------------------- */

static void mask_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_tensor *x = tl_tensors_get(c, in, "inputs"), *mask = tl_tensors_get(c, in, "to_mask");
    (void)l;
    if (!x || !mask) return;
    const tl_shape shape =
        TL_SHAPE(x->shape.dims[0], x->shape.rank > 1 ? x->shape.dims[1] : 1, mask->shape.dims[1]);
    mask = tl_expand_dims(c, mask, 1);
    tl_tensors_put(c, out, "y", tl_broadcast_to(c, mask, shape));
}

static const tl_field self_attention_mask_fields[] = {TL_F_END};
TLI_LAYER_CLASS(self_attention_mask, tl_layer, "which places each place may look at",
                .forward_all = mask_forward)

/* --- packed_sequence_embedding ---------------------------------------------------------------- */

typedef struct packed {
    tl_layer base;
    tl_layer *words, *positions, *types, *norm, *projection;
} packed;

static tl_status packed_build(tl_layer *l, tl_scope *s, const void *config)
{
    packed *p = (packed *)l;
    const tl_packed_sequence_embedding_config *k = config;
    const int64_t width = k->embedding_width.set ? k->embedding_width.value : k->hidden_size;
    p->words = tl_on_device_embedding(s, "word_embeddings", .vocab_size = k->vocab_size,
                                      .embedding_width = width, .initializer = k->initializer);
    p->positions = tl_position_embedding(s, "position_embedding", .max_length = k->max_seq_length,
                                         .initializer = k->initializer);
    p->types = tl_on_device_embedding(s, "type_embeddings", .vocab_size = k->type_vocab_size,
                                      .embedding_width = width, .initializer = k->initializer,
                                      .use_one_hot = true);
    p->norm = tl_layer_norm(s, "layer_norm", .epsilon = TL_SET(1e-12));
    if (width != k->hidden_size)
        p->projection = tl_dense(s, "embedding_projection", .units = k->hidden_size,
                                 .without_bias = true, .kernel_initializer = k->initializer);
    return tl_scope_status(s);
}

// Which sequence each place belongs to, [batch, time]: each begins with the word that the first one
// begins with.
static tl_tensor *sequences_of(tl_ctx *c, tl_tensor *words)
{
    tl_tensor *first = tl_slice(c, words, 1, 0, 1, 1);
    return tl_cumsum(c, tl_cast(c, tl_equal(c, words, first), TL_I32), 1, false, false);
}

// How many places of earlier sequences stand before each, taken off its own.
static tl_tensor *places_within(tl_ctx *c, tl_tensor *sequences)
{
    if (!sequences) return NULL;
    tl_tensor *earlier =
        tl_less(c, tl_expand_dims(c, sequences, 1), tl_expand_dims(c, sequences, 2));
    tl_tensor *begin = tl_sum(c, tl_cast(c, earlier, TL_I32), TL_AXES(2), false);
    return tl_sub(c, tl_arange(c, TL_I32, 0, (double)sequences->shape.dims[1], 1), begin);
}

// 1 where query and key are of one sequence and the key counts: [batch, time, time].
static tl_tensor *mask_within(tl_ctx *c, tl_tensor *sequences, tl_tensor *mask)
{
    tl_tensor *same = tl_equal(c, tl_expand_dims(c, sequences, 1), tl_expand_dims(c, sequences, 2));
    if (!mask || !same) return NULL;
    return tl_mul(c, tl_cast(c, same, mask->dtype), tl_expand_dims(c, mask, 1));
}

static tl_tensor *packed_positions(packed *p, tl_ctx *c, const tl_tensors *in, tl_tensor *x,
                                   tl_tensor *sequences)
{
    const tl_packed_sequence_embedding_config *k = p->base.config;
    tl_tensors into = {0}, rows = {0};
    tl_tensors_put(c, &into, "x", x);
    if (k->use_position_id)
        tl_tensors_put(c, &into, "position_ids", tl_tensors_get(c, in, "position_ids"));
    else if (sequences) tl_tensors_put(c, &into, "position_ids", places_within(c, sequences));
    tl_call_all(c, p->positions, &into, &rows);
    return tl_ctx_failed(c) ? NULL : rows.items[0].tensor;
}

static void packed_forward(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    packed *p = (packed *)l;
    const tl_packed_sequence_embedding_config *k = l->config;
    tl_tensor *mask = tl_tensors_get(c, in, "mask"), *words = tl_tensors_get(c, in, "word_ids");
    tl_tensor *sequences = k->pack_multiple_sequences ? sequences_of(c, words) : NULL;
    tl_tensor *x = tl_call(c, p->words, words);
    tl_tensor *types = tl_call(c, p->types, tl_tensors_get(c, in, "type_ids"));
    x = tl_add(c, tl_add(c, x, packed_positions(p, c, in, x, sequences)), types);
    x = tl_dropout(c, tl_call(c, p->norm, x), k->dropout_rate.value);
    if (p->projection) x = tl_call(c, p->projection, x);
    tl_tensors_put(c, out, "embeddings", x);
    tl_tensors_put(c, out, "attention_mask", sequences ? mask_within(c, sequences, mask) : mask);
}

#define PACKED_F(member, ...) TL_F(tl_packed_sequence_embedding_config, member, __VA_ARGS__)
#define PACKED_REQUIRED(member, help_)                                                             \
    TLI_REQUIRED_ROW(tl_packed_sequence_embedding_config, member, help_)
static const tl_field packed_sequence_embedding_fields[] = {
    PACKED_REQUIRED(vocab_size, "words"),
    PACKED_REQUIRED(type_vocab_size, "types of segments"),
    PACKED_F(embedding_width, TL_AT_LEAST(1),
             .help = "size of the tables' rows; null: hidden_size"),
    PACKED_REQUIRED(hidden_size, "size of the result"),
    PACKED_REQUIRED(max_seq_length, "places that have a row"),
    TLI_INITIALIZER_ROW(tl_packed_sequence_embedding_config, initializer,
                        "glorot_uniform when null"),
    TLI_RATE_ROW(tl_packed_sequence_embedding_config, dropout_rate, "share dropped"),
    PACKED_F(use_position_id, .help = "places are an input, position_ids"),
    PACKED_F(pack_multiple_sequences,
             .help = "several sequences in a row that do not see each other"),
    TL_F_END,
};
TLI_LAYER_CLASS(packed_sequence_embedding, packed, "words, places and types as vectors",
                .build = packed_build, .forward_all = packed_forward)
