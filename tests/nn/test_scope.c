/* Building models: names and paths, what is refused and how it says so, tied parameters, parts. */
#include "nn/lab.h"

/* --- names ------------------------------------------------------------------------------------ */

static void two_dense(probe *p, tl_scope *s)
{
    p->part[0] = tl_dense(s, "first", .units = 4);
    p->part[1] = tl_dense(s, "second", .units = 3, .without_bias = true);
}

static void paths_follow_the_tree(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){two_dense, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 5));
    assert_int_equal(tl_model_param_count(m), 3);
    assert_string_equal(tl_model_param(m, 0)->path, "first/kernel");
    assert_string_equal(tl_model_param(m, 1)->path, "first/bias");
    assert_string_equal(tl_model_param(m, 2)->path, "second/kernel");
    assert_shape(param(m, "second/kernel")->shape, 4, 3);
    assert_string_equal(m->path, "");
    assert_string_equal(m->first->name, "first");
    assert_ptr_equal(m->first->next, m->last);
    assert_ptr_equal(m->last->parent, m);
    assert_shape(m->last->input, 2, 4);
    assert_shape(m->last->output, 2, 3);
    assert_null(tl_model_find(m, "second/bias"));
    tl_model_free(&m);
    assert_null(m);
}

#define REFUSED(name, code, text, ...)                                                             \
    static void name##_build(probe *p, tl_scope *s)                                                \
    {                                                                                              \
        (void)p;                                                                                   \
        __VA_ARGS__;                                                                               \
    }                                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        tl_model *m;                                                                               \
        assert_fails(try_model(&m, &(recipe){name##_build, NULL}, TL_SHAPE(2, 5)), code, text);    \
        assert_null(m);                                                                            \
    }

REFUSED(a_name_is_taken_once, TL_EEXISTS,
        "model 'probe': up: there is a layer of that name already",
        p->part[0] = tl_dense(s, "up", .units = 1);
        tl_dense(s, "up", .units = 2))
REFUSED(a_name_holds_no_slash, TL_EINVAL, "a/b: 'a/b' is not a name",
        tl_dense(s, "a/b", .units = 1))
REFUSED(a_name_is_there, TL_EINVAL, "'' is not a name", tl_dense(s, "", .units = 1))
REFUSED(a_name_is_not_null, TL_EINVAL, "a layer without a name",
        tl_scope_layer(s, NULL, &tl_layer_flatten, NULL))
REFUSED(units_are_required, TL_EINVAL,
        "model 'probe': up: units: it has no default and must be given",
        tl_dense(s, "up", .without_bias = true))
REFUSED(numbers_keep_to_their_range, TL_EINVAL, "up: units is -3 and must be at least 1",
        tl_dense(s, "up", .units = -3))
REFUSED(rates_keep_to_their_range, TL_EINVAL, "drop: rate is 1.5 and must lie between 0 and 1",
        tl_dropout_layer(s, "drop", .rate = 1.5))
REFUSED(enums_keep_to_their_names, TL_EINVAL, "up: activation is 99",
        tl_dense(s, "up", .units = 1, .activation = (tl_activation)99))
REFUSED(initializers_are_checked, TL_EINVAL,
        "up: kernel_initializer: stddev is -1 and must be at least 0",
        tl_dense(s, "up", .units = 1,
                 .kernel_initializer = TL_INITIALIZER_OF("random_normal", tl_normal_initializer,
                                                         .stddev = TL_SET(-1))))
REFUSED(initializers_must_exist, TL_ENOTFOUND,
        "up: kernel_initializer: unknown type 'he_norml', did you mean 'he_normal'",
        tl_dense(s, "up", .units = 1, .kernel_initializer = TL_INITIALIZER("he_norml")))
REFUSED(pads_want_explicit_padding, TL_EINVAL, "conv: pad: it is used when padding is explicit",
        tl_conv2d(s, "conv", .filters = 1, .kernel = 3, .pad = 1))
REFUSED(parts_have_one_name, TL_EEXISTS, "backbone: another part has that name: 'up'",
        tl_scope_item(s, "backbone", tl_dense(s, "up", .units = 1));
        tl_scope_item(s, "backbone", tl_dense(s, "down", .units = 1)))
REFUSED(parameters_and_layers_share_names, TL_EEXISTS, "up: there is a layer of that name already",
        tl_dense(s, "up", .units = 1);
        tl_scope_param(s, "up", &(tl_param_args){.shape = TL_SHAPE(2)}))
REFUSED(parameters_are_declared_once, TL_EEXISTS, "w: there is a parameter of that name already",
        tl_scope_param(s, "w", &(tl_param_args){.shape = TL_SHAPE(2)});
        tl_scope_param(s, "w", &(tl_param_args){.shape = TL_SHAPE(3)}))
REFUSED(shapes_of_parameters_are_checked, TL_EINVAL, "w: shape",
        tl_scope_param(s, "w", &(tl_param_args){.shape = TL_SHAPE(2, -1)}))
REFUSED(only_own_parameters_are_tied, TL_ENOTFOUND,
        "w: only a parameter of the same model can be tied",
        tl_scope_tie(s, "w", numbers(TL_F32, TL_SHAPE(2))))
REFUSED(a_choice_must_be_made, TL_EINVAL, "up: no layer was chosen",
        tl_scope_layer_of(s, "up", &(tl_oneof){0}))
REFUSED(layers_must_exist, TL_ENOTFOUND, "up: there is no layer 'dens', did you mean 'dense'",
        tl_scope_layer_of(s, "up", &(tl_oneof){.type = "dens"}))
REFUSED(the_first_failure_is_kept, TL_EINVAL, "first: units: it has no default",
        tl_dense(s, "first");
        tl_dense(s, "a/b", .units = 1); assert_null(tl_dense(s, "good", .units = 1)))

static const tl_layer_class empty_class = {
    .cls = TL_CLASS(tl_layer_class, "empty", NULL, tl_layer, NULL)};
static tl_tensor *identity(tl_layer *l, tl_ctx *ctx, tl_tensor *x)
{
    (void)l;
    (void)ctx;
    return x;
}
static const tl_layer_class small_class = {
    .cls = TL_CLASS(tl_layer_class, "small", NULL, int, NULL),
    .forward = identity,
};
REFUSED(a_class_computes_something, TL_EINVAL,
        "class 'empty': it has neither 'forward' nor 'forward_all'",
        tl_scope_layer(s, "x", &empty_class, NULL))
REFUSED(an_instance_begins_with_a_layer, TL_EINVAL,
        "class 'small': its instances have 4 bytes, fewer than the",
        tl_scope_layer(s, "x", &small_class, NULL))

/* --- calling ---------------------------------------------------------------------------------- */

static void one_conv(probe *p, tl_scope *s)
{
    p->part[0] = tl_conv2d(s, "conv", .filters = 2, .kernel = 3);
}

/* Lists and numbers that may be left out have ranges too. */
typedef struct steps_config {
    tl_layer_config base;
    tl_ints sizes;
    tl_doubles shares;
    tl_opt_int depth;
} steps_config;
static const tl_field steps_fields[] = {
    TL_F(steps_config, sizes, TL_DEFAULT_LIST(int64_t, 2, 3), TL_AT_LEAST(1), .help = "h"),
    TL_F(steps_config, shares, TL_DEFAULT_LIST(double, 0.5), TL_RANGE(0, 1), .help = "h"),
    TL_F(steps_config, depth, TL_AT_LEAST(1), .help = "h"),
    TL_F_END,
};
static const tl_desc steps_desc = {
    .name = "steps",
    .size = sizeof(steps_config),
    .base = &tl_layer_config_desc,
    .fields = steps_fields,
};
static const tl_layer_class steps_class = {
    .cls = TL_CLASS(tl_layer_class, "steps", NULL, tl_layer, &steps_desc),
    .forward = identity,
};
REFUSED(whole_numbers_of_lists_keep_to_their_range, TL_EINVAL,
        "x: sizes is 0 and must be at least 1",
        tl_scope_layer(s, "x", &steps_class,
                       &(steps_config){.sizes = {(const int64_t[]){4, 0}, 2}}))
REFUSED(numbers_of_lists_keep_to_their_range, TL_EINVAL,
        "x: shares is 1.5 and must lie between 0 and 1",
        tl_scope_layer(s, "x", &steps_class,
                       &(steps_config){.shares = {(const double[]){0, 1.5}, 2}}))
REFUSED(optional_numbers_keep_to_their_range, TL_EINVAL, "x: depth is -2 and must be at least 1",
        tl_scope_layer(s, "x", &steps_class, &(steps_config){.depth = TL_SET(-2)}))

static void a_wrong_rank_names_the_layer(void **state)
{
    (void)state;
    tl_model *m;
    assert_fails(try_model(&m, &(recipe){one_conv, NULL}, TL_SHAPE(2, 5)), TL_EINVAL,
                 "model 'probe': conv: the input is float32[2, 5] and must have 4 dimensions");
}

static void inner(probe *p, tl_scope *s)
{
    p->part[0] = tl_sequential(
        s, "body",
        .layers = TL_LAYERS(
            {.name = "up", .layer = {.type = "dense", .value = &(tl_dense_config){.units = 8}}},
            {.name = "conv",
             .layer = {.type = "conv1d",
                       .value = &(tl_conv1d_config){.filters = 8, .kernel = 3}}}));
}

static void a_deep_failure_names_the_whole_path(void **state)
{
    (void)state;
    tl_model *m;
    assert_fails(try_model(&m, &(recipe){inner, NULL}, TL_SHAPE(2, 5)), TL_EINVAL,
                 "model 'probe': body/conv: the input is float32[2, 8] and must have 3 dimensions");
}

static void other_batch_sizes_are_fine_other_widths_are_not(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){two_dense, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 5));
    tl_tensor *y = tl_call(c, m, numbers(TL_F32, TL_SHAPE(7, 5)));
    assert_ok(tl_ctx_status(c));
    assert_shape(y->shape, 7, 3);
    y = tl_call(c, m, numbers(TL_F32, TL_SHAPE(2, 3, 5))); // dense works on the last axis
    assert_non_null(y);
    assert_shape(y->shape, 2, 3, 3);
    assert_null(tl_call(c, m, numbers(TL_F32, TL_SHAPE(2, 6))));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "first: ");
    tl_model_free(&m);
}

