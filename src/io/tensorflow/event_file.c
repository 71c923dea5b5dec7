#include <tilth/io/tensorflow/event_file.h>

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/clock.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/io/image/png.h>

#include "io/inner/append.h"
#include "io/tensorflow/event_impl.h"

enum { USUAL_IMAGES = 3, NAME_TRIES = 1000 };
enum { CLASS_SCALAR = 1, CLASS_TENSOR = 2, CLASS_BLOBS = 3 };

struct tl_event_file {
    char *folder, *suffix;
    tli_append *file;
    tl_str record;         /* the one that is being made */
    size_t summary, value; /* marks in it */
    tl_map described;      /* tags whose first value told what they are */
    tl_opt_int keep_to;
    tl_map there; /* tags that earlier files have at step keep_to */
};

/* --- records ---------------------------------------------------------------------------------- */

static void event_begin(tl_event_file *f, int64_t step)
{
    f->record.failed = false;
    tl_str_cut(&f->record, 0);
    tl_str_pad(&f->record, '\0', TLI_FRAME_HEAD);
    tli_pb_double(&f->record, TLI_EVENT_WALL, tl_clock_wall());
    if (step) tli_pb_int(&f->record, TLI_EVENT_STEP, step);
}

static void set_u32(char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (char)(value >> 8 * i);
}

static tl_status event_end(tl_event_file *f)
{
    TL_TRY(tl_str_status(&f->record));
    if (!f->file)
        return TL_FAIL(TL_ESTATE, "the event file in '%s' could not be opened again", f->folder);
    char *head = f->record.data;
    size_t size = f->record.length - TLI_FRAME_HEAD;
    set_u32(head, (uint32_t)size);
    set_u32(head + 4, (uint32_t)((uint64_t)size >> 32));
    set_u32(head + 8, tl_crc32c_mask(tl_crc32c(0, head, 8)));
    tli_put_u32(&f->record, tl_crc32c_mask(tl_crc32c(0, head + TLI_FRAME_HEAD, size)));
    TL_TRY(tl_str_status(&f->record));
    return tli_append_record(f->file, f->record.data, f->record.length);
}

/* --- opening ---------------------------------------------------------------------------------- */

// A name that sorts behind all that are there, which is the order in which they are read.
static tl_status open_file(tl_event_file *f)
{
    static int64_t counter;
    char host[256] = "localhost";
    int64_t newest, now = (int64_t)tl_clock_wall();
    TL_TRY(tl_mkdirs(f->folder));
    TL_TRY(tli_event_newest(&newest, f->folder));
    if (gethostname(host, sizeof host) == 0) host[sizeof host - 1] = '\0';
    if (now <= newest) now = newest + 1;
    tl_str path = TL_STR_INIT;
    tl_status st = TL_EEXISTS;
    for (int i = 0; i < NAME_TRIES && st == TL_EEXISTS; i++) {
        int64_t number = __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
        tl_str_cut(&path, 0);
        tl_str_addf(&path, "%s/events.out.tfevents.%010" PRId64 ".%s.%ld.%" PRId64 "%s", f->folder,
                    now, host, (long)getpid(), number, f->suffix);
        st = tl_str_status(&path);
        if (st == TL_OK) st = tli_append_open(&f->file, tl_str_text(&path), true, true);
    }
    tl_str_deinit(&path);
    return st;
}

static tl_status write_head(tl_event_file *f)
{
    event_begin(f, 0);
    tli_pb_text(&f->record, TLI_EVENT_VERSION, "brain.Event:2");
    size_t source = tli_pb_begin(&f->record, TLI_EVENT_SOURCE);
    tli_pb_text(&f->record, 1, TLI_EVENT_WRITER);
    tli_pb_end(&f->record, source);
    TL_TRY(event_end(f));
    // Who has read the later steps already forgets them. TensorBoard takes the first start it sees
    // for that of the run, and only another one for a restart.
    bool restart = f->keep_to.set && f->keep_to.value < INT64_MAX; // no step comes after that one
    for (int i = 0; restart && i < 2; i++) {
        event_begin(f, f->keep_to.value + 1);
        size_t session = tli_pb_begin(&f->record, TLI_EVENT_SESSION);
        tli_pb_int(&f->record, 1, TLI_SESSION_START);
        tli_pb_end(&f->record, session);
        TL_TRY(event_end(f));
    }
    return TL_OK;
}

static tl_status begin_file(tl_event_file *f)
{
    if (f->keep_to.set) TL_TRY(tli_event_rewind(f->folder, f->keep_to.value, false, &f->there));
    TL_TRY(open_file(f));
    TL_TRY(write_head(f));
    return tli_append_flush(f->file);
}

