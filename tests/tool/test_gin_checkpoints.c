/* Runs whose encoders gin has made, under Model Garden's names and back. */
#include "tool/tool_lab.h"

#include <tilth/io/safetensors.h>

#define ckpt(...) run("ckpt", __VA_ARGS__)
#define SCAFFOLD                                                                                   \
    "build_encoder.encoder_cls = @EncoderScaffold\n"                                               \
    "EncoderScaffold.hidden_cls = @TransformerScaffold\n"
#define GATED SCAFFOLD "TransformerScaffold.feedforward_cls = @GatedFeedforward\n"

static void train(const char *folder, const char *gin, const char *more)
{
    char dir[64];
    put_text("test.gin", gin);
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    run("train", "--experiment=bert/local", "--mode=train", dir, "--gin_file=test.gin",
        "tilth.jit=false", "trainer.train_steps=1", more);
}

/* Every weight of the model, by its bytes. */
static int64_t same_weights(const char *of, const char *a, const char *b)
{
    tl_safetensors *x, *y;
    int64_t count = 0;
    assert_ok(tl_safetensors_open(&x, a));
    assert_ok(tl_safetensors_open(&y, b));
    for (int64_t i = 0; i < tl_safetensors_count(x); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(x, i);
        if (strncmp(e->name, "model/", 6) != 0 && strncmp(e->name, "optimizer/m/", 12) != 0)
            continue;
        const tl_safetensors_entry *other = tl_safetensors_find(y, e->name);
        if (!other || other->bytes != e->bytes || memcmp(other->data, e->data, e->bytes) != 0)
            fail_msg("%s: %s is %s", of, e->name, other ? "another" : "not there");
        count++;
    }
    tl_safetensors_free(&x);
    tl_safetensors_free(&y);
    return count;
}

#define LAYER "\nencoder/_hidden_layers/1/"
#define VALUE "/.ATTRIBUTES/VARIABLE_VALUE "

static const struct {
    const char *name, *gin;
    const char *there[4]; /* entries of the TensorBundle */
    const char *absent;   /* no entry has this in its name */
} cases[] = {
    {"no gate, no norm, norm first",
     GATED "GatedFeedforward.use_gate = False\n"
           "GatedFeedforward.apply_output_layer_norm = False\n"
           "TransformerScaffold.norm_first = True\n"
           "EncoderScaffold.layer_norm_before_pooling = True\n",
     {LAYER "_feedforward_block/_output_dense/0/kernel" VALUE,
      LAYER "_output_layer_norm/gamma" VALUE, LAYER "_attention_layer/_query_dense/kernel" VALUE,
      "\nencoder/_output_layer_norm/gamma" VALUE},
     "_gate_dense"},
    {"two blocks, in a scope of their own",
     GATED "TransformerScaffold.attention_cls = @TalkingHeadsAttention\n"
           "TransformerScaffold.feedforward_cls = @wide/GatedFeedforward\n"
           "blocks = 2\nwide/GatedFeedforward.num_blocks = %blocks\n",
     {LAYER "_feedforward_block/_gate_dense/1/kernel" VALUE,
      LAYER "_feedforward_block/_output_layer_norm/1/gamma" VALUE,
      LAYER "_attention_layer/pre_softmax_weight" VALUE, NULL},
     "1/_output_layer_norm/gamma"},
    {"one block for both layers",
     "build_encoder.encoder_cls = @EncoderScaffold\n"
     "EncoderScaffold.hidden_cls = @TransformerScaffold()\n"
     "TransformerScaffold.num_attention_heads = 2\n"
     "TransformerScaffold.inner_dim = 24\n",
     {"\nencoder/_hidden_layers/0/_intermediate_dense/kernel" VALUE, NULL},
     "_hidden_layers/1"},
};

