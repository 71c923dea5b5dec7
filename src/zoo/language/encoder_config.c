/* The encoders that a configuration can choose: Model Garden's thirteen, with their fields and
 * defaults. Those that cannot be built yet are refused by name. */
#include "zoo/language/encoder.h"

static const tl_method methods[] = {
    TL_METHOD(tl_encoder_class, make, false),
    TL_METHOD(tl_encoder_class, hidden_size, false),
    TL_METHOD(tl_encoder_class, original_names, false),
    {NULL, 0, false},
};
const tl_kind tl_kind_encoder = {
    .name = "encoder",
    .plural = "encoders",
    .help = "what turns words into vectors",
    .class_size = sizeof(tl_encoder_class),
    .methods = methods,
    .config_required = true,
    .names_are_keys = true,
};

/* --- fields that many have -------------------------------------------------------------------- */

#define SIZE(T, member, number, help_) TL_F(T, member, .i = number, TL_AT_LEAST(1), .help = help_)
#define RATE(T, member, number, help_) TL_F(T, member, .d = number, TL_RANGE(0, 1), .help = help_)
#define FLAG(T, member, help_) TL_F(T, member, .help = help_)

#define WORDS(T, number) SIZE(T, vocab_size, number, "words")
#define HIDDEN(T, number) SIZE(T, hidden_size, number, "size of the vectors")
#define LAYERS(T, number) SIZE(T, num_layers, number, "layers")
#define HEADS(T, number) SIZE(T, num_attention_heads, number, "heads of the attention")
#define INNER(T) SIZE(T, intermediate_size, 3072, "units inside a layer")
#define ACTIVATION(T)                                                                              \
    TL_F(T, hidden_activation, .s = "gelu", .help = "function of the units inside")
#define DROPOUTS(T, number)                                                                        \
    RATE(T, dropout_rate, number, "share dropped of what each part gives"),                        \
        RATE(T, attention_dropout_rate, number, "share dropped of the attention's weights")
#define PLACES(T, number) SIZE(T, max_position_embeddings, number, "longest sequence")
#define TYPES(T, number) SIZE(T, type_vocab_size, number, "types of segments")
#define SPREAD(T)                                                                                  \
    TL_F(T, initializer_range, .d = 0.02, TL_AT_LEAST(0), .help = "deviation of first values")
#define WIDTH(T, member) TL_F(T, member, TL_AT_LEAST(1), .help = "of the tables; null: hidden_size")
#define NORM_FIRST(T) FLAG(T, norm_first, "norm what goes into each part, not what comes out")

#define ENCODER(id, type_, help_, ...)                                                             \
    static const tl_desc id##_desc = {                                                             \
        .name = #id, .help = help_, .size = sizeof(type_), .fields = id##_fields};                 \
    const tl_encoder_class tl_encoder_##id = {.cls = {.class_size = sizeof(tl_encoder_class),      \
                                                      .name = #id,                                 \
                                                      .help = help_,                               \
                                                      .config = &id##_desc},                       \
                                              __VA_ARGS__}

/* --- bert, bert_v2, albert, any --------------------------------------------------------------- */

#define BERT_FIELDS                                                                                \
    WORDS(tl_bert_config, 30522), HIDDEN(tl_bert_config, 768), LAYERS(tl_bert_config, 12),         \
        HEADS(tl_bert_config, 12), ACTIVATION(tl_bert_config), INNER(tl_bert_config),              \
        DROPOUTS(tl_bert_config, 0.1), PLACES(tl_bert_config, 512), TYPES(tl_bert_config, 2),      \
        SPREAD(tl_bert_config), WIDTH(tl_bert_config, embedding_size),                             \
        TL_F(tl_bert_config, output_range, TL_AT_LEAST(1),                                         \
             .help = "only so many first places come out; null: all"),                             \
        FLAG(tl_bert_config, return_all_encoder_outputs, "gives what each layer gives, too"),      \
        FLAG(tl_bert_config, return_attention_scores, "gives what each head looks at, too"),       \
        FLAG(tl_bert_config, return_word_embeddings, "gives what goes into the first layer, too"), \
        NORM_FIRST(tl_bert_config), TL_F_END

static int64_t bert_size(const void *config)
{
    return ((const tl_bert_config *)config)->hidden_size;
}

static const tl_field bert_fields[] = {BERT_FIELDS};
ENCODER(bert, tl_bert_config, "BERT", .make = tli_make_bert, .hidden_size = bert_size,
        .original_names = tli_bert_names);
