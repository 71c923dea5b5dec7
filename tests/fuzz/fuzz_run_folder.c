/* The folder of a run that somebody else has made, opened as `ckpt show`, `compare`, `eval` and a
 * training that goes on do: whatever lies in it is read or refused with a message, and nothing
 * outside of it changes.
 *
 * The first byte of an input says how it is opened. Then come files: a byte for which one, two for
 * its length (the lowest first), and what is in it. What has checksums is given them here, since no
 * fuzzer finds them. */
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/crc32c.h>
#include <tilth/base/log.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/data/image_folder.h>
#include <tilth/io/checkpoint/manager.h>
#include <tilth/io/tensorflow/event_file.h>
#include <tilth/io/tensorflow/tensorbundle.h>

#include "../desc/gin_toys.h"
#include "../desc/sample.h"
#include "io/inner/checkpoint.h"
#include "io/inner/json_lines.h"
#include "io/tensorflow/leveldb_table.h"
#include "io/tensorflow/protobuf.h"
#include "tool/runs.h"

#include "../temporary.h"

/* How it is opened. */
enum { GOES_ON = 1, SAVES = 2, STRICT = 4, MENDS = 8 };

static tl_engine *engine;
static tl_registry *registry;
static char home[TEMPORARY_PATH], folder[128], victim[160];
static int run_fd;
static tl_str file = TL_STR_INIT; /* what is about to be written */
static int64_t step;

/* A failure comes with a message, and is no defect of ours. */
static bool refused(tl_status st)
{
    if (st == TL_OK) return false;
    must(st != TL_EINTERNAL && *tl_error_message(), "a failure without a good message");
    tl_error_clear();
    return true;
}

/* runs.c can tell at once what it has found, which nobody asks for here. */
tl_status tli_write_out(const tli_tool *tool, const tl_str *text)
{
    (void)tool, (void)text;
    return TL_OK;
}

/* --- the folder ------------------------------------------------------------------------------- */

static const char *path_of(const char *name)
{
    static char paths[4][160];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_at(int at, const char *name, const void *data, size_t size)
{
    int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0, "cannot be written");
}

/* Whatever was read must have left this alone. */
#define VICTIM "no checkpoint, and of somebody else"

static void check_victim(void)
{
    struct stat info;
    must(stat(victim, &info) == 0 && info.st_size == (off_t)strlen(VICTIM),
         "a file outside of the run has changed");
}

static void empty_folder(void)
{
    int fd = dup(run_fd);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    must(d, "the folder cannot be read");
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            must(unlinkat(run_fd, e->d_name, 0) == 0, "what is no file was made in the folder");
    closedir(d);
}

static void remove_home(void)
{
    empty_folder();
    must(unlink(victim) == 0 && rmdir(folder) == 0, "cannot be removed");
    *strrchr(victim, '/') = '\0';
    must(rmdir(victim) == 0 && rmdir(home) == 0, "cannot be removed");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    bool memory = access("/dev/shm", W_OK | X_OK) == 0;
    tl_log_set_level(TL_LEVEL_NONE);
    snprintf(home, sizeof home, "%s/tilth_fuzz_XXXXXX", memory ? "/dev/shm" : temporary_place(40));
    must(mkdtemp(home) != NULL, "no folder");
    snprintf(folder, sizeof folder, "%s/run", home);
    snprintf(victim, sizeof victim, "%s/victim", home);
    must(mkdir(folder, 0700) == 0 && mkdir(victim, 0700) == 0, "no folder");
    strcat(victim, "/model.safetensors");
    write_at(AT_FDCWD, victim, VICTIM, strlen(VICTIM));
    run_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(run_fd >= 0 && atexit(remove_home) == 0, "no folder");
    must(tl_engine_new(&engine, &(tl_engine_args){.backend = &tl_backend_reference, .threads = 1})
             == TL_OK,
         "no engine");
    must(tl_registry_new(&registry) == TL_OK && tl_registry_add(registry, &toy_module) == TL_OK,
         "no toys");
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static void put_plain(const uint8_t *data, size_t size)
{
    tl_str_addn(&file, (const char *)data, size);
}

/* What follows the digits of the checksum: the rest of the header, a newline, the data. */
static void put_checkpoint(const uint8_t *data, size_t size)
{
    static const char opening[] = "{\"__metadata__\":{\"tilth.crc32c\":\"00000000";
    const uint8_t *end = memchr(data, '\n', size);
    char digits[9];
    tli_put_u64(&file, sizeof opening - 1 + (end ? (size_t)(end - data) : size));
    tl_str_add(&file, opening);
    size_t at = file.length - 8;
    if (end) tl_str_addn(&file, (const char *)data, (size_t)(end - data));
    size_t rest = end ? (size_t)(end - data) + 1 : 0;
    tl_str_addn(&file, (const char *)data + rest, size - rest);
    snprintf(digits, sizeof digits, "%08x", (unsigned)tl_crc32c(0, file.data, file.length));
    memcpy(file.data + at, digits, 8);
}

/* Messages, each behind a byte with its length. */
static void put_events(const uint8_t *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        size_t length = data[at++], begin = file.length;
        if (length > size - at) length = size - at;
        tli_put_u64(&file, length);
        tli_put_u32(&file, tl_crc32c_mask(tl_crc32c(0, file.data + begin, 8)));
        tl_str_addn(&file, (const char *)data + at, length);
        tli_put_u32(&file, tl_crc32c_mask(tl_crc32c(0, data + at, length)));
        at += length;
    }
}

