/* Models: parameters and their blocks, gradients, freezing, state, copies, losses, the table for
 * people, types of computation, and memory that runs out. runs: fake device */
#include "nn/lab.h"

#include <tilth/base/alloc.h>

static void net_build_(probe *p, tl_scope *s)
{
    p->part[0] = tl_dense(s, "up", .units = 5, .activation = TL_ACT_TANH);
    p->part[1] = tl_batch_norm(s, "norm", .momentum = TL_SET(0.75));
    p->part[2] = tl_dense(s, "down", .units = 3, .layer.group = "head",
                          .kernel_regularizer =
                              TL_REGULARIZER_OF("l2", tl_l2_regularizer, .l2 = TL_SET(0.5)));
}
static const recipe net = {net_build_, NULL};

static tl_model *make_net(tl_dtype compute)
{
    return make_model(&net, compute, TL_F32, TL_SHAPE(4, 7));
}

/* --- blocks ----------------------------------------------------------------------------------- */

// Every parameter lies in the block that says so, at a multiple of 16, and the gaps are zero.
static void check_blocks(const tl_model *m)
{
    int64_t seen = 0;
    for (int64_t b = 0; b < tl_model_block_count(m); b++) {
        const tl_block *block = tl_model_block(m, b);
        double values[4096], left[4096];
        int64_t n = tl_tensor_count(block->values);
        assert_ok(tl_tensor_get_doubles(block->values, values, n));
        memcpy(left, values, sizeof left);
        for (int64_t i = 0; i < block->param_count; i++, seen++) {
            const tl_param *p = tl_model_param(m, block->params[i]);
            assert_int_equal(p->block, b);
            assert_int_equal(p->offset % 16, 0);
            assert_int_equal(p->tensor->dtype, block->dtype);
            assert_int_equal(p->trainable, block->trainable);
            assert_int_equal(p->state, block->state);
            assert_string_equal(p->group, block->group);
            assert_int_equal(p->tensor->tracked, p->trainable);
            assert_ptr_equal(p->tensor->storage, block->values->storage);
            for (int64_t k = 0; k < tl_tensor_count(p->tensor); k++) {
                assert_near(values[p->offset + k], at(p->tensor, k), 0);
                left[p->offset + k] = 0;
            }
        }
        for (int64_t k = 0; k < n; k++) assert_near(left[k], 0, 0);
    }
    assert_int_equal(seen, tl_model_param_count(m));
}

static void blocks_gather_what_belongs_together(void **state)
{
    (void)state;
    tl_model *m = make_net(TL_F32);
    assert_int_equal(tl_model_block_count(m), 3); // trained, state, trained in "head"
    assert_int_equal(tl_model_block(m, 0)->param_count, 4);
    assert_true(tl_model_block(m, 1)->state);
    assert_string_equal(tl_model_block(m, 2)->group, "head");
    check_blocks(m);
    tl_model_size size = tl_model_measure(m);
    assert_int_equal(size.params, 7 * 5 + 5 + 5 + 5 + 5 * 3 + 3);
    assert_int_equal(size.trainable, size.params);
    assert_int_equal(size.state, 10);
    tl_model_free(&m);
}

static void values_survive_a_new_layout(void **state)
{
    (void)state;
    tl_model *m = make_net(TL_F32), *other = make_net(TL_F32);
    scramble(m);
    scramble(other);
    tl_tensor *kernel = param(m, "up/kernel");
    assert_ok(tl_model_set_trainable(m, "up", false));
    check_blocks(m);
    assert_int_equal(tl_model_block_count(m), 4);
    assert_false(tl_model_find(m, "up/kernel")->trainable);
    assert_true(tl_model_find(m, "down/kernel")->trainable);
    assert_true(m->first->frozen);
    assert_ok(tl_model_set_group(m, "kernel$|gamma", "matrices"));
    check_blocks(m);
    assert_string_equal(tl_model_find(m, "norm/gamma")->group, "matrices");
    assert_string_equal(tl_model_find(m, "norm/beta")->group, "");
    assert_ok(tl_model_set_trainable(m, "", true));
    assert_false(m->first->frozen);
    check_blocks(m);
    assert_ptr_equal(kernel, param(m, "up/kernel"));
    for (int64_t i = 0; i < tl_model_param_count(m); i++)
        assert_same(tl_model_param(m, i)->tensor, tl_model_param(other, i)->tensor, 0);
    assert_false(tl_model_find(m, "norm/moving_mean")->trainable); // state is never trained
    assert_fails(tl_model_set_trainable(m, "u", false), TL_ENOTFOUND, "no parameter under 'u'");
    assert_fails(tl_model_set_group(m, "nothing", "g"), TL_ENOTFOUND, "matches 'nothing'");
    assert_fails(tl_model_set_group(m, "(", "g"), TL_EINVAL, "the pattern '('");
    tl_model_free(&m);
    tl_model_free(&other);
}

