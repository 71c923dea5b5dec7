/* When the calls of a run begin and end, by the device's own clock where it has one. On the host,
 * and without such a clock, each call is waited for. */
#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>

#include "core/inner/engine.h"
#include "graph/program.h"

static bool has_events(const tl_queue *q)
{
    return q->device->cls->event_new != NULL;
}

static tl_status wait_for_all(tl_queue *q)
{
    return tl_queue_wait(q, tl_queue_ticket(q));
}

static tl_status make_events(tli_clocks *c)
{
    const tl_device_class *d = c->queue->device->cls;
    c->events = tl_alloc_zero((size_t)(c->program->step_count + 1) * sizeof *c->events);
    if (!c->events) return TL_FAIL_NOMEM((size_t)(c->program->step_count + 1) * sizeof *c->events);
    for (int64_t i = 0; i <= c->program->step_count; i++)
        TL_TRY(d->event_new(&c->events[i], c->queue->device));
    return d->record(c->events[0], c->queue);
}

tl_status tli_clocks_open(tli_clocks *c, tl_program *p, tl_queue *q)
{
    *c = (tli_clocks){.program = p, .queue = q};
    TL_TRY(wait_for_all(q)); // what was queued before
    return has_events(q) ? make_events(c) : TL_OK;
}

void tli_clocks_start(tli_clocks *c, int64_t step)
{
    if (!c->events) c->program->steps[step].begin_ns = tl_clock_ns();
}

static void add_up(tli_step *s)
{
    s->total_ns += s->end_ns - s->begin_ns;
    s->runs++;
}

tl_status tli_clocks_stop(tli_clocks *c, int64_t step)
{
    tli_step *s = &c->program->steps[step];
    if (c->events) return c->queue->device->cls->record(c->events[step + 1], c->queue);
    TL_TRY(wait_for_all(c->queue));
    s->end_ns = tl_clock_ns();
    // What other lanes computed meanwhile is theirs.
    if (tli_is_collective(s->node) && s->begin_ns < c->program->lanes.resumed_ns)
        s->begin_ns = c->program->lanes.resumed_ns;
    add_up(s);
    return TL_OK;
}

// A call begins when the one before it has ended.
static tl_status read_events(tli_clocks *c)
{
    const tl_device_class *d = c->queue->device->cls;
    int64_t at = 0;
    TL_TRY(wait_for_all(c->queue));
    for (int64_t i = 0; i < c->program->step_count; i++) {
        tli_step *s = &c->program->steps[i];
        s->begin_ns = at;
        TL_TRY(d->elapsed(c->events[0], c->events[i + 1], &at));
        s->end_ns = at;
        add_up(s);
    }
    return TL_OK;
}

tl_status tli_clocks_close(tli_clocks *c, tl_status st)
{
    if (!c->events) return st;
    if (st == TL_OK) st = read_events(c);
    if (st != TL_OK) { // events that are still in the queue
        tl_error why;
        tl_error_save(&why);
        (void)!wait_for_all(c->queue);
        tl_error_restore(&why);
    }
    for (int64_t i = 0; i <= c->program->step_count; i++)
        if (c->events[i]) c->queue->device->cls->event_free(&c->events[i]);
    tl_free(c->events);
    c->events = NULL;
    return st;
}
