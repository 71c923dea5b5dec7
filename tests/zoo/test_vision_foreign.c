/* Weights of torchvision and Hugging Face: read into models of ours, each element where it belongs;
 * written as they were; refused. What models then answer is compared with PyTorch by
 * tests/interop/check_torchvision.py. */
#include "zoo/zoo_lab.h"

#include <tilth/io/safetensors.h>

/* A ResNet-10 of 4, 8, 16 and 32 filters. */
enum { FILTERS = 4, STAGES = 4, CLASSES = 3 };
#define MODEL(more)                                                                                \
    "task:\n"                                                                                      \
    "  model:\n"                                                                                   \
    "    num_classes: 3\n"                                                                         \
    "    input_size: [32, 32, 3]\n"                                                                \
    "    norm_activation: {norm_epsilon: 1.0e-05}\n"                                               \
    "    backbone: {type: resnet, resnet: {model_id: 10, depth_multiplier: 0.0625,\n"              \
    "                                      " more "}}\n"                                           \
    "  train_data: {file_type: synthetic, global_batch_size: 2}\n"                                 \
    "  validation_data: {file_type: synthetic, global_batch_size: 2}\n"
#define THEIRS "symmetric_padding: true, identity_shortcuts: true"
#define FROM(path) "  init_checkpoint: " path "\n"

/* --- a file of theirs ------------------------------------------------------------------------- */

typedef struct making {
    tl_state *state;
    tl_engine *engine;
    int64_t made;
    const char *without, *odd; /* a weight that lacks, one with a row more */
} making;

/* Numbers that say which weight and which element they are. */
static double number(int64_t weight, int64_t i)
{
    return (double)weight + (double)i / 65536;
}

static void put(making *m, const char *name, tl_shape shape)
{
    tl_tensor *t;
    double values[16384];
    if (m->without && strcmp(name, m->without) == 0) return;
    if (m->odd && strcmp(name, m->odd) == 0) shape.dims[0]++;
    assert_ok(tl_tensor_new(&t, m->engine, TL_F32, shape));
    assert_true(tl_tensor_count(t) <= TL_COUNT(values));
    for (int64_t i = 0; i < tl_tensor_count(t); i++) values[i] = number(m->made, i);
    m->made++;
    assert_ok(tl_tensor_set_doubles(t, values, tl_tensor_count(t)));
    assert_ok(tl_state_put(m->state, name, t));
    tl_tensor_free(&t);
}

static void put_unit(making *m, const char *at, const char *conv, const char *norm, int64_t inputs,
                     int64_t filters, int64_t kernel)
{
    static const char *const vectors[] = {"weight", "bias", "running_mean", "running_var"};
    char name[64];
    tl_tensor *zero;
    snprintf(name, sizeof name, "%s%s.weight", at, conv);
    put(m, name, TL_SHAPE(filters, inputs, kernel, kernel));
    for (int i = 0; i < TL_COUNT(vectors); i++) {
        snprintf(name, sizeof name, "%s%s.%s", at, norm, vectors[i]);
        put(m, name, TL_SHAPE(filters));
    }
    snprintf(name, sizeof name, "%s%s.num_batches_tracked", at, norm);
    assert_ok(tl_tensor_new(&zero, m->engine, TL_I64, TL_SCALAR));
    assert_ok(tl_tensor_clear(zero));
    assert_ok(tl_state_put(m->state, name, zero));
    tl_tensor_free(&zero);
}

static void write_theirs(making *m, const char *path)
{
    char at[32];
    int64_t inputs = FILTERS;
    assert_ok(tl_state_new(&m->state));
    put_unit(m, "", "conv1", "bn1", 3, FILTERS, 7);
    for (int stage = 0; stage < STAGES; stage++) {
        int64_t filters = FILTERS << stage;
        snprintf(at, sizeof at, "layer%d.0.", stage + 1);
        put_unit(m, at, "conv1", "bn1", inputs, filters, 3);
        put_unit(m, at, "conv2", "bn2", filters, filters, 3);
        if (stage) put_unit(m, at, "downsample.0", "downsample.1", inputs, filters, 1);
        inputs = filters;
    }
    put(m, "fc.weight", TL_SHAPE(CLASSES, inputs));
    put(m, "fc.bias", TL_SHAPE(CLASSES));
    assert_ok(tl_safetensors_write(path, m->state, NULL, 0));
}

/* --- models of ours --------------------------------------------------------------------------- */

static tl_model *model_of(lab_run *r)
{
    tl_model *m;
    assert_ok(tl_task_build_model(r->task, &m));
    return m;
}

static double at(const tl_model *m, const char *path, int64_t i)
{
    double values[16384];
    const tl_param *p = tl_model_find(m, path);
    if (!p) fail_msg("no '%s'", path);
    assert_ok(tl_tensor_get_doubles(p->tensor, values, tl_tensor_count(p->tensor)));
    return values[i];
}