static void gradients_come_by_block(void **state)
{
    (void)state;
    tl_model *m = make_net(TL_F32);
    scramble(m);
    assert_ok(tl_model_set_trainable(m, "up/bias", false));
    tl_ctx_set_taping(c, true);
    tl_ctx_set_training(c, true);
    tl_tensor *loss =
        tl_sum(c, tl_square(c, tl_call(c, m, numbers(TL_F32, TL_SHAPE(4, 7)))), TL_ALL, false);
    tl_tensor *blocks[8];
    assert_ok(tl_model_gradients(c, m, loss, blocks));
    int64_t trained = 0;
    for (int64_t b = 0; b < tl_model_block_count(m); b++) {
        const tl_block *block = tl_model_block(m, b);
        assert_int_equal(blocks[b] != NULL, block->trainable);
        if (!block->trainable) continue;
        assert_int_equal(tl_tensor_count(blocks[b]), tl_tensor_count(block->values));
        for (int64_t i = 0; i < block->param_count; i++, trained++) {
            const tl_param *p = tl_model_param(m, block->params[i]);
            tl_tensor *one;
            assert_ok(tl_gradient(c, loss, (tl_tensor *[]){p->tensor}, 1, &one));
            tl_tensor *part;
            assert_ok(tl_tensor_part(&part, blocks[b], p->offset, p->tensor->shape));
            assert_same(part, one, 0);
            tl_tensor_free(&part);
        }
    }
    assert_int_equal(trained, 5);
    tl_model_free(&m);
}

static void a_model_may_have_nothing_to_train(void **state)
{
    (void)state;
    tl_model *m = make_net(TL_F32);
    assert_ok(tl_model_set_trainable(m, "", false));
    tl_ctx_set_taping(c, true);
    tl_tensor *blocks[8];
    tl_tensor *loss = tl_sum(c, tl_call(c, m, numbers(TL_F32, TL_SHAPE(4, 7))), TL_ALL, false);
    assert_ok(tl_model_gradients(c, m, loss, blocks));
    for (int64_t b = 0; b < tl_model_block_count(m); b++) assert_null(blocks[b]);
    assert_null(tl_model_losses(c, m)); // frozen weights are not regularised
    tl_model_free(&m);
}

/* --- freezing, running statistics ------------------------------------------------------------- */

static void frozen_build(probe *p, tl_scope *s)
{
    p->part[0] = tl_sequential(
        s, "body", .layer.frozen = true,
        .layers = TL_LAYERS({.layer = {.type = "dense", .value = &(tl_dense_config){.units = 2}}},
                            {.layer = {.type = "batch_norm"}}));
    p->part[1] = tl_dense(s, "head", .units = 1);
}

static void what_is_inside_a_frozen_layer_is_frozen(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){frozen_build, NULL}, TL_F32, TL_F32, TL_SHAPE(4, 3));
    assert_false(tl_model_find(m, "body/dense_0/kernel")->trainable);
    assert_false(tl_model_find(m, "body/batch_norm_1/gamma")->trainable);
    assert_true(tl_model_find(m, "head/kernel")->trainable);
    assert_int_equal(tl_model_measure(m).trainable, 3);
    tl_ctx_set_training(c, true); // and its statistics stand still
    tl_call(c, m, numbers(TL_F32, TL_SHAPE(4, 3)));
    assert_ok(tl_ctx_status(c));
    assert_near(at(param(m, "body/batch_norm_1/moving_mean"), 0), 0, 0);
    assert_ok(tl_model_set_trainable(m, "body", true));
    tl_call(c, m, numbers(TL_F32, TL_SHAPE(4, 3)));
    assert_true(fabs(at(param(m, "body/batch_norm_1/moving_mean"), 0)) > 1e-6);
    tl_model_free(&m);
}

