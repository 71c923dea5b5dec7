/* LiBai's configurations in Python: what ships, what a whole one becomes, what is refused by the
 * name that is missing, and a training. */
#include "zoo/zoo_lab.h"

#include <tilth/io/image/png.h>
#include <tilth/train/libai/default_trainer.h>
#include <tilth/zoo/backbone.h>

static const char head[] = "from libai.config import LazyCall, get_config\n"
                           "from libai.models import VisionTransformer\n"
                           "dataloader = get_config('common/data/imagenet.py').dataloader\n"
                           "model = get_config('common/models/vit/vit_tiny_patch16_224.py').model\n"
                           "train = get_config('common/train.py').train\n"
                           "optim = get_config('common/optim.py').optim\n"
                           "graph = get_config('common/models/graph.py').graph\n";

/* The head and more, with words. */
static tl_status open_with(tl_config **out, const char *more, const char *const *words)
{
    tl_str text = TL_STR_INIT;
    tl_word given[16];
    int64_t count = 0;
    tl_str_addf(&text, "%s%s", head, more);
    assert_ok(tl_file_write_atomic("t.py", tl_str_text(&text), text.length));
    tl_str_deinit(&text);
    for (; words && words[count]; count++) given[count] = (tl_word){words[count], "words"};
    TL_TRY(tl_libai_open(out, lab_registry, "t.py", given, count));
    tl_status st = tl_config_finish(*out);
    if (st != TL_OK) tl_config_free(out);
    return st;
}

static void refuses(const char *more, const char *word, const char *message)
{
    tl_config *c = NULL;
    const char *words[] = {word, NULL};
    tl_error_clear();
    tl_status st = open_with(&c, more, words);
    if (st == TL_OK) fail_msg("%s is not refused", more);
    if (!strstr(tl_error_message(), message))
        fail_msg("%s\n    message: %s\n    lacks:   %s", more, tl_error_message(), message);
}

/* --- what ships ------------------------------------------------------------------------------- */

/* Every file of the folder is one that get_config finds. */
static void test_every_file_ships(void **state)
{
    static const char *const levels[] = {"common/*.py", "common/*/*.py", "common/*/*/*.py"};
    const char *folder = TEST_DATA "/../configs/libai/";
    int64_t files = 0;
    (void)state;
    for (int64_t k = 0; k < TL_COUNT(levels); k++) {
        tl_path_list found;
        assert_ok(
            tl_glob(&found, lab_arena, tl_arena_printf(lab_arena, "%s%s", folder, levels[k])));
        for (int64_t i = 0; i < found.count; i++, files++) {
            char *more = tl_arena_printf(lab_arena, "x = get_config('%s')\n",
                                         found.items[i] + strlen(folder));
            tl_config *c;
            assert_ok(open_with(&c, more, NULL));
            tl_config_free(&c);
        }
    }
    assert_true(files >= 14);
}

/* The defaults that ship are those of the structs. */
static void test_defaults(void **state)
{
    tl_config *c, *plain;
    (void)state;
    assert_ok(open_with(&c, "", NULL));
    assert_ok(tl_libai_begin(&plain, lab_registry, NULL));
    const tl_libai_config *a = tl_config_value(c), *b = tl_config_value(plain);
    tl_libai_train_config train = a->train;
    assert_string_equal(train.evaluation.eval_metric, "Acc@1");
    assert_non_null(train.evaluation.evaluator); // of LiBai's models alone
    train.evaluation.evaluator = b->train.evaluation.evaluator;
    train.scheduler.target = b->train.scheduler.target; // with its module
    assert_true(tl_desc_equal(&tl_libai_train_config_desc, &train, &b->train));
    tl_libai_optim_config optim = a->optim;
    assert_string_equal(optim.target, "oneflow.optim.AdamW");
    optim.target = b->optim.target;
    assert_true(tl_desc_equal(&tl_libai_optim_config_desc, &optim, &b->optim));
    assert_true(tl_desc_equal(&tl_libai_graph_config_desc, &a->graph, &b->graph));
    tl_config_free(&c);
    tl_config_free(&plain);
}

