/* Encoders and heads against numbers that Model Garden's gave: weights by a rule, small inputs. */
#include "zoo/language_lab.h"

#include <tilth/ops/create.h>
#include <tilth/ops/elementwise.h>

static tl_engine *the_engine;

static int open_lab(void **state)
{
    return lab_open(state) || test_engine_new(&the_engine, NULL, 2) != TL_OK ? -1 : 0;
}

static int close_lab(void **state)
{
    tl_engine_free(&the_engine);
    return lab_close(state);
}

/* --- inputs ----------------------------------------------------------------------------------- */

static void put_inputs(tl_ctx *c, tl_tensors *in)
{
    tl_tensors_put(c, in, "input_word_ids", tl_from(c, TL_I32, TL_SHAPE(2, 6), ids));
    tl_tensors_put(c, in, "input_mask", tl_from(c, TL_I32, TL_SHAPE(2, 6), mask));
    tl_tensors_put(c, in, "input_type_ids", tl_from(c, TL_I32, TL_SHAPE(2, 6), types));
}

static void check(tl_tensors *out, const char *name, int64_t from, const double *want, int count)
{
    double *have = calloc((size_t)tl_tensor_count(tl_tensors_peek(out, name)), sizeof *have);
    tl_tensor *t = tl_tensors_peek(out, name);
    assert_ok(tl_tensor_get_doubles(t, have, tl_tensor_count(t)));
    for (int i = 0; i < count; i++)
        if (!(fabs(have[from + i] - want[i]) < 2e-6 + 1e-5 * fabs(want[i])))
            fail_msg("%s[%lld] is %.7g and should be %.7g", name, (long long)from + i,
                     have[from + i], want[i]);
    free(have);
}
#define CHECK(out, name, from, ...)                                                                \
    check(&(out), name, from, (const double[]){__VA_ARGS__},                                       \
          (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double)))

/* --- models ----------------------------------------------------------------------------------- */

static tl_model *pretrainer_of(const char *yaml)
{
    tl_config *config;
    tl_model *m;
    assert_ok(tl_config_new(&config, lab_registry, &tl_pretrainer_config_desc));
    assert_ok(tl_config_yaml(config, yaml, "test.yaml"));
    assert_ok(tl_config_finish(config));
    void *copy = tl_arena_alloc(lab_arena, sizeof(tl_pretrainer_config));
    assert_ok(tl_desc_copy(lab_arena, &tl_pretrainer_config_desc, copy, tl_config_value(config)));
    tl_config_free(&config);
    if (tl_pretrainer_new(&m, &(tl_pretrainer_args){.engine = the_engine,
                                                    .config = copy,
                                                    .batch_size = 2,
                                                    .seq_length = 6,
                                                    .predictions = 2,
                                                    .registry = lab_registry,
                                                    .arena = lab_arena})
        != TL_OK)
        fail_msg("%s", tl_error_message());
    return m;
}

static void test_bert_gives_the_originals_numbers(void **state)
{
    (void)state;
    static const char *const types_of[] = {"bert", "bert_v2"};
    for (int v = 0; v < 2; v++) {
        char yaml[512];
        snprintf(yaml, sizeof yaml,
                 "encoder: {type: %s, %s: {return_all_encoder_outputs: true, " SIZES "}}\n"
                 "cls_heads: [{inner_dim: 4, num_classes: 2, name: next_sentence}]\n",
                 types_of[v], types_of[v]);
        tl_model *m = pretrainer_of(yaml);
        put_pretrainer_rules(m);
        tl_ctx *c;
        assert_ok(tl_ctx_new(&c, the_engine));
        tl_mark begin = tl_ctx_begin(c);
        tl_tensors in = {0}, out = {0};
        put_inputs(c, &in);
        tl_tensors_put(c, &in, "masked_lm_positions",
                       tl_from(c, TL_I32, TL_SHAPE(2, 2), positions));
        tl_call_all(c, m, &in, &out);
        assert_ok(tl_ctx_status(c));
        CHECK(out, "sequence_output", 0, -1.876592, -.546669, .32589, .523542, .770263, .790023,
              -.327209, -1.383489, -1.602751, -.822963, .11811, .729615, 1.823511, .039915,
              -1.027828, -.888917, -.584381, -1.287743, -.465425, .949448, -1.690862, .603017,
              .636252, -.636837, -1.87093, -.554253, .321063, .529537, 1.602898, .312903, -.841042,
              -1.105967, .006616, .955352, .048285, -1.369986, 1.898056, -.121366, -1.11416,
              -.748516, -.927738, -1.185775, -.286872, .928316, 1.287823, .550625, -.626644,
              -1.267142);
        CHECK(out, "encoder_outputs/0", 0, -1.080858, -.195846, 1.035933, 1.702455);
        CHECK(out, "pooled_output", 0, .122435, .308151, .348868, .234115, .120157, .307036,
              .349244, .235898);
        CHECK(out, "next_sentence", 0, -.16644, -.317104, -.167099, -.318334);
        CHECK(out, "mlm_logits", 0, -.511442, .572094, .106959, .238606, .318241, -.512343, .271032,
              -.899854, .421965, -.527721, .607843);
        CHECK(out, "mlm_logits", 22, -.567665, .662545, -.007268, .36341, .197282, -.409207,
              .197637, -.86468, .429078, -.576298, .692271);
        tl_ctx_end(c, begin);
        tl_ctx_free(&c);
        tl_model_free(&m);
    }
}