static void norm_only(probe *p, tl_scope *s)
{
    p->part[0] = tl_batch_norm(s, "norm", .momentum = TL_SET(0.75));
}

static void running_statistics_move_in_training_alone(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){norm_only, NULL}, TL_F32, TL_F32, TL_SHAPE(4, 2));
    tl_tensor *mean = param(m, "norm/moving_mean"), *variance = param(m, "norm/moving_variance");
    tl_tensor *x =
        tl_from_doubles(c, TL_F32, TL_SHAPE(4, 2), (double[]){1, 10, 3, 10, 5, 30, 7, 30});
    tl_tensor *y = tl_call(c, m, x); // evaluation: mean 0, variance 1
    assert_near(at(y, 7), 30 / sqrt(1 + 1e-3), 1e-4);
    assert_near(at(mean, 0), 0, 0);
    tl_ctx_set_training(c, true);
    y = tl_call(c, m, x);
    assert_near(at(y, 0), -3 / sqrt(5 + 1e-3), 1e-5);
    assert_near(at(mean, 0), 0.25 * 4, 1e-6);
    assert_near(at(mean, 1), 0.25 * 20, 1e-6);
    assert_near(at(variance, 0), 0.75 + 0.25 * 5, 1e-6);
    assert_near(at(variance, 1), 0.75 + 0.25 * 100, 1e-5);
    tl_ctx_set_training(c, false);
    y = tl_call(c, m, x);
    assert_near(at(y, 0), (1 - 1) / sqrt(2 + 1e-3), 1e-6);
    assert_near(at(y, 1), (10 - 5) / sqrt(25.75 + 1e-3), 1e-5);
    tl_model_free(&m);
}

// Eight pixels: 8/7 of their variance is that of where they come from.
static void running_variance_of_images_is_of_the_population(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){norm_only, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 2, 2, 1));
    double pixels[8] = {1, 3, 5, 7, 1, 3, 5, 7};
    tl_ctx_set_training(c, true);
    tl_tensor *y = tl_call(c, m, tl_from_doubles(c, TL_F32, TL_SHAPE(2, 2, 2, 1), pixels));
    assert_near(at(y, 0), -3 / sqrt(5 + 1e-3), 1e-5);
    assert_near(at(param(m, "norm/moving_variance"), 0), 0.75 + 0.25 * 5 * 8 / 7, 1e-6);
    tl_ctx_set_training(c, false);
    tl_model_free(&m);
}

static void synchronized_norm_only(probe *p, tl_scope *s)
{
    p->part[0] = tl_batch_norm(s, "norm", .momentum = TL_SET(0.75), .synchronized = true);
}

// Keras's kernel for images is not that of float64, nor that of several replicas.
static void running_variance_of_other_images_is_of_the_batch(void **state)
{
    (void)state;
    static const struct {
        void (*build)(probe *p, tl_scope *s);
        tl_dtype dtype;
    } rows[] = {
        {norm_only, TL_F64}, {synchronized_norm_only, TL_F32}, {synchronized_norm_only, TL_F64}};
    double pixels[8] = {1, 3, 5, 7, 1, 3, 5, 7};
    for (int64_t i = 0; i < TL_COUNT(rows); i++) {
        const recipe r = {rows[i].build, NULL};
        tl_model *m = make_model(&r, rows[i].dtype, rows[i].dtype, TL_SHAPE(2, 2, 2, 1));
        tl_ctx_set_training(c, true);
        tl_tensor *y =
            tl_call(c, m, tl_from_doubles(c, rows[i].dtype, TL_SHAPE(2, 2, 2, 1), pixels));
        assert_near(at(y, 0), -3 / sqrt(5 + 1e-3), 1e-5);
        assert_near(at(param(m, "norm/moving_variance"), 0), 0.75 + 0.25 * 5, 1e-6);
        tl_ctx_set_training(c, false);
        tl_model_free(&m);
    }
}

