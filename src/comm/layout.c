#include <tilth/comm/layout.h>

#include <inttypes.h>
#include <tilth/base/integer.h>

/* --- processes -------------------------------------------------------------------------------- */

static tl_status at_least_one(const char *name, int64_t value)
{
    if (value >= 1) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s is %" PRId64 " and must be at least 1", name, value);
}

tl_status tl_layout_resolve(tl_layout *out, int64_t world, int64_t tensor, int64_t pipeline)
{
    *out = (tl_layout){0};
    TL_TRY(at_least_one("the number of processes", world));
    TL_TRY(at_least_one("tensor_parallel_size", tensor));
    TL_TRY(at_least_one("pipeline_parallel_size", pipeline));
    tensor = tl_min_i64(tensor, world);
    if (world % tensor)
        return TL_FAIL(TL_EINVAL,
                       "tensor_parallel_size: %" PRId64 " does not divide the %" PRId64
                       " processes; start another number of them, or change it",
                       tensor, world);
    pipeline = tl_min_i64(pipeline, world / tensor);
    if (world % (tensor * pipeline))
        return TL_FAIL(TL_EINVAL,
                       "pipeline_parallel_size: %" PRId64 " stages of %" PRId64
                       " processes each (tensor_parallel_size) do not divide the %" PRId64
                       " processes; start another number of them, or change one of the two",
                       pipeline, tensor, world);
    *out = (tl_layout){world, tensor, pipeline, world / (tensor * pipeline)};
    return TL_OK;
}

tl_layout_place tl_layout_at(const tl_layout *l, int64_t rank)
{
    TL_ASSERT(rank >= 0 && rank < l->world);
    int64_t inside = rank % (l->world / l->pipeline);
    return (tl_layout_place){.stage = rank / (l->world / l->pipeline),
                             .data_rank = inside / l->tensor,
                             .tensor_rank = inside % l->tensor};
}

int64_t tl_layout_rank(const tl_layout *l, tl_layout_place at)
{
    return (at.stage * l->data + at.data_rank) * l->tensor + at.tensor_rank;
}

/* --- layers ----------------------------------------------------------------------------------- */

static tl_status check_layers(int64_t layers, int64_t stages)
{
    TL_TRY(at_least_one("pipeline_parallel_size", stages));
    if (layers >= stages) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "pipeline_num_layers: %" PRId64 " layers cannot be divided among %" PRId64
                   " stages (pipeline_parallel_size), which need at least one each",
                   layers, stages);
}

tl_status tl_layout_stages(int64_t *out, int64_t layers, int64_t stages)
{
    enum { MANY_STAGES = 4, MANY_LAYERS = 8 };
    TL_TRY(check_layers(layers, stages));
    bool even = stages >= MANY_STAGES && layers >= MANY_LAYERS && layers % stages == 0;
    // Layers that are not there stand at the end: the last stage has them, and so less to do.
    int64_t places = layers + (even ? tl_min_i64(stages - 1, layers / stages) : 0);
    int64_t each = places / stages, larger = places % stages, layer = 0;
    for (int64_t stage = 0; stage < stages; stage++) {
        int64_t end = tl_min_i64(layers, layer + each + (stage >= stages - larger));
        while (layer < end) out[layer++] = stage;
    }
    return TL_OK;
}

tl_status tl_layout_check_stages(const int64_t *stage_of, int64_t count, int64_t layers,
                                 int64_t stages)
{
    TL_TRY(check_layers(layers, stages));
    if (count != layers)
        return TL_FAIL(TL_EINVAL,
                       "custom_pipeline_stage_id: it has %" PRId64
                       " numbers, one for each of the %" PRId64
                       " layers (pipeline_num_layers) is expected",
                       count, layers);
    for (int64_t i = 0; i < count; i++)
        if (stage_of[i] < 0 || stage_of[i] >= stages)
            return TL_FAIL(TL_EINVAL,
                           "custom_pipeline_stage_id: layer %" PRId64 " is given to stage %" PRId64
                           "; stages are 0 to %" PRId64 " (pipeline_parallel_size)",
                           i, stage_of[i], stages - 1);
    return TL_OK;
}

int64_t tl_layout_stage(const int64_t *stage_of, int64_t layer, int64_t stages)
{
    return layer < 0 ? stages - 1 : stage_of[layer];
}
