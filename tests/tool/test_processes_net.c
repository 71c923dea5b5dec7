/* LiBai's trainer on several processes: the bytes of one, what is told of them, and how they end.
 * needs: no sanitizer */
#include "tool/shell_lab.h"

#define PROGRAM "'" TILTH_PROGRAM "'"
#define NET "train_net --config-file=net.yaml "

/* Batch statistics, dropout, accumulation, several test loaders with uneven ends, an evaluator, and
 * blocks of weights that are large enough to be shared out. */
static int begin(void **state)
{
    static const char text[] =
        "model: {_target_: image_classification, num_classes: 4, input_size: [16, 16, 1],\n"
        "        backbone: {type: cnn, cnn: {filters: [4], units: [64, 300], batch_norm: true,\n"
        "                                    dropout_rate: 0.1}}}\n"
        "dataloader:\n"
        "  train: &data {file_type: synthetic, synthetic_examples: 66, aug_crop: false,\n"
        "                mean: [128], stddev: [64]}\n"
        "  test:\n"
        "  - *data\n"
        "  - {file_type: synthetic, synthetic_examples: 21, aug_crop: false, mean: [128],\n"
        "     stddev: [64]}\n"
        "train:\n"
        "  {train_iter: 12, train_micro_batch_size: 4, test_micro_batch_size: 5, log_period: 2,\n"
        "   num_accumulation_steps: 2, checkpointer: {period: 3}, evaluation: {eval_period: 4,\n"
        "   eval_metric: Acc@1, evaluator: {_target_: ClsEvaluator, topk: [1, 2]}}}\n"
        "tilth: {threads: 1}\n";
    if (shell_open(state) != 0) return -1;
    return tl_file_write_atomic("net.yaml", text, strlen(text)) == TL_OK ? 0 : -1;
}
#define NET_TEST(f) cmocka_unit_test_setup_teardown(f, begin, shell_close)

static void the_bytes_are_those_of_one_process(void **state)
{
    (void)state;
    ends(0, "tilth " NET "train.output_dir=one tilth.lanes=4", "copypaste: test_2/Acc@1=");
    for (int n = 2; n <= 4; n++) {
        char line[512];
        // with all weights in each of them, and shared out by LiBai's word
        snprintf(line, sizeof line,
                 "tilth launch -n %d " NET "train.output_dir=m%d tilth.lanes=4 "
                 "train.zero_optimization.enabled=%s train.zero_optimization.stage=%d",
                 n, n, n > 2 ? "true" : "false", n - 2 > 0 ? n - 2 : 1);
        ends(0, line, "copypaste: test_2/Acc@1=");
        assert_null(strstr(said, "[1]"));
        snprintf(line, sizeof line,
                 "for f in ckpt-3 ckpt-4 ckpt-6 ckpt-12 model_best model_final; do cmp "
                 "one/$f.safetensors m%d/$f.safetensors || exit 1; done; cmp one/model_best.json "
                 "m%d/model_best.json",
                 n, n);
        ends(0, line, "");
    }
    // what is told of it, too, but for times and memory; and there is nothing else of the others
    ends(0,
         "for m in one m4; do sed -E 's/\"[a-z_]*(time|wait|second|memory)[a-z_]*\": [^,}]*//g' "
         "$m/metrics.json >$m.txt; ls $m | sed 's/tfevents.*//' >$m.ls; done; diff one.txt m4.txt "
         "&& diff one.ls m4.ls",
         "");
    ends(0, "grep -A9 'dist:' m3/config.yaml | grep data_parallel_size", "data_parallel_size: 4");
}

/* Each writes its files of them; what the chief names is one file. */
static void they_write_checkpoints_together(void **state)
{
    (void)state;
    ends(0, "tilth " NET "train.output_dir=one tilth.lanes=2", "");
    ends(0, "tilth launch -n 2 " NET "train.output_dir=two tilth.checkpoint_shards=2", "");
    ends(0,
         "cd two; for f in 3 4 6 9 12; do tilth ckpt merge ckpt-$f -o ckpt-$f.safetensors && cmp "
         "ckpt-$f.safetensors ../one/ckpt-$f.safetensors || exit 1; done; for f in "
         "model_best.safetensors model_best.json model_final.safetensors last_checkpoint; do cmp "
         "$f ../one/$f || exit 1; done",
         "");
    // who cannot write is named, and it is not the chief
    ends(2,
         "mkdir -p bad/ckpt-3.00002-of-00002.safetensors; tilth launch -n 2 " NET
         "train.output_dir=bad tilth.checkpoint_shards=2 --resume",
         "rank 1: cannot write");
    has("ckpt-3.00002-of-00002.safetensors");
}

