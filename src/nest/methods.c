#include <tilth/sys/nest/methods.h>

#include "nest/inner/schedule.h"

const tl_nest_methods *tl_engine_nests(const tl_engine *engine)
{
    const tl_backend_class *b = tl_engine_backend(engine);
    const tl_device_class *device = tl_engine_device(engine)->cls;
    for (; b; b = b->fallback)
        if (b->nests && (b->device ? b->device : &tl_device_host) == device) return b->nests;
    return NULL;
}

void tl_nest_plan_cost(tl_nest_cost *out, const tl_nest_plan *plan)
{
    *out = (tl_nest_cost){plan->schedule->row, plan->schedule->reduced_points, plan->phases[0].tasks,
                          (int64_t)plan->scratch_bytes, plan->phase_count};
}
