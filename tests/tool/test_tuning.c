/* What is trained when and at what rate (tilth.unfreeze, tilth.layer_decay), and what is taken of a
 * checkpoint that does not fit (tilth.init_resize, tilth.init_leave). */
#include "tool/tool_lab.h"

#include <math.h>

#include <tilth/io/checkpoint/checkpoint.h>

/* --- looking at checkpoints ------------------------------------------------------------------- */

enum { MOST = 1 << 14 };

typedef struct weights {
    float values[MOST];
    int64_t count, rows; /* rows: of the first axis */
} weights;

static void read_weights(weights *w, const char *file, const char *name)
{
    tl_checkpoint *c;
    assert_ok(tl_checkpoint_open(&c, file));
    const tl_safetensors_entry *e = tl_checkpoint_find(c, name);
    if (!e) fail_msg("'%s' has no '%s'", file, name);
    assert_int_equal(e->dtype, TL_F32);
    w->count = (int64_t)(e->bytes / sizeof(float));
    w->rows = e->rank ? e->dims[0] : 1;
    assert_true(w->count <= MOST);
    memcpy(w->values, e->data, e->bytes);
    tl_checkpoint_free(&c);
}

static bool same_in(const char *a, const char *b, const char *name)
{
    static weights x, y;
    read_weights(&x, a, name);
    read_weights(&y, b, name);
    return x.count == y.count && memcmp(x.values, y.values, (size_t)x.count * sizeof(float)) == 0;
}

static bool is_zero(const char *file, const char *name)
{
    static weights w;
    read_weights(&w, file, name);
    for (int64_t i = 0; i < w.count; i++)
        if (w.values[i] != 0) return false;
    return true;
}

/* --- runs ------------------------------------------------------------------------------------- */

#define UNFREEZE                                                                                   \
    "tilth.unfreeze=[{step: 0, patterns: ['^head/']}, {step: 3, patterns: ['dense', 'conv_2']}, "  \
    "{step: 5, patterns: ['.']}]"

#define TRAIN(dir, ...)                                                                            \
    run("train", "--experiment=vision/local", "--mode=train", "--model_dir=" dir, "tilth.seed=1",  \
        "tilth.jit=false", "tilth.threads=1", "trainer.checkpoint_interval=1",                     \
        "trainer.max_to_keep=20", "trainer.steps_per_loop=5",                                      \
        "trainer.optimizer_config.optimizer.type=adam", __VA_ARGS__)

static const char *at(const char *folder, int step)
{
    static char paths[4][64];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/ckpt-%d.safetensors", folder, step);
    return path;
}

#define HEAD "model/head/kernel"
#define DENSE "model/backbone/dense_1/kernel"
#define CONV "model/backbone/conv_1/kernel"

static void weights_are_trained_from_their_step_on(void **state)
{
    (void)state;
    TRAIN("run", UNFREEZE, "trainer.train_steps=7",
          "++trainer.optimizer_config.ema.average_decay=0.9");
    ended(0, "");
    logged("from step 3 on, ");
    for (int i = 1; i < 7; i++) {
        assert_false(same_in(at("run", i), at("run", i + 1), HEAD));
        assert_int_equal(same_in(at("run", i), at("run", i + 1), DENSE), i < 3);
        assert_int_equal(same_in(at("run", i), at("run", i + 1), CONV), i < 5);
        assert_int_equal(is_zero(at("run", i), "optimizer/m/backbone/conv_1/kernel"), i <= 5);
        // averages are of all weights: they would be zeros else
        assert_false(is_zero(at("run", i), "optimizer/average/backbone/conv_1/kernel"));
    }
    // Until then it is as if the rest were frozen, to the bit.
    TRAIN("frozen", "task.freeze_backbone=true", "trainer.train_steps=3");
    ended(0, "");
    assert_true(same_in(at("run", 3), at("frozen", 3), HEAD));
    // What nobody names is not trained.
    TRAIN("never", "tilth.unfreeze=[{step: 0, patterns: ['^head/', 'dense']}]",
          "trainer.train_steps=3");
    ended(0, "");
    logged("weights match no pattern and are not trained");
    assert_true(same_in(at("never", 1), at("never", 3), CONV));
    assert_false(same_in(at("never", 1), at("never", 3), DENSE));
}

