/* Pipelines as configurations describe them: Model Garden's DataConfig. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/log.h>
#include <tilth/base/vec.h>
#include <tilth/data/image_folder.h>
#include <tilth/data/pipeline.h>

enum { USUAL_CYCLE = 16 }; /* files read in turn; a fixed number, since the order depends on it */

/* --- paths ------------------------------------------------------------------------------------ */

typedef struct path_vec {
    const char **items;
    int64_t count, capacity;
} path_vec;

// The pattern as tl_glob reads it: only * and ? are special.
static char *escaped(tl_arena *arena, const char *pattern)
{
    char *out = tl_arena_alloc(arena, 2 * strlen(pattern) + 1), *to = out;
    for (; out && *pattern; pattern++) {
        if (*pattern == '[' || *pattern == '\\') *to++ = '\\';
        *to++ = *pattern;
    }
    return out;
}

static bool is_there(const char *path)
{
    return tl_file_exists(path) || tl_dir_exists(path);
}

// A path of params.yaml may have been good where the run began, and we are somewhere else.
static tl_status not_found(const char *what, const char *path)
{
    char *here = *path == '/' ? NULL : getcwd(NULL, 0);
    tl_status st =
        here ? TL_FAIL(TL_ENOTFOUND, "%s; it is looked for from '%s', where this was started", what,
                       here)
             : TL_FAIL(TL_ENOTFOUND, "%s", what);
    free(here);
    return st;
}

static tl_status match_one(path_vec *into, tl_arena *arena, const char *pattern)
{
    if (!strpbrk(pattern, "*?")) {
        if (is_there(pattern)) return TL_VEC_PUSH(into, pattern) ? TL_OK : TL_ENOMEM;
        const char *what = tl_arena_printf(arena, "'%s' does not exist", pattern);
        return what ? not_found(what, pattern) : TL_ENOMEM;
    }
    tl_path_list found;
    const char *plain = escaped(arena, pattern);
    if (!plain) return TL_ENOMEM;
    TL_TRY(tl_glob(&found, arena, plain));
    int64_t before = into->count;
    for (int64_t i = 0; i < found.count; i++) {
        if (tl_class_list_is(found.items[i])) // lies beside records, and is none
            TL_LOG_INFO("'%s' matches '%s' and is passed over: it lists classes", found.items[i],
                        pattern);
        else if (!TL_VEC_PUSH(into, found.items[i])) return TL_ENOMEM;
    }
    if (into->count > before) return TL_OK;
    if (found.count)
        return TL_FAIL(TL_ENOTFOUND, "no file of data matches '%s', only '%s', which lists classes",
                       pattern, found.items[0]);
    const char *what = tl_arena_printf(arena, "no file matches '%s'", pattern);
    return what ? not_found(what, pattern) : TL_ENOMEM;
}

// One path, whose name may have commas, or several patterns with commas between them; spaces around
// them and empty ones do not count.
static tl_status match_text(path_vec *into, tl_arena *arena, const char *text)
{
    if (strchr(text, ',') && is_there(text)) return TL_VEC_PUSH(into, text) ? TL_OK : TL_ENOMEM;
    while (*text) {
        size_t length = strcspn(text, ",");
        const char *from = text, *end = text + length;
        while (from < end && strchr(" \t\r\n", *from)) from++;
        while (end > from && strchr(" \t\r\n", end[-1])) end--;
        if (end > from) {
            const char *pattern = tl_arena_strndup(arena, from, (size_t)(end - from));
            if (!pattern) return TL_ENOMEM;
            TL_TRY(match_one(into, arena, pattern));
        }
        text += length;
        if (*text) text++;
    }
    return TL_OK;
}

// Items of a list are one pattern each, as in Model Garden.
static tl_status match_all(path_vec *into, tl_arena *arena, const tl_value *v)
{
    if (v->kind == TL_VALUE_SCALAR) return match_text(into, arena, v->text);
    for (int64_t i = 0; v->kind == TL_VALUE_LIST && i < v->count; i++) {
        const tl_value *item = v->items[i];
        if (item->kind != TL_VALUE_SCALAR) TL_TRY(match_all(into, arena, item));
        else if (*item->text) TL_TRY(match_one(into, arena, item->text));
    }
    return TL_OK;
}