static tl_tensor *first_only(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    return tl_call(ctx, p->part[0], x);
}

static void a_layer_that_is_never_called_has_no_parameters(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){two_dense, first_only}, TL_F32, TL_F32, TL_SHAPE(2, 5));
    assert_int_equal(tl_model_param_count(m), 2);
    assert_false(m->last->called);
    tl_call(c, m->last, numbers(TL_F32, TL_SHAPE(2, 4)));
    assert_fails(tl_ctx_status(c), TL_ESTATE,
                 "second: the layer was not called when the model was made");
    tl_model_free(&m);
}

static void flatten_too(probe *p, tl_scope *s)
{
    p->part[0] = tl_dense(s, "up", .units = 4);
    p->part[1] = tl_flatten_layer(s, "flat");
}

static void layers_without_parameters_may_come_late(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){flatten_too, first_only}, TL_F32, TL_F32, TL_SHAPE(2, 5));
    tl_tensor *y = tl_call(c, m->last, numbers(TL_F32, TL_SHAPE(2, 3, 4)));
    assert_ok(tl_ctx_status(c));
    assert_shape(y->shape, 2, 12);
    tl_model_free(&m);
}

static void null_is_refused_by_name(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){two_dense, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 5));
    assert_null(tl_call(c, NULL, numbers(TL_F32, TL_SHAPE(2, 5))));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "the layer that was called is NULL");
    tl_ctx_clear(c);
    assert_null(tl_call(c, m->last, NULL));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "second: the layer was called without an input");
    tl_model_free(&m);
}