static tl_status ran(tl_ctx *c)
{
    TL_TRY(tl_ctx_status(c));
    return tl_engine_wait(the_engine); // a device tells when it has run
}

/* A place that a sequence does not have is none, and not one of the sequence beside it. */
static void test_hidden_places_are_those_of_the_sequence(void **state)
{
    (void)state;
    static const int32_t wrong[][4] = {{0, 6, 1, 2}, {0, 1, -1, 2}, {-1, 1, 2, 3}, {0, 1, 2, 6}};
    tl_model *m = pretrainer_of("encoder: {type: bert, bert: {" SIZES "}}\n");
    tl_ctx *c;
    assert_ok(tl_ctx_new(&c, the_engine));
    for (int i = 0; i < TL_COUNT(wrong); i++) {
        tl_mark begin = tl_ctx_begin(c);
        tl_tensors in = {0}, out = {0};
        put_inputs(c, &in);
        tl_tensors_put(c, &in, "masked_lm_positions", tl_from(c, TL_I32, TL_SHAPE(2, 2), wrong[i]));
        tl_call_all(c, m, &in, &out);
        assert_fails(ran(c), TL_EINVAL, "masked_lm: gather: index 12");
        tl_ctx_clear(c);
        tl_ctx_end(c, begin);
    }
    tl_ctx_free(&c);
    tl_model_free(&m);
}

static void test_words_that_are_given_are_as_wide_as_the_tables(void **state)
{
    (void)state;
    static const float vectors[2 * 6 * 3];
    tl_model *m = pretrainer_of("encoder: {type: bert, bert: {" SIZES "}}\n");
    tl_ctx *c;
    assert_ok(tl_ctx_new(&c, the_engine));
    tl_mark begin = tl_ctx_begin(c);
    tl_tensors in = {0}, out = {0};
    put_inputs(c, &in);
    tl_tensors_put(c, &in, "input_word_embeddings", tl_from(c, TL_F32, TL_SHAPE(2, 6, 3), vectors));
    tl_call_all(c, m, &in, &out);
    assert_fails(tl_ctx_status(c), TL_EINVAL,
                 "'input_word_embeddings' has vectors of 3, and 4 are expected");
    tl_ctx_end(c, begin);
    tl_ctx_free(&c);
    tl_model_free(&m);
}

/* --- an encoder of parts that gin names ------------------------------------------------------- */

static const char *const talking[] = {"self_attention/pre_softmax_weight",
                                      "self_attention/post_softmax_weight",
                                      "self_attention/query/kernel",
                                      "self_attention/query/bias",
                                      "self_attention/key/kernel",
                                      "self_attention/key/bias",
                                      "self_attention/value/kernel",
                                      "self_attention/value/bias",
                                      "self_attention/attention_output/kernel",
                                      "self_attention/attention_output/bias",
                                      "feedforward/intermediate_0/kernel",
                                      "feedforward/intermediate_0/bias",
                                      "feedforward/gate_0/kernel",
                                      "feedforward/gate_0/bias",
                                      "feedforward/output_0/kernel",
                                      "feedforward/output_0/bias",
                                      "feedforward/output_layer_norm_0/gamma",
                                      "feedforward/output_layer_norm_0/beta",
                                      "self_attention_layer_norm/gamma",
                                      "self_attention_layer_norm/beta",
                                      NULL};
