/* Weights of vision transformers: LiBai's model against one written in PyTorch
 * (tests/golden/libai_vit.py), answers and gradients; the forms of others, each element where it
 * belongs; positions for another size; what is refused. What models of Hugging Face, timm and
 * torchvision answer is compared by tests/interop/check_torchvision.py. */
#include "zoo/zoo_lab.h"

#include <tilth/io/safetensors.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/gradient.h>
#include <tilth/ops/reduce.h>

#include "nn/golden_file.h"
#include "zoo/formula.h"

enum { SIDE = 12, SIZE = 24, INNER = 60, HEADS = 3, EACH = SIZE / HEADS, CLASSES = 5, MOST = 8192 };

#define DATA                                                                                       \
    "  train_data: {file_type: synthetic, global_batch_size: 2}\n"                                 \
    "  validation_data: {file_type: synthetic, global_batch_size: 2}\n"
#define MODEL(side, backbone)                                                                      \
    "task:\n"                                                                                      \
    "  model: {num_classes: 5, input_size: [" #side ", " #side ", 3], backbone: " backbone         \
    "}\n" DATA
#define LIBAI                                                                                      \
    "{type: vision_transformer, vision_transformer: {patch_size: 4, embed_dim: 24, depth: 2, "     \
    "num_heads: 3, mlp_ratio: 2.5}}"
#define VIT(more)                                                                                  \
    "{type: vit, vit: {model_name: null, hidden_size: 24, patch_size: 4, transformer: {mlp_dim: "  \
    "60, num_heads: 3, num_layers: 2}" more "}}"
#define FROM(path) "  init_checkpoint: " path "\n"

/* --- models ----------------------------------------------------------------------------------- */

static tl_model *open_model(lab_run *r, const char *yaml)
{
    tl_model *m;
    lab_begin(r, "image_classification", yaml);
    assert_ok(tl_task_build_model(r->task, &m));
    return m;
}

static void close_model(lab_run *r, tl_model **m)
{
    tl_model_free(m);
    lab_end(r);
}

/* What the task writes in a form. */
static tl_state *export_as(lab_run *r, tl_model *m, const char *form, tl_notes *files)
{
    tl_state *own, *weights;
    assert_ok(tl_state_new(&own));
    assert_ok(tl_state_new(&weights));
    assert_ok(tl_model_state(m, own));
    assert_ok(tl_task_export_weights(r->task, &(tl_export_args){.format = form, .model = own},
                                     weights, files));
    tl_state_free(&own);
    return weights;
}

static void write_folder(const char *folder, const tl_state *weights, const tl_notes *files)
{
    assert_ok(tl_mkdirs(folder));
    for (int64_t i = 0; i < files->count; i++) {
        const char *path = tl_path_join(lab_arena, folder, files->files[i]);
        assert_ok(tl_file_write_atomic(path, files->items[i].value, strlen(files->items[i].value)));
    }
    assert_ok(tl_safetensors_write(tl_path_join(lab_arena, folder, "model.safetensors"), weights,
                                   NULL, 0));
}

static void numbers_of(double *out, const tl_state *s, const char *name)
{
    tl_state_entry e;
    if (!tl_state_find(&e, s, name)) fail_msg("no '%s'", name);
    assert_true(tl_tensor_count(e.tensor) <= MOST);
    assert_ok(tl_tensor_get_doubles(e.tensor, out, tl_tensor_count(e.tensor)));
}

static tl_status compare_entry(const tl_state_entry *e, void *payload)
{
    static double a[MOST], b[MOST];
    numbers_of(b, payload, e->path);
    assert_ok(tl_tensor_get_doubles(e->tensor, a, tl_tensor_count(e->tensor)));
    assert_memory_equal(a, b, (size_t)tl_tensor_count(e->tensor) * sizeof *a);
    return TL_OK;
}

static void assert_same_states(const tl_state *a, tl_state *b)
{
    int64_t count, other, bytes;
    assert_ok(tl_state_walk(a, compare_entry, b));
    assert_ok(tl_state_size(a, &count, &bytes));
    assert_ok(tl_state_size(b, &other, &bytes));
    assert_int_equal(count, other);
}