/* Keys and values, each pair behind their two lengths; keys that are not greater than the one
 * before are left out. */
static void put_index(const uint8_t *data, size_t size)
{
    tl_str last = TL_STR_INIT;
    tli_table_writer w = {.out = &file};
    for (bool any = false; size >= 2 && (size_t)data[0] + data[1] + 2 <= size; any = true) {
        const char *at = (const char *)data + 2;
        tli_bytes key = {at, data[0]}, value = {at + data[0], data[1]};
        if (!any || tli_bytes_compare((tli_bytes){last.data, last.length}, key) < 0) {
            must(tli_table_add(&w, key, value) == TL_OK, "no memory");
            tl_str_cut(&last, 0);
            tl_str_addn(&last, key.data, key.size);
        }
        data += key.size + value.size + 2;
        size -= key.size + value.size + 2;
    }
    must(tli_table_finish(&w) == TL_OK, "no memory");
    tli_table_writer_deinit(&w);
    tl_str_deinit(&last);
}

/* As seeds_run_folder.py has them. */
enum {
    STATE_FILE,
    PARAMS,
    FIRST,
    FIRST_PLAIN,
    BUNDLE_INDEX,
    BUNDLE_DATA,
    EVENTS,
    METRICS,
    BINDINGS,
    CLASSES,
    THIRD,
    BEST,
    EXPERIMENT,
    FILES
};
static const struct {
    const char *name;
    void (*put)(const uint8_t *data, size_t size);
} files[FILES] = {
    [STATE_FILE] = {"checkpoint", put_plain},
    [PARAMS] = {"params.yaml", put_plain},
    [FIRST] = {"ckpt-1.safetensors", put_checkpoint},
    [FIRST_PLAIN] = {"ckpt-1.safetensors", put_plain},
    [BUNDLE_INDEX] = {"ckpt-2.index", put_index},
    [BUNDLE_DATA] = {"ckpt-2.data-00000-of-00001", put_plain},
    [EVENTS] = {"events.out.tfevents.1700000000.host.1.0.v2", put_events},
    [METRICS] = {"metrics.jsonl", put_plain},
    [BINDINGS] = {"bindings.gin", put_plain},
    [CLASSES] = {"classes.txt", put_plain},
    [THIRD] = {"ckpt-3.safetensors", put_checkpoint},
    [BEST] = {"model_best.json", put_plain},
    [EXPERIMENT] = {"experiment.txt", put_plain},
};
static bool there[FILES];

static void unpack(const uint8_t *data, size_t size)
{
    memset(there, 0, sizeof there);
    while (size >= 3) {
        int which = data[0] % FILES;
        size_t length = data[1] | (size_t)data[2] << 8;
        data += 3;
        size -= 3;
        if (length > size) length = size;
        tl_str_cut(&file, 0);
        files[which].put(data, length);
        must(tl_str_status(&file) == TL_OK, "no memory");
        write_at(run_fd, files[which].name, file.data ? file.data : "", file.length);
        there[which] = true;
        data += length;
        size -= length;
    }
}

/* --- looking, as `ckpt show` and `compare` do ------------------------------------------------- */

static void show_file(const char *path)
{
    tl_checkpoint *c;
    bool damaged;
    tl_str text = TL_STR_INIT;
    if (refused(tli_checkpoint_open(&c, path, true, &damaged))) return;
    const tl_safetensors *f = tl_checkpoint_file(c);
    for (int64_t i = 0; i < tl_safetensors_count(f); i++)
        tl_safetensors_spec(&text, tl_safetensors_at(f, i));
    (void)tl_checkpoint_note(c, "experiment");
    tl_str_deinit(&text);
    tl_checkpoint_free(&c);
}

static void show_bundle(const char *prefix)
{
    tl_tensorbundle *b;
    tl_object_graph g;
    tl_state *s;
    if (refused(tl_tensorbundle_open(&b, prefix))) return;
    (void)refused(tl_tensorbundle_verify(b));
    if (!refused(tl_object_graph_init(&g, b))) tl_object_graph_deinit(&g);
    if (!refused(tl_tensorbundle_load(&s, b, NULL, NULL, NULL))) tl_state_free(&s);
    tl_tensorbundle_free(&b);
}

static void show_latest(tl_arena *arena)
{
    const char *path;
    bool bundle;
    if (refused(tl_checkpoint_locate(&path, &bundle, arena, folder))) return;
    if (bundle) show_bundle(path);
    else show_file(path);
}

