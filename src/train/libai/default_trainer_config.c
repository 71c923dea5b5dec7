#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/file.h>
#include <tilth/base/log.h>
#include <tilth/train/run/finished.h>
#include <tilth/train/writers/metrics_file.h>

#include "base/inner/folder.h"
#include "train/libai/default_trainer.h"

/* --- the experiment --------------------------------------------------------------------------- */

static void fill_data(tl_data_config *data, int64_t batch, bool training, int64_t seed)
{
    if (!data) return;
    data->global_batch_size = batch;
    if (!data->is_training.set) data->is_training = (tl_opt_bool){true, training};
    if (!data->seed.set) data->seed = (tl_opt_int){true, seed};
}

/* A copy of the task's section, with batch sizes, seeds and weights to start from. */
static tl_status fill_task(tl_object *out, tl_arena *arena, const tl_libai_config *config,
                           int64_t replicas)
{
    const tl_libai_train_config *train = &config->train;
    const tl_oneof *chosen = &config->task;
    if (!chosen->value)
        return TL_FAIL(TL_EINVAL, "no task is chosen: set model._target_ or task.type");
    tl_task_config *task = tl_arena_alloc(arena, chosen->desc->size);
    if (!task) return TL_ENOMEM;
    TL_TRY(tl_desc_copy(arena, chosen->desc, task, chosen->value));
    fill_data(task->train_data, train->train_micro_batch_size.value * replicas, true, train->seed);
    fill_data(task->validation_data, train->test_micro_batch_size * replicas, false, train->seed);
    if (*train->load_weight) task->init_checkpoint = train->load_weight;
    *out = (tl_object){chosen->desc, task};
    return TL_OK;
}

tl_status tli_libai_experiment(tl_experiment_config **out, tl_arena *arena,
                               const tl_libai_config *config, int64_t replicas)
{
    const tl_libai_train_config *train = &config->train;
    void *experiment;
    TL_TRY(tl_desc_new(&experiment, arena, &tl_experiment_config_desc));
    tl_experiment_config *e = *out = experiment;
    tl_trainer_config *p = e->trainer.value;
    p->train_tf_function = p->eval_tf_function = config->graph.enabled;
    p->recovery_max_trials = 0; // numbers that are not finite end the training, with a diagnosis
    e->runtime.run_eagerly = !config->graph.enabled;
    e->runtime.distribution_strategy = replicas > 1 ? "mirrored" : "one_device";
    if (train->amp.enabled) e->runtime.mixed_precision_dtype = TL_PRECISION_FLOAT16;
    e->tilth.seed = (tl_opt_int){true, train->seed};
    e->tilth.threads = config->tilth.threads;
    e->tilth.jit = config->tilth.jit;
    e->tilth.lanes = replicas;
    if (train->zero_optimization.enabled) e->tilth.zero = train->zero_optimization.stage;
    e->tilth.survive_write_failures = config->tilth.survive_write_failures;
    e->tilth.gradient_accumulation = train->num_accumulation_steps.value;
    if (train->activation_checkpoint.enabled) e->tilth.recompute = TL_RECOMPUTE_FULL;
    return fill_task(&e->task, arena, config, replicas);
}

void tli_libai_scaled(tl_experiment_config *experiment, const tl_libai_train_config *train)
{
    tl_trainer_config *p = experiment->trainer.value;
    p->train_steps = train->train_iter;
    p->checkpoint_interval = train->checkpointer.period;
    p->max_to_keep = train->checkpointer.max_to_keep;
    p->validation_interval = train->evaluation.eval_period > 0 ? train->evaluation.eval_period : 0;
    p->validation_steps = train->evaluation.eval_iter;
    p->steps_per_loop = p->summary_interval = train->log_period;
}

tl_status tli_default_experiment(tl_default_trainer *t)
{
    TL_TRY(tli_libai_experiment(&t->experiment, t->arena, t->config,
                                tl_strategy_replicas(t->strategy)));
    t->optimization = &((tl_trainer_config *)t->experiment->trainer.value)->optimizer_config;
    return TL_OK;
}

void tli_default_scaled(tl_default_trainer *t)
{
    tli_libai_scaled(t->experiment, &t->config->train);
    t->max_iter = t->config->train.train_iter;
}

/* --- what was told ---------------------------------------------------------------------------- */