tl_status tl_event_file_open(tl_event_file **out, const tl_event_file_args *args)
{
    *out = NULL;
    tl_event_file *f = tl_alloc_zero(sizeof *f);
    if (!f) return TL_FAIL_NOMEM(sizeof *f);
    tl_status st = TL_OK;
    f->folder = tl_strdup(args->folder);
    f->suffix = tl_strdup(args->suffix ? args->suffix : "");
    f->keep_to = args->keep_to;
    if (!f->folder || !f->suffix) {
        st = TL_FAIL_NOMEM(strlen(args->folder) + 1);
        goto done;
    }
    TL_TRY_DONE(st, begin_file(f));
    *out = f;
    f = NULL;
done:
    tl_event_file_close(&f);
    return st;
}

void tl_event_file_close(tl_event_file **file)
{
    tl_event_file *f = *file;
    if (!f) return;
    tl_error before;
    tl_error_save(&before); // closing is often what a failure leads to
    if (tli_append_close(&f->file) != TL_OK) {
        TL_LOG_ERROR("an event file is not complete: %s", tl_error_message());
        tl_error_restore(&before);
    }
    tl_str_deinit(&f->record);
    tl_map_deinit(&f->described);
    tl_map_deinit(&f->there);
    tl_free(f->folder);
    tl_free(f->suffix);
    tl_free(f);
    *file = NULL;
}

tl_status tl_event_file_rewind(tl_event_file *f, int64_t keep_to)
{
    if (!f) return TL_OK;
    TL_TRY(tli_append_close(&f->file));
    tl_map_deinit(&f->described);
    tl_map_deinit(&f->there);
    f->keep_to = (tl_opt_int){true, keep_to};
    return begin_file(f);
}

const char *tl_event_file_path(const tl_event_file *f)
{
    return f && f->file ? tli_append_path(f->file) : "";
}

tl_status tl_event_file_flush(tl_event_file *f)
{
    return f && f->file ? tli_append_flush(f->file) : TL_OK;
}

tl_status tl_event_file_sync(tl_event_file *f)
{
    return f && f->file ? tli_append_sync(f->file, false) : TL_OK;
}

/* --- values ----------------------------------------------------------------------------------- */

// True when there is nothing to do: no file, or an earlier one says it already.
static bool is_told(const tl_event_file *f, int64_t step, const char *tag)
{
    return !f || (f->keep_to.set && step == f->keep_to.value && tl_map_has(&f->there, tag));
}

static void value_begin(tl_event_file *f, int64_t step, const char *tag)
{
    event_begin(f, step);
    f->summary = tli_pb_begin(&f->record, TLI_EVENT_SUMMARY);
    f->value = tli_pb_begin(&f->record, 1);
    tli_pb_text(&f->record, TLI_VALUE_TAG, tag);
}

// The first value of a tag in a file says to which plug-in it belongs.
static tl_status value_end(tl_event_file *f, const char *tag, const char *plugin, int data_class,
                           const tl_str *content)
{
    bool first = !tl_map_has(&f->described, tag);
    if (first) {
        size_t metadata = tli_pb_begin(&f->record, TLI_VALUE_METADATA);
        size_t data = tli_pb_begin(&f->record, TLI_METADATA_PLUGIN);
        tli_pb_text(&f->record, 1, plugin);
        if (content) tli_pb_bytes(&f->record, 2, content->data, content->length);
        tli_pb_end(&f->record, data);
        tli_pb_int(&f->record, TLI_METADATA_CLASS, data_class);
        tli_pb_end(&f->record, metadata);
    }
    tli_pb_end(&f->record, f->value);
    tli_pb_end(&f->record, f->summary);
    TL_TRY(event_end(f));
    return first ? tl_map_set(&f->described, tag, NULL) : TL_OK;
}

// `rank` axes; the tensor stays open for its elements.
static size_t tensor_begin(tl_str *out, int dtype, const int64_t *dims, int rank)
{
    size_t tensor = tli_pb_begin(out, TLI_VALUE_TENSOR);
    tli_pb_int(out, TLI_TENSOR_DTYPE, dtype);
    size_t shape = tli_pb_begin(out, TLI_TENSOR_SHAPE);
    for (int i = 0; i < rank; i++) {
        size_t dim = tli_pb_begin(out, 2);
        tli_pb_int(out, 1, dims[i]);
        tli_pb_end(out, dim);
    }
    tli_pb_end(out, shape);
    return tensor;
}

tl_status tl_event_file_scalar(tl_event_file *f, int64_t step, const char *tag, double value)
{
    if (is_told(f, step, tag)) return TL_OK;
    float stored = (float)value;
    uint32_t bits;
    memcpy(&bits, &stored, sizeof bits);
    value_begin(f, step, tag);
    size_t tensor = tensor_begin(&f->record, TLI_PROTO_FLOAT, NULL, 0);
    size_t floats = tli_pb_begin(&f->record, TLI_TENSOR_FLOATS);
    tli_put_u32(&f->record, bits);
    tli_pb_end(&f->record, floats);
    tli_pb_end(&f->record, tensor);
    return value_end(f, tag, "scalars", CLASS_SCALAR, NULL);
}

