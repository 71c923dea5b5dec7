/* Parts of a model that are models by themselves: which parameters each uses, its gradients, losses
 * and updates. runs: fake device */
#include "nn/lab.h"

#include <tilth/nn/optimizer.h>
#include <tilth/ops/reduce.h>

/* Three parts: a and b share a layer with running statistics, c stands alone but for the stem. */
typedef struct shared {
    tl_model base;
    tl_layer *stem, *middle, *first, *second, *third;
} shared;

static tl_tensor *head_forward(tl_layer *l, tl_ctx *ctx, tl_tensor *x);

typedef struct head {
    tl_layer base;
    tl_layer *last;
} head;

static tl_status head_build(tl_layer *l, tl_scope *s, const void *config)
{
    (void)config;
    ((head *)l)->last = tl_dense(s, "last", .units = 2,
                                 .kernel_regularizer =
                                     TL_REGULARIZER_OF("l2", tl_l2_regularizer, .l2 = TL_SET(0.5)));
    return tl_scope_status(s);
}
static const tl_layer_class head_class = {
    .cls = TL_CLASS(tl_layer_class, "part_head", NULL, head, NULL),
    .build = head_build,
    .forward = head_forward,
};

static tl_tensor *head_forward(tl_layer *l, tl_ctx *ctx, tl_tensor *x)
{
    const shared *n = l->config;
    x = tl_call(ctx, n->stem, x);
    if (l != n->third) x = tl_call(ctx, n->middle, x);
    return tl_call(ctx, ((head *)l)->last, x);
}

static tl_status shared_build(tl_model *m, tl_scope *s, const void *config)
{
    shared *n = (shared *)m;
    (void)config;
    n->stem = tl_dense(s, "stem", .units = 3);
    n->middle = tl_batch_norm(s, "middle", .momentum = TL_SET(0.5));
    n->first = tl_scope_layer(s, "a", &head_class, n);
    n->second = tl_scope_layer(s, "b", &head_class, n);
    n->third = tl_scope_layer(s, "c", &head_class, n);
    tl_scope_part(s, n->first);
    tl_scope_part(s, n->second);
    tl_scope_part(s, n->third);
    return tl_scope_status(s);
}

static tl_tensor *shared_forward(tl_model *m, tl_ctx *ctx, tl_tensor *x)
{
    shared *n = (shared *)m;
    (void)tl_call(ctx, n->first, x);
    (void)tl_call(ctx, n->second, x);
    return tl_call(ctx, n->third, x);
}
static const tl_layer_class shared_class = {
    .cls = TL_CLASS(tl_layer_class, "part_shared", NULL, shared, NULL),
    .build = shared_build,
    .forward = shared_forward,
};

static tl_model *make_shared(void)
{
    tl_model *m;
    tl_spec x = {"x", TL_F32, TL_SHAPE(4, 5)};
    assert_ok(tl_model_new(
        &m,
        &(tl_model_args){
            .engine = engine, .cls = &shared_class, .inputs = &x, .input_count = 1, .seed = 1}));
    return m;
}

/* The names of those that use it, in their order. */
static void assert_users(const tl_model *m, const char *path, const char *wanted)
{
    char users[4] = "";
    for (const char *name = "abc"; *name; name++)
        if (tl_model_uses(tl_model_part(m, (const char[]){*name, 0}), tl_model_find(m, path)))
            strncat(users, name, 1);
    assert_string_equal(users, wanted);
}

static void layers_know_their_users(void **state)
{
    (void)state;
    tl_model *m = make_shared(), *copy;
    assert_int_equal(tl_model_part_count(m), 3);
    assert_null(tl_model_part(m, "d"));
    for (int i = 0; i < 2; i++) {
        assert_users(m, "stem/kernel", "abc");
        assert_users(m, "middle/gamma", "ab");
        assert_users(m, "middle/moving_mean", "ab");
        assert_users(m, "a/last/kernel", "a");
        assert_users(m, "c/last/bias", "c");
        assert_int_equal(tl_model_block_count(m), 6); // stem, middle, its state, three heads
        assert_true(tl_model_uses(m, tl_model_find(m, "b/last/kernel")));
        assert_ok(tl_model_copy(&copy, m));
        tl_model_free(&m);
        m = copy;
    }
    tl_model_free(&m);
}

/* What its own head costs, and nothing of the others. */
static tl_tensor *costs_of(tl_model *part)
{
    tl_tensor *costs = tl_model_losses(c, part);
    double kernel[6], wanted = 0, found;
    char path[32];
    snprintf(path, sizeof path, "%s/last/kernel", part->name);
    assert_non_null(costs);
    assert_ok(tl_tensor_get_doubles(param(part, path), kernel, 6));
    for (int i = 0; i < 6; i++) wanted += 0.5 * kernel[i] * kernel[i];
    assert_ok(tl_tensor_item(costs, &found));
    assert_near(found, wanted, 1e-5);
    return costs;
}

static void step(tl_model *part, tl_optimizer *o, tl_tensor **grads)
{
    tl_ctx_set_training(c, true);
    tl_ctx_set_taping(c, true);
    tl_model_begin_calls(c, part);
    tl_tensor *x = numbers(TL_F32, TL_SHAPE(4, 5));
    tl_tensor *loss = tl_mean(c, tl_square(c, tl_call(c, part, x)), TL_ALL, false);
    assert_ok(tl_model_gradients(c, part, tl_add(c, loss, costs_of(part)), grads));
    assert_true(tl_optimizer_apply(o, c, grads, NULL));
    assert_ok(tl_ctx_status(c));
}

/* A step of one part: what it does not use keeps weights and statistics. */
static void a_step_of_a_part_leaves_the_rest_alone(void **state)
{
    (void)state;
    static const char *const paths[] = {"stem/kernel",        "middle/gamma",  "a/last/kernel",
                                        "middle/moving_mean", "b/last/kernel", "c/last/kernel"};
    static const char *const names[] = {"a", "b", "c"};
    for (size_t k = 0; k < TL_COUNT(names); k++) {
        tl_model *m = make_shared(), *part = tl_model_part(m, names[k]);
        tl_optimization_config config = {.optimizer = {.type = "adam"},
                                         .learning_rate = {.type = "constant"}};
        tl_optimizer *o;
        tl_tensor *grads[8];
        double before[6];
        fresh(state);
        assert_ok(tl_optimizer_new(
            &o, &(tl_optimizer_args){.engine = engine, .model = m, .config = &config}));
        for (int i = 0; i < 6; i++) before[i] = at(param(m, paths[i]), 0);
        step(part, o, grads);
        for (int i = 0; i < 6; i++) {
            const tl_param *p = tl_model_find(m, paths[i]);
            bool used = tl_model_uses(part, p);
            assert_true((at(p->tensor, 0) != before[i]) == used);
            assert_true((grads[p->block] != NULL) == (used && p->trainable));
        }
        fresh(state);
        tl_optimizer_free(&o);
        tl_model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(layers_know_their_users),
        LAB_TEST(a_step_of_a_part_leaves_the_rest_alone),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