/* --- LiBai's ---------------------------------------------------------------------------------- */

/* As weight() of the script. */
static void fill(tl_tensor *t, const char *key)
{
    static double values[MOST];
    const uint32_t seed = formula_seed(key);
    const int64_t count = tl_tensor_count(t);
    const char *end = key + strlen(key) - strlen("weight");
    const bool norm = strstr(key, "norm") && !strcmp(end, "weight");
    assert_true(count <= MOST);
    for (int64_t i = 0; i < count; i++) {
        const double v = formula_number(seed, i);
        values[i] = norm ? 1 + v / 4
                    : t->shape.rank == 2 || t->shape.rank == 4
                        ? v * sqrt(6.0 * (double)t->shape.dims[0] / (double)count)
                        : v / 4;
    }
    assert_ok(tl_tensor_set_doubles(t, values, count));
}

/* A file with the names and shapes of the golden one. */
static tl_state *write_libai(tl_engine *engine, const char *path)
{
    tl_state *s;
    assert_ok(tl_state_new(&s));
    for (int64_t i = 0; i < golden_count; i++) {
        tl_tensor *t;
        char name[96];
        tl_shape shape = {.rank = (int)goldens[i].shape.dims[0]};
        snprintf(name, sizeof name, "%s", goldens[i].name);
        char *end = strstr(name, " shape");
        if (!end) continue;
        *end = '\0';
        for (int k = 0; k < shape.rank; k++) shape.dims[k] = (int64_t)golden_number(&goldens[i], k);
        assert_ok(tl_tensor_new(&t, engine, TL_F32, shape));
        fill(t, name);
        assert_ok(tl_state_put(s, name, t));
        tl_tensor_free(&t);
    }
    assert_ok(tl_safetensors_write(path, s, NULL, 0));
    return s;
}

static tl_tensor *make_images(tl_ctx *c)
{
    static double values[2 * SIDE * SIDE * 3];
    for (int64_t i = 0; i < TL_COUNT(values); i++)
        values[i] = formula_number(formula_seed("images"), i);
    return tl_from_doubles(c, TL_F32, TL_SHAPE(2, SIDE, SIDE, 3), values);
}

static void assert_golden(const char *what, const double *found, const golden *g)
{
    double most = 0, off = 0;
    for (int64_t i = 0; i < tl_shape_count(&g->shape); i++) {
        most = fmax(most, fabs(golden_number(g, i)));
        off = fmax(off, fabs(found[i] - golden_number(g, i)));
    }
    if (!(off <= 2e-5 * most) || most == 0) fail_msg("%s: off by %g of %g", what, off, most);
}

static void check_answers(lab_run *r, tl_model *m)
{
    tl_ctx *c;
    double logits[2 * CLASSES];
    assert_ok(tl_ctx_new(&c, r->task->engine));
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *y = tl_call(c, m, make_images(c));
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_tensor_get_doubles(y, logits, TL_COUNT(logits)));
    assert_golden("logits", logits, golden_peek("logits"));
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
}

/* Each weight becomes its gradient, so that the form says where each of them belongs. */
static void become_gradients(lab_run *r, tl_model *m)
{
    enum { PARAMS = 64 };
    tl_ctx *c;
    tl_tensor *by[PARAMS], *gradients[PARAMS];
    const int64_t count = tl_model_param_count(m);
    assert_true(count <= PARAMS);
    for (int64_t i = 0; i < count; i++) by[i] = tl_model_param(m, i)->tensor;
    assert_ok(tl_ctx_new(&c, r->task->engine));
    tl_mark mark = tl_ctx_begin(c);
    bool before = tl_ctx_set_taping(c, true);
    tl_tensor *loss = tl_sum(c, tl_square(c, tl_call(c, m, make_images(c))), TL_ALL, false);
    assert_ok(tl_ctx_status(c));
    assert_ok(tl_gradient(c, loss, by, count, gradients));
    tl_ctx_set_taping(c, before);
    for (int64_t i = 0; i < count; i++) assert_ok(tl_tensor_copy(by[i], gradients[i]));
    tl_ctx_end(c, mark);
    tl_ctx_free(&c);
}