static tl_status compare_entry(const tl_state_entry *e, void *payload)
{
    tl_state_entry other;
    double a[16384], b[16384];
    if (!tl_state_find(&other, payload, e->path)) fail_msg("no '%s'", e->path);
    assert_true(tl_shape_equal(&e->tensor->shape, &other.tensor->shape));
    assert_ok(tl_tensor_get_doubles(e->tensor, a, tl_tensor_count(e->tensor)));
    assert_ok(tl_tensor_get_doubles(other.tensor, b, tl_tensor_count(e->tensor)));
    assert_memory_equal(a, b, (size_t)tl_tensor_count(e->tensor) * sizeof *a);
    return TL_OK;
}

static void assert_same_states(const tl_state *a, tl_state *b)
{
    assert_ok(tl_state_walk(a, compare_entry, b));
    int64_t count, other, bytes;
    assert_ok(tl_state_size(a, &count, &bytes));
    assert_ok(tl_state_size(b, &other, &bytes));
    assert_int_equal(count, other);
}

/* What the task writes in a form, from a model. */
static void export_as(lab_run *r, tl_model *m, const char *form, tl_state **weights,
                      tl_notes *files)
{
    tl_state *own;
    assert_ok(tl_state_new(&own));
    assert_ok(tl_state_new(weights));
    assert_ok(tl_model_state(m, own));
    assert_ok(tl_task_export_weights(r->task, &(tl_export_args){.format = form, .model = own},
                                     *weights, files));
    tl_state_free(&own);
}