/* --- what a configuration becomes ------------------------------------------------------------- */

static const tl_vit_config *vit_of(const tl_image_task_config *task)
{
    const tl_image_model_config *m = task->base.model.value;
    assert_string_equal(m->backbone.type, "vit");
    return m->backbone.value;
}

static void check_model(const tl_image_task_config *task)
{
    const tl_image_model_config *m = task->base.model.value;
    const tl_vit_config *v = vit_of(task);
    assert_int_equal(m->num_classes, 10);
    assert_int_equal(m->input_size.items[0], 224);
    assert_int_equal(m->input_size.items[2], 3);
    assert_null(v->model_name);
    assert_int_equal(v->hidden_size, 384);
    assert_int_equal(v->patch_size, 16);
    assert_int_equal(v->transformer.num_layers, 12);
    assert_int_equal(v->transformer.num_heads, 6);
    assert_int_equal(v->transformer.mlp_dim, 1536);
    assert_near(v->init_stochastic_depth_rate, 0.1, 0);
    assert_near(v->norm_epsilon, 1e-5, 0);
    assert_true(v->stochastic_depth_from_zero);
    assert_false(v->original_init);
    assert_true(task->losses.soft_labels);
    assert_false(task->losses.one_hot);
    assert_int_equal(task->evaluation.top_k, 5);
}

static void check_data(const tl_image_task_config *task)
{
    const tl_image_data_config *train = (const tl_image_data_config *)task->base.train_data;
    const tl_image_data_config *test = (const tl_image_data_config *)task->base.validation_data;
    assert_int_equal(train->file_type, TL_IMAGES_FOLDER);
    assert_true(train->aug_crop);
    assert_true(train->aug_rand_hflip);
    assert_near(train->crop_area_range.items[0], 0.08, 0);
    assert_near(train->mean.items[0], 0.485 * 255, 1e-9);
    assert_near(train->stddev.items[2], 0.225 * 255, 1e-9);
    assert_string_equal(train->aug_type.type, "randaug");
    const tl_randaug *policy = train->aug_type.value;
    assert_near(policy->magnitude, 9, 0);
    assert_near(policy->magnitude_std, 0.5, 0);
    assert_near(train->random_erasing->probability, 0.25, 0);
    assert_near(train->mixup_and_cutmix->mixup_alpha, 0.8, 0);
    assert_near(train->mixup_and_cutmix->cutmix_alpha, 1, 0);
    assert_near(test->center_crop_fraction, 224.0 / 256, 0);
    assert_false(test->aug_crop);
    assert_null(test->random_erasing);
}

static void test_whole_configuration(void **state)
{
    const tl_word word = {"dataloader.train.dataset[0].root=elsewhere", "words"};
    tl_config *c;
    (void)state;
    assert_ok(tl_libai_open(&c, lab_registry, TEST_DATA "/desc/python/data/vit.py", &word, 1));
    assert_ok(tl_config_finish(c));
    const tl_libai_config *v = tl_config_value(c);
    assert_string_equal(v->task.type, "image_classification");
    check_model(v->task.value);
    check_data(v->task.value);
    assert_near(v->optim.lr, 1e-3, 1e-12);
    assert_false(v->optim.params.clip_grad_max_norm.set);
    assert_non_null(tl_value_get(v->optim.params.overrides, "pos_embed"));
    assert_string_equal(v->train.output_dir, "output/vit");
    assert_int_equal(v->train.train_micro_batch_size.value, 64);
    assert_int_equal(v->train.train_epoch, 100);
    assert_near(v->train.warmup_ratio, 0.05, 0);
    assert_int_equal(v->train.evaluation.eval_after_n_epoch.value, 1);
    assert_string_equal(v->train.evaluation.eval_metric, "Acc@1");
    assert_int_equal(v->train.dist.pipeline_num_layers.value, 12);
    tl_str text = TL_STR_INIT;
    assert_ok(tl_config_write(&text, c, false));
    assert_non_null(strstr(tl_str_text(&text), "input_path: elsewhere/train"));
    assert_non_null(strstr(tl_str_text(&text), "input_path: ./pictures/val"));
    tl_str_deinit(&text);
    tl_config_free(&c);
}