static void check_gradients(const tl_state *s)
{
    static double values[MOST], samples[16];
    int64_t compared = 0;
    for (int64_t i = 0; i < golden_count; i++) {
        const golden *shape = golden_peek("%s shape", goldens[i].name);
        if (!shape) continue;
        int64_t count = 1;
        for (int64_t k = 0; k < shape->shape.dims[0]; k++)
            count *= (int64_t)golden_number(shape, k);
        numbers_of(values, s, goldens[i].name);
        for (int64_t k = 0; k < 16; k++) samples[k] = values[k * count / 16];
        assert_golden(goldens[i].name, samples, &goldens[i]);
        compared++;
    }
    assert_int_equal(compared, 8 + 2 * 12);
}

static void test_libai(void **state)
{
    (void)state;
    lab_run r;
    tl_notes files = {0};
    golden_open(TEST_DATA "/golden/libai_vit.bin");
    tl_model *m = open_model(&r, MODEL(12, LIBAI) FROM("theirs.safetensors"));
    tl_state *theirs = write_libai(r.task->engine, "theirs.safetensors");
    assert_ok(tl_task_initialize(r.task, m));
    check_answers(&r, m);
    tl_state *written = export_as(&r, m, "libai", &files);
    assert_int_equal(files.count, 0);
    assert_same_states(theirs, written);
    tl_state_free(&written);
    // It has a place at Hugging Face, from where a vit with its numbers takes it.
    written = export_as(&r, m, "hf", &files);
    write_folder("hf", written, &files);
    tl_state_free(&written);
    become_gradients(&r, m);
    written = export_as(&r, m, "libai", &files);
    check_gradients(written);
    tl_state_free(&written);
    tl_state_free(&theirs);
    tl_notes_deinit(&files);
    close_model(&r, &m);
    m = open_model(&r, MODEL(12, VIT(", norm_epsilon: 1.0e-05, activation: gelu")) FROM("hf"));
    assert_ok(tl_task_initialize(r.task, m));
    check_answers(&r, m);
    close_model(&r, &m);
    golden_close();
}

/* --- forms of others -------------------------------------------------------------------------- */

/* Of one model, told by the names of Hugging Face, where each weight stands for itself. */
static void check_fused(const tl_state *hf, const tl_state *other, const char *name, bool by_head)
{
    static const char *const parts[] = {"query", "key", "value"};
    static double all[3 * SIZE * SIZE], one[SIZE * SIZE];
    char path[96];
    numbers_of(all, other, name);
    for (int p = 0; p < 3; p++) {
        snprintf(path, sizeof path, "vit.encoder.layer.1.attention.attention.%s.weight", parts[p]);
        numbers_of(one, hf, path);
        for (int64_t row = 0; row < SIZE; row++) {
            int64_t there = by_head ? (row / EACH * 3 + p) * EACH + row % EACH : p * SIZE + row;
            assert_memory_equal(one + row * SIZE, all + there * SIZE, SIZE * sizeof *one);
        }
    }
}

static void test_where_queries_lie(void **state)
{
    (void)state;
    static const char *const forms[] = {"timm", "torchvision"};
    static const char *const names[] = {
        "blocks.1.attn.qkv.weight", "encoder.layers.encoder_layer_1.self_attention.in_proj_weight"};
    lab_run r;
    tl_notes files = {0};
    tl_model *m = open_model(&r, MODEL(12, VIT(", activation: gelu")));
    tl_state *hf = export_as(&r, m, "hf", &files);
    for (int i = 0; i < TL_COUNT(forms); i++) {
        tl_state *other = export_as(&r, m, forms[i], &files);
        check_fused(hf, other, names[i], false);
        tl_state_free(&other);
    }
    tl_state_free(&hf);
    close_model(&r, &m);
    m = open_model(&r, MODEL(12, LIBAI));
    hf = export_as(&r, m, "hf", &files);
    tl_state *libai = export_as(&r, m, "libai", &files);
    check_fused(hf, libai, "blocks.1.self_attention.query_key_value.weight", true);
    tl_state_free(&libai);
    tl_state_free(&hf);
    tl_notes_deinit(&files);
    close_model(&r, &m);
}