static void check_case(int64_t which)
{
    char folder[32], file[64], bundle[64], back[64], from[96];
    snprintf(folder, sizeof folder, "run%d", (int)which);
    snprintf(file, sizeof file, "%s/ckpt-1.safetensors", folder);
    snprintf(bundle, sizeof bundle, "%s/theirs/ckpt-1", folder);
    snprintf(back, sizeof back, "back%d.safetensors", (int)which);
    train(folder, cases[which].gin, NULL);
    ended(0, "");
    ckpt("convert", file, bundle);
    ended(0, "");
    ckpt("show", bundle);
    for (int i = 0; i < 4 && cases[which].there[i]; i++) has(cases[which].there[i]);
    if (strstr(out, cases[which].absent)) fail_msg("%s: %s", cases[which].name, out);
    ckpt("convert", bundle, back);
    ended(0, "");
    assert_true(same_weights(cases[which].name, file, back) > 40);
    // The same model begins with it; one of more layers refuses it.
    snprintf(from, sizeof from, "task.init_checkpoint=%s", bundle);
    tl_str_cut(&tool_log, 0);
    snprintf(folder, sizeof folder, "again%d", (int)which);
    train(folder, cases[which].gin, from);
    ended(0, "");
    logged("initialized the model from ");
    snprintf(folder, sizeof folder, "other%d", (int)which);
    train(folder, GATED "GatedFeedforward.num_blocks = 3\n", from);
    ended(2, "does not fit the model: ");
}

static void test_names_follow_what_gin_makes(void **state)
{
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(cases); i++) check_case(i);
}

#define UNGATED GATED "GatedFeedforward.use_gate = False\n"

/* As Model Garden leaves it: with no bindings. */
static void make_their_folder(const char *folder)
{
    char *params, path[64];
    snprintf(path, sizeof path, "%s/ckpt-1", folder);
    ckpt("convert", "run/ckpt-1", path);
    ended(0, "");
    assert_ok(tl_file_read(&params, NULL, "run/params.yaml", 1 << 20));
    snprintf(path, sizeof path, "%s/params.yaml", folder);
    put_text(path, params);
    tl_free(params);
}

static void go_on_in(const char *folder, const char *gin_file)
{
    char dir[64];
    snprintf(dir, sizeof dir, "--model_dir=%s", folder);
    run("train", "--experiment=bert/local", "--mode=train", dir, "tilth.jit=false", "tilth.seed=1",
        "trainer.train_steps=2", gin_file);
}

static void test_folders_of_model_garden(void **state)
{
    (void)state;
    train("run", UNGATED, NULL);
    ended(0, "");
    make_their_folder("theirs");
    ckpt("convert", "--experiment=bert/local", "theirs/ckpt-1", "ours.safetensors");
    ended(2, "'theirs/ckpt-1' is a checkpoint of another model");
    put_text("theirs/bindings.gin", "# mine\n" UNGATED);
    ckpt("convert", "--experiment=bert/local", "theirs/ckpt-1", "ours.safetensors");
    ended(0, "");
    assert_true(same_weights("theirs", "run/ckpt-1.safetensors", "ours.safetensors") > 40);
    // The run goes on, told the same in other words, or nothing.
    put_text("other.gin", GATED "GatedFeedforward.num_blocks = 2\n");
    go_on_in("theirs", "--gin_file=other.gin");
    ended(2, "theirs/bindings.gin: the run in this folder was begun with another text");
    put_text("same.gin", "GatedFeedforward.use_gate = False\n" GATED);
    go_on_in("theirs", "--gin_file=same.gin");
    ended(0, "");
    go_on_in("theirs", NULL);
    ended(0, "");
    // Without bindings there, those that are told are the run's.
    make_their_folder("bare");
    go_on_in("bare", "--gin_file=same.gin");
    ended(0, "");
    assert_true(same_weights("bare", "theirs/ckpt-2.safetensors", "bare/ckpt-2.safetensors") > 40);
    assert_true(tl_file_exists("bare/bindings.gin"));
}

/* Who has put in a class that Model Garden's names are not known of keeps Tilth's. */
static void test_names_that_are_not_known(void **state)
{
    (void)state;
    train("run",
          "build_encoder.encoder_cls = @EncoderScaffold\n"
          "EncoderScaffold.embedding_cls = @PackedSequenceEmbedding\n",
          NULL);
    ended(0, "");
    ckpt("convert", "run/ckpt-1", "theirs/ckpt-1");
    ended(0, "");
    logged("the names of 'packed_sequence_embedding' in checkpoints of Model Garden are not known; "
           "names stay as they are");
    ckpt("show", "theirs/ckpt-1");
    has("\nmodel/encoder/embeddings/word_embeddings/embeddings" VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_names_follow_what_gin_makes),
        TOOL_TEST(test_folders_of_model_garden),
        TOOL_TEST(test_names_that_are_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