static void compare(tl_arena *arena)
{
    const char *words[] = {folder};
    tli_past_runs runs;
    bool finished;
    if (!refused(tli_past_runs_read(&runs, arena, (tl_strings){words, 1}))) {
        const char *metric = tli_past_runs_metric(&runs);
        const tli_curve *curve = metric ? tli_past_run_curve(&runs.items[0], metric) : NULL;
        if (curve) (void)tli_curve_summary(curve, tli_metric_comp_of(&runs, metric));
        (void)refused(tli_past_runs_problems(&runs));
    }
    tli_past_runs_free(&runs);
    (void)refused(tli_past_run_finished(&finished, folder));
}

static void read_events(const char *path)
{
    tl_event_reader *r;
    tl_event e;
    if (refused(tl_event_reader_open(&r, path))) return;
    for (bool more = true; more;)
        if (refused(tl_event_reader_next(r, &e, &more)) && !more) break;
    tl_event_reader_close(&r);
}

/* --- opening, as `eval` and a training that goes on do ---------------------------------------- */

static void read_params(bool no_unknown)
{
    tl_config *c;
    must(tl_config_new(&c, NULL, &sample_desc) == TL_OK, "no memory");
    tl_config_set_strict(c, no_unknown);
    if (!refused(tl_config_read(c, path_of("params.yaml")))) (void)refused(tl_config_finish(c));
    tl_config_free(&c);
}

static void read_bindings(void)
{
    tl_gin *gin;
    char *text;
    if (refused(tl_file_read(&text, NULL, path_of("bindings.gin"), 1 << 20))) return;
    must(tl_gin_new(&gin, registry) == TL_OK, "no memory");
    if (!refused(tl_gin_parse(gin, text, "bindings.gin"))) (void)refused(tl_gin_finalize(gin));
    tl_gin_free(&gin);
    tl_free(text);
}

static void read_classes(tl_arena *arena)
{
    tl_strings names;
    (void)refused(tl_class_list_read(&names, arena, path_of("classes.txt")));
}

static tl_status restore_bundle(void *payload, const char *prefix)
{
    (void)payload;
    tl_tensorbundle *b;
    tl_state *s;
    TL_TRY(tl_tensorbundle_open(&b, prefix));
    tl_status st = tl_tensorbundle_load(&s, b, engine, NULL, NULL);
    if (st == TL_OK) tl_state_free(&s);
    tl_tensorbundle_free(&b);
    return st;
}

static tl_state *new_state(void)
{
    tl_state *s;
    tl_tensor *kernel;
    step = 0;
    must(tl_state_new(&s) == TL_OK && tl_state_bind_int(s, "step", &step) == TL_OK, "no state");
    must(tl_tensor_new(&kernel, engine, TL_F32, tl_shape_of(1, (const int64_t[]){2})) == TL_OK,
         "no tensor");
    must(tl_state_put(s, "model/kernel", kernel) == TL_OK, "no state");
    tl_tensor_free(&kernel);
    return s;
}

static void restore(tl_arena *arena, int how)
{
    tl_state *s = new_state();
    tl_checkpoint_manager *m;
    tl_path_list list;
    const tl_checkpoint_manager_args args = {
        .directory = folder,
        .state = s,
        .step = &step,
        .interval = 1,
        .max_to_keep = {true, 1},
        .restore_bundle = restore_bundle,
        .read_only = !(how & GOES_ON),
    };
    if (!refused(tl_checkpoint_manager_new(&m, &args))) {
        (void)refused(tl_checkpoint_manager_candidates(&list, m, arena));
        bool restored = !refused(tl_checkpoint_manager_restore_or_initialize(m, NULL));
        if (restored && how & GOES_ON && how & SAVES && step >= 0 && step < 1000) {
            step++;
            (void)refused(tl_checkpoint_manager_save(m, false, NULL));
        }
        (void)tl_checkpoint_manager_latest(m);
        tl_checkpoint_manager_free(&m);
    }
    tl_state_free(&s);
}

static bool is_early(const char *line, const char *end, void *payload)
{
    int64_t at;
    (void)payload;
    return !tli_json_line_int(&at, line, end, "step") || at <= 1
           || tli_json_line_is(line, end, "event", "start");
}

/* What a training that goes on does to what lies behind the step where it goes on. */
static void mend(void)
{
    (void)refused(tl_event_folder_rewind(folder, 1, true));
    (void)refused(tli_json_lines_mend(path_of("metrics.jsonl"), is_early, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tl_arena *arena;
    if (!size) return 0;
    unpack(data + 1, size - 1);
    must(tl_arena_new(&arena) == TL_OK, "no memory");
    bool checkpoints = there[STATE_FILE] || there[FIRST] || there[FIRST_PLAIN] || there[THIRD];
    if (checkpoints || there[BUNDLE_INDEX]) show_latest(arena);
    if (there[PARAMS] || there[METRICS] || there[BEST]) compare(arena);
    if (there[PARAMS]) read_params(data[0] & STRICT);
    if (there[BINDINGS]) read_bindings();
    if (there[CLASSES]) read_classes(arena);
    if (there[EVENTS]) read_events(path_of(files[EVENTS].name));
    if (checkpoints) restore(arena, data[0]);
    if (data[0] & MENDS) mend();
    tl_arena_free(&arena);
    check_victim();
    empty_folder();
    return 0;
}
