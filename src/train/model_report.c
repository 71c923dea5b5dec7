/* What people ask of a model: how much it computes, what it holds. */
#include <tilth/train/run.h>

#include <inttypes.h>
#include <stdio.h>

#include <tilth/base/file.h>
#include <tilth/graph/graph.h>

/* --- operations ------------------------------------------------------------------------------- */

static tl_status forward(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_model *m = self;
    tl_call_all(c, m, in, out);
    return tl_ctx_status(c);
}

double tl_count_flops(tl_model *m)
{
    enum { MOST_INPUTS = 32 };
    tl_spec specs[MOST_INPUTS];
    int64_t count;
    const tl_input *inputs = tl_model_inputs(m, &count);
    tl_graph *g = NULL;
    if (count > MOST_INPUTS || !count) return 0;
    for (int64_t i = 0; i < count; i++) {
        specs[i] = (tl_spec){inputs[i].name, inputs[i].dtype, inputs[i].shape};
        if (specs[i].shape.rank) specs[i].shape.dims[0] = 1; // one example
    }
    tl_engine *engine = tl_model_param_count(m) ? tl_tensor_engine(tl_model_param(m, 0)->tensor) : NULL;
    if (!engine
        || tl_graph_capture(&g, &(tl_capture){.engine = engine, .body = forward, .self = m,
                                              .inputs = specs, .input_count = count}) != TL_OK)
        return 0;
    double flops = 0;
    for (const tl_node *n = tl_graph_first(g); n; n = n->after) flops += tl_node_flops(n);
    tl_graph_free(&g);
    return flops;
}

/* --- parameters ------------------------------------------------------------------------------- */

tl_status tl_write_model_params(const tl_model *m, const char *path)
{
    tl_str text = TL_STR_INIT;
    int64_t total = 0;
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        tl_str_addf(&text, "%s [", p->path);
        for (int d = 0; d < p->tensor->shape.rank; d++)
            tl_str_addf(&text, "%s%" PRId64, d ? ", " : "", p->tensor->shape.dims[d]);
        tl_str_addf(&text, "]\n");
        total += tl_tensor_count(p->tensor);
    }
    tl_str_addf(&text, "\nTotal params: %" PRId64 "\n", total);
    tl_status st = tl_str_status(&text);
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&text), text.length);
    tl_str_deinit(&text);
    return st;
}