static const tl_field bert_v2_fields[] = {BERT_FIELDS};
ENCODER(bert_v2, tl_bert_config, "BERT under the names of Model Garden's second encoder",
        .make = tli_make_bert, .hidden_size = bert_size, .original_names = tli_bert_names);

static int64_t albert_size(const void *config)
{
    return ((const tl_albert_config *)config)->hidden_size;
}

static const tl_field albert_fields[] = {
    WORDS(tl_albert_config, 30000), SIZE(tl_albert_config, embedding_width, 128, "of the tables"),
    HIDDEN(tl_albert_config, 768),  LAYERS(tl_albert_config, 12),
    HEADS(tl_albert_config, 12),    ACTIVATION(tl_albert_config),
    INNER(tl_albert_config),        DROPOUTS(tl_albert_config, 0),
    PLACES(tl_albert_config, 512),  TYPES(tl_albert_config, 2),
    SPREAD(tl_albert_config),       TL_F_END,
};
ENCODER(albert, tl_albert_config, "ALBERT: one layer's weights serve all of them",
        .make = tli_make_albert, .hidden_size = albert_size, .original_names = tli_albert_names);

typedef struct any_config {
    bool unused; /* a struct has a member */
} any_config;
static const tl_field any_fields[] = {
    TL_F(any_config, unused, .flags = TL_FIELD_QUIET | TL_FIELD_LATER, .help = "nothing"),
    TL_F_END,
};
ENCODER(any, any_config, "what gin's build_encoder makes: set its encoder_cls and bypass_config",
        .make = NULL);

/* --- those that are not here yet -------------------------------------------------------------- */

typedef struct bigbird_config {
    int64_t vocab_size, hidden_size, num_layers, num_attention_heads, intermediate_size;
    const char *hidden_activation;
    double dropout_rate, attention_dropout_rate, initializer_range;
    int64_t max_position_embeddings, num_rand_blocks, block_size, type_vocab_size;
    tl_opt_int embedding_width;
    bool norm_first, use_gradient_checkpointing;
} bigbird_config;
static const tl_field bigbird_fields[] = {
    WORDS(bigbird_config, 50358),
    HIDDEN(bigbird_config, 768),
    LAYERS(bigbird_config, 12),
    HEADS(bigbird_config, 12),
    ACTIVATION(bigbird_config),
    INNER(bigbird_config),
    DROPOUTS(bigbird_config, 0.1),
    PLACES(bigbird_config, 4096),
    SIZE(bigbird_config, num_rand_blocks, 3, "blocks that are looked at by chance"),
    SIZE(bigbird_config, block_size, 64, "places of a block"),
    TYPES(bigbird_config, 16),
    SPREAD(bigbird_config),
    WIDTH(bigbird_config, embedding_width),
    NORM_FIRST(bigbird_config),
    FLAG(bigbird_config, use_gradient_checkpointing, "compute again instead of keeping"),
    TL_F_END};
ENCODER(bigbird, bigbird_config, "BigBird: sparse attention (not here yet)", .make = NULL);

typedef struct funnel_config {
    int64_t vocab_size, hidden_size, num_layers, num_attention_heads;
    int64_t max_position_embeddings, type_vocab_size, inner_dim;
    const char *hidden_activation;
    bool approx_gelu;
    double dropout_rate, attention_dropout_rate, initializer_range;
    const char *pool_type;
    const tl_value *pool_stride;
    int64_t unpool_length;
    tl_opt_int embedding_width;
    bool norm_first, share_rezero, append_dense_inputs;
    const char *transformer_cls;
} funnel_config;
static const tl_field funnel_fields[] = {
    WORDS(funnel_config, 30522),
    HIDDEN(funnel_config, 768),
    LAYERS(funnel_config, 12),
    HEADS(funnel_config, 12),
    PLACES(funnel_config, 512),
    TYPES(funnel_config, 16),
    SIZE(funnel_config, inner_dim, 3072, "units inside a layer"),
    ACTIVATION(funnel_config),
    TL_F(funnel_config, approx_gelu, .b = true, .help = "gelu by tanh"),
    DROPOUTS(funnel_config, 0.1),
    SPREAD(funnel_config),
    TL_F(funnel_config, pool_type, .s = "max", .help = "how places are joined"),
    TL_F(funnel_config, pool_stride, .s = "2", .accept = TL_ACCEPT_NUMBER | TL_ACCEPT_LIST,
         .help = "how many places are joined, in all layers or in each"),
    TL_F(funnel_config, unpool_length, TL_AT_LEAST(0), .help = "first places that stay"),
    WIDTH(funnel_config, embedding_width),
    NORM_FIRST(funnel_config),
    FLAG(funnel_config, share_rezero, "one scale for both parts"),
    FLAG(funnel_config, append_dense_inputs, "vectors behind the words"),
    TL_F(funnel_config, transformer_cls, .s = "TransformerEncoderBlock", .help = "its layers"),
    TL_F_END};
