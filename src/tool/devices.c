#include <inttypes.h>

#include <tilth/base/pool.h>
#include <tilth/sys/cpu/cpu.h>
#include <tilth/sys/cuda/cuda.h>

#include "io/inner/json_text.h"
#include "tool/tool.h"

typedef struct devices_flags {
    bool json;
} devices_flags;
static const tl_field devices_fields[] = {
    TL_F(devices_flags, json,
         .help = "a JSON object: {\"devices\": [{\"name\", \"model\", ...}, ...], "
                 "\"libraries\": [{\"name\", \"version\", \"file\", \"why\"}, ...]}"),
    TL_F_END,
};
static const tl_desc devices_flags_desc = {
    .name = "devices",
    .help = "flags of `devices`",
    .size = sizeof(devices_flags),
    .fields = devices_fields,
};

/* What is told of one device. */
typedef struct told {
    char name[TL_DEVICE_NAME], model[128];
    int64_t memory; /* bytes; 0: not known */
} told;

static tl_status tell_cpu(told *out)
{
    const tl_backend_class *backend;
    *out = (told){.name = "cpu"};
    TL_TRY(tl_cpu_backend(&backend));
    snprintf(out->model, sizeof out->model, "%d threads, instructions: %s",
             tl_pool_default_threads(), backend->cls.name);
    return TL_OK;
}

static tl_status tell_gpu(told *out, int64_t number)
{
    tl_gpu gpu;
    TL_TRY(tl_gpu_at(&gpu, number));
    *out = (told){.memory = gpu.memory};
    snprintf(out->name, sizeof out->name, "cuda:%" PRId64, number);
    snprintf(out->model, sizeof out->model, "%.64s, compute capability %d.%d%s, %d processors",
             gpu.name, gpu.major, gpu.minor, gpu.old ? " (too old)" : "", gpu.processors);
    return TL_OK;
}

/* The processors first, then GPUs; in the run's arena. */
static tl_status find_devices(tli_run *run, told **out, int64_t *count)
{
    int64_t gpus;
    if (tl_gpu_count(&gpus) != TL_OK) tl_error_clear(); // the libraries tell why
    told *all = tl_arena_array(run->arena, gpus + 1, sizeof *all);
    if (!all) return TL_ENOMEM;
    TL_TRY(tell_cpu(&all[0]));
    for (int64_t i = 0; i < gpus; i++) TL_TRY(tell_gpu(&all[i + 1], i));
    *out = all;
    *count = gpus + 1;
    return TL_OK;
}

static void add_text(tl_str *out, const told *devices, int64_t count, int width)
{
    int64_t libraries;
    const tl_gpu_library *l = tl_gpu_libraries(&libraries);
    for (int64_t i = 0; i < count; i++) {
        char memory[32] = "";
        if (devices[i].memory)
            snprintf(memory, sizeof memory, ", %.0f GB", (double)devices[i].memory * 1e-9);
        tl_str_addf(out, "%-10s %s%s\n", devices[i].name, devices[i].model, memory);
    }
    tl_str_add(out, "\nLibraries for GPUs:\n");
    for (int64_t i = 0; i < libraries; i++) {
        tl_str about = TL_STR_INIT;
        if (l[i].version) tl_str_addf(&about, "%s (%s)", l[i].version, l[i].file);
        else tl_str_add(&about, l[i].why);
        tl_help_row(out, 2, l[i].name, 12, tl_str_text(&about), width);
        tl_str_deinit(&about);
    }
}

static void add_json(tl_str *out, const told *devices, int64_t count)
{
    int64_t libraries;
    const tl_gpu_library *l = tl_gpu_libraries(&libraries);
    tli_json j = {.out = out, .indent = 2};
    tli_json_begin(&j, NULL, '{');
    tli_json_begin(&j, "devices", '[');
    for (int64_t i = 0; i < count; i++) {
        tli_json row = tli_json_row(&j);
        tli_json_begin(&row, NULL, '{');
        tli_json_text(&row, "name", devices[i].name);
        tli_json_text(&row, "model", devices[i].model);
        if (devices[i].memory) tli_json_int(&row, "memory", devices[i].memory);
        tli_json_end(&row, '}');
    }
    tli_json_end(&j, ']');
    tli_json_begin(&j, "libraries", '[');
    for (int64_t i = 0; i < libraries; i++) {
        tli_json row = tli_json_row(&j);
        tli_json_begin(&row, NULL, '{');
        tli_json_text(&row, "name", l[i].name);
        if (l[i].version) tli_json_text(&row, "version", l[i].version);
        if (l[i].file) tli_json_text(&row, "file", l[i].file);
        if (l[i].why) tli_json_text(&row, "why", l[i].why);
        tli_json_end(&row, '}');
    }
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
}

static tl_status run_devices(tli_run *run)
{
    const devices_flags *given = run->given[0];
    told *devices;
    int64_t count;
    if (run->words.count)
        return TL_FAIL(TL_EINVAL, "no arguments are expected, found '%s'", run->words.items[0]);
    TL_TRY(find_devices(run, &devices, &count));
    if (given->json) add_json(&run->text, devices, count);
    else add_text(&run->text, devices, count, run->tool->width);
    return tl_str_status(&run->text);
}

const tli_command tli_command_devices = {
    .name = "devices",
    .brief = "what this machine can train on",
    .usage = "[--json]\n\nLists the devices that TILTH_DEVICE and tilth.device can name, and the "
             "libraries that GPUs need: those that were found, and where the others were sought.",
    .flags = {{"Flags", &devices_flags_desc}},
    .run = run_devices,
};