/* Read by a model that begins elsewhere, and written again. */
static void test_there_and_back(void **state)
{
    (void)state;
    static const char *const forms[] = {"hf", "timm", "torchvision"};
    for (int i = 0; i < TL_COUNT(forms); i++) {
        lab_run r;
        tl_notes files = {0};
        tl_model *m = open_model(&r, MODEL(12, VIT(", activation: gelu")));
        tl_state *written = export_as(&r, m, forms[i], &files);
        write_folder("out", written, &files);
        tl_state_free(&written);
        close_model(&r, &m);
        const char *path = i ? "out/model.safetensors" : "out";
        char *yaml = tl_arena_printf(lab_arena, "%s  init_checkpoint: %s\n",
                                     MODEL(12, VIT(", activation: gelu")), path);
        lab_begin(&r, "image_classification", yaml);
        r.task->seed = 7;
        assert_ok(tl_task_build_model(r.task, &m));
        assert_ok(tl_task_initialize(r.task, m));
        assert_ok(tl_safetensors_read(&written, "out/model.safetensors", r.task->engine));
        tl_state *again = export_as(&r, m, forms[i], &files);
        assert_same_states(written, again);
        tl_state_free(&written);
        tl_state_free(&again);
        tl_notes_deinit(&files);
        close_model(&r, &m);
    }
}

/* A table that is the same everywhere stays so, and the place of the token stays the first. */
static void test_positions_of_another_size(void **state)
{
    (void)state;
    static const char *const name = "vit.embeddings.position_embeddings";
    static double table[26 * SIZE];
    lab_run r;
    tl_state_entry e;
    tl_notes files = {0}, more = {0};
    tl_model *m = open_model(&r, MODEL(12, VIT(", activation: gelu")));
    tl_state *written = export_as(&r, m, "hf", &files);
    assert_ok(tl_state_get(&e, written, name, TL_STATE_TENSOR));
    for (int64_t i = 0; i < 10 * SIZE; i++) table[i] = i < SIZE ? 7 : (double)(i % SIZE);
    assert_ok(tl_tensor_set_doubles(e.tensor, table, 10 * SIZE));
    write_folder("out", written, &files);
    tl_state_free(&written);
    close_model(&r, &m);
    m = open_model(&r, MODEL(20, VIT(", activation: gelu")) FROM("out"));
    assert_ok(tl_task_initialize(r.task, m));
    written = export_as(&r, m, "hf", &more);
    numbers_of(table, written, name);
    for (int64_t i = 0; i < 26 * SIZE; i++)
        assert_near(table[i], i < SIZE ? 7 : (double)(i % SIZE), 1e-5);
    tl_state_free(&written);
    tl_notes_deinit(&files);
    tl_notes_deinit(&more);
    close_model(&r, &m);
}

/* --- refusals --------------------------------------------------------------------------------- */

/* The folder "out" with another config.json, or one weight more or less. */
typedef struct damage {
    const char *config, *without, *with;
} damage;

static void refused(const char *yaml, damage d, tl_status code, const char *message)
{
    lab_run r;
    tl_state_entry e;
    tl_notes files = {0};
    tl_model *m = open_model(&r, MODEL(12, VIT(", activation: gelu")));
    tl_state *written = export_as(&r, m, "hf", &files);
    assert_ok(tl_state_get(&e, written, "vit.layernorm.weight", TL_STATE_TENSOR));
    if (d.with) assert_ok(tl_state_put(written, d.with, e.tensor));
    if (d.without) assert_true(tl_state_remove(written, d.without));
    write_folder("out", written, &files);
    if (d.config) assert_ok(tl_file_write_atomic("out/config.json", d.config, strlen(d.config)));
    tl_state_free(&written);
    tl_notes_deinit(&files);
    close_model(&r, &m);
    m = open_model(&r, yaml);
    double before[CLASSES], after[CLASSES];
    assert_ok(tl_tensor_get_doubles(tl_model_find(m, "head/bias")->tensor, before, CLASSES));
    assert_fails(tl_task_initialize(r.task, m), code, message);
    assert_ok(tl_tensor_get_doubles(tl_model_find(m, "head/bias")->tensor, after, CLASSES));
    assert_memory_equal(before, after, sizeof before);
    close_model(&r, &m);
}