static void lanes_are_those_of_the_first_start(void **state)
{
    (void)state;
    ends(0, "tilth " NET "train.output_dir=a tilth.lanes=3", "");
    ends(0,
         "tilth launch -n 3 " NET "train.output_dir=b train.train_iter=4 "
         "train.scheduler.max_iter=12",
         "");
    ends(0, "grep -c 'lanes: 3' b/config.yaml", "1");
    ends(2, "tilth launch -n 4 " NET "train.output_dir=b --resume",
         "4 processes are too many for 3 lanes");
    ends(0,
         "tilth launch -n 2 " NET "train.output_dir=b --resume train.train_iter=8 "
         "train.scheduler.max_iter=12",
         "");
    ends(0, "tilth " NET "train.output_dir=b --resume", "");
    ends(0, "cmp a/ckpt-12.safetensors b/ckpt-12.safetensors", "");
    // evaluations are shared, too
    ends(0, "tilth eval --model_dir=a --json | sed 's/.seconds.: [0-9.]*//' >1", "");
    for (int n = 2; n <= 3; n++) {
        char line[128];
        snprintf(line, sizeof line,
                 "tilth launch -n %d eval --model_dir=a --json | sed 's/.seconds.: [0-9.]*//' >2 "
                 "&& cmp 1 2",
                 n);
        ends(0, line, "");
    }
    ends(0, "tilth launch -n 2 " NET "train.output_dir=a --resume --eval-only",
         "copypaste: test_2/Acc@2=");
    // a number of its own is other mathematics
    ends(0, "tilth " NET "train.output_dir=a --resume tilth.lanes=1 train.train_iter=14",
         "lanes 3, accumulation 2");
}

static void the_other_door_is_open(void **state)
{
    (void)state;
    static const char text[] = "from libai.config import LazyCall, get_config\n"
                               "train = get_config('common/train.py').train\n"
                               "optim = get_config('common/optim.py').optim\n"
                               "graph = get_config('common/models/graph.py').graph\n"
                               "model = LazyCall('mock')()\n"
                               "train.update(train_iter=4, train_micro_batch_size=5)\n"
                               "train.evaluation.update(eval_iter=4, eval_metric='mse')\n";
    assert_ok(tl_file_write_atomic("mock.py", text, strlen(text)));
    ends(0, "tilth train mock.py --model_dir=a tilth.lanes=2", "");
    ends(0, "tilth launch -n 2 train mock.py --model_dir=b", "");
    ends(0, "cmp a/ckpt-4.safetensors b/ckpt-4.safetensors", "");
}

static void a_signal_ends_all_at_one_step(void **state)
{
    (void)state;
    ends(3,
         PROGRAM
         " launch -n 2 " NET "train.output_dir=b train.train_iter=1000000 & p=$!\n"
         "while kill -0 $p && ! ls b/ckpt-*.safetensors; do sleep 0.01; done >/dev/null 2>&1\n"
         "set -- $(cat /proc/$p/task/$p/children)\nkill -TERM \"$2\"; wait $p",
         "SIGTERM");
    has("which is saved: the same command goes on");
}

static void what_they_cannot_is_refused(void **state)
{
    (void)state;
    ends(2, "tilth launch -n 2 " NET "train.dist.tensor_parallel_size=2",
         "train.dist: tensor_parallel_size is 2: processes cannot share a layer yet");
    ends(2, "tilth launch -n 2 " NET "train.dist.pipeline_parallel_size=2",
         "train.dist: pipeline_parallel_size is 2: processes cannot share a model");
    ends(2, "tilth launch -n 2 " NET "train.global_batch_size=9",
         "global_batch_size: 9 is not train_micro_batch_size times num_accumulation_steps times "
         "the copies of the model, 16");
    ends(
        0,
        "tilth launch -n 2 " NET "train.output_dir=d train.train_iter=2 "
        "train.dist.data_parallel_size=8",
        "train.dist.data_parallel_size is 8, with 2 lanes it becomes 2; tilth.lanes=8 has so many");
    assert_null(strstr(said, "[1]")); // once is enough
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        NET_TEST(the_bytes_are_those_of_one_process), NET_TEST(they_write_checkpoints_together),
        NET_TEST(lanes_are_those_of_the_first_start), NET_TEST(the_other_door_is_open),
        NET_TEST(a_signal_ends_all_at_one_step),      NET_TEST(what_they_cannot_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
