/* Encoders whose parts gin names. */
#include "zoo/language_lab.h"

#include <tilth/desc/gin.h>
#include <tilth/ops/create.h>

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

/* --- models ----------------------------------------------------------------------------------- */

#define GIN "build_encoder.encoder_cls = @EncoderScaffold\n"
#define SCAFFOLD GIN "EncoderScaffold.hidden_cls = @TransformerScaffold\n"
#define TALKING SCAFFOLD "TransformerScaffold.attention_cls = @TalkingHeadsAttention\n"
#define GATED SCAFFOLD "TransformerScaffold.feedforward_cls = @GatedFeedforward\n"
#define BERT "encoder: {type: bert, bert: {" SIZES "}}"

static tl_gin *gin_of(const char *text)
{
    tl_gin *gin;
    assert_ok(tl_gin_new(&gin, lab_registry));
    assert_ok(tl_gin_parse(gin, text, "test.gin"));
    assert_ok(tl_gin_finalize(gin));
    return gin;
}

/* The model that a text of gin makes of an encoder's configuration. */
static tl_status build_by_gin(tl_model **out, const char *text, const char *yaml)
{
    tl_config *config;
    assert_ok(tl_config_new(&config, lab_registry, &tl_pretrainer_config_desc));
    assert_ok(tl_config_yaml(config, yaml, "test.yaml"));
    assert_ok(tl_config_finish(config));
    tl_pretrainer_config *copy = tl_arena_alloc(lab_arena, sizeof *copy);
    assert_ok(tl_desc_copy(lab_arena, &tl_pretrainer_config_desc, copy, tl_config_value(config)));
    tl_config_free(&config);
    tl_gin *gin = gin_of(text), *outer = tl_gin_set_current(gin);
    tl_status st = tl_pretrainer_new(out, &(tl_pretrainer_args){.engine = the_engine,
                                                                .config = copy,
                                                                .batch_size = 2,
                                                                .seq_length = 6,
                                                                .predictions = 2,
                                                                .registry = lab_registry,
                                                                .arena = lab_arena});
    tl_gin_set_current(outer);
    tl_gin_free(&gin);
    return st;
}

/* --- what is not there yet -------------------------------------------------------------------- */

static void test_parameters_that_lack_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *of, *class, *field, *value;
    } all[] = {
        {TALKING, "EncoderScaffold", "recursive", "True"},
        {TALKING, "EncoderScaffold", "feed_layer_idx", "True"},
        {TALKING, "EncoderScaffold", "embedding_data", "@OnDeviceEmbedding"},
        {TALKING, "EncoderScaffold", "mask_cfg", "{'name': 'mine'}"},
        {TALKING, "TransformerScaffold", "attention_cfg", "{'num_heads': 1}"},
        {GATED, "TransformerScaffold", "feedforward_cfg", "{'inner_dim': 4}"},
        {TALKING, "TransformerScaffold", "kernel_constraint", "'non_neg'"},
        {TALKING, "TransformerScaffold", "bias_constraint", "'non_neg'"},
        {TALKING, "TransformerScaffold", "activity_regularizer", "'l2'"},
        {TALKING, "TalkingHeadsAttention", "attention_axes", "[1]"},
        {GIN, "TransformerEncoderBlock", "use_rms_norm", "True"},
        {"", "TransformerEncoderBlock", "use_sigmoid_attn", "True"},
        {"", "TransformerEncoderBlock", "linformer_dim", "2"},
        {"", "TransformerEncoderBlock", "attention_axes", "[1]"},
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        char text[512], name[128], *line;
        tl_model *m;
        snprintf(name, sizeof name, "%s.%s", all[i].class, all[i].field);
        snprintf(text, sizeof text, "%s%s = %s\n", all[i].of, name, all[i].value);
        tl_status st = build_by_gin(&m, text, BERT);
        if (st != TL_EUNSUPPORTED) fail_msg("%s: %s", name, st ? tl_error_message() : "is taken");
        line = strstr(tl_error_message(), "test.gin:");
        if (!line || !strstr(line, name) || !strstr(line, "not available yet"))
            fail_msg("%s: %s", name, tl_error_message());
        assert_null(m);
    }
}