static void test_refusals(void **state)
{
    (void)state;
    const char *fits = MODEL(12, VIT(", activation: gelu")) FROM("out");
    const damage none = {0};
    refused(fits, (damage){.without = "vit.encoder.layer.1.attention.attention.key.bias"},
            TL_EINVAL, "vit.encoder.layer.1.attention.attention.key.bias");
    refused(fits, (damage){.without = "vit.embeddings.cls_token"}, TL_EUNSUPPORTED,
            "without a class token");
    refused(fits, (damage){.with = "vit.encoder.layer.0.lambda_1"}, TL_EUNSUPPORTED,
            "'vit.encoder.layer.0.lambda_1' has no place");
    refused(fits, (damage){.config = "{\"model_type\": \"vit\", \"qkv_bias\": false}"},
            TL_EUNSUPPORTED, "\"qkv_bias\" is false");
    refused(fits, (damage){.config = "{\"model_type\": \"deit\"}"}, TL_EUNSUPPORTED,
            "\"model_type\" is 'deit', and the weights are of 'vit'");
    refused(fits, (damage){.config = "{\"num_attention_heads\": 0}"}, TL_EINVAL,
            "\"num_attention_heads\" does not divide the 24 numbers");
    refused(fits, (damage){.config = "{\"num_hidden_layers\": 3}"}, TL_EINVAL,
            "\"num_hidden_layers\" is not 2");
    refused(fits, (damage){.config = "{\"num_attention_heads\": 4}"}, TL_EINVAL,
            "task.model.backbone.vit.transformer.num_heads=4");
    refused(MODEL(12, VIT(", pooler: gap")) FROM("out"), none, TL_EINVAL,
            "set task.model.backbone.vit.pooler=token task.model.backbone.vit.activation=gelu");
    refused(MODEL(16, "{type: vit, vit: {model_name: vit-ti16}}") FROM("out"), none, TL_EINVAL,
            "set task.model.backbone.vit.model_name=null task.model.backbone.vit.hidden_size=24 "
            "task.model.backbone.vit.patch_size=4 task.model.backbone.vit.transformer.mlp_dim=60 "
            "task.model.backbone.vit.transformer.num_layers=2 "
            "task.model.backbone.vit.transformer.num_heads=3");
    refused(MODEL(12, LIBAI) FROM("out"), none, TL_EINVAL, "set task.model.backbone.type=vit");
}

static void refuse_form(const char *backbone, const char *form, const char *message)
{
    lab_run r;
    tl_state *own, *weights;
    tl_notes files = {0};
    tl_model *m = open_model(&r, backbone);
    assert_ok(tl_state_new(&own));
    assert_ok(tl_state_new(&weights));
    assert_ok(tl_model_state(m, own));
    assert_fails(tl_task_export_weights(r.task, &(tl_export_args){.format = form, .model = own},
                                        weights, &files),
                 TL_EUNSUPPORTED, message);
    tl_state_free(&own);
    tl_state_free(&weights);
    tl_notes_deinit(&files);
    close_model(&r, &m);
}

static void test_what_has_no_form(void **state)
{
    (void)state;
    refuse_form(MODEL(12, VIT("")), "timm", "task.model.backbone.vit.activation=gelu");
    refuse_form(MODEL(12, VIT(", representation_size: 8")), "hf",
                "task.model.backbone.vit.representation_size=0");
    refuse_form(MODEL(12, VIT("")), "libai", "it has torchvision, hf, timm");
    refuse_form(MODEL(12, LIBAI), "torchvision", "it has hf, libai");
    refuse_form(MODEL(12, "{type: mlp}"), "hf", "the backbone 'mlp' has no form of others");
    refuse_form(MODEL(12, LIBAI), "pickle", "has no form 'pickle'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(test_libai),          LAB_TEST(test_where_queries_lie),
        LAB_TEST(test_there_and_back), LAB_TEST(test_positions_of_another_size),
        LAB_TEST(test_refusals),       LAB_TEST(test_what_has_no_form),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