static tl_tensor *forgets(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    (void)p;
    (void)ctx;
    (void)x;
    return NULL;
}

static void a_forward_gives_something(void **state)
{
    (void)state;
    tl_model *m;
    assert_fails(try_model(&m, &(recipe){two_dense, forgets}, TL_SHAPE(2, 5)), TL_EINVAL,
                 "class 'probe' gave no tensor");
}

/* --- giving back ------------------------------------------------------------------------------ */

static int alive;

static tl_status holder_build(tl_layer *l, tl_scope *s, const void *config)
{
    (void)l;
    (void)config;
    alive++;
    tl_dense(s, "inner", .units = 2);
    return tl_scope_status(s);
}

static void holder_dispose(tl_layer *l)
{
    assert_string_equal(l->first->name, "inner");
    alive--;
}
static const tl_layer_class holder_class = {
    .cls = TL_CLASS(tl_layer_class, "holder", NULL, tl_layer, NULL),
    .build = holder_build,
    .forward = identity,
    .dispose = holder_dispose,
};

static void two_holders(probe *p, tl_scope *s)
{
    p->part[0] = tl_scope_layer(s, "a", &holder_class, NULL);
    p->part[1] = tl_scope_layer(s, "b", &holder_class, NULL);
}

static void two_holders_and_a_mistake(probe *p, tl_scope *s)
{
    two_holders(p, s);
    tl_dense(s, "b", .units = 1);
}

static void what_was_built_is_given_back(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){two_holders, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 5));
    assert_int_equal(alive, 2);
    tl_model_free(&m);
    assert_int_equal(alive, 0);
    assert_fails(try_model(&m, &(recipe){two_holders_and_a_mistake, NULL}, TL_SHAPE(2, 5)),
                 TL_EEXISTS, "b: there is a layer");
    assert_int_equal(alive, 0);
}

/* --- tied parameters, parts ------------------------------------------------------------------- */

static void tied(probe *p, tl_scope *s)
{
    p->part[0] = tl_embedding(s, "tokens", .entries = 6, .size = 4);
    if (p->part[0]) tl_scope_tie(s, "head", tl_layer_param(p->part[0], "table"));
    tl_scope_item(s, "embedder", p->part[0]);
}