tl_status tl_event_file_text(tl_event_file *f, int64_t step, const char *tag, const char *text)
{
    if (is_told(f, step, tag)) return TL_OK;
    value_begin(f, step, tag);
    size_t tensor = tensor_begin(&f->record, TLI_PROTO_STRING, NULL, 0);
    tli_pb_text(&f->record, TLI_TENSOR_STRINGS, text);
    tli_pb_end(&f->record, tensor);
    return value_end(f, tag, "text", CLASS_TENSOR, NULL);
}

static tl_status add_png(tl_str *out, const tl_tensor *image, int64_t index)
{
    size_t png = tli_pb_begin(out, TLI_TENSOR_STRINGS);
    TL_TRY(image->shape.rank == 4 ? tl_png_from_batch(out, image, index)
                                  : tl_png_from_tensor(out, image));
    tli_pb_end(out, png);
    return TL_OK;
}

tl_status tl_event_file_image(tl_event_file *f, int64_t step, const char *tag,
                              const tl_tensor *image, int64_t most)
{
    if (is_told(f, step, tag)) return TL_OK;
    char spec[TL_TENSOR_TEXT], number[24];
    int rank = image->shape.rank;
    if (rank != 3 && rank != 4)
        return TL_FAIL(
            TL_EINVAL,
            "%s: %s is no image; it must be [height, width, channels] or a batch of such", tag,
            tl_tensor_spec(spec, image));
    const int64_t *dims = image->shape.dims + (rank - 3);
    int64_t count = rank == 4 ? image->shape.dims[0] : 1, limit = most > 0 ? most : USUAL_IMAGES;
    if (count > limit) count = limit;
    value_begin(f, step, tag);
    size_t tensor = tensor_begin(&f->record, TLI_PROTO_STRING, &(int64_t){count + 2}, 1);
    snprintf(number, sizeof number, "%" PRId64, dims[1]);
    tli_pb_text(&f->record, TLI_TENSOR_STRINGS, number);
    snprintf(number, sizeof number, "%" PRId64, dims[0]);
    tli_pb_text(&f->record, TLI_TENSOR_STRINGS, number);
    for (int64_t i = 0; i < count; i++) TL_TRY_NOTE(add_png(&f->record, image, i), "%s", tag);
    tli_pb_end(&f->record, tensor);
    return value_end(f, tag, "images", CLASS_BLOBS, NULL);
}

static void put_double(tl_str *out, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tli_put_u64(out, bits);
}

tl_status tl_event_file_histogram(tl_event_file *f, int64_t step, const char *tag,
                                  const tl_histogram *h)
{
    if (is_told(f, step, tag)) return TL_OK;
    value_begin(f, step, tag);
    const int64_t dims[] = {h->bins, 3};
    // Elements that are all the same have buckets without width, and lie in the last one.
    bool same = h->count == 0 || h->min == h->max;
    size_t tensor = tensor_begin(&f->record, TLI_PROTO_DOUBLE, dims, 2);
    size_t content = tli_pb_begin(&f->record, TLI_TENSOR_CONTENT);
    for (int64_t i = 0; i < h->bins; i++) {
        int64_t count = !same ? h->counts[i] : i == h->bins - 1 ? h->count : 0;
        put_double(&f->record, same ? h->min : h->edges[i]);
        put_double(&f->record, same ? h->max : h->edges[i + 1]);
        put_double(&f->record, (double)count);
    }
    tli_pb_end(&f->record, content);
    tli_pb_end(&f->record, tensor);
    return value_end(f, tag, "histograms", CLASS_TENSOR, NULL);
}

static tl_status write_histogram(tl_event_file *f, int64_t step, const tl_logs_entry *entry)
{
    tl_arena *arena = NULL;
    tl_histogram h;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = tl_logs_entry_histogram(&h, arena, entry);
    if (st == TL_OK) st = tl_event_file_histogram(f, step, entry->name, &h);
    tl_arena_free(&arena);
    return st;
}

tl_status tl_event_file_entry(tl_event_file *f, int64_t step, const tl_logs_entry *entry)
{
    double number;
    if (is_told(f, step, entry->name)) return TL_OK;
    switch (entry->kind) {
    case TL_LOGS_NUMBER:
        TL_TRY(tl_logs_entry_number(&number, entry));
        return tl_event_file_scalar(f, step, entry->name, number);
    case TL_LOGS_TEXT: return tl_event_file_text(f, step, entry->name, entry->text);
    case TL_LOGS_IMAGE: return tl_event_file_image(f, step, entry->name, entry->tensor, 0);
    case TL_LOGS_HISTOGRAM: return write_histogram(f, step, entry);
    case TL_LOGS_TENSOR: return TL_OK;
    case TL_LOGS_LOGS: break;
    }
    return TL_FAIL(
        TL_EINVAL,
        "'%s' are logs, which are no event; a summary manager writes them to a folder of their own",
        entry->name);
}