ENCODER(funnel, funnel_config, "Funnel: sequences that become shorter (not here yet)",
        .make = NULL);

typedef struct kernel_config {
    int64_t vocab_size, hidden_size, num_layers, num_attention_heads, intermediate_size;
    const char *hidden_activation;
    double dropout_rate, attention_dropout_rate, initializer_range;
    int64_t max_position_embeddings, type_vocab_size;
    tl_opt_int embedding_size;
    const char *feature_transform;
    int64_t num_random_features, begin_kernel;
    bool redraw, is_short_seq, norm_first;
    tl_opt_double scale;
} kernel_config;
static const tl_field kernel_fields[] = {
    WORDS(kernel_config, 30522),
    HIDDEN(kernel_config, 768),
    LAYERS(kernel_config, 12),
    HEADS(kernel_config, 12),
    ACTIVATION(kernel_config),
    INNER(kernel_config),
    DROPOUTS(kernel_config, 0.1),
    PLACES(kernel_config, 512),
    TYPES(kernel_config, 2),
    SPREAD(kernel_config),
    WIDTH(kernel_config, embedding_size),
    TL_F(kernel_config, feature_transform, .s = "exp", .help = "function of the features"),
    SIZE(kernel_config, num_random_features, 256, "features"),
    FLAG(kernel_config, redraw, "draw features anew"),
    FLAG(kernel_config, is_short_seq, "another order of products"),
    TL_F(kernel_config, begin_kernel, TL_AT_LEAST(0), .help = "places without it"),
    TL_F(kernel_config, scale, .help = "of queries and keys"),
    NORM_FIRST(kernel_config),
    TL_F_END};
ENCODER(kernel, kernel_config, "linear attention by random features (not here yet)", .make = NULL);

typedef struct mobilebert_config {
    int64_t word_vocab_size, word_embed_size, type_vocab_size, max_sequence_length, num_blocks;
    int64_t hidden_size, num_attention_heads, intermediate_size;
    const char *hidden_activation;
    double hidden_dropout_prob, attention_probs_dropout_prob;
    int64_t intra_bottleneck_size;
    double initializer_range;
    bool use_bottleneck_attention, key_query_shared_bottleneck;
    int64_t num_feedforward_networks;
    const char *normalization_type;
    bool classifier_activation;
    const char *input_mask_dtype;
} mobilebert_config;
static const tl_field mobilebert_fields[] = {
    SIZE(mobilebert_config, word_vocab_size, 30522, "words"),
    SIZE(mobilebert_config, word_embed_size, 128, "of the table"),
    TYPES(mobilebert_config, 2),
    SIZE(mobilebert_config, max_sequence_length, 512, "longest sequence"),
    SIZE(mobilebert_config, num_blocks, 24, "layers"),
    HIDDEN(mobilebert_config, 512),
    HEADS(mobilebert_config, 4),
    SIZE(mobilebert_config, intermediate_size, 4096, "units inside"),
    ACTIVATION(mobilebert_config),
    RATE(mobilebert_config, hidden_dropout_prob, 0.1, "share dropped"),
    RATE(mobilebert_config, attention_probs_dropout_prob, 0.1, "share of weights dropped"),
    SIZE(mobilebert_config, intra_bottleneck_size, 1024, "size inside a layer"),
    SPREAD(mobilebert_config),
    FLAG(mobilebert_config, use_bottleneck_attention, "attention inside"),
    FLAG(mobilebert_config, key_query_shared_bottleneck, "one way in for keys and queries"),
    SIZE(mobilebert_config, num_feedforward_networks, 1, "feed-forward layers in each"),
    TL_F(mobilebert_config, normalization_type, .s = "layer_norm", .help = "layer_norm or no_norm"),
    TL_F(mobilebert_config, classifier_activation, .b = true,
         .help = "a dense layer of the first place"),
    TL_F(mobilebert_config, input_mask_dtype, .s = "int32", .help = "of the mask"),
    TL_F_END};
ENCODER(mobilebert, mobilebert_config, "MobileBERT (not here yet)", .make = NULL);