static tl_tensor *tied_forward(probe *p, tl_ctx *ctx, tl_tensor *x)
{
    return tl_embedding_scores(ctx, p->part[0], tl_call(ctx, p->part[0], x));
}

static void a_tied_parameter_is_stored_once(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){tied, tied_forward}, TL_F32, TL_I64, TL_SHAPE(2, 3));
    assert_int_equal(tl_model_param_count(m), 1);
    assert_ptr_equal(tl_model_find(m, "head"), tl_model_find(m, "tokens/table"));
    assert_string_equal(tl_model_param(m, 0)->aliases[0], "head");
    assert_null(tl_model_param(m, 0)->aliases[1]);
    assert_int_equal(tl_model_measure(m).params, 24);
    tl_layer *part;
    assert_int_equal(tl_model_item_count(m), 1);
    assert_string_equal(tl_model_item(m, 0, &part), "embedder");
    assert_ptr_equal(part, m->first);
    assert_ptr_equal(tl_layer_param(part, "table"), param(m, "head"));
    assert_null(tl_layer_param(part, "kernel"));
    tl_state *s;
    assert_ok(tl_state_new(&s));
    assert_ok(tl_model_state(m, s));
    int64_t entries, bytes;
    assert_ok(tl_state_size(s, &entries, &bytes));
    assert_int_equal(entries, 2);
    assert_int_equal(bytes, 24 * 4);
    tl_state_free(&s);
    // Both uses reach the one gradient.
    tl_ctx_set_taping(c, true);
    tl_tensor *ids = tl_from_doubles(c, TL_I64, TL_SHAPE(1, 2), (double[]){1, 4});
    tl_tensor *table = param(m, "head"), *grad, *want,
              *y = tl_sum(c, tl_call(c, m, ids), TL_ALL, false);
    assert_ok(tl_gradient(c, y, &table, 1, &grad));
    tl_tensor *rows = tl_lookup(c, table, ids);
    tl_tensor *by_hand = tl_sum(c, tl_matmul_with(c, rows, table, false, true), TL_ALL, false);
    assert_ok(tl_gradient(c, by_hand, &table, 1, &want));
    assert_same(grad, want, 1e-6);
    assert_true(fabs(at(grad, 0)) > 1e-3); // row 0 was not looked up, but was scored
    tl_model_free(&m);
}

static void scores_want_an_embedding(void **state)
{
    (void)state;
    tl_model *m = make_model(&(recipe){two_dense, NULL}, TL_F32, TL_F32, TL_SHAPE(2, 5));
    assert_null(tl_embedding_scores(c, m->first, numbers(TL_F32, TL_SHAPE(2, 5))));
    assert_fails(tl_ctx_status(c), TL_EINVAL, "scores are those of an embedding, not of dense");
    tl_model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAB_TEST(paths_follow_the_tree),
        LAB_TEST(a_name_is_taken_once),
        LAB_TEST(a_name_holds_no_slash),
        LAB_TEST(a_name_is_there),
        LAB_TEST(a_name_is_not_null),
        LAB_TEST(units_are_required),
        LAB_TEST(numbers_keep_to_their_range),
        LAB_TEST(rates_keep_to_their_range),
        LAB_TEST(enums_keep_to_their_names),
        LAB_TEST(initializers_are_checked),
        LAB_TEST(initializers_must_exist),
        LAB_TEST(pads_want_explicit_padding),
        LAB_TEST(parts_have_one_name),
        LAB_TEST(parameters_and_layers_share_names),
        LAB_TEST(parameters_are_declared_once),
        LAB_TEST(shapes_of_parameters_are_checked),
        LAB_TEST(only_own_parameters_are_tied),
        LAB_TEST(a_choice_must_be_made),
        LAB_TEST(layers_must_exist),
        LAB_TEST(the_first_failure_is_kept),
        LAB_TEST(a_class_computes_something),
        LAB_TEST(an_instance_begins_with_a_layer),
        LAB_TEST(whole_numbers_of_lists_keep_to_their_range),
        LAB_TEST(numbers_of_lists_keep_to_their_range),
        LAB_TEST(optional_numbers_keep_to_their_range),
        LAB_TEST(a_wrong_rank_names_the_layer),
        LAB_TEST(a_deep_failure_names_the_whole_path),
        LAB_TEST(other_batch_sizes_are_fine_other_widths_are_not),
        LAB_TEST(a_layer_that_is_never_called_has_no_parameters),
        LAB_TEST(layers_without_parameters_may_come_late),
        LAB_TEST(null_is_refused_by_name),
        LAB_TEST(a_forward_gives_something),
        LAB_TEST(a_tied_parameter_is_stored_once),
        LAB_TEST(scores_want_an_embedding),
        LAB_TEST(what_was_built_is_given_back),
    };
    return cmocka_run_group_tests(tests, open_lab, close_lab);
}
