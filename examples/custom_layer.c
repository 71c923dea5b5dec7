/* A layer of one's own, and a model that uses it.
 *
 *     $ example_custom_layer
 *
 * The layer is everything between the two lines. It is a class like those that ship: put into a
 * module it has a name in YAML too. */
#include <tilth/tilth.h>

/* ---------------------------------------------------------------------------------------------- */
typedef struct gated_config {
    tl_layer_config layer;
    int64_t units;
} gated_config;

typedef struct gated {
    tl_layer base;
    tl_tensor *kernel, *gate; /* [inputs, units] */
} gated;

static tl_status gated_parameters(tl_layer *l, tl_scope *s, const tl_tensor *x)
{
    gated *g = (gated *)l;
    const gated_config *k = l->config;
    const tl_oneof init = TL_INITIALIZER("he_normal");
    tl_shape shape = TL_SHAPE(x->shape.dims[x->shape.rank - 1], k->units);
    g->kernel = tl_scope_param(s, "kernel", &(tl_param_args){.shape = shape, .initializer = &init});
    g->gate = tl_scope_param(s, "gate", &(tl_param_args){.shape = shape, .initializer = &init});
    return tl_scope_status(s);
}

static tl_tensor *gated_forward(tl_layer *l, tl_ctx *c, tl_tensor *x)
{
    gated *g = (gated *)l;
    tl_tensor *open = tl_sigmoid(c, tl_matmul(c, x, tl_layer_value(c, l, g->gate)));
    return tl_mul(c, open, tl_matmul(c, x, tl_layer_value(c, l, g->kernel)));
}

static const tl_field gated_fields[] = {
    TL_F(gated_config, units, .i = 8, TL_AT_LEAST(1), .help = "size of the result"),
    TL_F_END,
};
static const tl_desc gated_desc = {
    .name = "gated",
    .help = "a gated linear map",
    .size = sizeof(gated_config),
    .fields = gated_fields,
    .base = &tl_layer_config_desc,
};
static const tl_layer_class gated_class = {
    .cls = TL_CLASS(tl_layer_class, "gated", NULL, gated, &gated_desc),
    .parameters = gated_parameters,
    .forward = gated_forward,
};
/* ---------------------------------------------------------------------------------------------- */

typedef struct net {
    tl_model base;
    tl_layer *gated, *head;
} net;

static tl_status net_build(tl_model *m, tl_scope *s, const void *config)
{
    net *n = (net *)m;
    (void)config;
    n->gated = tl_scope_layer(s, "gated", &gated_class, &(gated_config){.units = 16});
    n->head = tl_dense(s, "head", .units = 1);
    return tl_scope_status(s);
}

static tl_tensor *net_forward(tl_model *m, tl_ctx *c, tl_tensor *x)
{
    net *n = (net *)m;
    return tl_call(c, n->head, tl_call(c, n->gated, x));
}

static const tl_layer_class net_class = {
    .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
    .build = net_build,
    .forward = net_forward,
};

enum { EXAMPLES = 64, STEPS = 200 };

/* One step of gradient descent: learns the product of two numbers. */
static tl_status step(tl_ctx *c, tl_model *m, int64_t number, double *loss)
{
    // all parameters are trained, so there is one block
    const tl_block *block = tl_model_block(m, 0);
    tl_tensor *gradient;
    tl_ctx_set_draws(c, (tl_draws){.seed = 1, .step = number});
    tl_tensor *x = tl_random_uniform(c, TL_F32, TL_SHAPE(EXAMPLES, 2), -1, 1);
    tl_tensor *wanted = tl_mul(c, tl_slice(c, x, 1, 0, 1, 1), tl_slice(c, x, 1, 1, 2, 1));
    tl_tensor *error = tl_mean(c, tl_square(c, tl_sub(c, tl_call(c, m, x), wanted)), TL_ALL, false);
    TL_TRY(tl_model_gradients(c, m, error, &gradient));
    TL_TRY(tl_tensor_item(error, loss));
    tl_tensor *hyper =
        tl_from_doubles(c, TL_F32, TL_SHAPE(TL_HYPER_COUNT), (double[]){0.5, 1, 1, 1});
    tl_update_sgd(c, block->values, gradient, hyper, NULL, &(tl_sgd_attr){0});
    return tl_ctx_status(c);
}

static tl_status train(tl_engine *engine)
{
    tl_model *m = NULL;
    tl_ctx *c = NULL;
    tl_str table = TL_STR_INIT;
    tl_spec input = {"x", TL_F32, TL_SHAPE(EXAMPLES, 2)};
    tl_status st;
    TL_TRY_DONE(st, tl_model_new(&m, &(tl_model_args){.engine = engine,
                                                      .cls = &net_class,
                                                      .inputs = &input,
                                                      .input_count = 1,
                                                      .seed = 1}));
    TL_TRY_DONE(st, tl_ctx_new(&c, engine));
    tl_model_summary(m, &table);
    puts(tl_str_text(&table));
    tl_ctx_set_taping(c, true);
    for (int64_t i = 0; i < STEPS; i++) {
        double loss;
        tl_mark mark = tl_ctx_begin(c);
        TL_TRY_DONE(st, step(c, m, i, &loss));
        tl_ctx_end(c, mark);
        if (i % 50 == 0 || i == STEPS - 1) printf("step %3lld  loss %.5f\n", (long long)i, loss);
    }
done:
    tl_ctx_free(&c);
    tl_model_free(&m);
    tl_str_deinit(&table);
    return st;
}

int main(void)
{
    tl_registry *registry = NULL;
    tl_engine *engine = NULL;
    tl_status st = tl_registry_new_builtin(&registry);
    if (st == TL_OK) st = tl_engine_open(&engine, registry, "cpu", 0);
    if (st == TL_OK) st = train(engine);
    tl_engine_free(&engine);
    tl_registry_free(&registry);
    if (st != TL_OK) fprintf(stderr, "%s\n", tl_error_message());
    return st != TL_OK;
}
