/* BERTs to Hugging Face and back, by `export` and `ckpt convert`. */
#include "tool/tool_lab.h"

#include <tilth/io/safetensors.h>

#define ckpt(...) run("ckpt", __VA_ARGS__)

static void train_bert(void)
{
    run("train", "--experiment=bert/local", "--mode=train", "--model_dir=run", "tilth.seed=1",
        "tilth.threads=1", "tilth.jit=false", "trainer.train_steps=2",
        "trainer.checkpoint_interval=2");
    ended(0, "");
}

static void same_files(const char *a, const char *b)
{
    char *texts[2];
    size_t sizes[2];
    assert_ok(tl_file_read(&texts[0], &sizes[0], a, 1 << 26));
    assert_ok(tl_file_read(&texts[1], &sizes[1], b, 1 << 26));
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(texts[0], texts[1], sizes[0]);
    tl_free(texts[0]);
    tl_free(texts[1]);
}

/* The elements of an entry are those of another, by their bytes. */
static void same_weights(const char *a, const char *a_name, const char *b, const char *b_name)
{
    tl_safetensors *files[2];
    assert_ok(tl_safetensors_open(&files[0], a));
    assert_ok(tl_safetensors_open(&files[1], b));
    const tl_safetensors_entry *x = tl_safetensors_find(files[0], a_name),
                               *y = tl_safetensors_find(files[1], b_name);
    if (!x || !y) fail_msg("there is no %s", x ? b_name : a_name);
    assert_int_equal(x->bytes, y->bytes);
    assert_memory_equal(x->data, y->data, x->bytes);
    for (int i = 0; i < 2; i++) tl_safetensors_free(&files[i]);
}

static void test_export_and_back(void **state)
{
    (void)state;
    static const char *const weights[] = {
        "model/encoder/word_embeddings/embeddings",
        "model/encoder/layer_1/self_attention/attention_output/kernel",
        "model/encoder/layer_0/self_attention/query/kernel",
        "model/masked_lm/bias",
        "model/next_sentence/pooler_dense/kernel",
        "model/next_sentence/logits/kernel"};
    train_bert();
    put_text("run/vocab.txt", "[PAD]\n[UNK]\n");
    run("export", "--model_dir=run", "--to=hf", "--format=hf");
    ended(0, "");
    has(" weights of step 2\n");
    has("hf/config.json: what the model is\n");
    has("hf/vocab.txt: its words\n");
    assert_false(tl_file_exists("hf/model.json"));
    same_weights("hf/model.safetensors", "bert.embeddings.word_embeddings.weight",
                 "run/ckpt-2.safetensors", weights[0]);
    ckpt("convert", "hf", "back.safetensors");
    ended(0, "");
    has("back.safetensors: ");
    has("It is for eval, predict and task.init_checkpoint.\n");
    for (int64_t i = 0; i < TL_COUNT(weights); i++)
        same_weights("back.safetensors", weights[i], "run/ckpt-2.safetensors", weights[i]);
    // The encoder's own learns nothing: it gets the one that did.
    same_weights("back.safetensors", "model/encoder/pooler_transform/kernel",
                 "run/ckpt-2.safetensors", weights[4]);
    ckpt("convert", "run/ckpt-2", "more", "--format=hf");
    ended(0, "");
    same_files("more/model.safetensors", "hf/model.safetensors");
    same_files("more/config.json", "hf/config.json");
}

/* What becomes a TensorBundle of Model Garden's is what a run of that model begins with. */
static void test_to_model_garden(void **state)
{
    (void)state;
    train_bert();
    run("export", "--model_dir=run", "--to=hf", "--format=hf");
    ended(0, "");
    ckpt("convert", "hf", "garden/ckpt-0");
    ended(0, "");
    has("garden/checkpoint: names it as the latest\n");
    run("train", "--experiment=bert/local", "--mode=train", "--model_dir=again", "tilth.jit=false",
        "trainer.train_steps=1", "task.init_checkpoint=garden/ckpt-0");
    ended(0, "");
    logged("initialized the model from garden/ckpt-0: ");
    ckpt("convert", "garden/ckpt-0", "ours.safetensors"); // under its names: there is no run
    ended(0, "");
    same_weights("ours.safetensors", "encoder/_embedding_layer/embeddings",
                 "run/ckpt-2.safetensors", "model/encoder/word_embeddings/embeddings");
}

static void test_refusals(void **state)
{
    (void)state;
    train_bert();
    run("export", "--model_dir=run", "--to=hf", "--format=pickle");
    ended(2, "--format");
    ckpt("convert", "run/ckpt-2", "out", "--format=tilth");
    ended(2, "--format");
    ckpt("convert", "run/ckpt-2", "out", "--format=hf");
    ended(0, "");
    ckpt("convert", "run/ckpt-2", "out", "--format=hf");
    ended(2, "out/model.safetensors' exists; --overwrite replaces it");
    ckpt("convert", "run/ckpt-2", "out", "--format=hf", "--overwrite");
    ended(0, "");
    ckpt("convert", "out", "a.safetensors");
    ended(0, "");
    ckpt("convert", "out", "a.safetensors");
    ended(2, "'a.safetensors' exists; --overwrite replaces it");
    ckpt("convert", "a.safetensors", "b", "--format=hf");
    ended(2, "--format=hf: 'a.safetensors' is not in the folder of a run");
    put_text("out/config.json", "{\"model_type\": \"gpt2\"}");
    ckpt("convert", "out", "b.safetensors");
    ended(2, "\"model_type\" is 'gpt2'; weights of 'bert' alone can be read");
    assert_false(tl_file_exists("b.safetensors"));
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=images",
        "trainer.train_steps=1", "tilth.jit=false");
    ended(0, "");
    run("export", "--model_dir=images", "--to=b", "--format=hf");
    ended(2, "the backbone 'cnn' has no form of others");
    assert_false(tl_file_exists("b/model.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(test_export_and_back),
        TOOL_TEST(test_to_model_garden),
        TOOL_TEST(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
