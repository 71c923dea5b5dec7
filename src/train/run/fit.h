/* Private to run: weights that are not read as they are. Their layers know how to use them in
 * another shape (tl_layer_class.fit), or the experiment says what becomes of them
 * (tilth.init_resize, tilth.init_leave).
 *
 *     tli_fits fits = {0};
 *     TL_TRY(tli_fits_find(&fits, m, own, file, loaded));
 *     tli_fits_leave(&fits, state); // the rest of the state is read as usual
 *     ...
 *     TL_TRY(tli_fits_write(&fits, 0));
 *     tli_fits_deinit(&fits); */
#ifndef TILTH_SRC_TRAIN_RUN_FIT_H
#define TILTH_SRC_TRAIN_RUN_FIT_H

#include <tilth/core/state.h>
#include <tilth/nn/model.h>
#include <tilth/train/experiment.h>

/* A weight of the model and what it becomes. */
typedef struct tli_fit {
    const tl_param *param;
    tl_tensor *value; /* NULL: what it is */
    int axis;         /* -1: its layer made it fit; else along which it had another size */
    int64_t there;    /* that size */
} tli_fit;
typedef struct tli_fits {
    tli_fit *items;
    int64_t count, capacity;
} tli_fits;

/* Looks for them in what was `loaded`, or else in the safetensors `file`, where the model is all
 * there is or lies below "model". `own` may be NULL. Deinit is due, also after a failure. */
tl_status tli_fits_find(tli_fits *out, const tl_model *m, const tl_own_config *own,
                        const char *file, const tl_state *loaded);
/* Takes them out of a state of the model. */
void tli_fits_leave(const tli_fits *f, tl_state *state);
/* Gives the model this one. */
tl_status tli_fits_write(const tli_fits *f, int64_t index);
void tli_fits_deinit(tli_fits *f);

#endif