/* Words change LiBai's names, before they are translated, and ours, behind it. */
static void test_words(void **state)
{
    static const char *const words[] = {"model.cfg.depth=3",
                                        "model.cfg={embed_dim:96,mlp_ratio:2}",
                                        "train.evaluation.eval_metric=Acc@5",
                                        "~dataloader.test",
                                        "optim.lr=0.5",
                                        "tilth.threads=1",
                                        "optim.params={overrides:{pos_embed:{lr:1}}}",
                                        "task.image_classification.losses.loss_weight=2",
                                        NULL};
    tl_config *c;
    (void)state;
    assert_ok(open_with(&c, "", words));
    const tl_libai_config *v = tl_config_value(c);
    const tl_image_task_config *task = v->task.value;
    assert_int_equal(vit_of(task)->transformer.num_layers, 3);
    assert_int_equal(vit_of(task)->hidden_size, 96);
    assert_int_equal(vit_of(task)->transformer.mlp_dim, 192);
    assert_string_equal(v->train.evaluation.eval_metric, "Acc@5");
    assert_near(v->optim.lr, 0.5, 0);
    assert_non_null(tl_value_get(v->optim.params.overrides, "pos_embed"));
    assert_int_equal(v->tilth.threads, 1);
    assert_near(task->losses.loss_weight, 2, 0);
    assert_string_equal(tl_config_source(c, "optim.lr"), "words");
    tl_config_free(&c);
}

/* YAML may name LiBai's models too, and loaders may be in the words of the task. */
static void test_yaml(void **state)
{
    static const char text[] = "model: {_target_: libai.models.VisionTransformer, depth: 2}\n"
                               "dataloader:\n"
                               "  train: {file_type: synthetic, synthetic_examples: 7}\n"
                               "optim: {params: {clip_grad_norm_type: null}}\n";
    const tl_word word = {"model.num_heads=4", "words"};
    tl_config *c;
    (void)state;
    assert_ok(tl_file_write_atomic("t.yaml", text, sizeof text - 1));
    assert_ok(tl_libai_open(&c, lab_registry, "t.yaml", &word, 1));
    assert_ok(tl_config_finish(c));
    const tl_libai_config *v = tl_config_value(c);
    const tl_image_task_config *task = v->task.value;
    assert_int_equal(vit_of(task)->transformer.num_layers, 2);
    assert_int_equal(vit_of(task)->transformer.num_heads, 4);
    assert_int_equal(((const tl_image_data_config *)task->base.train_data)->synthetic_examples, 7);
    assert_false(v->optim.params.clip_grad_max_norm.set);
    tl_config_free(&c);
}

/* LiBai's evaluator is left to tasks of ours where it was asked for, and be it by one argument. */
static void test_evaluators_that_were_asked_for(void **state)
{
    static const struct {
        const char *text, *word;
        bool kept;
    } rows[] = {
        {"", NULL, false},
        {"train.evaluation.evaluator.topk = (1, 3)\n", NULL, true},
        {"", "train.evaluation.evaluator.topk=[1,3]", true},
    };
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        const char *words[] = {rows[i].word, NULL};
        tl_config *c;
        assert_ok(open_with(&c,
                            tl_arena_printf(lab_arena,
                                            "model = LazyCall('image_classification')()\n"
                                            "dataloader = dict()\n%s",
                                            rows[i].text),
                            words));
        const tl_libai_config *v = tl_config_value(c);
        const tl_value *evaluator = v->train.evaluation.evaluator;
        assert_true((evaluator && tl_value_get(evaluator, "topk")) == rows[i].kept);
        tl_config_free(&c);
    }
}