static void runs_go_on_across_an_edge(void **state)
{
    (void)state;
    TRAIN("whole", UNFREEZE, "trainer.train_steps=7", "tilth.gradient_accumulation=2",
          "task.train_data.global_batch_size=8");
    ended(0, "");
    static const char *const stops[] = {"trainer.train_steps=2", "trainer.train_steps=3",
                                        "trainer.train_steps=4", "trainer.train_steps=5",
                                        "trainer.train_steps=7"};
    for (int i = 0; i < TL_COUNT(stops); i++) {
        TRAIN("stopped", UNFREEZE, stops[i], "tilth.gradient_accumulation=2",
              "task.train_data.global_batch_size=8");
        ended(0, "");
    }
    assert_same_file(at("whole", 7), at("stopped", 7));
    // Other weights than those that are trained have no say: their gradients are not clipped with.
    TRAIN("clipped", "tilth.unfreeze=[{step: 0, patterns: ['^head/']}]", "trainer.train_steps=2",
          "trainer.optimizer_config.optimizer.adam.global_clipnorm=0.01");
    ended(0, "");
    TRAIN("alone", "task.freeze_backbone=true", "trainer.train_steps=2",
          "trainer.optimizer_config.optimizer.adam.global_clipnorm=0.01");
    ended(0, "");
    assert_true(same_in(at("clipped", 2), at("alone", 2), HEAD));
}

/* While its scale and shift are asleep, a batch norm keeps its statistics. */
static void batch_norms_sleep_too(void **state)
{
    (void)state;
    TRAIN("run", "tilth.unfreeze=[{step: 0, patterns: ['^head/']}, {step: 2, patterns: ['.']}]",
          "task.model.backbone={type: resnet, resnet: {model_id: 10}}", "trainer.train_steps=3");
    ended(0, "");
    tl_checkpoint *c;
    const char *mean = NULL;
    assert_ok(tl_checkpoint_open(&c, at("run", 1)));
    const tl_safetensors *file = tl_checkpoint_file(c);
    for (int64_t i = 0; i < tl_safetensors_count(file) && !mean; i++) {
        const char *name = tl_safetensors_at(file, i)->name;
        if (strncmp(name, "model/", 6) == 0 && strstr(name, "moving_mean")) mean = name;
    }
    assert_non_null(mean);
    assert_true(same_in(at("run", 1), at("run", 2), mean));
    assert_false(same_in(at("run", 2), at("run", 3), mean));
    tl_checkpoint_free(&c);
}

/* --- rates ------------------------------------------------------------------------------------ */

#define BERT(dir, ...)                                                                             \
    run("train", "--experiment=bert/local", "--mode=train", "--model_dir=" dir, "tilth.seed=1",    \
        "tilth.jit=false", "tilth.threads=1", "trainer.train_steps=1",                             \
        "trainer.optimizer_config.optimizer.type=sgd",                                             \
        "trainer.optimizer_config.learning_rate={type: constant, constant: {learning_rate: 0.5}}", \
        "trainer.optimizer_config.warmup.type=null", __VA_ARGS__)

/* How far a weight moves with the decay, in units of how far it moves without. */
static double share(const char *name)
{
    static weights start, whole, part;
    double moved = 0, of = 0;
    read_weights(&start, "none/ckpt-1.safetensors", name);
    read_weights(&whole, "plain/ckpt-1.safetensors", name);
    read_weights(&part, "decayed/ckpt-1.safetensors", name);
    for (int64_t i = 0; i < start.count; i++) {
        moved += fabs((double)part.values[i] - (double)start.values[i]);
        of += fabs((double)whole.values[i] - (double)start.values[i]);
    }
    assert_true(of > 0);
    return moved / of;
}

static void rates_fall_from_layer_to_layer(void **state)
{
    (void)state;
    BERT("none", "trainer.optimizer_config.learning_rate.constant.learning_rate=0");
    ended(0, "");
    BERT("plain", "tilth.layer_decay=1");
    ended(0, "");
    BERT("decayed", "tilth.layer_decay=0.5");
    ended(0, "");
    assert_true(fabs(share("model/next_sentence/logits/bias") - 1) < 1e-3);
    assert_true(fabs(share("model/encoder/layer_1/output/kernel") - 0.5) < 1e-3);
    assert_true(fabs(share("model/encoder/layer_0/output/kernel") - 0.25) < 1e-3);
    assert_true(fabs(share("model/encoder/word_embeddings/embeddings") - 0.125) < 1e-3);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    TRAIN("run", "tilth.unfreeze=[{step: 2, patterns: ['.']}]");
    ended(2, "the first step must be 0, and each one greater than that before it: entry 0 has 2");
    TRAIN("run", "tilth.unfreeze=[{step: 0, patterns: ['tail']}]");
    ended(2, "tilth.unfreeze: 'tail' matches no weight that can be trained; the first is");
    TRAIN("run", "tilth.unfreeze=[{step: 0, patterns: ['(']}]");
    ended(2, "'(' is not an extended regular expression");
    TRAIN("run", "tilth.unfreeze=[{step: 0}]");
    ended(2, "entry 0 has no patterns");
    TRAIN("run", "tilth.layer_decay=0.5");
    ended(2, "tilth.layer_decay: the model has no layers called layer_0");
    TRAIN("run", "tilth.layer_decay=2");
    ended(2, "layer_decay: must be above 0 and at most 1, found 2");
    assert_false(tl_dir_exists("run"));
}