static void test_torchvision(void **state)
{
    (void)state;
    lab_run r;
    tl_state *written;
    tl_notes files = {0};
    lab_begin(&r, "image_classification", MODEL(THEIRS) FROM("theirs.safetensors"));
    making theirs = {.engine = tl_strategy_engine(r.strategy)};
    write_theirs(&theirs, "theirs.safetensors");
    tl_model *m = model_of(&r);
    assert_ok(tl_task_initialize(r.task, m));
    // [1, 2, 2, 3] of [7, 7, 3, 4] is [3, 2, 1, 2] of [4, 3, 7, 7] there.
    assert_true(at(m, "backbone/stem/conv/kernel", ((1 * 7 + 2) * 3 + 2) * 4 + 3)
                == number(0, ((3 * 3 + 2) * 7 + 1) * 7 + 2));
    assert_true(at(m, "backbone/stem/norm/gamma", 1) == number(1, 1));
    assert_true(at(m, "backbone/stem/norm/moving_variance", 3) == number(4, 3));
    assert_true(at(m, "head/kernel", 5 * CLASSES + 2) == number(theirs.made - 2, 2 * 32 + 5));
    export_as(&r, m, "torchvision", &written, &files);
    assert_same_states(theirs.state, written);
    assert_int_equal(files.count, 0);
    tl_state_free(&written);
    tl_state_free(&theirs.state);
    tl_notes_deinit(&files);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_hugging_face(void **state)
{
    (void)state;
    lab_run r;
    tl_state *written, *again;
    tl_notes files = {0}, more = {0};
    lab_begin(&r, "image_classification", MODEL(THEIRS));
    tl_model *m = model_of(&r);
    export_as(&r, m, "hf", &written, &files);
    assert_int_equal(files.count, 1); // images are cut, which no other file says
    assert_non_null(strstr(files.items[0].value, "\"layer_type\": \"basic\""));
    assert_ok(tl_mkdirs("hf"));
    assert_ok(tl_safetensors_write("hf/model.safetensors", written, NULL, 0));
    assert_ok(
        tl_file_write_atomic("hf/config.json", files.items[0].value, strlen(files.items[0].value)));
    tl_state_free(&written);
    tl_model_free(&m);
    lab_end(&r);
    lab_begin(&r, "image_classification", MODEL(THEIRS) FROM("hf"));
    assert_ok(
        tl_safetensors_read(&written, "hf/model.safetensors", tl_strategy_engine(r.strategy)));
    r.task->seed = 5;
    m = model_of(&r);
    assert_ok(tl_task_initialize(r.task, m));
    export_as(&r, m, "hf", &again, &more);
    assert_same_states(written, again);
    tl_state_free(&written);
    tl_state_free(&again);
    tl_notes_deinit(&files);
    tl_notes_deinit(&more);
    tl_model_free(&m);
    lab_end(&r);
}

/* A head of other classes stays as it was. */
static void test_other_classes(void **state)
{
    (void)state;
    lab_run r;
    lab_begin(&r, "image_classification",
              MODEL(THEIRS) FROM("theirs.safetensors") "  init_checkpoint_modules: backbone\n");
    making theirs = {.engine = tl_strategy_engine(r.strategy)};
    write_theirs(&theirs, "theirs.safetensors");
    tl_model *m = model_of(&r);
    double head = at(m, "head/kernel", 7);
    assert_ok(tl_task_initialize(r.task, m));
    assert_true(at(m, "head/kernel", 7) == head);
    assert_true(at(m, "backbone/stem/norm/beta", 1) == number(2, 1));
    tl_state_free(&theirs.state);
    tl_model_free(&m);
    lab_end(&r);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void refused(const char *yaml, making theirs, tl_status code, const char *message)
{
    lab_run r;
    lab_begin(&r, "image_classification", yaml);
    theirs.engine = tl_strategy_engine(r.strategy);
    write_theirs(&theirs, "theirs.safetensors");
    tl_model *m = model_of(&r);
    double before = at(m, "backbone/stage_1_block_1/conv_1/conv/kernel", 0);
    assert_fails(tl_task_initialize(r.task, m), code, message);
    assert_true(at(m, "backbone/stage_1_block_1/conv_1/conv/kernel", 0) == before);
    tl_state_free(&theirs.state);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_refusals(void **state)
{
    (void)state;
    const making whole = {0};
    refused(MODEL(THEIRS) FROM("theirs.safetensors"), (making){.without = "layer2.0.bn1.bias"},
            TL_EINVAL, "layer2.0.bn1.bias");
    refused(MODEL(THEIRS) FROM("theirs.safetensors"), (making){.odd = "layer2.0.conv2.weight"},
            TL_EINVAL, "layer2.0.conv2.weight");
    refused(MODEL(THEIRS) FROM("theirs.safetensors"), (making){.without = "layer3.0.conv1.weight"},
            TL_EUNSUPPORTED, "there is no ResNet with stages of 1, 1, 0 and 1 blocks");
    refused(MODEL("stem_type: v1") FROM("theirs.safetensors"), whole, TL_EINVAL,
            "set task.model.backbone.resnet.stem_type=v0 "
            "task.model.backbone.resnet.identity_shortcuts=true "
            "task.model.backbone.resnet.symmetric_padding=true");
    refused(MODEL(THEIRS) FROM("weights.pth"), whole, TL_EUNSUPPORTED,
            "'weights.pth' is a file of Python objects");
    assert_ok(tl_mkdirs("folder"));
    assert_ok(tl_file_write_atomic("folder/config.json", "{}", 2));
    refused(MODEL(THEIRS) FROM("folder"), whole, TL_ENOTFOUND, "neither model.safetensors");
}

static void refused_folder(const char *config, tl_status code, const char *message)
{
    lab_run r;
    assert_ok(tl_mkdirs("told"));
    assert_ok(tl_file_write_atomic("told/config.json", config, strlen(config)));
    lab_begin(&r, "image_classification", MODEL(THEIRS) FROM("told"));
    making theirs = {.engine = tl_strategy_engine(r.strategy)};
    write_theirs(&theirs, "told/model.safetensors");
    tl_model *m = model_of(&r);
    if (code == TL_OK) assert_ok(tl_task_initialize(r.task, m));
    else assert_fails(tl_task_initialize(r.task, m), code, message);
    tl_state_free(&theirs.state);
    tl_model_free(&m);
    lab_end(&r);
}

static void test_what_config_json_says(void **state)
{
    (void)state;
    refused_folder("{\"architecture\": \"resnet10\"}", TL_OK, NULL);
    refused_folder("{\"model_type\": \"bert\"}", TL_EUNSUPPORTED,
                   "\"model_type\" is 'bert', and the weights are of 'resnet'");
    refused_folder("{\"downsample_in_bottleneck\": true}", TL_EUNSUPPORTED,
                   "\"downsample_in_bottleneck\" is true");
    refused_folder("{\"hidden_act\": \"quick\"}", TL_EUNSUPPORTED, "\"hidden_act\" is 'quick'");
    refused_folder("[1]", TL_EINVAL, "told/config.json: expected an object");
    refused_folder("{", TL_EINVAL, "told/config.json: expected an object");
    refused_folder(
        "{\"pretrained_cfg\": {\"mean\": [1, \"a\"], \"std\": [9, 9, 9], \"input_size\": 3}}",
        TL_OK, NULL);
}

/* Models that PyTorch does not have are not written in its form. */
static void test_what_has_no_form(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *message;
    } cases[] = {
        {MODEL("symmetric_padding: true"), "backbone.resnet.identity_shortcuts=true"},
        {MODEL(THEIRS ", se_ratio: 0.25"), "backbone.resnet.se_ratio=0"},
    };
    for (int i = 0; i < TL_COUNT(cases); i++) {
        lab_run r;
        tl_state *own, *weights;
        tl_notes files = {0};
        lab_begin(&r, "image_classification", cases[i].yaml);
        tl_model *m = model_of(&r);
        assert_ok(tl_state_new(&own));
        assert_ok(tl_state_new(&weights));
        assert_ok(tl_model_state(m, own));
        assert_fails(tl_task_export_weights(r.task, &(tl_export_args){.format = "hf", .model = own},
                                            weights, &files),
                     TL_EUNSUPPORTED, cases[i].message);
        tl_state_free(&own);
        tl_state_free(&weights);
        tl_notes_deinit(&files);
        tl_model_free(&m);
        lab_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_torchvision),           LAB_TEST(test_hugging_face),
        LAB_TEST(test_other_classes),         LAB_TEST(test_refusals),
        LAB_TEST(test_what_config_json_says), LAB_TEST(test_what_has_no_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