static const char *const cls_pooler[] = {"cls_transform/kernel", "cls_transform/bias", NULL};

/* What gin-config writes after Model Garden has built the same encoder, but for two lines:
 * bias_initializer is 'zeros' there, and a section tells of BertPretrainerV2. */
#define LINE "# ==============================================================================\n"
static const char operative[] =
    "# Parameters for build_encoder:\n" LINE "build_encoder.bypass_config = False\n"
    "build_encoder.embedding_layer = None\n"
    "build_encoder.encoder_cls = @EncoderScaffold\n"
    "\n"
    "# Parameters for EncoderScaffold:\n" LINE "EncoderScaffold.embedding_cls = None\n"
    "EncoderScaffold.embedding_data = None\n"
    "EncoderScaffold.feed_layer_idx = False\n"
    "EncoderScaffold.hidden_cls = @TransformerScaffold\n"
    "EncoderScaffold.layer_idx_as_attention_seed = False\n"
    "EncoderScaffold.layer_norm_before_pooling = False\n"
    "EncoderScaffold.mask_cfg = None\n"
    "EncoderScaffold.recursive = False\n"
    "\n"
    "# Parameters for GatedFeedforward:\n" LINE "GatedFeedforward.apply_output_layer_norm = True\n"
    "GatedFeedforward.dropout_position = 'before_residual'\n"
    "GatedFeedforward.num_blocks = 1\n"
    "GatedFeedforward.use_gate = True\n"
    "\n"
    "# Parameters for TalkingHeadsAttention:\n" LINE "TalkingHeadsAttention.attention_axes = None\n"
    "TalkingHeadsAttention.output_shape = None\n"
    "TalkingHeadsAttention.use_bias = True\n"
    "TalkingHeadsAttention.value_dim = None\n"
    "\n"
    "# Parameters for TransformerScaffold:\n" LINE
    "TransformerScaffold.activity_regularizer = None\n"
    "TransformerScaffold.attention_cfg = None\n"
    "TransformerScaffold.attention_cls = @TalkingHeadsAttention\n"
    "TransformerScaffold.bias_constraint = None\n"
    "TransformerScaffold.bias_initializer = None\n"
    "TransformerScaffold.bias_regularizer = None\n"
    "TransformerScaffold.feedforward_cfg = None\n"
    "TransformerScaffold.feedforward_cls = @GatedFeedforward\n"
    "TransformerScaffold.inner_dim = 768\n"
    "TransformerScaffold.kernel_constraint = None\n"
    "TransformerScaffold.kernel_regularizer = None\n"
    "TransformerScaffold.norm_epsilon = 1e-12\n"
    "TransformerScaffold.norm_first = False\n";

/* Names are as long as Model Garden's, or as short as they can be. */
static void test_gin_builds_an_encoder_of_its_own(void **state)
{
    (void)state;
    tl_gin *gin;
    assert_ok(tl_gin_new(&gin, lab_registry));
    assert_ok(tl_gin_parse(
        gin,
        "official.nlp.configs.encoders.build_encoder.encoder_cls = @EncoderScaffold\n"
        "networks.encoder_scaffold.EncoderScaffold.hidden_cls = @TransformerScaffold\n"
        "TransformerScaffold.attention_cls = @TalkingHeadsAttention\n"
        "official.nlp.modeling.layers.transformer_scaffold.TransformerScaffold.feedforward_cls = "
        "@GatedFeedforward\n"
        "gated_feedforward.GatedFeedforward.num_blocks = 1\n",
        "test.gin"));
    assert_ok(tl_gin_finalize(gin));
    tl_gin *outer = tl_gin_set_current(gin);
    tl_model *m =
        pretrainer_of("encoder: {type: bert, bert: {hidden_activation: relu, " SIZES "}}");
    tl_gin_set_current(outer);
    int i = put_rules(m, 0, "encoder/", tables);
    i = put_rules(m, i, "encoder/layer_0/", talking);
    i = put_rules(m, i, "encoder/layer_1/", talking);
    put_rules(m, i, "encoder/", cls_pooler);
    tl_ctx *c;
    assert_ok(tl_ctx_new(&c, the_engine));
    tl_mark begin = tl_ctx_begin(c);
    tl_tensors in = {0}, out = {0};
    put_inputs(c, &in);
    tl_call_all(c, m, &in, &out);
    assert_ok(tl_ctx_status(c));
    assert_null(tl_tensors_peek(&out, "mlm_logits"));
    CHECK(out, "sequence_output", 0, .682413, .271385, -.201752, -1.175718, .924933, -.148459,
          -.780107, -.194863, .533257, .363188, -.005015, -1.340065, -.902757, -.610077, .133913,
          1.952373, -1.403754, .035067, 1.100437, .531937, .825387, .135963, -.435777, -.892931,
          .681482, .272577, -.201528, -1.176399);
    CHECK(out, "pooled_output", 0, .360383, .158959, -.131327, -.347303, .36006, .158861, -.131112,
          -.346921);
    tl_ctx_end(c, begin);
    tl_ctx_free(&c);
    tl_model_free(&m);
    tl_str text = TL_STR_INIT;
    assert_ok(tl_gin_operative(&text, gin));
    assert_string_equal(tl_str_text(&text), operative);
    tl_str_deinit(&text);
    tl_gin_free(&gin);
}