#define SIX "task.model.num_classes=6", "task.class_names=[a, b, c, d, e, f]"

/* --- beginnings ------------------------------------------------------------------------------- */

static void tables_of_another_size_are_taken_row_by_row(void **state)
{
    (void)state;
    static weights old, fresh, new;
    TRAIN("first", "trainer.train_steps=2");
    ended(0, "");
    TRAIN("next", "task.init_checkpoint=first", SIX, "trainer.train_steps=0");
    ended(2, "tilth.init_resize takes what fits of weights of another size");
    text_has(err, "head/kernel");
    assert_false(tl_dir_exists("next"));

    TRAIN("fresh", SIX, "trainer.train_steps=1",
          "trainer.optimizer_config.learning_rate={type: constant, constant: {learning_rate: 0}}");
    ended(0, "");
    TRAIN("next", "task.init_checkpoint=first", SIX, "tilth.init_resize=['^head/']",
          "trainer.train_steps=1",
          "trainer.optimizer_config.learning_rate={type: constant, constant: {learning_rate: 0}}");
    ended(0, "");
    logged("'head/kernel' is float32[");
    logged("the first 4 of 6 along axis 1 are taken, the others are new");
    logged("the first 4 of 6 along axis 0 are taken, the others are new");
    read_weights(&old, at("first", 2), HEAD);
    read_weights(&fresh, at("fresh", 1), HEAD);
    read_weights(&new, at("next", 1), HEAD);
    assert_int_equal(new.rows, old.rows);
    for (int64_t i = 0; i < new.rows; i++)
        for (int64_t k = 0; k < 6; k++)
            assert_true(new.values[i * 6 + k]
                        == (k < 4 ? old.values[i * 4 + k] : fresh.values[i * 6 + k]));
    assert_true(same_in(at("next", 1), at("first", 2), CONV));

    TRAIN("fewer", "task.init_checkpoint=next", "tilth.init_resize=['^head/']",
          "trainer.train_steps=1",
          "trainer.optimizer_config.learning_rate={type: constant, constant: {learning_rate: 0}}");
    ended(0, "");
    logged("the first 4 of 6 along axis 1 are taken, the others left out");
    assert_true(same_in(at("fewer", 1), at("first", 2), HEAD));
    TRAIN("left", "task.init_checkpoint=first", SIX,
          "tilth.init_leave=['^head/kernel', '^head/bias']", "trainer.train_steps=1",
          "trainer.optimizer_config.learning_rate={type: constant, constant: {learning_rate: 0}}");
    ended(0, "");
    logged("'head/kernel' is not taken, but new: tilth.init_leave");
    assert_true(same_in(at("left", 1), at("fresh", 1), HEAD));
    assert_true(same_in(at("left", 1), at("first", 2), CONV));

    TRAIN("bad", "task.init_checkpoint=first", "tilth.init_leave=['tail']");
    ended(2, "tilth.init_leave: 'tail' matches no weight of the model");
    TRAIN("bad", "task.init_checkpoint=first", "tilth.init_resize=['[']");
    ended(2, "'[' is not an extended regular expression");
    TRAIN("bad", "tilth.init_leave=['^head/']");
    ended(2, "tilth.init_leave is for checkpoints that task.init_checkpoint names");
}

/* Tasks that share a backbone have no weights of their own to begin with. */
static void tasks_on_one_backbone_begin_together(void **state)
{
    (void)state;
#define FIRST "task.task_routines[0].task_config."
    run("train", "--experiment=multitask/local", "--mode=train", "--model_dir=run",
        FIRST "init_checkpoint=other");
    failed(2, "task 'direction': init_checkpoint is 'other': weights are read for all tasks");
    run("train", "--experiment=multitask/local", "--mode=train", "--model_dir=run",
        FIRST "freeze_backbone=true");
    failed(2, "tilth.unfreeze says which weights are trained");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOOL_TEST(weights_are_trained_from_their_step_on),
        TOOL_TEST(runs_go_on_across_an_edge),
        TOOL_TEST(batch_norms_sleep_too),
        TOOL_TEST(rates_fall_from_layer_to_layer),
        TOOL_TEST(mistakes_are_named),
        TOOL_TEST(tasks_on_one_backbone_begin_together),
        TOOL_TEST(tables_of_another_size_are_taken_row_by_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
