#include <tilth/train/controller/epoch.h>

#include <inttypes.h>

tl_status tl_epoch_helper_init(tl_epoch_helper *e, int64_t epoch_steps, const int64_t *step)
{
    if (epoch_steps < 1)
        return TL_FAIL(TL_EINVAL, "an epoch has 1 step or more, not %" PRId64, epoch_steps);
    *e = (tl_epoch_helper){.epoch_steps = epoch_steps, .step = step, .current_epoch = -1};
    return TL_OK;
}

bool tl_epoch_helper_begin(tl_epoch_helper *e)
{
    if (e->inside) return false;
    e->start_step = *e->step;
    e->current_epoch = *e->step / e->epoch_steps;
    e->inside = true;
    return true;
}

tl_status tl_epoch_helper_end(tl_epoch_helper *e, bool *over)
{
    if (!e->inside)
        return TL_FAIL(TL_ESTATE, "no epoch has begun that could end at step %" PRId64, *e->step);
    *over = *e->step / e->epoch_steps > e->current_epoch;
    if (*over) e->inside = false;
    return TL_OK;
}

int64_t tl_epoch_helper_batch_index(const tl_epoch_helper *e)
{
    return *e->step - e->start_step;
}