static void test_gin_takes_names_of_any_length(void **state)
{
    (void)state;
    static const char *const names[] = {
        "TalkingHeadsAttention",
        "layers.TalkingHeadsAttention",
        "talking_heads_attention.TalkingHeadsAttention",
        "official.nlp.modeling.layers.talking_heads_attention.TalkingHeadsAttention",
        "official.nlp.modeling.layers.TalkingHeadsAttention",
        "nlp.layers.TalkingHeadsAttention",    // no end of the name
        "official.nlp.TalkingHeadsAttention"}; // nor this
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        char text[128];
        tl_gin *gin;
        snprintf(text, sizeof text, "TransformerScaffold.attention_cls = @%s\n", names[i]);
        assert_ok(tl_gin_new(&gin, lab_registry));
        assert_ok(tl_gin_parse(gin, text, "test.gin"));
        tl_status st = tl_gin_finalize(gin);
        if ((st == TL_OK) != (i < 5)) fail_msg("%s: %s", names[i], tl_error_message());
        tl_gin_free(&gin);
    }
}

/* --- blocks ----------------------------------------------------------------------------------- */

static void check_block(const tl_layer_class *cls, const void *config, const double *want)
{
    const tl_spec x = {"x", TL_F32, TL_SHAPE(1, 2, 4)};
    float values[8];
    tl_model *m;
    tl_ctx *c;
    for (int i = 0; i < 8; i++) values[i] = (float)sin(i);
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = the_engine,
                                                .cls = cls,
                                                .config = config,
                                                .inputs = &x,
                                                .input_count = 1,
                                                .registry = lab_registry}));
    assert_int_equal(put_rules(m, 0, "", block), 16);
    assert_ok(tl_ctx_new(&c, the_engine));
    tl_mark begin = tl_ctx_begin(c);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(c, &in, "x", tl_from(c, TL_F32, x.shape, values));
    tl_call_all(c, m, &in, &out);
    assert_ok(tl_ctx_status(c));
    check(&out, "y", 0, want, 8);
    tl_ctx_end(c, begin);
    tl_ctx_free(&c);
    tl_model_free(&m);
}

static void test_blocks_norm_first_or_last(void **state)
{
    (void)state;
    static const double last[] = {-.652831, 1.005783,  .174739,  -1.165962,
                                  -.303426, -1.527701, -.357992, .873627},
                        block_first[] = {.618064,  1.347161, 1.06478, -.126731,
                                         -.164875, -.512831, -.18896, .349261},
                        scaffold_first[] = {.610601,  1.314155, 1.021753, -.159542,
                                            -.172399, -.547122, -.233892, .314821};
    check_block(&tl_layer_transformer_encoder_block,
                &(tl_transformer_encoder_block_config){.num_attention_heads = 2, .inner_dim = 6},
                last);
    check_block(&tl_layer_transformer_scaffold,
                &(tl_transformer_scaffold_config){.num_attention_heads = 2, .inner_dim = 6}, last);
    check_block(&tl_layer_transformer_encoder_block,
                &(tl_transformer_encoder_block_config){
                    .num_attention_heads = 2, .inner_dim = 6, .norm_first = true},
                block_first);
    check_block(&tl_layer_transformer_scaffold,
                &(tl_transformer_scaffold_config){
                    .num_attention_heads = 2, .inner_dim = 6, .norm_first = true},
                scaffold_first);
}