/* --- state, copies ---------------------------------------------------------------------------- */

static void state_goes_from_one_model_to_another(void **state)
{
    (void)state;
    tl_model *from = make_net(TL_F32), *to = make_net(TL_F32);
    tl_state *a, *b;
    scramble(from);
    assert_ok(tl_model_set_trainable(to, "up", false)); // another layout, the same state
    assert_ok(tl_state_new(&a));
    assert_ok(tl_state_new(&b));
    assert_ok(tl_model_state(from, a));
    assert_ok(tl_model_state(to, b));
    assert_ok(tl_state_copy(b, a, NULL, NULL));
    for (int64_t i = 0; i < tl_model_param_count(from); i++)
        assert_same(tl_model_param(from, i)->tensor, tl_model_param(to, i)->tensor, 0);
    check_blocks(to);
    tl_state_free(&a);
    tl_state_free(&b);
    tl_model_free(&from);
    tl_model_free(&to);
}

static void a_copy_is_alike_and_apart(void **state)
{
    (void)state;
    tl_model *m = make_net(TL_F32), *copy;
    scramble(m);
    assert_ok(tl_model_set_trainable(m, "norm", false));
    assert_ok(tl_model_set_group(m, "bias", "slow"));
    assert_ok(tl_model_copy(&copy, m));
    check_blocks(copy);
    assert_int_equal(tl_model_block_count(copy), tl_model_block_count(m));
    assert_string_equal(tl_model_find(copy, "up/bias")->group, "slow");
    assert_true(copy->first->next->frozen);
    tl_tensor *x = numbers(TL_F32, TL_SHAPE(4, 7));
    assert_same(tl_call(c, m, x), tl_call(c, copy, x), 0);
    double before = at(param(copy, "up/bias"), 0);
    assert_ok(tl_model_initialize(m, 3));
    assert_near(at(param(copy, "up/bias"), 0), before, 0);
    assert_true(apart(param(m, "up/kernel"), param(copy, "up/kernel")) > 1e-3);
    tl_model_free(&m); // the copy needs nothing of it
    tl_call(c, copy, x);
    assert_ok(tl_ctx_status(c));
    tl_model_free(&copy);
}

static void a_copy_of_literals_outlives_them(void **state)
{
    (void)state;
    tl_model *m, *copy;
    tl_dense_config *dense = calloc(1, sizeof *dense);
    dense->units = 3;
    tl_layer_choice choices[] = {{.layer = {.type = "dense", .value = dense}},
                                 {.layer = {.type = "flatten"}}};
    tl_sequential_config config = {.layers = {choices, 2}};
    assert_ok(try_class(&m, &tl_layer_sequential, &config, TL_F32, TL_F32, TL_SHAPE(2, 5)));
    memset(choices, 0xff, sizeof choices);
    free(dense);
    assert_ok(tl_model_copy(&copy, m));
    assert_same(param(copy, "dense_0/kernel"), param(m, "dense_0/kernel"), 0);
    tl_model_free(&m);
    assert_ok(tl_model_copy(&m, copy));
    tl_model_free(&m);
    tl_model_free(&copy);
}

static void values_depend_on_seed_and_path(void **state)
{
    (void)state;
    tl_model *a = make_net(TL_F32), *b = make_net(TL_F32);
    assert_same(param(a, "up/kernel"), param(b, "up/kernel"), 0);
    assert_ok(tl_model_initialize(b, 8));
    assert_true(apart(param(a, "up/kernel"), param(b, "up/kernel")) > 1e-3);
    assert_ok(tl_model_initialize(b, 7));
    assert_same(param(a, "up/kernel"), param(b, "up/kernel"), 0);
    check_blocks(b);
    tl_model_free(&a);
    tl_model_free(&b);
}

