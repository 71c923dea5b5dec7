/* Runs whose checkpoints are divided: the same bytes when merged, gone on with in either form, read
 * by every command, and left for the one before when a file is damaged.
 * needs: no sanitizer */
#include "tool/shell_lab.h"

#define SMALL                                                                                      \
    "tilth.seed=7 tilth.threads=1 trainer.train_steps=8 trainer.steps_per_loop=4 "                 \
    "trainer.summary_interval=4 trainer.checkpoint_interval=4 trainer.validation_interval=8 "      \
    "trainer.validation_steps=2 "
#define VISION "tilth train --experiment=vision/local --mode=train_and_eval " SMALL
#define DIVIDED "tilth.checkpoint_shards=3 "

static void merged_it_has_the_same_bytes(void **state)
{
    (void)state;
    ends(0, VISION "--model_dir=a", "ckpt-");
    ends(0, VISION DIVIDED "--model_dir=b", "ckpt-8");
    ends(0, "ls b/ckpt-8.00003-of-00003.safetensors b/ckpt-8.safetensors.index.json", "");
    ends(2, "tilth ckpt merge b", "`merge` needs a checkpoint and the file to write");
    ends(0, "tilth ckpt merge b -o b.safetensors", "entries of 'b/ckpt-8.safetensors.index.json'");
    ends(0, "cmp a/ckpt-8.safetensors b.safetensors", "");
    ends(2, "tilth ckpt merge b -o b.safetensors", "exists; --overwrite replaces it");
    ends(0, "tilth ckpt merge b/ckpt-4 -o b.safetensors --overwrite", "");
    ends(0, "cmp a/ckpt-4.safetensors b.safetensors", "");
    // commands that read
    ends(0, "tilth ckpt show --stats b", ", 3 files, computed with");
    ends(0, "tilth ckpt verify b/ckpt-8.safetensors", "intact");
    ends(0, "tilth ckpt diff a/ckpt-8 b/ckpt-8", ", 0 different");
    ends(1, "tilth ckpt diff a/ckpt-8 b/ckpt-4", "differ in");
    ends(0, "tilth ckpt convert b/ckpt-8 bundle/ckpt-8", "bundle/ckpt-8");
    ends(0,
         "tilth eval --model_dir=a >a.txt 2>/dev/null; tilth eval --model_dir=b >b.txt "
         "2>/dev/null; tail -n +2 a.txt >a2.txt; tail -n +2 b.txt | cmp - a2.txt && cat b.txt",
         "b/ckpt-8.safetensors.index.json, step 8");
    ends(0, "tilth export --model_dir=a --to=xa && tilth export --model_dir=b --to=xb", "");
    ends(0, "cmp xa/model.safetensors xb/model.safetensors", "");
    ends(0, "tilth report b -o b.html && grep -o '.checkpoint.: .ckpt-8[a-z.]*' b.html",
         "ckpt-8.safetensors.index.json");
    // a start from its weights
    ends(0, VISION "--model_dir=c task.init_checkpoint=a/ckpt-8", "ckpt-");
    ends(0, VISION "--model_dir=d task.init_checkpoint=b/ckpt-8", "ckpt-");
    ends(0, "cmp c/ckpt-8.safetensors d/ckpt-8.safetensors", "");
}

static void it_is_gone_on_with(void **state)
{
    (void)state;
    ends(0, VISION "--model_dir=a", "ckpt-");
    // in files, then in one, and the other way round
    ends(0, VISION DIVIDED "--model_dir=b trainer.train_steps=4", "ckpt-");
    ends(0, VISION "tilth.checkpoint_shards=1 --model_dir=b", "ckpt-");
    ends(0, "cmp a/ckpt-8.safetensors b/ckpt-8.safetensors", "");
    ends(0, VISION "--model_dir=c trainer.train_steps=4", "ckpt-");
    ends(0, VISION DIVIDED "--model_dir=c", "ckpt-");
    ends(0, "tilth ckpt merge c -o c.safetensors && cmp a/ckpt-8.safetensors c.safetensors", "");
    // damaged: the one before, and the same end
    ends(0, "printf x | dd of=c/ckpt-8.00002-of-00003.safetensors bs=1 seek=4000 conv=notrunc", "");
    ends(1, "tilth ckpt verify c", "the checksum of its file 'ckpt-8.00002-of-00003.safetensors'");
    ends(0, VISION DIVIDED "--model_dir=c", "going on from 'c/ckpt-4.safetensors' instead");
    ends(0, "ls c/ckpt-8.00002-of-00003.safetensors.damaged", "");
    ends(0, "tilth ckpt merge c -o c.safetensors --overwrite", "");
    ends(0, "cmp a/ckpt-8.safetensors c.safetensors", "");
    ends(2, VISION "--model_dir=e tilth.checkpoint_shards=0", "tilth.checkpoint_shards");
}

