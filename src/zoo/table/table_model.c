/* The model of tables: numbers as they are, categories as vectors, dense layers. */
#include <math.h>

#include <tilth/ops/activation.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/view.h>
#include <tilth/zoo/table.h>

enum { MOST_LAYERS = 32, LARGEST_EMBEDDING = 32 };

typedef struct table_net_config {
    const tl_table_model_config *model;
    tl_table_widths widths;
    int64_t outputs;
} table_net_config;

typedef struct table_net {
    tl_model base;
    const tl_table_model_config *config;
    tl_layer *embedding, *dense[MOST_LAYERS], *norm[MOST_LAYERS], *dropout[MOST_LAYERS], *linear,
        *head;
} table_net;

/* Grows slowly with the number of values that there are to tell apart. */
static int64_t embedding_size(const table_net_config *k)
{
    if (k->model->embedding_size > 0) return k->model->embedding_size;
    int64_t size = (int64_t)ceil(1.6 * pow((double)k->widths.largest, 0.56));
    return size < LARGEST_EMBEDDING ? size : LARGEST_EMBEDDING;
}

static tl_status build(tl_model *m, tl_scope *s, const void *config)
{
    table_net *n = (table_net *)m;
    const table_net_config *k = config;
    const tl_table_model_config *c = n->config = k->model;
    tl_arena *arena = tl_scope_arena(s);
    if (k->widths.categories)
        n->embedding =
            tl_embedding(s, "embedding", .entries = k->widths.entries, .size = embedding_size(k),
                         .initializer = {.type = "random_normal"});
    for (int64_t i = 0; i < c->units.count; i++) {
        char *dense = tl_arena_printf(arena, "dense_%lld", (long long)i + 1);
        char *norm = tl_arena_printf(arena, "norm_%lld", (long long)i + 1);
        char *dropout = tl_arena_printf(arena, "dropout_%lld", (long long)i + 1);
        if (!dense || !norm || !dropout) return TL_ENOMEM;
        n->dense[i] = tl_dense(s, dense, .units = c->units.items[i],
                               .kernel_initializer = {.type = "he_uniform"},
                               .activation = c->batch_norm ? TL_ACT_NONE : c->activation);
        if (c->batch_norm) n->norm[i] = tl_batch_norm(s, norm, .momentum = TL_SET(0.9));
        if (c->dropout_rate > 0)
            n->dropout[i] = tl_dropout_layer(s, dropout, .rate = c->dropout_rate);
    }
    if (c->linear && c->units.count)
        n->linear = tl_dense(s, "linear", .units = k->outputs, .without_bias = true,
                             .kernel_initializer = {.type = "zeros"});
    n->head = tl_dense(s, "head", .units = k->outputs);
    return tl_scope_status(s);
}

static tl_tensor *gather_inputs(const table_net *n, tl_ctx *c, const tl_tensors *in)
{
    tl_tensor *parts[2];
    int count = 0;
    tl_tensor *numbers = tl_tensors_peek(in, "numbers");
    if (numbers) parts[count++] = numbers;
    if (n->embedding) {
        tl_tensor *rows = tl_call(c, n->embedding, tl_tensors_get(c, in, "categories"));
        if (!rows) return NULL;
        parts[count++] = tl_reshape(c, rows, TL_SHAPE(rows->shape.dims[0], -1));
        if (numbers && parts[1]) parts[0] = tl_cast(c, numbers, parts[1]->dtype);
    }
    if (!count) return tl_tensors_get(c, in, "numbers"); // which says that there are none
    return count == 1 ? parts[0] : tl_concat(c, parts, count, 1);
}

static void forward_all(tl_layer *l, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    table_net *n = (table_net *)l;
    tl_tensor *x = gather_inputs(n, c, in), *h = x;
    for (int64_t i = 0; i < n->config->units.count; i++) {
        h = tl_call(c, n->dense[i], h);
        if (n->norm[i]) h = tl_activate(c, tl_call(c, n->norm[i], h), n->config->activation);
        if (n->dropout[i]) h = tl_call(c, n->dropout[i], h);
    }
    h = tl_call(c, n->head, h);
    if (n->linear) h = tl_add(c, h, tl_call(c, n->linear, x));
    tl_tensors_put(c, out, "y", h);
}

static const tl_layer_class table_net_class = {
    .cls = TL_CLASS(tl_layer_class, "table_net", NULL, table_net, NULL),
    .build = build,
    .forward_all = forward_all,
};

tl_status tl_table_model_new(tl_model **out, const tl_table_model_args *args)
{
    const tl_table_schema *s = args->schema;
    const tl_table_widths w = tl_table_schema_widths(s);
    int64_t batch = args->batch_size > 0 ? args->batch_size : 1, count = 0;
    tl_spec inputs[2];
    *out = NULL;
    if (args->config->units.count > MOST_LAYERS)
        return TL_FAIL(TL_ELIMIT, "model.units has %lld layers; there may be %d",
                       (long long)args->config->units.count, MOST_LAYERS);
    if (w.numbers) inputs[count++] = (tl_spec){"numbers", TL_F32, TL_SHAPE(batch, w.numbers)};
    if (w.categories)
        inputs[count++] = (tl_spec){"categories", TL_I32, TL_SHAPE(batch, w.categories)};
    table_net_config *k = tl_arena_alloc(args->arena, sizeof *k);
    if (!k) return TL_ENOMEM;
    *k = (table_net_config){args->config, w,
                            s->kind == TL_TABLE_REGRESSION ? 1 : s->class_names.count};
    return tl_model_new(out, &(tl_model_args){.engine = args->engine,
                                              .cls = &table_net_class,
                                              .config = k,
                                              .inputs = inputs,
                                              .input_count = count,
                                              .seed = args->seed,
                                              .dtype = args->dtype,
                                              .registry = args->registry});
}
