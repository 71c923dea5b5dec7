#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/io/tensorflow/event_file.h>
#include <tilth/train/writers/writer.h>

typedef tl_tensorboard_writer_instance tensorboard;

static tl_status tensorboard_init(tl_event_writer *w, const void *given)
{
    tensorboard *t = (tensorboard *)w;
    const tl_tensorboard_writer_args *args = given;
    if (!args || !args->folder) return TL_FAIL(TL_EINVAL, "the TensorBoard writer needs a folder");
    t->window = args->window > 0 ? args->window : TL_EVENT_WINDOW;
    t->keep_to = args->keep_to;
    t->written = args->keep_to.set ? args->keep_to.value : -1;
    t->folder = tl_strdup(args->folder);
    if (!t->folder) return TL_FAIL_NOMEM(strlen(args->folder) + 1);
    return t->keep_to.set ? tl_event_folder_rewind(t->folder, t->keep_to.value, false) : TL_OK;
}

static tl_status need_file(tensorboard *t)
{
    if (t->file) return TL_OK;
    return tl_event_file_open(&t->file,
                              &(tl_event_file_args){.folder = t->folder, .keep_to = t->keep_to});
}

static bool is_fresh(const tensorboard *t, int64_t iteration, int64_t *newest)
{
    if (iteration < 0 || iteration <= t->written) return false;
    if (iteration > *newest) *newest = iteration;
    return true;
}

static tl_status write_scalars(tensorboard *t, tl_event_storage *s, int64_t *newest)
{
    for (int64_t i = 0; i < tl_event_storage_count(s); i++) {
        tl_event_latest latest;
        TL_TRY(tl_event_storage_smoothed_at(&latest, s, i, t->window));
        if (!is_fresh(t, latest.iteration, newest)) continue;
        TL_TRY(need_file(t));
        TL_TRY(tl_event_file_scalar(t->file, latest.iteration, latest.name, latest.value));
    }
    return TL_OK;
}

static tl_status write_media(tensorboard *t, const tl_event_storage *s, int64_t *newest)
{
    for (int64_t i = 0; i < tl_event_storage_media_count(s); i++) {
        tl_logs_entry entry;
        int64_t iteration;
        tl_event_storage_media_at(&entry, &iteration, s, i);
        if (!is_fresh(t, iteration, newest)) continue;
        TL_TRY(need_file(t));
        TL_TRY(tl_event_file_entry(t->file, iteration, &entry));
    }
    return TL_OK;
}

/* A class that derives from this one may have an init of its own. */
static tl_status check_folder(const tensorboard *t)
{
    if (t->folder) return TL_OK;
    return TL_FAIL(TL_ESTATE,
                   "the %s writer has no folder: its class has an init that must call that of its "
                   "base, tl_tensorboard_writer",
                   t->base.cls->cls.name);
}

static tl_status tensorboard_write(tl_event_writer *w, tl_event_storage *s)
{
    tensorboard *t = (tensorboard *)w;
    TL_TRY(check_folder(t));
    int64_t newest = t->written;
    tl_status st = write_scalars(t, s, &newest);
    if (st == TL_OK) st = write_media(t, s, &newest);
    t->written = newest; // also after a failure: what did go out must not come a second time
    return st == TL_OK ? tl_event_file_flush(t->file) : st;
}

static tl_status tensorboard_sync(tl_event_writer *w)
{
    return tl_event_file_sync(((tensorboard *)w)->file);
}

static tl_status tensorboard_rewind(tl_event_writer *w, int64_t keep_to)
{
    tensorboard *t = (tensorboard *)w;
    TL_TRY(check_folder(t));
    t->keep_to = (tl_opt_int){true, keep_to};
    t->written = keep_to;
    return t->file ? tl_event_file_rewind(t->file, keep_to)
                   : tl_event_folder_rewind(t->folder, keep_to, false);
}

static tl_status tensorboard_close(tl_event_writer *w)
{
    tensorboard *t = (tensorboard *)w;
    tl_status st = tl_event_file_sync(t->file);
    tl_event_file_close(&t->file);
    return st;
}

static void tensorboard_dispose(tl_event_writer *w)
{
    tensorboard *t = (tensorboard *)w;
    tl_event_file_close(&t->file);
    tl_free(t->folder);
}

const tl_event_writer_class tl_tensorboard_writer = {
    .cls = TL_CLASS(tl_event_writer_class, "tensorboard", NULL, tensorboard, NULL,
                    .help = "event files for TensorBoard"),
    .init = tensorboard_init,
    .write = tensorboard_write,
    .sync = tensorboard_sync,
    .close = tensorboard_close,
    .dispose = tensorboard_dispose,
    .rewind = tensorboard_rewind,
};
