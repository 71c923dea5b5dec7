#include <tilth/train/writers/writer.h>

#include <tilth/base/alloc.h>
#include <tilth/base/log.h>

static const tl_method methods[] = {
    TL_METHOD(tl_event_writer_class, init, false),
    TL_METHOD(tl_event_writer_class, write, true),
    TL_METHOD(tl_event_writer_class, sync, false),
    TL_METHOD(tl_event_writer_class, close, false),
    TL_METHOD(tl_event_writer_class, dispose, false),
    TL_METHOD(tl_event_writer_class, rewind, false),
    {NULL, 0, false},
};

const tl_kind tl_kind_event_writer = {
    .name = "event writer",
    .plural = "event writers",
    .help = "where the metrics of training go",
    .class_size = sizeof(tl_event_writer_class),
    .methods = methods,
    TL_INSTANCE(tl_event_writer),
};

static void writer_free(tl_event_writer *w)
{
    const tl_event_writer_class *with = TL_CLASS_METHOD(tl_event_writer_class, w->cls, dispose);
    if (with) with->dispose(w);
    tl_free(w);
}

tl_status tl_event_writer_new(tl_event_writer **out, const tl_event_writer_class *cls,
                              const void *args)
{
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_event_writer, &cls->cls));
    tl_event_writer *w = tl_alloc_zero(size);
    if (!w) return TL_FAIL_NOMEM(size);
    w->cls = cls;
    const tl_event_writer_class *with = TL_CLASS_METHOD(tl_event_writer_class, w->cls, init);
    tl_status st = with ? with->init(w, args) : TL_OK;
    if (st != TL_OK) {
        writer_free(w);
        return st;
    }
    *out = w;
    return TL_OK;
}

void tl_event_writer_free(tl_event_writer **writer)
{
    tl_event_writer *w = *writer;
    if (!w) return;
    tl_error before;
    tl_error_save(&before); // freeing is often what a failure leads to
    if (tl_event_writer_close(w) != TL_OK) {
        TL_LOG_ERROR("the %s writer could not be closed: %s", w->cls->cls.name, tl_error_message());
        tl_error_restore(&before);
    }
    writer_free(w);
    *writer = NULL;
}

tl_status tl_event_writer_write(tl_event_writer *w, tl_event_storage *s)
{
    if (w->closed) return TL_FAIL(TL_ESTATE, "the %s writer is closed", w->cls->cls.name);
    return TL_CLASS_METHOD(tl_event_writer_class, w->cls, write)->write(w, s);
}

tl_status tl_event_writer_sync(tl_event_writer *w)
{
    const tl_event_writer_class *with =
        w->closed ? NULL : TL_CLASS_METHOD(tl_event_writer_class, w->cls, sync);
    return with ? with->sync(w) : TL_OK;
}

tl_status tl_event_writer_close(tl_event_writer *w)
{
    if (w->closed) return TL_OK;
    w->closed = true;
    const tl_event_writer_class *with = TL_CLASS_METHOD(tl_event_writer_class, w->cls, close);
    return with ? with->close(w) : TL_OK;
}

tl_status tl_event_writer_rewind(tl_event_writer *w, int64_t keep_to)
{
    const tl_event_writer_class *with =
        w->closed ? NULL : TL_CLASS_METHOD(tl_event_writer_class, w->cls, rewind);
    return with ? with->rewind(w, keep_to) : TL_OK;
}

/* --- several ---------------------------------------------------------------------------------- */

bool tl_event_writers_due(int64_t iteration, int64_t period, int64_t max_iteration)
{
    return (period > 0 && (iteration + 1) % period == 0) || iteration == max_iteration - 1;
}

/* The first failure of several, kept over those that follow it. */
typedef struct first_failure {
    tl_status status;
    tl_error error;
} first_failure;

static void note(first_failure *first, tl_status st)
{
    if (st == TL_OK || first->status != TL_OK) return;
    first->status = st;
    tl_error_save(&first->error);
}

static tl_status hand_on(const first_failure *first)
{
    if (first->status != TL_OK) tl_error_restore(&first->error);
    return first->status;
}

tl_status tl_event_writers_write(tl_event_writer *const *writers, int64_t count,
                                 tl_event_storage *s)
{
    first_failure first = {.status = TL_OK};
    for (int64_t i = 0; i < count; i++) note(&first, tl_event_writer_write(writers[i], s));
    return hand_on(&first);
}

tl_status tl_event_writers_sync(tl_event_writer *const *writers, int64_t count)
{
    first_failure first = {.status = TL_OK};
    for (int64_t i = 0; i < count; i++) note(&first, tl_event_writer_sync(writers[i]));
    return hand_on(&first);
}

tl_status tl_event_writers_rewind(tl_event_writer *const *writers, int64_t count, int64_t keep_to)
{
    first_failure first = {.status = TL_OK};
    for (int64_t i = 0; i < count; i++) note(&first, tl_event_writer_rewind(writers[i], keep_to));
    return hand_on(&first);
}

tl_status tl_event_writers_finish(tl_event_writer *const *writers, int64_t count,
                                  tl_event_storage *s)
{
    first_failure first = {.status = TL_OK};
    for (int64_t i = 0; i < count; i++)
        if (!writers[i]->closed) note(&first, tl_event_writer_write(writers[i], s));
    for (int64_t i = 0; i < count; i++) note(&first, tl_event_writer_close(writers[i]));
    return hand_on(&first);
}