typedef struct reuse_config {
    int64_t vocab_size, hidden_size, num_layers, num_attention_heads, intermediate_size;
    const char *hidden_activation;
    double dropout_rate, attention_dropout_rate, initializer_range;
    int64_t max_position_embeddings, type_vocab_size;
    tl_opt_int embedding_size, output_range;
    bool return_all_encoder_outputs, norm_first, use_relative_pe;
    int64_t reuse_attention, pe_max_seq_length, max_reuse_layer_idx;
} reuse_config;
static const tl_field reuse_fields[] = {
    WORDS(reuse_config, 30522),
    HIDDEN(reuse_config, 768),
    LAYERS(reuse_config, 12),
    HEADS(reuse_config, 12),
    ACTIVATION(reuse_config),
    INNER(reuse_config),
    DROPOUTS(reuse_config, 0.1),
    PLACES(reuse_config, 512),
    TYPES(reuse_config, 2),
    SPREAD(reuse_config),
    WIDTH(reuse_config, embedding_size),
    TL_F(reuse_config, output_range, TL_AT_LEAST(1), .help = "first places that come out"),
    FLAG(reuse_config, return_all_encoder_outputs, "gives what each layer gives, too"),
    NORM_FIRST(reuse_config),
    TL_F(reuse_config, reuse_attention, .i = -1, .help = "heads that pass their weights on"),
    FLAG(reuse_config, use_relative_pe, "distances in place of places"),
    SIZE(reuse_config, pe_max_seq_length, 512, "largest distance"),
    SIZE(reuse_config, max_reuse_layer_idx, 6, "last layer that is passed on to"),
    TL_F_END};
ENCODER(reuse, reuse_config, "attention weights passed on between layers (not here yet)",
        .make = NULL);

typedef struct xlnet_config {
    int64_t vocab_size, num_layers, hidden_size, num_attention_heads, head_size, inner_size;
    const char *inner_activation;
    double dropout_rate, attention_dropout_rate, initializer_range;
    const char *attention_type;
    bool bi_data, tie_attention_biases, same_length, use_cls_mask, two_stream;
    int64_t memory_length, clamp_length, reuse_length, embedding_width;
} xlnet_config;
static const tl_field xlnet_fields[] = {
    WORDS(xlnet_config, 32000),
    LAYERS(xlnet_config, 24),
    HIDDEN(xlnet_config, 1024),
    HEADS(xlnet_config, 16),
    SIZE(xlnet_config, head_size, 64, "size of a head"),
    SIZE(xlnet_config, inner_size, 4096, "units inside a layer"),
    TL_F(xlnet_config, inner_activation, .s = "gelu", .help = "function of the units inside"),
    DROPOUTS(xlnet_config, 0.1),
    SPREAD(xlnet_config),
    TL_F(xlnet_config, attention_type, .s = "bi", .help = "bi or uni"),
    FLAG(xlnet_config, bi_data, "both directions in a batch"),
    FLAG(xlnet_config, tie_attention_biases, "one bias for all layers"),
    FLAG(xlnet_config, same_length, "each place looks as far back"),
    FLAG(xlnet_config, use_cls_mask, "the first place hides"),
    FLAG(xlnet_config, two_stream, "a stream of queries beside"),
    TL_F(xlnet_config, memory_length, TL_AT_LEAST(0), .help = "places kept from before"),
    TL_F(xlnet_config, clamp_length, .i = -1, .help = "largest distance; -1: any"),
    TL_F(xlnet_config, reuse_length, TL_AT_LEAST(0), .help = "places that are kept"),
    SIZE(xlnet_config, embedding_width, 1024, "of the table"),
    TL_F_END};
ENCODER(xlnet, xlnet_config, "XLNet (not here yet)", .make = NULL);

typedef struct query_bert_config {
    int64_t vocab_size, hidden_size, num_layers, num_attention_heads, intermediate_size;
    const char *hidden_activation;
    double dropout_rate, attention_dropout_rate, initializer_range;
    int64_t max_position_embeddings, type_vocab_size;
    tl_opt_int embedding_size, output_range;
    bool return_all_encoder_outputs, return_attention_scores, norm_first;
} query_bert_config;
static const tl_field query_bert_fields[] = {
    WORDS(query_bert_config, 30522),
    HIDDEN(query_bert_config, 768),
    LAYERS(query_bert_config, 12),
    HEADS(query_bert_config, 12),
    ACTIVATION(query_bert_config),
    INNER(query_bert_config),
    DROPOUTS(query_bert_config, 0.1),
    PLACES(query_bert_config, 512),
    TYPES(query_bert_config, 2),
    SPREAD(query_bert_config),
    WIDTH(query_bert_config, embedding_size),
    TL_F(query_bert_config, output_range, TL_AT_LEAST(1), .help = "first places that come out"),
    FLAG(query_bert_config, return_all_encoder_outputs, "gives what each layer gives, too"),
    FLAG(query_bert_config, return_attention_scores, "gives what each head looks at, too"),
    NORM_FIRST(query_bert_config),
    TL_F_END};