static int64_t iteration_of(const char *line, size_t length)
{
    json_error_t error;
    json_t *json = json_loadb(line, length, 0, &error);
    json_t *iteration = json ? json_object_get(json, "iteration") : NULL;
    int64_t found = json_is_integer(iteration) ? (int64_t)json_integer_value(iteration) : -1;
    json_decref(json);
    return found;
}

/* Lines are in the order of their iterations, so the last ones are looked at first. */
static int64_t last_iteration(const char *text, size_t size, int64_t most)
{
    for (size_t end = size; end > 0;) {
        size_t begin = end - (text[end - 1] == '\n');
        size_t stop = begin;
        while (begin > 0 && text[begin - 1] != '\n') begin--;
        int64_t iteration = iteration_of(text + begin, stop - begin);
        if (iteration >= 0 && iteration <= most) return iteration;
        end = begin;
    }
    return -1;
}

tl_status tli_last_told(int64_t *out, const char *folder, int64_t most)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    tl_arena *arena;
    *out = most;
    TL_TRY(tl_arena_new(&arena));
    const char *path = tl_path_join(arena, folder, "metrics.json");
    tl_status st = path ? TL_OK : TL_ENOMEM;
    if (st == TL_OK && tl_file_exists(path) && most >= 0) {
        st = tl_file_map(&file, path);
        if (st == TL_OK && file.size > 0) *out = last_iteration(file.data, file.size, most);
        tl_file_unmap(&file);
    }
    tl_arena_free(&arena);
    return st;
}

/* --- what an earlier run has left ------------------------------------------------------------- */

static bool begins(const char *name, const char *with)
{
    return strncmp(name, with, strlen(with)) == 0;
}

enum { NAME_ROOM = 32 };

/* A run that was here may have been of another task than the one that comes. */
static bool is_note(const char *name, const tl_notes *notes)
{
    for (int64_t i = 0; i < notes->count; i++)
        if (strcmp(name, notes->files[i]) == 0) return true;
    return strcmp(name, TL_CLASSES_FILE) == 0;
}

/* log.txt goes on. */
static bool is_of_a_run(const char *name, const tl_notes *notes)
{
    return is_note(name, notes) || begins(name, "ckpt-") || begins(name, "model_best.")
           || begins(name, "model_final.") || begins(name, "events.out.tfevents.")
           || strcmp(name, "checkpoint") == 0 || strcmp(name, "last_checkpoint") == 0
           || strcmp(name, "metrics.json") == 0 || strcmp(name, TL_METRICS_FILE) == 0
           || strcmp(name, "config.yaml") == 0;
}

/* Makes previous-N in the folder, and opens it. */
static tl_status new_folder(int *fd, char name[NAME_ROOM], const char *folder, int parent)
{
    for (int64_t i = 1;; i++) {
        snprintf(name, NAME_ROOM, "previous-%" PRId64, i);
        if (mkdirat(parent, name, 0777) == 0) break;
        if (errno != EEXIST)
            return TL_FAIL(TL_EIO, "'%s/%s' cannot be made: %s", folder, name, strerror(errno));
    }
    *fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *fd >= 0
               ? TL_OK
               : TL_FAIL(TL_EIO, "'%s/%s' cannot be opened: %s", folder, name, strerror(errno));
}

static tl_status move_files(const char *folder, DIR *dir, const tl_notes *notes)
{
    char to[NAME_ROOM];
    int into = -1, from = dirfd(dir);
    tl_status st = TL_OK;
    for (const struct dirent *e; st == TL_OK && (e = readdir(dir));) {
        if (!is_of_a_run(e->d_name, notes)) continue;
        if (into < 0) st = new_folder(&into, to, folder, from);
        if (st == TL_OK && renameat(from, e->d_name, into, e->d_name) != 0)
            st = TL_FAIL(TL_EIO, "'%s/%s' cannot be moved to '%s/%s': %s", folder, e->d_name,
                         folder, to, strerror(errno));
    }
    if (into < 0) return st;
    close(into);
    if (st == TL_OK)
        TL_LOG_WARNING("'%s' held a run, which is not resumed: it was moved to '%s/%s'", folder,
                       folder, to);
    return st;
}

tl_status tli_set_aside(const char *folder, const tl_notes *notes)
{
    DIR *dir;
    TL_TRY(tli_folder_list(&dir, folder));
    if (!dir) return TL_OK;
    tl_status st = move_files(folder, dir, notes);
    closedir(dir);
    return st;
}