/* --- parts of blocks -------------------------------------------------------------------------- */

static tl_model *model_of(const tl_layer_class *cls, const void *config, tl_shape shape)
{
    const tl_spec x = {"x", TL_F32, shape};
    tl_model *m;
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = the_engine,
                                                .cls = cls,
                                                .config = config,
                                                .inputs = &x,
                                                .input_count = 1,
                                                .registry = lab_registry}));
    return m;
}

static void put_all(tl_model *m, const char *path, double value)
{
    const tl_param *p = tl_model_find(m, path);
    if (!p) fail_msg("there is no parameter '%s'", path);
    tl_lease l;
    assert_ok(tl_lease_discard(&l, p->tensor));
    for (int64_t i = 0; i < tl_tensor_count(p->tensor); i++) ((float *)l.data)[i] = (float)value;
    assert_ok(tl_lease_end(&l));
}

static void test_activations_are_the_originals_by_their_names(void **state)
{
    (void)state;
    static const float x[] = {-2.7F, 1, 3};
    static const double one[] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    static const struct {
        const char *name;
        double want[3];
    } all[] = {{"gelu", {-.0088876, .8411920, 2.9963626}},
               {"gelu_erf", {-.0093608, .8413447, 2.9959503}}};
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        const tl_gated_feedforward_config config = {.inner_dim = 3,
                                                    .inner_activation = all[i].name,
                                                    .use_gate = TL_SET(false),
                                                    .apply_output_layer_norm = TL_SET(false)};
        tl_model *m = model_of(&tl_layer_gated_feedforward, &config, TL_SHAPE(1, 1, 3));
        tl_ctx *c;
        double have[3];
        assert_ok(tl_tensor_set_doubles(tl_model_find(m, "intermediate_0/kernel")->tensor, one, 9));
        assert_ok(tl_tensor_set_doubles(tl_model_find(m, "output_0/kernel")->tensor, one, 9));
        assert_ok(tl_ctx_new(&c, the_engine));
        tl_mark begin = tl_ctx_begin(c);
        tl_tensor *y = tl_call(c, m, tl_from(c, TL_F32, TL_SHAPE(1, 1, 3), x));
        assert_ok(tl_ctx_status(c));
        assert_ok(tl_tensor_get_doubles(y, have, 3));
        for (int k = 0; k < 3; k++)
            if (!(fabs(have[k] - all[i].want[k]) < 2e-7 * fmax(1, fabs(have[k]))))
                fail_msg("%s(%g) is %.7f", all[i].name, (double)x[k], have[k]);
        tl_ctx_end(c, begin);
        tl_ctx_free(&c);
        tl_model_free(&m);
    }
}

enum { DROPPED_OF = 16 * 64 * 8 };

/* What a layer makes in training of numbers that are all `x`. */
static void train_on(tl_model *m, double x, double *have)
{
    tl_ctx *c;
    assert_ok(tl_ctx_new(&c, the_engine));
    tl_ctx_set_training(c, true);
    tl_mark begin = tl_ctx_begin(c);
    tl_tensor *numbers = tl_shift(c, tl_zeros(c, TL_F32, TL_SHAPE(16, 64, 8)), x);
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(c, &in, "x", numbers);
    tl_call_all(c, m, &in, &out);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get_doubles(out.items[0].tensor, have, DROPPED_OF));
    tl_ctx_end(c, begin);
    tl_ctx_free(&c);
}

static double share_of(const double *have, double value)
{
    int64_t count = 0;
    for (int i = 0; i < DROPPED_OF; i++) count += fabs(have[i] - value) < 1e-5;
    return (double)count / DROPPED_OF;
}

/* Zeros go in, the attention and the feed-forward layers give 1 each: sums tell what was dropped of
 * which. The block drops what its attention gives at the rate of the attention's weights (0.5),
 * the scaffold at that of everything else (0.25). */