/* A default that is said is no change, and literals are no way around. */
static void test_defaults_are_taken_and_literals_are_refused(void **state)
{
    (void)state;
    tl_model *m;
    assert_ok(build_by_gin(&m,
                           TALKING "EncoderScaffold.recursive = False\n"
                                   "EncoderScaffold.mask_cfg = None\n",
                           BERT));
    tl_model_free(&m);
    const tl_spec x = {"x", TL_F32, TL_SHAPE(1, 2, 4)};
    const tl_transformer_encoder_block_config config = {
        .num_attention_heads = 2, .inner_dim = 6, .use_rms_norm = true};
    assert_fails(tl_model_new(&m, &(tl_model_args){.engine = the_engine,
                                                   .cls = &tl_layer_transformer_encoder_block,
                                                   .config = &config,
                                                   .inputs = &x,
                                                   .input_count = 1}),
                 TL_EUNSUPPORTED, "use_rms_norm: not available yet");
}

/* --- what is computed ------------------------------------------------------------------------- */

#define ATTENTION                                                                                  \
    "self_attention/query/kernel", "self_attention/query/bias", "self_attention/key/kernel",       \
        "self_attention/key/bias", "self_attention/value/kernel", "self_attention/value/bias",     \
        "self_attention/attention_output/kernel", "self_attention/attention_output/bias"
#define NORM "self_attention_layer_norm/gamma", "self_attention_layer_norm/beta"
#define DENSE                                                                                      \
    "intermediate/kernel", "intermediate/bias", "output/kernel", "output/bias",                    \
        "output_layer_norm/gamma", "output_layer_norm/beta"
#define INNER(n) "feedforward/intermediate_" n "/kernel", "feedforward/intermediate_" n "/bias"
#define GATE(n) "feedforward/gate_" n "/kernel", "feedforward/gate_" n "/bias"
#define OUTER(n) "feedforward/output_" n "/kernel", "feedforward/output_" n "/bias"
#define OUTER_NORM(n)                                                                              \
    "feedforward/output_layer_norm_" n "/gamma", "feedforward/output_layer_norm_" n "/beta"

static const char *const no_gate[] = {ATTENTION,       INNER("0"), OUTER("0"),
                                      OUTER_NORM("0"), NORM,       NULL};
static const char *const two_blocks[] = {ATTENTION,       INNER("0"), GATE("0"), OUTER("0"),
                                         OUTER_NORM("0"), INNER("1"), GATE("1"), OUTER("1"),
                                         OUTER_NORM("1"), NORM,       NULL};
static const char *const no_norm[] = {ATTENTION,
                                      INNER("0"),
                                      GATE("0"),
                                      OUTER("0"),
                                      NORM,
                                      "output_layer_norm/gamma",
                                      "output_layer_norm/beta",
                                      NULL};
static const char *const talking[] = {"self_attention/pre_softmax_weight",
                                      "self_attention/post_softmax_weight",
                                      ATTENTION,
                                      NORM,
                                      DENSE,
                                      NULL};
static const char *const packed[] = {"embeddings/word_embeddings/embeddings",
                                     "embeddings/position_embedding/embeddings",
                                     "embeddings/type_embeddings/embeddings",
                                     "embeddings/layer_norm/gamma",
                                     "embeddings/layer_norm/beta",
                                     "embeddings/embedding_projection/kernel",
                                     NULL};
static const char *const final_norm[] = {"final_layer_norm/gamma", "final_layer_norm/beta", NULL};
static const char *const cls_pooler[] = {"cls_transform/kernel", "cls_transform/bias", NULL};

#define ALL_BERT "encoder: {type: bert, bert: {return_all_encoder_outputs: true, " SIZES "}}"
static const int32_t packed_ids[] = {2, 5, 2, 7, 3, 0, 2, 6, 8, 2, 2, 3};