/* --- losses ----------------------------------------------------------------------------------- */

static tl_tensor *adds_loss(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    for (int i = 0; i < 3; i++) x = tl_call(ctx, p->part[i], x);
    tl_layer_add_loss(ctx, p->part[0], tl_number(ctx, TL_F32, 100));
    return x;
}

static void losses_are_those_of_the_last_call(void **state)
{
    (void)state;
    const recipe lossy = {net_build_, adds_loss};
    tl_model *m = make_model(&lossy, TL_F32, TL_F32, TL_SHAPE(4, 7));
    tl_tensor *w = param(m, "down/kernel");
    tl_tensor *squares = tl_scale(c, tl_sum(c, tl_square(c, w), TL_ALL, false), 0.5);
    assert_same(tl_model_losses(c, m), squares, 1e-6); // nothing of the rehearsal is left
    for (int i = 0; i < 2; i++) tl_call(c, m, numbers(TL_F32, TL_SHAPE(4, 7)));
    assert_same(tl_model_losses(c, m), tl_shift(c, squares, 100), 1e-4);
    tl_ctx_set_taping(c, true);
    tl_tensor *grad;
    assert_ok(tl_gradient(c, tl_model_losses(c, m), &w, 1, &grad));
    assert_same(grad, w, 1e-6); // 0.5 * 2 w
    tl_model_free(&m);
}

/* --- types of computation --------------------------------------------------------------------- */

static void parameters_keep_their_type(void **state)
{
    (void)state;
    static const tl_dtype types[] = {TL_F32, TL_BF16, TL_F16, TL_F64};
    static const double most[] = {0, 0.1, 0.02, 1e-5};
    tl_model *plain = make_net(TL_F32);
    scramble(plain);
    tl_tensor *x = numbers(TL_F32, TL_SHAPE(4, 7)), *wanted = tl_call(c, plain, x);
    for (int i = 0; i < 4; i++) {
        tl_model *m = make_net(types[i]);
        tl_mark mark = tl_ctx_begin(c);
        scramble(m);
        for (int64_t k = 0; k < tl_model_param_count(m); k++)
            assert_int_equal(tl_model_param(m, k)->tensor->dtype,
                             types[i] == TL_F64 ? TL_F64 : TL_F32);
        tl_tensor *y = tl_call(c, m, x);
        assert_ok(tl_ctx_status(c));
        assert_int_equal(y->dtype, types[i]);
        assert_same(y, wanted, most[i]);
        tl_ctx_set_taping(c, true);
        tl_ctx_set_training(c, true);
        tl_tensor *blocks[8], *loss = tl_sum(c, tl_call(c, m, x), TL_ALL, false);
        assert_ok(tl_model_gradients(c, m, loss, blocks));
        assert_int_equal(blocks[0]->dtype, types[i] == TL_F64 ? TL_F64 : TL_F32);
        tl_ctx_set_taping(c, false);
        tl_ctx_set_training(c, false);
        tl_ctx_end(c, mark);
        tl_model_free(&m);
    }
    tl_model_free(&plain);
    tl_model *m;
    assert_fails(try_class(&m, &probe_class, &net, TL_I32, TL_F32, TL_SHAPE(4, 7)), TL_EINVAL,
                 "a model computes in a floating-point type, not in int32");
    assert_fails(
        tl_model_new(&m, &(tl_model_args){.engine = engine, .cls = &probe_class, .config = &net}),
        TL_EINVAL, "a model needs at least one input");
}

/* --- several inputs --------------------------------------------------------------------------- */

static void mixes(tl_layer *l, tl_ctx *ctx, const tl_tensors *in, tl_tensors *out)
{
    (void)l;
    tl_tensor *a = tl_tensors_get(ctx, in, "a"), *b = tl_tensors_get(ctx, in, "b");
    tl_tensors_put(ctx, out, "sum", tl_add(ctx, a, b));
    tl_tensors_put(ctx, out, "product", tl_mul(ctx, a, b));
}
static const tl_layer_class mixer_class = {
    .cls = TL_CLASS(tl_layer_class, "mixer", NULL, tl_layer, NULL),
    .forward_all = mixes,
};