ENCODER(query_bert, query_bert_config, "BERT with a factorised table (not here yet)", .make = NULL);

typedef struct fnet_config {
    int64_t vocab_size, hidden_size, num_layers, num_attention_heads, inner_dim;
    const char *inner_activation;
    int64_t max_sequence_length, type_vocab_size;
    double output_dropout, attention_dropout, initializer_range;
    tl_opt_int embedding_width, output_range;
    bool norm_first, use_fft;
    tl_ints attention_layers;
} fnet_config;
static const tl_field fnet_fields[] = {
    WORDS(fnet_config, 30522),
    HIDDEN(fnet_config, 768),
    LAYERS(fnet_config, 12),
    HEADS(fnet_config, 12),
    SIZE(fnet_config, inner_dim, 3072, "units inside a layer"),
    TL_F(fnet_config, inner_activation, .s = "gelu", .help = "function of the units inside"),
    SIZE(fnet_config, max_sequence_length, 512, "length of every sequence"),
    TYPES(fnet_config, 2),
    RATE(fnet_config, output_dropout, 0.1, "without effect"),
    RATE(fnet_config, attention_dropout, 0.1, "without effect"),
    SPREAD(fnet_config),
    WIDTH(fnet_config, embedding_width),
    TL_F(fnet_config, output_range, TL_AT_LEAST(1), .help = "first places that come out"),
    NORM_FIRST(fnet_config),
    FLAG(fnet_config, use_fft, "a fast transform"),
    TL_F(fnet_config, attention_layers, .help = "layers with attention"),
    TL_F_END};
ENCODER(fnet, fnet_config, "FNet: Fourier transforms in place of attention (not here yet)",
        .make = NULL);

typedef struct sparse_mixer_config {
    int64_t vocab_size, hidden_size, num_layers, num_attention_heads, inner_dim, num_experts;
    tl_ints moe_layers, attention_layers;
    double train_capacity_factor, eval_capacity_factor, examples_per_group;
    const char *inner_activation;
    int64_t max_sequence_length, type_vocab_size;
    double output_dropout, attention_dropout, initializer_range;
    tl_opt_int embedding_width;
    bool norm_first, use_fft;
} sparse_mixer_config;
static const tl_field sparse_mixer_fields[] = {
    WORDS(sparse_mixer_config, 30522),
    HIDDEN(sparse_mixer_config, 768),
    LAYERS(sparse_mixer_config, 14),
    TL_F(sparse_mixer_config, moe_layers, TL_DEFAULT_LIST(int64_t, 5, 6, 7, 8),
         .help = "layers with experts"),
    TL_F(sparse_mixer_config, attention_layers, TL_DEFAULT_LIST(int64_t, 10, 11, 12, 13),
         .help = "layers with attention"),
    SIZE(sparse_mixer_config, num_experts, 16, "experts"),
    TL_F(sparse_mixer_config, train_capacity_factor, .d = 1, .help = "of experts in training"),
    TL_F(sparse_mixer_config, eval_capacity_factor, .d = 1, .help = "of experts in evaluation"),
    TL_F(sparse_mixer_config, examples_per_group, .d = 1, .help = "that share experts"),
    HEADS(sparse_mixer_config, 8),
    SIZE(sparse_mixer_config, inner_dim, 3072, "units inside"),
    TL_F(sparse_mixer_config, inner_activation, .s = "gelu", .help = "of the units inside"),
    SIZE(sparse_mixer_config, max_sequence_length, 512, "length of every sequence"),
    TYPES(sparse_mixer_config, 2),
    RATE(sparse_mixer_config, output_dropout, 0.1, "share dropped"),
    RATE(sparse_mixer_config, attention_dropout, 0.1, "share of weights dropped"),
    SPREAD(sparse_mixer_config),
    WIDTH(sparse_mixer_config, embedding_width),
    NORM_FIRST(sparse_mixer_config),
    FLAG(sparse_mixer_config, use_fft, "a fast transform"),
    TL_F_END};
ENCODER(sparse_mixer, sparse_mixer_config, "mixing and experts (not here yet)", .make = NULL);