/* What Model Garden gives with weights by the rule, of its tensors in this order. */
static const struct {
    const char *name, *gin, *yaml;
    const char *const *tables, *const *block; /* NULL: as in BERT */
    int layers;                               /* that have weights of their own */
    bool norm;                                /* one behind the last layer */
    const int32_t *ids;                       /* NULL: the usual ones */
    struct {
        const char *name;
        double want[24];
    } outputs[2];
    double pooled[8];
} cases[] = {
    {.name = "a norm before pooling, and what each layer gives",
     .gin = GIN "EncoderScaffold.layer_norm_before_pooling = True\n",
     .yaml = ALL_BERT,
     .layers = 2,
     .norm = true,
     .outputs =
         {{"encoder_outputs/0",
           {1.7379,   0.897271, -0.514428, -1.6793,    2.38521, -0.25825, -1.23906,  -0.702613,
            1.2647,   1.20642,  -0.178064, -1.83088,   -1.6031, -0.35696, 0.617169,  0.861799,
            -1.84649, 0.634273, 1.09019,   -0.0897332, 2.14185, 0.465549, -0.862204, -1.37365}},
          {"encoder_outputs/1",
           {1.29876,  1.21027,  0.0358165, -2.00646, 1.97546,  -0.075308, -1.47334,  -0.120974,
            0.899212, 1.36143,  0.468213,  -2.11109, -1.06458, -0.443,    0.668341,  1.60417,
            -1.45303, 0.382979, 1.60252,   0.374452, 1.76499,  0.869017,  -0.592943, -1.61099}}},
     .pooled = {0.456932, 0.21659, -0.155509, -0.430004, 0.454662, 0.213458, -0.157614, -0.430018}},
    {.name = "no gate",
     .gin = GATED "GatedFeedforward.use_gate = False\n",
     .yaml = BERT,
     .block = no_gate,
     .layers = 2,
     .outputs = {{"sequence_output",
                  {0.851476, 0.461307,  -0.266235,  -1.3187,  1.63808,    -0.36893,
                   -1.28463, -0.268166, 0.494612,   0.529015, -0.0343496, -1.36177,
                   -1.43764, -0.880829, -0.0834874, 0.881035, -1.94919,   -0.311305,
                   0.60006,  0.157025,  1.31416,    0.284421, -0.633199,  -1.13788}}},
     .pooled = {0.137383, 0.352744, 0.401592, 0.275103, 0.140348, 0.355006, 0.402373, 0.27403}},
    {.name = "two blocks",
     .gin = GATED "GatedFeedforward.num_blocks = 2\n"
                  "GatedFeedforward.dropout_position = 'after_residual'\n",
     .yaml = BERT,
     .block = two_blocks,
     .layers = 2,
     .outputs = {{"sequence_output",
                  {0.658425,  0.255718,  -0.327665, -1.09305, 1.04827,   -0.204131,
                   -0.707617, -0.483229, 0.504907,  0.348158, -0.216165, -1.17916,
                   -1.62171,  -0.291525, 0.444465,  1.03416,  -1.47701,  0.379086,
                   0.704151,  -0.247941, 0.832558,  0.116193, -0.4689,   -0.935305}}},
     .pooled = {0.36774, 0.278461, 0.0516559, -0.204022, 0.367647, 0.277759, 0.050602, -0.204841}},
    {.name = "norm first, gate without a norm",
     .gin = GATED "GatedFeedforward.apply_output_layer_norm = False\n"
                  "TransformerScaffold.norm_first = True\n",
     .yaml = BERT,
     .block = no_norm,
     .layers = 2,
     .outputs = {{"sequence_output",
                  {0.602762, 0.852871,  0.690189, -0.160072, 0.857815, 0.23266,
                   0.215334, 0.771378,  0.364018, 1.008,     0.900268, -0.328517,
                   -1.33622, 0.0746069, 1.41845,  2.40128,   -1.63059, 0.716705,
                   1.90074,  1.33801,   0.791579, 0.630922,  0.46863,  0.135776}}},
     .pooled = {-0.318462, -0.224266, -0.0190506, 0.196413, -0.325556, -0.235154, -0.0287141,
                0.193242}},
    {.name = "one block for all layers",
     .gin = GIN "EncoderScaffold.hidden_cls = @TransformerScaffold()\n"
                "TransformerScaffold.num_attention_heads = 2\n"
                "TransformerScaffold.inner_dim = 6\n",
     .yaml = BERT,
     .layers = 1,
     .outputs = {{"sequence_output",
                  {1.83306,  0.894086,  -0.74488, -1.55817, 2.38832,   -0.132111,
                   -1.11218, -0.904859, 1.39993,  1.26944,  -0.498053, -1.71567,
                   -1.83048, 0.109239,  0.951925, 0.406953, -1.72721,  1.1216,
                   0.989421, -0.462729, 2.15922,  0.461724, -0.94528,  -1.31511}}},
     .pooled = {-0.0883221, -0.386638, -0.489434, -0.389341, -0.0899842, -0.388351, -0.490503,
                -0.389457}},
    {.name = "an attention with sizes of its own",
     .gin = SCAFFOLD "TransformerScaffold.attention_cls = @TalkingHeadsAttention()\n"
                     "TalkingHeadsAttention.num_heads = 2\nTalkingHeadsAttention.key_dim = 3\n",
     .yaml = BERT,
     .block = talking,
     .layers = 2,
     .outputs = {{"sequence_output",
                  {1.87745,   -0.129142,  -0.790347,  -1.00629,  2.04545,   -0.569828,
                   -0.942733, -0.672779,  1.73864,    0.0595934, -0.710576, -1.12242,
                   -1.8016,   -0.473558,  -0.0160596, 0.720178,  -2.11581,  0.52781,
                   0.337323,  -0.0831478, 1.97501,    -0.313996, -0.859967, -0.877369}}},
     .pooled = {-0.620508, -0.583023, -0.286285, 0.213194, -0.620549, -0.583051, -0.286285,
                0.213236}},
    {.name = "any: all that gin says",
     .gin = SCAFFOLD
     "build_encoder.bypass_config = True\n"
     "EncoderScaffold.pooled_output_dim = 4\n"
     "EncoderScaffold.embedding_cfg = {'vocab_size': 11, 'type_vocab_size': 2, 'hidden_size': 4,\n"
     "    'max_seq_length': 8, 'initializer': 'zeros', 'dropout_rate': 0.0}\n"
     "EncoderScaffold.hidden_cfg = {'num_attention_heads': 2, 'intermediate_size': 6}\n"
     "EncoderScaffold.num_hidden_instances = 1\n"
     "EncoderScaffold.dict_outputs = True\n",
     .yaml = "encoder: {type: any}",
     .layers = 1,
     .outputs = {{"sequence_output",
                  {1.7379,   0.897271,   -0.514428, -1.6793,  2.38521,   -0.25825,
                   -1.23906, -0.702613,  1.2647,    1.20642,  -0.178064, -1.83088,
                   -1.6031,  -0.35696,   0.617169,  0.861799, -1.84649,  0.634273,
                   1.09019,  -0.0897332, 2.14185,   0.465549, -0.862204, -1.37365}}},
     .pooled = {-0.0145561, -0.362186, -0.512271, -0.451117, -0.0167273, -0.363722, -0.512665,
                -0.450359}},
    {.name = "an embedding of one's choice",
     .gin = GIN "EncoderScaffold.embedding_cls = @PackedSequenceEmbedding()\n"
                "PackedSequenceEmbedding:\n"
                "  vocab_size = 11\n  type_vocab_size = 2\n  embedding_width = 3\n"
                "  hidden_size = 4\n  max_seq_length = 8\n  dropout_rate = 0.0\n"
                "  initializer = 'zeros'\n  pack_multiple_sequences = True\n",
     .yaml = BERT,
     .tables = packed,
     .layers = 2,
     .ids = packed_ids,
     .outputs = {{"sequence_output",
                  {1.0602,    0.951132,  -0.4117, -1.49208, -1.20853,  0.185568,
                   1.22251,   1.36824,   1.07291, 0.936871, -0.430799, -1.47328,
                   -1.20552,  0.177064,  1.21314, 1.3846,   1.38912,   0.308873,
                   -0.782995, -0.785183, 1.20726, 0.739519, -0.568717, -1.28365}}},
     .pooled = {0.33366, 0.289613, 0.108693, -0.13047, 0.33997, 0.284017, 0.0924154, -0.149154}},
};