static void test_dropout_has_the_originals_rates(void **state)
{
    (void)state;
    static double have[DROPPED_OF];
    static const tl_transformer_encoder_block_config of_block = {.num_attention_heads = 2,
                                                                 .inner_dim = 6,
                                                                 .norm_first = true,
                                                                 .output_dropout = TL_SET(0.25),
                                                                 .attention_dropout = TL_SET(0.5)};
    static const tl_transformer_scaffold_config of_scaffold = {.num_attention_heads = 2,
                                                               .inner_dim = 6,
                                                               .norm_first = true,
                                                               .dropout_rate = TL_SET(0.25),
                                                               .attention_dropout_rate =
                                                                   TL_SET(0.5)};
    static const struct {
        const tl_layer_class *cls;
        const void *config;
        double values[4], shares[4];
    } all[] = {{&tl_layer_transformer_encoder_block,
                &of_block,
                {0, 4. / 3, 2, 10. / 3},
                {.125, .375, .125, .375}},
               {&tl_layer_transformer_scaffold,
                &of_scaffold,
                {0, 4. / 3, 8. / 3, 2},
                {.0625, .375, .5625, 0}}};
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        tl_model *m = model_of(all[i].cls, all[i].config, TL_SHAPE(16, 64, 8));
        put_all(m, "self_attention/attention_output/bias", 1);
        put_all(m, "output/kernel", 0);
        put_all(m, "output/bias", 1);
        train_on(m, 0, have);
        for (int k = 0; k < 4; k++)
            if (!(fabs(share_of(have, all[i].values[k]) - all[i].shares[k]) < 0.025))
                fail_msg("%s: %g of all are %g, not %g", all[i].cls->cls.name,
                         share_of(have, all[i].values[k]), all[i].values[k], all[i].shares[k]);
        tl_model_free(&m);
    }
}

/* Behind the residual and the norm what is dropped is 0; before them it is not. */
static void test_gated_layers_drop_where_they_are_told(void **state)
{
    (void)state;
    static double have[DROPPED_OF];
    static const tl_dropout_position where[] = {TL_DROP_BEFORE_RESIDUAL, TL_DROP_AFTER_RESIDUAL};
    for (int64_t i = 0; i < TL_COUNT(where); i++) {
        const tl_gated_feedforward_config config = {
            .inner_dim = 6, .dropout = TL_SET(0.5), .dropout_position = where[i], .num_blocks = 2};
        tl_model *m = model_of(&tl_layer_gated_feedforward, &config, TL_SHAPE(16, 64, 8));
        put_all(m, "output_layer_norm_1/beta", 10); // far from 0
        train_on(m, 1, have);
        const double zeros = share_of(have, 0);
        if (!(fabs(zeros - (i ? 0.5 : 0)) < 0.025)) fail_msg("%g of all are 0", zeros);
        tl_model_free(&m);
    }
}

static void test_encoders_that_lack_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const names[] = {"bigbird", "funnel", "kernel",     "mobilebert",  "reuse",
                                        "xlnet",   "fnet",   "query_bert", "sparse_mixer"};
    for (int64_t i = 0; i < TL_COUNT(names); i++) {
        tl_pretrainer_config k;
        tl_model *m;
        assert_ok(tl_desc_defaults(lab_arena, &tl_pretrainer_config_desc, &k));
        k.encoder = (tl_oneof){.type = names[i]};
        assert_int_equal(tl_pretrainer_new(&m, &(tl_pretrainer_args){.engine = the_engine,
                                                                     .config = &k,
                                                                     .registry = lab_registry,
                                                                     .arena = lab_arena}),
                         TL_EUNSUPPORTED);
        assert_non_null(strstr(tl_error_message(), names[i]));
        assert_null(m);
    }
}

/* --- packed sequences ------------------------------------------------------------------------- */

static const int32_t packed_ids[] = {2, 5, 2, 7, 3, 0, 2, 6, 8, 2, 2, 3},
                     places[] = {0, 1, 2, 3, 1, 0, 5, 4, 3, 2, 1, 0};
/* First and last row of each example, [2, 6, 3], as Model Garden's PackedSequenceEmbedding has
 * them. */