tl_status tl_paths_match(tl_path_list *out, tl_arena *arena, const tl_value *patterns)
{
    path_vec found = {0};
    *out = (tl_path_list){0};
    tl_status st = patterns ? match_all(&found, arena, patterns) : TL_OK;
    if (st == TL_OK && !found.count)
        st = TL_FAIL(TL_EINVAL, "there are no files: the path is empty");
    if (st == TL_OK) {
        out->items = tl_arena_copy(arena, found.items, (size_t)found.count * sizeof *found.items);
        out->count = found.count;
        if (!out->items) st = TL_ENOMEM;
    }
    TL_VEC_FREE(&found);
    return st;
}

/* --- sources ---------------------------------------------------------------------------------- */

// A folder is one of images, everything else are TFRecords.
static tl_status open_usual(void *self, const char *name, const char *const *paths, int64_t count,
                            tl_source **out)
{
    (void)self;
    (void)name;
    if (!tl_dir_exists(paths[0])) return tl_source_tfrecords(out, paths, count, NULL);
    if (count == 1) return tl_source_image_folder(out, &(tl_image_folder_args){.path = paths[0]});
    return TL_FAIL(TL_EINVAL, "'%s' is a folder; a folder of images must be the only path",
                   paths[0]);
}

static tl_status open_source(const tl_pipeline_reader *reader, tl_arena *arena, const char *name,
                             const tl_value *patterns, tl_source **out)
{
    tl_path_list paths;
    TL_TRY(tl_paths_match(&paths, arena, patterns));
    tl_source_open_fn *open = reader->open ? reader->open : open_usual;
    return open(reader->open_self, name, paths.items, paths.count, out);
}

static tl_status read_weights(tl_pipeline_args *into, tl_arena *arena, const tl_value *path,
                              const tl_value *weights)
{
    if (weights->kind != TL_VALUE_MAP || weights->count != path->count)
        return TL_FAIL(TL_EINVAL,
                       "weights: a map with the %" PRId64 " names of input_path is expected",
                       path->count);
    double *numbers = tl_arena_array(arena, path->count, sizeof *numbers);
    if (!numbers) return TL_ENOMEM;
    for (int64_t i = 0; i < path->count; i++) {
        const tl_value *w = tl_value_get(weights, path->pairs[i].key);
        if (!w)
            return TL_FAIL(TL_EINVAL, "weights: there is none for '%s' of input_path",
                           path->pairs[i].key);
        if (!tl_value_double(w, &numbers[i]))
            return TL_FAIL(TL_EINVAL, "weights: that of '%s' is no number", path->pairs[i].key);
    }
    into->weights = numbers;
    return TL_OK;
}

static tl_status read_sources(tl_pipeline_args *into, tl_arena *arena, const tl_data_config *config,
                              const tl_pipeline_reader *reader, bool training)
{
    const tl_value *path = config->input_path;
    const char *section = reader->section ? reader->section : "", *dot = reader->section ? "." : "";
    if (!tl_paths_given(path))
        return TL_FAIL(TL_EINVAL, "%s%sinput_path is empty: name the files to read", section, dot);
    bool mixed = path->kind == TL_VALUE_MAP;
    int64_t count = mixed ? path->count : 1;
    into->sources = tl_arena_array(arena, count, sizeof *into->sources);
    if (!into->sources) return TL_ENOMEM;
    into->weights = NULL;
    if (mixed && tl_paths_given(reader->weights))
        TL_TRY(read_weights(into, arena, path, reader->weights));
    else if (mixed && training && count > 1)
        return TL_FAIL(TL_EINVAL,
                       "input_path has %" PRId64
                       " names to be mixed, but there are no weights to mix them with",
                       count);
    for (into->source_count = 0; into->source_count < count; into->source_count++) {
        const char *name = mixed ? path->pairs[into->source_count].key : NULL;
        const tl_value *patterns = mixed ? path->pairs[into->source_count].value : path;
        tl_source **out = &into->sources[into->source_count];
        TL_TRY_NOTE(open_source(reader, arena, name, patterns, out), "%s%sinput_path%s%s", section,
                    dot, name ? "." : "", name ? name : "");
    }
    return TL_OK;
}

/* --- the rest --------------------------------------------------------------------------------- */

