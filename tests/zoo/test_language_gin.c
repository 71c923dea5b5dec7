/* Encoders whose parts gin names. */
#include "zoo/language_lab.h"

#include <tilth/desc/gin.h>

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
    assert_ok(tl_config_new(&config, lab_registry, &tl_sentence_model_config_desc));
    assert_ok(tl_config_yaml(config, yaml, "test.yaml"));
    assert_ok(tl_config_yaml(config, "num_classes: 3", "test.yaml"));
    assert_ok(tl_config_finish(config));
    tl_sentence_model_config *copy = tl_arena_alloc(lab_arena, sizeof *copy);
    assert_ok(
        tl_desc_copy(lab_arena, &tl_sentence_model_config_desc, copy, tl_config_value(config)));
    tl_config_free(&config);
    tl_gin *gin = gin_of(text), *outer = tl_gin_set_current(gin);
    tl_status st = tl_sentence_model_new(out, &(tl_sentence_model_args){.engine = the_engine,
                                                                        .config = copy,
                                                                        .batch_size = 2,
                                                                        .seq_length = 6,
                                                                        .registry = lab_registry});
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_that_lack_are_refused),
        cmocka_unit_test(test_defaults_are_taken_and_literals_are_refused),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