/* Sizes, each file against LiBai's table. */
static void test_sizes(void **state)
{
    static const struct {
        const char *name;
        int64_t patch, hidden, mlp, heads, layers;
    } rows[] = {
        {"tiny_patch16", 16, 192, 768, 3, 12},        {"small_patch32", 32, 384, 1536, 6, 12},
        {"base_patch16", 16, 768, 3072, 12, 12},      {"large_patch16", 16, 1024, 4096, 16, 24},
        {"huge_patch14", 14, 1280, 5120, 16, 32},     {"giant_patch14", 14, 1408, 6144, 16, 40},
        {"gigantic_patch14", 14, 1664, 8192, 16, 48},
    };
    (void)state;
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        tl_config *c;
        assert_ok(open_with(&c,
                            tl_arena_printf(lab_arena,
                                            "from .common.models.vit.vit_%s_224 import model\n"
                                            "dataloader = dict()\n",
                                            rows[i].name),
                            NULL));
        const tl_libai_config *v = tl_config_value(c);
        const tl_vit_config *vit = vit_of(v->task.value);
        assert_int_equal(vit->patch_size, rows[i].patch);
        assert_int_equal(vit->hidden_size, rows[i].hidden);
        assert_int_equal(vit->transformer.mlp_dim, rows[i].mlp);
        assert_int_equal(vit->transformer.num_heads, rows[i].heads);
        assert_int_equal(vit->transformer.num_layers, rows[i].layers);
        tl_config_free(&c);
    }
}

/* --- refusals --------------------------------------------------------------------------------- */

static void test_what_is_missing(void **state)
{
    (void)state;
    refuses("from libai.models import T5ForPreTraining\nmodel = LazyCall(T5ForPreTraining)()\n",
            NULL,
            "t.py:9:17: model: there is no 'libai.models.T5ForPreTraining' here; of LiBai's models "
            "there are: VisionTransformer");
    refuses("from libai.data.datasets import CIFAR100Dataset\n"
            "dataloader.train.dataset[0]._target_ = CIFAR100Dataset\n",
            NULL, "there is no 'libai.data.datasets.CIFAR100Dataset' here");
    refuses("from flowvision import transforms as t\n"
            "dataloader.train.dataset[0].transform.transforms[1] = LazyCall(t.ColorJitter)()\n",
            NULL, "t.py:9:78: there is no 'flowvision.transforms.ColorJitter' here");
    refuses("from a.b import Cutter\ntokenization = dict(tokenizer=LazyCall(Cutter)())\n", NULL,
            "tokenization: there is no 'a.b.Cutter' here");
    refuses("from a import Judge\nmodel.cfg.loss_func = Judge()\n", NULL,
            "loss_func: there is no 'Judge' here");
    refuses("from a import PPLEvaluator\ntrain.evaluation.evaluator = LazyCall(PPLEvaluator)()\n",
            NULL, "evaluator: there is no 'PPLEvaluator' here");
    refuses("from a import S\ndataloader.train.sampler = LazyCall(S)()\n", NULL,
            "there is no 'a.S' here (known: CyclicSampler");
}

static void test_what_differs(void **state)
{
    (void)state;
    refuses("model.cfg.detph = 3\n", NULL,
            "t.py:8:19: cfg: the argument 'detph' is not known here, did you mean "
            "'depth'?");
    refuses("", "model.cfg.detph=3", "words: ");
    refuses("model.cfg.drop_rate = 0.1\n", NULL, "are the same here");
    refuses("model.cfg.depth = 'x'\n", NULL, "depth must be an integer");
    refuses("", "train.evaluation.eval_metric=Acc@3",
            "the evaluator tells Acc@K of each K of its topk; found 'Acc@3'");
    refuses(
        "from a import SoftTargetCrossEntropy\nmodel.cfg.loss_func = SoftTargetCrossEntropy()\n",
        NULL, "set both");
    refuses("dataloader.test[0].dataset.transform.transforms[1].size = 192\n", NULL,
            "CenterCrop: size is 192, and the model's img_size 224");
    refuses("train.eval_period = 1562\n", NULL, "t.py:8:7: train.eval_period: unknown key");
    refuses("", "train.trian_iter=5", "trian_iter: unknown key");
    refuses("if True:\n    pass\n", NULL, "t.py:8:1: 'if' at the beginning of a statement");
}

