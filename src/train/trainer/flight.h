/* Private to train: steps that the device still computes while the host goes on.
 *
 * Where the device is not the host, a step is put into its queue and nobody waits for it. What
 * became of it comes back as a line of numbers, in memory of the host, which is looked at when
 * somebody is due, or when too many steps are under way. A step that is not finite sets a flag on
 * the device; while that is set no step changes anything, so those that were put behind it come to
 * nothing, and the run stands where it would stand if it had waited.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_TRAIN_FLIGHT_H
#define TLI_TRAIN_FLIGHT_H

#include <tilth/core/ctx.h>

typedef struct tl_trainer tl_trainer;

/* So many steps are under way at most: enough that the device always has work, and few, as those
 * behind a step that is not finite are computed for nothing. */
enum { TLI_MOST_IN_FLIGHT = 4 };

/* What the device tells of a step. */
enum { TLI_LINE_HALTED, TLI_LINE_LOSS, TLI_LINE_NORM, TLI_LINE_COUNT };

typedef struct tli_in_flight {
    int64_t step;     /* global_step before it */
    int64_t taken;    /* batches of the loop, its own among them */
    uint64_t arrived; /* ticket of its last batch in the queue of copies */
    tl_tensor *line;  /* at the host */
} tli_in_flight;

typedef struct tli_flight {
    bool flies;        /* else a step is over when its call returns, and all this is not there */
    tl_tensor *halted; /* bool: a step was not finite */
    tl_tensor *loss;   /* float64: of the last batch */
    tl_tensor *line;   /* of the last step that was not halted before it began */
    tli_in_flight steps[TLI_MOST_IN_FLIGHT]; /* a ring */
    int first, count;
} tli_flight;

/* Makes it for the trainer's engine and optimizer; what was there before goes. */
TL_NODISCARD tl_status tli_flight_init(tl_trainer *t);
void tli_flight_deinit(tli_flight *f);

/* In the program of a step, and only calling ops: before anything of an update, with the loss of
 * each batch, and after the update. `lowers` is what the first of them gave. */
tl_tensor *tli_flight_begin(tl_trainer *t, tl_ctx *c);
void tli_flight_note(tl_trainer *t, tl_ctx *c, tl_tensor *loss);
void tli_flight_end(tl_trainer *t, tl_ctx *c, tl_tensor *lowers);

/* The step that was just called is under way; counts it. May fail for one before it. */
TL_NODISCARD tl_status tli_flight_add(tl_trainer *t);
/* Waits for all. When one has failed, or was not finite, that is told, and step and data are as
 * before it. */
TL_NODISCARD tl_status tli_flight_land(tl_trainer *t);
/* global_step without those steps that the device has not come to the end of, as far as is known
 * without waiting. */
int64_t tli_flight_over(const tl_trainer *t);

#endif