static void check(const tl_tensors *out, const char *of, const char *name, const double *want,
                  int count)
{
    double have[48];
    const tl_tensor *t = tl_tensors_peek(out, name);
    if (!t) fail_msg("%s: there is no %s", of, name);
    assert_true(tl_tensor_count(t) >= count && tl_tensor_count(t) <= 48);
    assert_ok(tl_tensor_get_doubles(t, have, tl_tensor_count(t)));
    for (int i = 0; i < count; i++)
        if (!(fabs(have[i] - want[i]) < 2e-6 + 1e-5 * fabs(want[i])))
            fail_msg("%s: %s[%d] is %.7g and should be %.7g", of, name, i, have[i], want[i]);
}

static int put_case(tl_model *m, int64_t which)
{
    char prefix[32];
    int i = put_rules(m, 0, "encoder/", cases[which].tables ? cases[which].tables : tables);
    for (int k = 0; k < cases[which].layers; k++) {
        snprintf(prefix, sizeof prefix, "encoder/layer_%d/", k);
        i = put_rules(m, i, prefix, cases[which].block ? cases[which].block : block);
    }
    if (cases[which].norm) i = put_rules(m, i, "encoder/", final_norm);
    return put_rules(m, i, "encoder/", cls_pooler);
}

static void check_case(int64_t which)
{
    enum { GUESSES = 5 }; /* weights of the head */
    const char *name = cases[which].name;
    const int32_t *words = cases[which].ids ? cases[which].ids : ids;
    tl_model *m;
    tl_ctx *c;
    tl_tensors in = {0}, out = {0};
    if (build_by_gin(&m, cases[which].gin, cases[which].yaml) != TL_OK)
        fail_msg("%s: %s", name, tl_error_message());
    const int64_t put = put_case(m, which) + GUESSES;
    if (put != tl_model_param_count(m))
        fail_msg("%s: %lld weights, not %lld", name, (long long)tl_model_param_count(m),
                 (long long)put);
    assert_ok(tl_ctx_new(&c, the_engine));
    tl_mark begin = tl_ctx_begin(c);
    tl_tensors_put(c, &in, "input_word_ids", tl_from(c, TL_I32, TL_SHAPE(2, 6), words));
    tl_tensors_put(c, &in, "input_mask", tl_from(c, TL_I32, TL_SHAPE(2, 6), mask));
    tl_tensors_put(c, &in, "input_type_ids", tl_from(c, TL_I32, TL_SHAPE(2, 6), types));
    tl_call_all(c, m, &in, &out);
    assert_ok(tl_ctx_status(c));
    for (int i = 0; i < 2 && cases[which].outputs[i].name; i++)
        check(&out, name, cases[which].outputs[i].name, cases[which].outputs[i].want, 24);
    check(&out, name, "pooled_output", cases[which].pooled, 8);
    assert_true(!tl_tensors_peek(&out, "encoder_outputs/0") == !cases[which].outputs[1].name);
    tl_ctx_end(c, begin);
    tl_ctx_free(&c);
    tl_model_free(&m);
}