static void named_tensors_go_in_and_out(void **state)
{
    (void)state;
    tl_model *m;
    const tl_spec inputs[] = {{"a", TL_F32, TL_SHAPE(2)}, {"b", TL_F32, TL_SHAPE(2)}};
    tl_model_args args = {
        .engine = engine, .cls = &mixer_class, .inputs = inputs, .input_count = 2};
    assert_ok(tl_model_new(&m, &args));
    tl_tensors in = {0}, out = {0};
    tl_tensors_put(c, &in, "b", tl_from_doubles(c, TL_F32, TL_SHAPE(2), (double[]){2, 3}));
    tl_tensors_put(c, &in, "a", tl_from_doubles(c, TL_F32, TL_SHAPE(2), (double[]){5, 7}));
    tl_call_all(c, m, &in, &out);
    assert_ok(tl_ctx_status(c));
    assert_near(at(tl_tensors_get(c, &out, "sum"), 1), 10, 0);
    assert_near(at(tl_tensors_get(c, &out, "product"), 1), 21, 0);
    tl_model_free(&m);
    args.input_count = 1;
    assert_fails(tl_model_new(&m, &args), TL_ENOTFOUND, "there is no tensor 'b'; there are 'a'");
    args = (tl_model_args){
        .engine = engine, .cls = &probe_class, .config = &net, .inputs = inputs, .input_count = 2};
    assert_fails(tl_model_new(&m, &args), TL_EINVAL,
                 "the layer takes one tensor and was given 2: '");
}

/* --- for people ------------------------------------------------------------------------------- */

static void the_table_reads_well(void **state)
{
    (void)state;
    tl_model *m = make_net(TL_F32);
    assert_ok(tl_model_set_trainable(m, "up", false));
    tl_str text = TL_STR_INIT;
    tl_model_summary(m, &text);
    assert_string_equal(tl_str_text(&text), "layer (type)         output  parameters\n"
                                            "---------------------------------------\n"
                                            "model (probe)        [4, 3]\n"
                                            "  up (dense)         [4, 5]          40  frozen\n"
                                            "  norm (batch_norm)  [4, 5]          10  + 10 state\n"
                                            "  down (dense)       [4, 3]          18\n"
                                            "---------------------------------------\n"
                                            "parameters: 68, trained: 28, frozen: 40, state: 10\n");
    tl_str_deinit(&text);
    tl_model_free(&m);
}

static int longest_line(const char *text)
{
    int longest = 0;
    for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
        int length = (int)strcspn(text, "\n");
        longest = length > longest ? length : longest;
    }
    return longest;
}

static void the_table_fits_the_terminal(void **state)
{
    (void)state;
    tl_model *m = make_net(TL_F32);
    tl_str text = TL_STR_INIT;
    tl_model_summary_fit(m, 48, &text);
    assert_string_equal(tl_str_text(&text), "layer (type)      output  parameters\n"
                                            "------------------------------------\n"
                                            "model (probe)     [4, 3]\n"
                                            "  up (dense)      [4, 5]          40\n"
                                            "  norm (batch_..  [4, 5]          10  + 10 state\n"
                                            "  down (dense)    [4, 3]          18\n"
                                            "------------------------------------\n"
                                            "parameters: 68, trained: 68, frozen: 0,\n"
                                            "state: 10\n");
    for (int width = 40; width < 60; width++) {
        tl_str_cut(&text, 0);
        tl_model_summary_fit(m, width, &text);
        assert_true(longest_line(tl_str_text(&text)) <= width);
        assert_non_null(strstr(tl_str_text(&text), "18"));
    }
    tl_str_deinit(&text);
    tl_model_free(&m);
}

/* --- memory that runs out --------------------------------------------------------------------- */

typedef struct attempt {
    tl_model *m;
    tl_tensor *x;
    tl_engine *own;
} attempt;

static tl_status attempt_new(attempt *a)
{
    tl_model *m;
    tl_status st = try_model(&m, &net, TL_SHAPE(4, 7));
    (void)a;
    if (st == TL_OK) tl_model_free(&m);
    return st;
}

