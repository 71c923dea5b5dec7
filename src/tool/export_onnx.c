/* `export --format=onnx`: the model of a run as one file that ONNX Runtime and others run. */
#include <inttypes.h>

#include <tilth/base/file.h>
#include <tilth/base/vec.h>
#include <tilth/io/onnx.h>

#include "tool/export.h"

#define ONNX_FILE "model.onnx"

/* --- what is computed ------------------------------------------------------------------------- */

/* The model's own outputs, and what `predict` makes of them. */
static tl_status body(void *self, tl_ctx *c, const tl_tensors *in, tl_tensors *out)
{
    const tl_finished *f = self;
    tl_tensors outputs = {0};
    tl_answer_form form;
    tl_call_all(c, f->trainer->model, in, &outputs);
    TL_TRY(tl_ctx_status(c));
    bool asked = tl_task_takes_queries(f->task);
    for (int64_t i = 0; i < outputs.count; i++)
        tl_tensors_put(c, out, asked && i == 0 ? "logits" : outputs.items[i].name,
                       outputs.items[i].tensor);
    if (!asked) return tl_ctx_status(c);
    tl_task_answer_form(f->task, &form);
    if (form.pixels) return tl_ctx_status(c); // they are made of the logits, for each picture
    tl_tensor *answers = tl_task_build_answers(f->task, c, &outputs);
    if (answers) tl_tensors_put(c, out, form.classes ? "probabilities" : "answers", answers);
    return tl_ctx_status(c);
}

/* --- what is told about it -------------------------------------------------------------------- */

typedef struct notes {
    tl_onnx_note *items;
    int64_t count, capacity;
} notes;

static tl_status add_note(notes *n, const char *key, const char *value)
{
    return key && value && TL_VEC_PUSH(n, ((tl_onnx_note){key, value})) ? TL_OK : TL_ENOMEM;
}

static tl_status gather(notes *into, tl_notes *files, const tl_finished *f)
{
    tl_str names = TL_STR_INIT;
    TL_TRY(add_note(into, "step", tl_arena_printf(f->arena, "%" PRId64, f->trainer->global_step)));
    TL_TRY(add_note(into, "averaged", f->averaged ? "true" : "false"));
    TL_TRY(add_note(into, "task", f->task->cls->cls.name));
    for (int64_t i = 0; i < f->classes.count; i++)
        tl_str_addf(&names, "%s%s", i ? "\n" : "", f->classes.items[i]);
    const char *classes = tl_str_copy(&names, f->arena);
    tl_str_deinit(&names);
    if (!classes) return TL_ENOMEM;
    if (f->classes.count) TL_TRY(add_note(into, "classes", classes));
    TL_TRY(tl_task_export_files(f->task, files));
    for (int64_t i = 0; i < files->count; i++)
        TL_TRY(add_note(into, files->items[i].key, files->items[i].value));
    return TL_OK;
}

tl_status tli_export_onnx(tli_run *run, const tl_finished *f, const char *folder)
{
    const char *path = tl_path_join(run->arena, folder, ONNX_FILE);
    tl_notes files = {0};
    notes all = {0};
    tl_state *weights = NULL;
    tl_model_size size = tl_model_measure(f->trainer->model);
    int64_t inputs;
    const tl_spec *specs = tl_model_inputs(f->trainer->model, &inputs);
    tl_status st;
    if (!path) return TL_ENOMEM;
    TL_TRY_DONE(st, gather(&all, &files, f));
    TL_TRY_DONE(st, tl_state_new(&weights));
    TL_TRY_DONE(st, tl_model_state(f->trainer->model, weights));
    TL_TRY_DONE(st, tl_mkdirs(folder));
    TL_TRY_DONE(st, tl_onnx_write(path, &(tl_onnx_args){
                                            .engine = tl_strategy_engine(f->strategy),
                                            .body = body,
                                            .self = (void *)(uintptr_t)f,
                                            .inputs = specs,
                                            .input_count = inputs,
                                            .weights = weights,
                                            .notes = all.items,
                                            .note_count = all.count,
                                            .name = f->task->cls->cls.name,
                                        }));
    tl_str_addf(&run->text, "%s: %" PRId64 " %sparameters of step %" PRId64 "\n", path,
                size.params + size.state, f->averaged ? "averaged " : "", f->trainer->global_step);
    st = tl_str_status(&run->text);
done:
    tl_state_free(&weights);
    tl_notes_deinit(&files);
    TL_VEC_FREE(&all);
    return st;
}
