/* What people ask of a model: how much it computes, what it holds. */
#include <tilth/train/run/run.h>

#include <inttypes.h>
#include <stdio.h>

#include <tilth/base/file.h>
#include <tilth/core/attrs.h>
#include <tilth/sys/graph/graph.h>

/* --- operations ------------------------------------------------------------------------------- */

static tl_status forward(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    tl_model *m = self;
    tl_call_all(c, m, in, out);
    return tl_ctx_status(c);
}

/* As TensorFlow's profiler counts, whose number Model Garden tells and scripts compare: products of
 * matrices, convolutions, arithmetic, pooling and reductions; activations and normalisations not at
 * all. */
static double counted(const tl_node *n)
{
    double results = n->outputs ? (double)tl_tensor_count(n->out[0]) : 0;
    switch (n->op->op) {
    case TL_OP_convolve2d:
    case TL_OP_matmul:
    case TL_OP_attend:
    case TL_OP_mean: return tl_node_flops(n);
    case TL_OP_linear: return tl_node_flops(n) + (n->inputs > 2 ? results : 0); // its bias
    case TL_OP_sum: return tl_node_flops(n) - results;
    case TL_OP_max_pool2d:
    case TL_OP_avg_pool2d: {
        const tl_pool_attr *a = n->attr;
        return (double)(a->size_y * a->size_x) * results;
    }
    case TL_OP_add:
    case TL_OP_sub:
    case TL_OP_mul:
    case TL_OP_div:
    case TL_OP_pow:
    case TL_OP_minimum:
    case TL_OP_maximum:
    case TL_OP_neg:
    case TL_OP_square:
    case TL_OP_reciprocal:
    case TL_OP_log: return results;
    case TL_OP_rsqrt: return 2 * results;
    case TL_OP_softmax: return 5 * results;
    default: return 0;
    }
}

double tl_count_flops(tl_model *m)
{
    enum { MOST_INPUTS = 32 };
    tl_spec specs[MOST_INPUTS];
    int64_t count;
    const tl_spec *inputs = tl_model_inputs(m, &count);
    tl_graph *g = NULL;
    if (count > MOST_INPUTS || !count) return 0;
    for (int64_t i = 0; i < count; i++) {
        specs[i] = inputs[i];
        if (specs[i].shape.rank) specs[i].shape.dims[0] = 1; // one example
    }
    tl_engine *engine =
        tl_model_param_count(m) ? tl_tensor_engine(tl_model_param(m, 0)->tensor) : NULL;
    if (!engine
        || tl_graph_capture(&g, &(tl_capture){.engine = engine,
                                              .body = forward,
                                              .self = m,
                                              .inputs = specs,
                                              .input_count = count})
               != TL_OK)
        return 0;
    double flops = 0;
    for (const tl_node *n = tl_graph_first(g); n; n = n->after) flops += counted(n);
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
