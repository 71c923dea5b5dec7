/* Failures of data while it is read, and looking for them before a run begins. */
#include "train/trainer/trainer.h"

tl_status tli_data_failed(tl_status st, const char *which)
{
    switch (st) {
    case TL_OK: return TL_OK;
    case TL_EINVAL:
    case TL_ENOTFOUND:
    case TL_EEXISTS:
    case TL_ELIMIT:
    case TL_EUNSUPPORTED: return tl_error_note(TL_EDATA, "%s data", which);
    default: return st;
    }
}

/* The first batch is made, and everything put back as if nobody had asked for it. */
static tl_status try_dataset(tl_trainer *t, tl_dataset *d, const char *which)
{
    tl_state *position, *then = NULL;
    tl_tensors batch = {0};
    bool more = true;
    tl_status st;
    TL_TRY(tl_state_new(&position));
    TL_TRY_DONE(st, tli_data_failed(tl_dataset_state(d, position), which));
    TL_TRY_DONE(st, tl_state_clone(&then, position));
    tl_mark mark = tl_ctx_begin(t->ctx);
    st = tli_data_failed(tl_dataset_next(d, t->ctx, &batch, &more), which);
    tl_ctx_end(t->ctx, mark);
    if (st == TL_OK) st = tl_state_copy(position, then, NULL, NULL);
done:
    tl_state_free(&then);
    tl_state_free(&position);
    return st;
}

tl_status tli_trainer_try_data(tl_trainer *t)
{
    // Whoever takes batches in a way of its own knows what it may take.
    bool trains = TLI_TRAINER_CALL(t, next_train_inputs) == tli_next_train_inputs,
         evaluates = TLI_TRAINER_CALL(t, next_eval_inputs) == tli_next_eval_inputs;
    if (t->train_dataset && trains) TL_TRY(try_dataset(t, t->train_dataset, "training"));
    if (t->validation_dataset && evaluates)
        TL_TRY(try_dataset(t, t->validation_dataset, "validation"));
    return TL_OK;
}

tl_status tli_trainer_try_place(tl_trainer *t, int64_t end)
{
    bool goes_on = t->global_step > 0 && t->global_step < end;
    if (!goes_on || !t->train_dataset
        || TLI_TRAINER_CALL(t, next_train_inputs) != tli_next_train_inputs)
        return TL_OK;
    return try_dataset(t, t->train_dataset, "training");
}