/* Each process writes its files; merged they are one process's, and others go on from them. */
static void processes_write_them_together(void **state)
{
    (void)state;
#define TOGETHER(n, words)                                                                         \
    "tilth launch -n " #n " train --experiment=vision/local --mode=train_and_eval " SMALL          \
    "tilth.lanes=3 task.train_data.global_batch_size=30 "                                          \
    "task.validation_data.global_batch_size=30 " words
    ends(0, TOGETHER(1, "--model_dir=a"), "ckpt-");
    ends(0, TOGETHER(2, DIVIDED "--model_dir=b tilth.zero=2"), "saved checkpoint to b/ckpt-8");
    ends(0, TOGETHER(3, "tilth.checkpoint_shards=2 --model_dir=c trainer.train_steps=4"), "ckpt-4");
    ends(0, TOGETHER(2, "tilth.checkpoint_shards=5 --model_dir=c"), "ckpt-8");
    ends(0,
         "for m in b/ckpt-4 b/ckpt-8 c/ckpt-8; do rm -f m.safetensors; tilth ckpt merge $m -o "
         "m.safetensors && cmp a/${m#*/}.safetensors m.safetensors || exit 1; done",
         "");
    ends(0, "ls c/ckpt-4.00002-of-00002.safetensors c/ckpt-8.00005-of-00005.safetensors", "");
    // damaged, and lacking: named, and the one before is gone on from, by another number
    ends(0, "printf x | dd of=b/ckpt-8.00002-of-00003.safetensors bs=1 seek=4000 conv=notrunc", "");
    ends(1, "tilth ckpt verify b", "the checksum of its file 'ckpt-8.00002-of-00003.safetensors'");
    ends(0, TOGETHER(3, DIVIDED "--model_dir=b"),
         "going on from 'b/ckpt-4.safetensors.index.json' instead");
    ends(0, "rm c/ckpt-8.00004-of-00005.safetensors", "");
    ends(2, "tilth ckpt merge c -o no.safetensors", "ckpt-8.00004-of-00005.safetensors");
    ends(0, TOGETHER(1, "--model_dir=c"),
         "going on from 'c/ckpt-4.safetensors.index.json' instead");
    ends(0,
         "rm m.safetensors; tilth ckpt merge b -o m.safetensors && cmp a/ckpt-8.safetensors "
         "m.safetensors && cmp a/ckpt-8.safetensors c/ckpt-8.safetensors",
         "");
#undef TOGETHER
}

/* LiBai's trainer gives checkpoints other names: those are one file. */
static void train_net_names_it(void **state)
{
    (void)state;
    static const char text[] =
        "model: {_target_: image_classification, num_classes: 4, input_size: [16, 16, 1],\n"
        "        backbone: {type: cnn, cnn: {filters: [4], units: [8]}}}\n"
        "dataloader:\n"
        "  train: &data {file_type: synthetic, synthetic_examples: 64, aug_crop: false, "
        "mean: [128], stddev: [64]}\n"
        "  test: [*data]\n"
        "train: {output_dir: net, train_iter: 4, train_micro_batch_size: 16, "
        "test_micro_batch_size: 16,\n"
        "        evaluation: {eval_period: 4, eval_metric: accuracy}, checkpointer: {period: 2}}\n"
        "tilth: {jit: false, threads: 1, checkpoint_shards: 2}\n";
    assert_ok(tl_file_write_atomic("net.yaml", text, strlen(text)));
    ends(0, "tilth train_net --config-file=net.yaml", "");
    ends(0, "cat net/last_checkpoint", "ckpt-4");
    ends(0, "tilth ckpt merge net/ckpt-4 -o net.safetensors", "");
    ends(0, "cmp net.safetensors net/model_final.safetensors", "");
    ends(0, "cmp net.safetensors net/model_best.safetensors", "");
    ends(0, "tilth eval --model_dir=net", "net/ckpt-4.safetensors.index.json, step 4");
    ends(0, "tilth train_net --config-file=net.yaml --resume train.train_iter=6", "");
    ends(0, "cat net/last_checkpoint", "ckpt-6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(merged_it_has_the_same_bytes),
        SHELL_TEST(it_is_gone_on_with),
        SHELL_TEST(processes_write_them_together),
        SHELL_TEST(train_net_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
