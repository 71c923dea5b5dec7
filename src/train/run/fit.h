/* Private to run: weights of another shape than the model's that their layers know how to use
 * (tl_layer_class.fit).
 *
 *     tli_fits fits = {0};
 *     TL_TRY(tli_fits_find(&fits, m, file, loaded));
 *     tli_fits_leave(&fits, state); // the rest of the state is read as usual
 *     ...
 *     TL_TRY(tli_fits_write(&fits, 0));
 *     tli_fits_deinit(&fits); */
#ifndef TILTH_SRC_TRAIN_RUN_FIT_H
#define TILTH_SRC_TRAIN_RUN_FIT_H

#include <tilth/core/state.h>
#include <tilth/nn/model.h>

/* A weight of the model and what it becomes. */
typedef struct tli_fit {
    const tl_param *param;
    tl_tensor *value;
} tli_fit;
typedef struct tli_fits {
    tli_fit *items;
    int64_t count, capacity;
} tli_fits;

/* Looks for them in what was `loaded`, or else in the safetensors `file`, where the model is all
 * there is or lies below "model". Deinit is due, also after a failure. */
tl_status tli_fits_find(tli_fits *out, const tl_model *m, const char *file, const tl_state *loaded);
/* Takes them out of a state of the model. */
void tli_fits_leave(const tli_fits *f, tl_state *state);
/* Gives the model this one. */
tl_status tli_fits_write(const tli_fits *f, int64_t index);
void tli_fits_deinit(tli_fits *f);

#endif