static tl_status attempt_copy(attempt *a)
{
    tl_model *copy;
    tl_status st = tl_model_copy(&copy, a->m);
    if (st == TL_OK) tl_model_free(&copy);
    return st;
}

static tl_status attempt_freeze(attempt *a)
{
    TL_TRY(tl_model_set_trainable(a->m, "up", false));
    return tl_model_set_trainable(a->m, "up", true);
}

static tl_status attempt_call(attempt *a)
{
    tl_ctx *mine;
    tl_tensor *blocks[8];
    TL_TRY(tl_ctx_new(&mine, engine));
    tl_ctx_set_taping(mine, true);
    tl_ctx_set_training(mine, true);
    tl_tensor *y = tl_sum(mine, tl_call(mine, a->m, a->x), TL_ALL, false);
    tl_tensor *losses = tl_model_losses(mine, a->m);
    tl_status st = tl_ctx_status(mine);
    if (st == TL_OK) st = tl_model_gradients(mine, a->m, tl_add(mine, y, losses), blocks);
    tl_ctx_free(&mine);
    return st;
}

static tl_status attempt_state(attempt *a)
{
    tl_state *s;
    TL_TRY(tl_state_new(&s));
    tl_status st = tl_model_state(a->m, s);
    tl_state_free(&s);
    return st;
}

static void fail_everywhere(tl_status (*run)(attempt *a), attempt *a)
{
    assert_ok(run(a)); // what is made once, and kept, is there from now on
    for (int64_t nth = 1;; nth++) {
        assert_true(nth < 100000);
        tl_engine_trim(engine);
        tl_alloc_fail_at(nth, 2); // the second one too, since memory of tensors is asked for again
        int64_t before = tl_alloc_calls();
        tl_status st = run(a);
        bool reached = tl_alloc_calls() - before >= nth;
        tl_alloc_fail_at(0, 0);
        if (!reached) {
            assert_int_equal(st, TL_OK);
            break;
        }
        if (st != TL_ENOMEM)
            fail_msg("allocation %lld: %s: %s", (long long)nth, tl_status_name(st),
                     tl_error_message());
        check_blocks(a->m); // whatever happened, the model is sound
    }
    assert_ok(run(a));
}

static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    tl_memory_stats before, after;
    tl_engine_memory(engine, &before);
    attempt a = {.m = make_net(TL_F32)};
    assert_ok(tl_tensor_new(&a.x, engine, TL_F32, TL_SHAPE(4, 7)));
    double zeros[28] = {1, 2, 3};
    assert_ok(tl_tensor_set_doubles(a.x, zeros, 28));
    fail_everywhere(attempt_new, &a);
    fail_everywhere(attempt_copy, &a);
    fail_everywhere(attempt_freeze, &a);
    fail_everywhere(attempt_call, &a);
    fail_everywhere(attempt_state, &a);
    tl_tensor_free(&a.x);
    tl_model_free(&a.m);
    tl_engine_memory(engine, &after);
    assert_int_equal(before.used, after.used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(blocks_gather_what_belongs_together),
        LAB_TEST(values_survive_a_new_layout),
        LAB_TEST(gradients_come_by_block),
        LAB_TEST(a_model_may_have_nothing_to_train),
        LAB_TEST(what_is_inside_a_frozen_layer_is_frozen),
        LAB_TEST(running_statistics_move_in_training_alone),
        LAB_TEST(running_variance_of_images_is_of_the_population),
        LAB_TEST(running_variance_of_other_images_is_of_the_batch),
        LAB_TEST(state_goes_from_one_model_to_another),
        LAB_TEST(a_copy_is_alike_and_apart),
        LAB_TEST(a_copy_of_literals_outlives_them),
        LAB_TEST(values_depend_on_seed_and_path),
        LAB_TEST(losses_are_those_of_the_last_call),
        LAB_TEST(parameters_keep_their_type),
        LAB_TEST(named_tensors_go_in_and_out),
        LAB_TEST(the_table_reads_well),
        LAB_TEST(the_table_fits_the_terminal),
        LAB_TEST(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