static void test_parts_compute_what_the_original_computes(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(cases); i++) check_case(i);
}

static void test_build_encoder_says_what_it_takes(void **state)
{
    (void)state;
    static const struct {
        const char *gin, *yaml, *says;
    } all[] = {
        {"", "encoder: {type: any}", "the encoder 'any' is what gin makes"},
        {"build_encoder.bypass_config = True\n", BERT, "there is no encoder_cls to make"},
        {"build_encoder.encoder_cls = @TransformerScaffold\n", BERT,
         "build_encoder.encoder_cls is @transformer_scaffold"},
        {GIN, "encoder: {type: any}", "'any' has no 'vocab_size'; choose type bert"},
        {GIN "build_encoder.bypass_config = True\n", "encoder: {type: any}", "pooled_output_dim"},
        {GIN "build_encoder.bypass_config = True\nEncoderScaffold.pooled_output_dim = 4\n",
         "encoder: {type: any}", "embedding_cfg is null"},
    };
    for (int64_t i = 0; i < TL_COUNT(all); i++) {
        tl_model *m;
        if (build_by_gin(&m, all[i].gin, all[i].yaml) == TL_OK) fail_msg("%s is taken", all[i].gin);
        if (!strstr(tl_error_message(), all[i].says)) fail_msg("%s", tl_error_message());
        assert_null(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_compute_what_the_original_computes),
        cmocka_unit_test(test_build_encoder_says_what_it_takes),
        cmocka_unit_test(test_parameters_that_lack_are_refused),
        cmocka_unit_test(test_defaults_are_taken_and_literals_are_refused),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