tl_status tl_pipeline_args_batch(tl_pipeline_args *into, const tl_data_config *config,
                                 int64_t replicas)
{
    if (replicas < 1) replicas = 1;
    if (config->global_batch_size < 1)
        return TL_FAIL(TL_EINVAL, "global_batch_size is %" PRId64 " and must be at least 1",
                       config->global_batch_size);
    if (config->global_batch_size % replicas)
        return TL_FAIL(
            TL_EINVAL,
            "global_batch_size is %" PRId64 " and must be a multiple of %" PRId64
            ", the number of replicas (tilth.lanes), of which each takes as many examples",
            config->global_batch_size, replicas);
    into->batch_size = config->global_batch_size / replicas;
    return TL_OK;
}

static void read_shard(tl_pipeline_args *into, const tl_data_config *config,
                       const tl_pipeline_reader *reader)
{
    into->seed = config->seed.set ? (uint64_t)config->seed.value : reader->seed;
    if (config->sharding || reader->pipelines <= 1) {
        into->pipelines = reader->pipelines;
        into->pipeline = reader->pipeline;
        return;
    }
    // Every reader reads everything, each in an order of its own.
    into->pipelines = 1;
    into->pipeline = 0;
    into->seed += (uint64_t)reader->pipeline * UINT64_C(0x9e3779b97f4a7c15);
}

static int64_t chosen(tl_opt_int given, int64_t usual)
{
    return given.set && given.value > 0 ? given.value : usual;
}

tl_status tl_pipeline_args_sampler(tl_pipeline_args *into, tl_arena *arena,
                                   const tl_data_config *config)
{
    into->sampler = NULL;
    into->consumed_samples = 0;
    if (!config->sampler) return TL_OK;
    tl_sampler *s = tl_arena_alloc(arena, sizeof *s);
    if (!s) return TL_ENOMEM;
    *s = (tl_sampler){0};
    TL_TRY_NOTE(tl_sampler_read(s, config->sampler), "sampler");
    bool training = config->is_training.set && config->is_training.value;
    if (config->sampler->consumed_samples && !training)
        return TL_FAIL(TL_EINVAL,
                       "sampler.consumed_samples: it is %" PRId64
                       ", but evaluations begin at the first example: it is for training",
                       config->sampler->consumed_samples);
    if (s->cls->endless && !training)
        return TL_FAIL(TL_EINVAL, "sampler: %s never ends, so evaluation would not either; use %s",
                       s->cls->name, tl_single_round_sampler.name);
    if (!s->cls->endless && training)
        return TL_FAIL(TL_EINVAL,
                       "sampler: %s makes one pass, and training would end with it; use %s",
                       s->cls->name, tl_cyclic_sampler.name);
    into->sampler = s;
    into->consumed_samples = config->sampler->consumed_samples;
    into->cycle_length = into->block_length = into->shuffle = 0;
    into->shuffle_parts = into->repeat = into->drop_remainder = false;
    return TL_OK;
}

tl_status tl_pipeline_args_read(tl_pipeline_args *into, tl_arena *arena,
                                const tl_data_config *config, const tl_pipeline_reader *reader)
{
    static const tl_pipeline_reader alone = {.pipelines = 1, .replicas = 1};
    if (!reader) reader = &alone;
    bool training = config->is_training.set && config->is_training.value;
    into->sources = NULL;
    into->source_count = 0;
    TL_TRY(tl_pipeline_args_batch(into, config, reader->replicas));
    read_shard(into, config, reader);
    into->cycle_length = chosen(config->cycle_length, USUAL_CYCLE);
    into->block_length = config->block_length;
    into->shuffle_parts = training;
    into->shuffle = training ? config->shuffle_buffer_size : 0;
    into->repeat = training;
    into->cache = config->cache;
    into->drop_remainder = training && config->drop_remainder; // evaluation keeps its tail
    into->prefetch = chosen(config->prefetch_buffer_size, 0);
    TL_TRY(tl_pipeline_args_sampler(into, arena, config));
    tl_status st = read_sources(into, arena, config, reader, training);
    if (st != TL_OK) tl_pipeline_args_drop(into);
    return st;
}

void tl_pipeline_args_drop(tl_pipeline_args *args)
{
    for (int64_t i = 0; args->sources && i < args->source_count; i++)
        tl_source_free(&args->sources[i]);
    args->source_count = 0;
}
