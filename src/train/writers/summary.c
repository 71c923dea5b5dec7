#include <tilth/train/writers/summary.h>

#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/base/map.h>

enum { USUAL_OUTPUTS = 20, DEEPEST = 32 };

struct tli_summary_files {
    char *dir;
    tl_map open;  /* relative path to tl_event_file, owned */
    bool noticed; /* that something is left out */
};

/* --- kind and life ---------------------------------------------------------------------------- */

static const tl_method methods[] = {
    TL_METHOD(tl_summary_manager_class, init, false),
    TL_METHOD(tl_summary_manager_class, flush, true),
    TL_METHOD(tl_summary_manager_class, summary_writer, true),
    TL_METHOD(tl_summary_manager_class, write_summaries, true),
    TL_METHOD(tl_summary_manager_class, write_entry, false),
    TL_METHOD(tl_summary_manager_class, dispose, false),
    TL_METHOD(tl_summary_manager_class, rewind, false),
    {NULL, 0, false},
};

const tl_kind tl_kind_summary_manager = {
    .name = "summary manager",
    .plural = "summary managers",
    .help = "what writes summaries of training and evaluation",
    .class_size = sizeof(tl_summary_manager_class),
    .methods = methods,
    TL_INSTANCE(tl_summary_manager),
};

static tl_status open_manager(tl_summary_manager *m, const tl_summary_manager_args *args)
{
    m->files = tl_alloc_zero(sizeof *m->files);
    if (!m->files) return TL_FAIL_NOMEM(sizeof *m->files);
    m->step = args->step;
    m->max_outputs = args->max_outputs > 0 ? args->max_outputs : USUAL_OUTPUTS;
    m->keep_to = args->keep_to;
    if (args->dir) {
        m->files->dir = tl_strdup(args->dir);
        if (!m->files->dir) return TL_FAIL_NOMEM(strlen(args->dir) + 1);
        m->dir = m->files->dir;
        if (m->keep_to.set) TL_TRY(tl_event_folder_rewind(m->dir, m->keep_to.value, true));
    }
    const tl_summary_manager_class *with = TL_CLASS_METHOD(tl_summary_manager_class, m->cls, init);
    return with ? with->init(m, args) : TL_OK;
}

tl_status tl_summary_manager_new(tl_summary_manager **out, const tl_summary_manager_class *cls,
                                 const tl_summary_manager_args *args)
{
    size_t size;
    *out = NULL;
    TL_TRY(tl_class_instance_size(&size, &tl_kind_summary_manager, &cls->cls));
    if (!args->step)
        return TL_FAIL(TL_EINVAL, "a summary manager needs the step at which it writes");
    tl_summary_manager *m = tl_alloc_zero(size);
    if (!m) return TL_FAIL_NOMEM(size);
    m->cls = cls;
    tl_status st = open_manager(m, args);
    if (st == TL_OK) *out = m;
    else tl_summary_manager_free(&m);
    return st;
}

void tl_summary_manager_free(tl_summary_manager **manager)
{
    tl_summary_manager *m = *manager;
    if (!m) return;
    const tl_summary_manager_class *with =
        TL_CLASS_METHOD(tl_summary_manager_class, m->cls, dispose);
    if (with) with->dispose(m);
    for (int64_t i = 0; m->files && i < tl_map_count(&m->files->open); i++) {
        tl_event_file *f = tl_map_at(&m->files->open, i);
        tl_event_file_close(&f);
    }
    if (m->files) {
        tl_map_deinit(&m->files->open);
        tl_free(m->files->dir);
    }
    tl_free(m->files);
    tl_free(m);
    *manager = NULL;
}

tl_status tl_summary_manager_flush(tl_summary_manager *m)
{
    return m ? TL_CLASS_METHOD(tl_summary_manager_class, m->cls, flush)->flush(m) : TL_OK;
}

tl_status tl_summary_manager_writer(tl_event_file **out, tl_summary_manager *m,
                                    const char *relative_path)
{
    *out = NULL;
    if (!m) return TL_OK;
    const tl_summary_manager_class *with =
        TL_CLASS_METHOD(tl_summary_manager_class, m->cls, summary_writer);
    return with->summary_writer(out, m, relative_path);
}

tl_status tl_summary_manager_write(tl_summary_manager *m, const tl_logs *logs)
{
    if (!m) return TL_OK;
    const tl_summary_manager_class *with =
        TL_CLASS_METHOD(tl_summary_manager_class, m->cls, write_summaries);
    return with->write_summaries(m, logs);
}

tl_status tl_summary_manager_rewind(tl_summary_manager *m, int64_t keep_to)
{
    const tl_summary_manager_class *with =
        m ? TL_CLASS_METHOD(tl_summary_manager_class, m->cls, rewind) : NULL;
    return with ? with->rewind(m, keep_to) : TL_OK;
}