/* --- hyper-parameters ------------------------------------------------------------------------- */

// The whole message is in what the plug-in puts beside the value; the value itself is empty.
static tl_status write_hparams(tl_event_file *f, const char *tag, const tl_str *content)
{
    TL_TRY(tl_str_status(content));
    if (tl_map_has(&f->described, tag))
        return TL_FAIL(TL_ESTATE, "'%s' was written to '%s' already", tag, tl_event_file_path(f));
    value_begin(f, 0, tag);
    size_t tensor = tensor_begin(&f->record, TLI_PROTO_FLOAT, &(int64_t){0}, 1);
    tli_pb_end(&f->record, tensor);
    return value_end(f, tag, "hparams", CLASS_TENSOR, content);
}

static void add_param_info(tl_str *out, const tl_hparam *p)
{
    static const int types[] = {[TL_HPARAM_NUMBER] = 3, [TL_HPARAM_TEXT] = 1, [TL_HPARAM_BOOL] = 2};
    size_t info = tli_pb_begin(out, 4);
    tli_pb_text(out, 1, p->name);
    tli_pb_int(out, 4, types[p->kind]);
    tli_pb_end(out, info);
}

static void add_metric_info(tl_str *out, const tl_hparam_metric *m)
{
    size_t info = tli_pb_begin(out, 5);
    size_t name = tli_pb_begin(out, 1);
    if (m->group && *m->group) tli_pb_text(out, 1, m->group);
    tli_pb_text(out, 2, m->tag);
    tli_pb_end(out, name);
    if (m->title && *m->title) tli_pb_text(out, 3, m->title);
    tli_pb_end(out, info);
}

tl_status tl_event_file_hparams(tl_event_file *f, const tl_hparam *params, int64_t count,
                                const tl_hparam_metric *metrics, int64_t metric_count)
{
    if (is_told(f, 0, TLI_HPARAMS_EXPERIMENT)) return TL_OK;
    tl_str content = TL_STR_INIT;
    size_t experiment = tli_pb_begin(&content, 2);
    tli_pb_double(&content, 3, tl_clock_wall());
    for (int64_t i = 0; i < count; i++) add_param_info(&content, &params[i]);
    for (int64_t i = 0; i < metric_count; i++) add_metric_info(&content, &metrics[i]);
    tli_pb_end(&content, experiment);
    tl_status st = write_hparams(f, TLI_HPARAMS_EXPERIMENT, &content);
    tl_str_deinit(&content);
    return st;
}

static void add_param(tl_str *out, const tl_hparam *p)
{
    size_t entry = tli_pb_begin(out, 1);
    tli_pb_text(out, 1, p->name);
    size_t value = tli_pb_begin(out, 2);
    switch (p->kind) {
    case TL_HPARAM_NUMBER: tli_pb_double(out, 2, p->number); break;
    case TL_HPARAM_TEXT: tli_pb_text(out, 3, p->text); break;
    case TL_HPARAM_BOOL: tli_pb_int(out, 4, p->truth); break;
    }
    tli_pb_end(out, value);
    tli_pb_end(out, entry);
}

tl_status tl_event_file_run_start(tl_event_file *f, const tl_hparam *params, int64_t count,
                                  const char *group)
{
    if (is_told(f, 0, TLI_HPARAMS_START)) return TL_OK;
    tl_str content = TL_STR_INIT;
    size_t start = tli_pb_begin(&content, 3);
    for (int64_t i = 0; i < count; i++) add_param(&content, &params[i]);
    if (group && *group) tli_pb_text(&content, 4, group);
    tli_pb_double(&content, 5, tl_clock_wall());
    tli_pb_end(&content, start);
    tl_status st = write_hparams(f, TLI_HPARAMS_START, &content);
    tl_str_deinit(&content);
    return st;
}

tl_status tl_event_file_run_end(tl_event_file *f, bool success)
{
    if (!f) return TL_OK;
    tl_str content = TL_STR_INIT;
    size_t end = tli_pb_begin(&content, 4);
    tli_pb_int(&content, 1, success ? 1 : 2);
    tli_pb_double(&content, 2, tl_clock_wall());
    tli_pb_end(&content, end);
    tl_status st = write_hparams(f, TLI_HPARAMS_END, &content);
    tl_str_deinit(&content);
    return st;
}