/* --- a training ------------------------------------------------------------------------------- */

/* `swapped`: each lies in the other's folder. */
static void put_pictures(const char *folder, bool swapped)
{
    for (int i = 0; i < 12; i++) {
        uint8_t pixels[16 * 16 * 3];
        tl_str png = TL_STR_INIT;
        memset(pixels, i % 2 ? 40 + i : 200 - i, sizeof pixels);
        const char *in =
            tl_arena_printf(lab_arena, "%s/%s", folder, (i % 2) != swapped ? "dark" : "light");
        assert_ok(tl_mkdirs(in));
        assert_ok(tl_png_encode(&png, &(tl_png_image){16, 16, 3, pixels}));
        assert_ok(tl_file_write_atomic(tl_arena_printf(lab_arena, "%s/%d.png", in, i), png.data,
                                       png.length));
        tl_str_deinit(&png);
    }
}

static void test_training(void **state)
{
    static const char more[] =
        "from copy import deepcopy\n"
        "SIZE = 16\n"
        "model.cfg.update(img_size=SIZE, patch_size=SIZE // 2, embed_dim=8,\n"
        "                 depth=1, num_heads=2, num_classes=2)\n"
        "for_training = dataloader.train.dataset[0]\n"
        "for_training.root = 'pictures'\n"
        "for_training.transform.transforms[0].size = SIZE\n"
        "del for_training.transform.transforms[2]\n"
        "for_testing = dataloader.test[0].dataset\n"
        "for_testing.root = 'pictures'\n"
        "for_testing.transform.transforms[0].size = 2 * SIZE\n"
        "for_testing.transform.transforms[1].size = SIZE\n"
        "optim.lr = 0.02\n"
        "other = deepcopy(dataloader.test[0])\n"
        "other.dataset.root = 'swapped'\n"
        "dataloader.test = [dataloader.test[0], other]\n"
        "train.evaluation.evaluator.topk = (1, 2, 5)\n"
        "train.evaluation.eval_period = 20\n"
        "train.update(train_iter=40, train_micro_batch_size=6, log_period=20,\n"
        "             test_micro_batch_size=6)\n";
    static const char *const words[] = {"train.output_dir=out", "tilth.jit=false",
                                        "tilth.threads=1", NULL};
    tl_config *c;
    tl_default_trainer *t;
    (void)state;
    put_pictures("pictures/train", false);
    put_pictures("pictures/val", false);
    put_pictures("swapped/val", true);
    assert_ok(open_with(&c, more, words));
    assert_ok(tl_default_trainer_new(
        &t, &(tl_default_trainer_args){.registry = lab_registry, .config = tl_config_value(c)}));
    assert_ok(tl_default_trainer_train(t));
    assert_near(tl_logs_number_or(t->last_eval_results, "accuracy", 0), 1, 0.1);
    assert_near(tl_logs_number_or(t->last_eval_results, "top_5_accuracy", 0), 1, 0);
    // by LiBai's names, in percent
    const tl_logs *told = t->last_eval_results;
    double accuracy = 100 * tl_logs_number_or(told, "accuracy", 0);
    assert_near(tl_logs_number_or(told, "Acc@1", -1), accuracy, 1e-9);
    assert_near(tl_logs_number_or(told, "Acc@2", -1), 100, 0);
    assert_near(tl_logs_number_or(told, "Acc@5", -1), 100, 0); // of two classes
    assert_near(tl_logs_number_or(told, "ImageNetDataset_2/Acc@1", -1), 100 - accuracy, 1e-9);
    assert_near(tl_logs_number_or(told, "ImageNetDataset_2/Acc@5", -1), 100, 0);
    tl_default_trainer_free(&t);
    tl_config_free(&c);
    assert_true(tl_file_exists("out/model_best.safetensors"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_file_ships),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_whole_configuration),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_evaluators_that_were_asked_for),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_what_is_missing),
        cmocka_unit_test(test_what_differs),
        cmocka_unit_test(test_training),
    };
    return cmocka_run_group_tests(tests, lab_open, lab_close);
}