tl_status tl_summary_manager_sync(tl_summary_manager *m)
{
    for (int64_t i = 0; m && i < tl_map_count(&m->files->open); i++)
        TL_TRY(tl_event_file_sync(tl_map_at(&m->files->open, i)));
    return TL_OK;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static tl_status scalars_flush(tl_summary_manager *m)
{
    for (int64_t i = 0; i < tl_map_count(&m->files->open); i++)
        TL_TRY(tl_event_file_flush(tl_map_at(&m->files->open, i)));
    return TL_OK;
}

// Folders come from the names of logs: none of them may lead out of the manager's own.
static tl_status check_path(const char *relative_path)
{
    if (tl_path_stays_inside(relative_path)) return TL_OK;
    return TL_FAIL(TL_EINVAL, "'%s' leads out of the folder of the summaries", relative_path);
}

static tl_status scalars_writer(tl_event_file **out, tl_summary_manager *m,
                                const char *relative_path)
{
    *out = m->dir ? tl_map_get(&m->files->open, relative_path) : NULL;
    if (!m->dir || *out) return TL_OK;
    TL_TRY(check_path(relative_path));
    tl_event_file *f = NULL;
    tl_arena *arena = NULL;
    TL_TRY(tl_arena_new(&arena));
    const char *folder = *relative_path ? tl_path_join(arena, m->dir, relative_path) : m->dir;
    tl_status st =
        folder ? tl_event_file_open(
            &f, &(tl_event_file_args){.folder = folder, .suffix = ".v2", .keep_to = m->keep_to})
               : TL_ENOMEM;
    tl_arena_free(&arena);
    TL_TRY(st);
    st = tl_map_set(&m->files->open, relative_path, f);
    if (st != TL_OK) tl_event_file_close(&f);
    else *out = f;
    return st;
}

static tl_status write_logs(tl_summary_manager *m, const tl_logs *logs, tl_str *path, int64_t step,
                            int depth)
{
    const tl_summary_manager_class *writer =
        TL_CLASS_METHOD(tl_summary_manager_class, m->cls, summary_writer);
    const tl_summary_manager_class *entry =
        TL_CLASS_METHOD(tl_summary_manager_class, m->cls, write_entry);
    size_t length = path->length;
    tl_event_file *f = NULL;
    bool opened = false;
    // a class of its own that only borrows this function
    if (!entry) entry = &tl_summary_manager_scalars;
    if (depth > DEEPEST) return TL_FAIL(TL_ELIMIT, "logs are nested more than %d deep", DEEPEST);
    for (int64_t i = 0; i < tl_logs_count(logs); i++) {
        tl_logs_entry e;
        tl_logs_at(&e, logs, i);
        if (e.kind == TL_LOGS_LOGS) {
            tl_str_addf(path, "%s%s", length ? "/" : "", e.name);
            TL_TRY(tl_str_status(path));
            TL_TRY(write_logs(m, e.logs, path, step, depth + 1));
            tl_str_cut(path, length);
            continue;
        }
        if (!opened) TL_TRY(writer->summary_writer(&f, m, tl_str_text(path)));
        opened = true;
        TL_TRY(entry->write_entry(m, f, step, &e));
    }
    return TL_OK;
}

static tl_status scalars_write(tl_summary_manager *m, const tl_logs *logs)
{
    if (!m->dir) return TL_OK;
    tl_str path = TL_STR_INIT;
    tl_status st = write_logs(m, logs, &path, *m->step, 0);
    tl_str_deinit(&path);
    return st;
}

// By its kind, or a batch of images by the prefix of its name, as Model Garden has it.
static bool is_image(const tl_logs_entry *entry)
{
    return entry->kind == TL_LOGS_IMAGE
           || (entry->kind == TL_LOGS_TENSOR && entry->tensor->shape.rank == 4
               && strncmp(entry->name, "image/", 6) == 0);
}

static tl_status scalars_entry(tl_summary_manager *m, tl_event_file *f, int64_t step,
                               const tl_logs_entry *entry)
{
    if (entry->kind == TL_LOGS_NUMBER) return tl_event_file_entry(f, step, entry);
    if (entry->kind == TL_LOGS_TENSOR && !is_image(entry)) return TL_OK;
    if (!m->files->noticed)
        TL_LOG_INFO("summaries: '%s' is left out, being no number but %s; a manager of the class "
                    "'%s' writes all kinds",
                    entry->name, tl_logs_kind_name(entry->kind),
                    tl_summary_manager_images.cls.name);
    m->files->noticed = true;
    return TL_OK;
}

static tl_status scalars_rewind(tl_summary_manager *m, int64_t keep_to)
{
    m->keep_to = (tl_opt_int){true, keep_to};
    if (!m->dir) return TL_OK;
    for (int64_t i = 0; i < tl_map_count(&m->files->open); i++)
        TL_TRY(tl_event_file_rewind(tl_map_at(&m->files->open, i), keep_to));
    return tl_event_folder_rewind(m->dir, keep_to, true); // those that are not open
}

const tl_summary_manager_class tl_summary_manager_scalars = {
    .cls = TL_CLASS(tl_summary_manager_class, "scalars", NULL, tl_summary_manager, NULL,
                    .help = "numbers"),
    .flush = scalars_flush,
    .summary_writer = scalars_writer,
    .write_summaries = scalars_write,
    .write_entry = scalars_entry,
    .rewind = scalars_rewind,
};

/* --- all kinds -------------------------------------------------------------------------------- */

static tl_status images_entry(tl_summary_manager *m, tl_event_file *f, int64_t step,
                              const tl_logs_entry *entry)
{
    if (is_image(entry))
        return tl_event_file_image(f, step, entry->name, entry->tensor, m->max_outputs);
    return tl_event_file_entry(f, step, entry);
}

const tl_summary_manager_class tl_summary_manager_images = {
    .cls = TL_CLASS(tl_summary_manager_class, "images", &tl_summary_manager_scalars.cls,
                    tl_summary_manager, NULL, .help = "numbers, images, histograms and text"),
    .write_entry = images_entry,
};