static const struct {
    bool pack, positions;
    double want[12];
} packed_cases[] = {
    {true,
     false,
     {.165873, .081333, -.04146, .067841, .215216, .261372, .165873, .081333, -.04146, -.283073,
      -.130934, .082785}},
    {false,
     true,
     {.165873, .081333, -.04146, .159646, .093174, -.01712, .069935, .213191, .25618, .132451,
      .138011, .078662}},
    {false,
     false,
     {.165873, .081333, -.04146, .109296, .169566, .150086, .165873, .081333, -.04146, -.270677,
      .231825, .625296}},
};

/* Which keys the fifth place of the first example, and the fourth of the second, may look at. */
static void check_packed_mask(const tl_tensor *m)
{
    static const double fifth[] = {0, 0, 1, 1, 1, 0}, fourth[] = {0, 0, 0, 1, 0, 0};
    double have[72];
    assert_int_equal(tl_tensor_count(m), 72);
    assert_ok(tl_tensor_get_doubles(m, have, 72));
    assert_memory_equal(have + 4 * 6, fifth, sizeof fifth);
    assert_memory_equal(have + 36 + 3 * 6, fourth, sizeof fourth);
}

static void check_packed(int64_t which)
{
    static const char *const weights[] = {"word_embeddings/embeddings",
                                          "position_embedding/embeddings",
                                          "type_embeddings/embeddings",
                                          "layer_norm/gamma",
                                          "layer_norm/beta",
                                          "embedding_projection/kernel",
                                          NULL};
    static const char *const names[] = {"word_ids", "mask", "type_ids", "position_ids"};
    const int32_t *const values[] = {packed_ids, mask, types, places};
    const int count = packed_cases[which].positions ? 4 : 3;
    tl_spec inputs[4];
    tl_model *m;
    tl_ctx *c;
    double have[36];
    for (int i = 0; i < 4; i++) inputs[i] = (tl_spec){names[i], TL_I32, TL_SHAPE(2, 6)};
    const tl_packed_sequence_embedding_config config = {
        .vocab_size = 11,
        .type_vocab_size = 2,
        .embedding_width = TL_SET(4),
        .hidden_size = 3,
        .max_seq_length = 8,
        .use_position_id = packed_cases[which].positions,
        .pack_multiple_sequences = packed_cases[which].pack};
    assert_ok(tl_model_new(&m, &(tl_model_args){.engine = the_engine,
                                                .cls = &tl_layer_packed_sequence_embedding,
                                                .config = &config,
                                                .inputs = inputs,
                                                .input_count = count}));
    assert_int_equal(put_rules(m, 0, "", weights), tl_model_param_count(m));
    assert_ok(tl_ctx_new(&c, the_engine));
    tl_mark begin = tl_ctx_begin(c);
    tl_tensors in = {0}, out = {0};
    for (int i = 0; i < count; i++)
        tl_tensors_put(c, &in, names[i], tl_from(c, TL_I32, TL_SHAPE(2, 6), values[i]));
    tl_call_all(c, m, &in, &out);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get_doubles(tl_tensors_get(c, &out, "embeddings"), have, 36));
    for (int i = 0; i < 12; i++) {
        const int at = i / 6 * 18 + i / 3 % 2 * 15 + i % 3;
        if (!(fabs(have[at] - packed_cases[which].want[i]) < 3e-6))
            fail_msg("case %d: [%d] is %.7g", (int)which, at, have[at]);
    }
    if (packed_cases[which].pack) check_packed_mask(tl_tensors_get(c, &out, "attention_mask"));
    tl_ctx_end(c, begin);
    tl_ctx_free(&c);
    tl_model_free(&m);
}

static void test_sequences_in_a_row_do_not_see_each_other(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(packed_cases); i++) check_packed(i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert_gives_the_originals_numbers),
        cmocka_unit_test(test_hidden_places_are_those_of_the_sequence),
        cmocka_unit_test(test_words_that_are_given_are_as_wide_as_the_tables),
        cmocka_unit_test(test_gin_builds_an_encoder_of_its_own),
        cmocka_unit_test(test_gin_takes_names_of_any_length),
        cmocka_unit_test(test_sequences_in_a_row_do_not_see_each_other),
        cmocka_unit_test(test_blocks_norm_first_or_last),
        cmocka_unit_test(test_activations_are_the_originals_by_their_names),
        cmocka_unit_test(test_dropout_has_the_originals_rates),
        cmocka_unit_test(test_gated_layers_drop_where_they_are_told),
        cmocka_unit_test(test_encoders_that_lack_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
