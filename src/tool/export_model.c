#include "tool/export.h"

#include <inttypes.h>

#include <tilth/base/file.h>
#include <tilth/desc/yaml.h>
#include <tilth/io/checkpoint/manager.h>

#include "io/inner/json_text.h"

/* --- described structs ------------------------------------------------------------------------ */

static void add_scalar(tli_json *j, const char *key, const tl_value *v)
{
    int64_t whole;
    double number;
    bool yes;
    switch (tl_value_scalar(v)) {
    case TL_SCALAR_NULL: tli_json_raw(j, key, "null"); break;
    case TL_SCALAR_BOOL: tli_json_bool(j, key, tl_value_bool(v, &yes) && yes); break;
    case TL_SCALAR_INT:
        if (tl_value_int(v, &whole)) tli_json_int(j, key, whole);
        else tli_json_text(j, key, v->text);
        break;
    case TL_SCALAR_DOUBLE:
        if (tl_value_double(v, &number)) tli_json_number(j, key, number);
        else tli_json_text(j, key, v->text);
        break;
    default: tli_json_text(j, key, v->text);
    }
}

static void add_value(tli_json *j, const char *key, const tl_value *v)
{
    if (!v) {
        tli_json_raw(j, key, "null");
    } else if (v->kind == TL_VALUE_MAP) {
        tli_json_begin(j, key, '{');
        for (int64_t i = 0; i < v->count; i++) add_value(j, v->pairs[i].key, v->pairs[i].value);
        tli_json_end(j, '}');
    } else if (v->kind == TL_VALUE_LIST) {
        tl_str text = TL_STR_INIT; // lists are short, and stand in one line
        tli_json row = {.out = &text};
        tli_json_begin(&row, NULL, '[');
        for (int64_t i = 0; i < v->count; i++) add_value(&row, NULL, v->items[i]);
        tli_json_end(&row, ']');
        tli_json_raw(j, key, tl_str_text(&text));
        tl_str_deinit(&text);
    } else {
        add_scalar(j, key, v);
    }
}

/* By way of YAML, so that names and what is left out are those of params.yaml. */
static tl_status add_struct(tli_json *j, const char *key, tl_arena *arena, const tl_desc *desc,
                            const void *value)
{
    const tl_value *v = NULL;
    tl_str yaml = TL_STR_INIT;
    tl_status st = tl_yaml_write(&yaml, desc, value);
    if (st == TL_OK) st = tl_str_status(&yaml);
    if (st == TL_OK) st = tl_yaml_parse(&v, arena, tl_str_text(&yaml), yaml.length, key);
    if (st == TL_OK) add_value(j, key, v);
    tl_str_deinit(&yaml);
    return st;
}

/* --- shapes and layers ------------------------------------------------------------------------ */

/* [null, 28, 28, 1]: of a batch of any size. */
static void add_shape(tli_json *j, const char *key, const tl_shape *shape, bool batch)
{
    tl_str text = TL_STR_INIT;
    tl_str_addc(&text, '[');
    for (int i = 0; i < shape->rank; i++) {
        tl_str_add(&text, i ? ", " : "");
        if (batch && i == 0) tl_str_add(&text, "null");
        else tl_str_addf(&text, "%" PRId64, shape->dims[i]);
    }
    tl_str_addc(&text, ']');
    tli_json_raw(j, key, tl_str_text(&text));
    tl_str_deinit(&text);
}

static void add_parameters(tli_json *j, const tl_model *m, const tl_layer *l)
{
    bool begun = false;
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        if (p->layer != l) continue;
        if (!begun) tli_json_begin(j, "parameters", '{');
        begun = true;
        add_shape(j, p->path, &p->tensor->shape, false);
    }
    if (begun) tli_json_end(j, '}');
}

/* Depth first, in the order in which they were made. */
static tl_status add_layers(tli_json *j, tl_arena *arena, const tl_model *m, const tl_layer *l)
{
    tli_json_begin(j, NULL, '{');
    tli_json_text(j, "path", l->path);
    tli_json_text(j, "class", l->cls->cls.name);
    if (l->called) {
        add_shape(j, "input", &l->input, true);
        add_shape(j, "output", &l->output, true);
    }
    add_parameters(j, m, l);
    if (l->cls->cls.config && l->config)
        TL_TRY(add_struct(j, "config", arena, l->cls->cls.config, l->config));
    tli_json_end(j, '}');
    for (const tl_layer *child = l->first; child; child = child->next)
        TL_TRY(add_layers(j, arena, m, child));
    return TL_OK;
}

/* --- the file --------------------------------------------------------------------------------- */

static void add_origin(tli_json *j, const tl_finished *f)
{
    tli_json_text(j, "task", f->task->cls->cls.name);
    tli_json_text(j, "experiment", f->experiment);
    tli_json_text(j, "checkpoint", tl_path_basename(f->file));
    tli_json_int(j, "step", f->trainer->global_step);
    tli_json_bool(j, "averaged", f->averaged);
}

static void add_interface(tli_json *j, const tl_finished *f)
{
    const tl_model *m = f->trainer->model;
    int64_t count;
    const tl_spec *inputs = tl_model_inputs(m, &count);
    tl_answer_form form;
    tl_task_answer_form(f->task, &form);
    tli_json_begin(j, "inputs", '[');
    for (int64_t i = 0; i < count; i++) {
        tli_json_begin(j, NULL, '{');
        tli_json_text(j, "name", inputs[i].name);
        tli_json_text(j, "dtype", tl_dtype_name(inputs[i].dtype));
        add_shape(j, "shape", &inputs[i].shape, true);
        tli_json_end(j, '}');
    }
    tli_json_end(j, ']');
    tli_json_begin(j, "output", '{');
    add_shape(j, "shape", &m->output, true);
    tli_json_text(j, "activation", !form.classes ? "none" : form.several ? "sigmoid" : "softmax");
    tli_json_end(j, '}');
}

static void add_layouts(tli_json *j)
{
    tli_json_begin(j, "layouts", '{');
    tli_json_text(j, "images", "[batch, height, width, channels]");
    tli_json_text(j, "conv2d kernel", "[height, width, in, out]");
    tli_json_text(j, "dense kernel", "[in, out]");
    tli_json_end(j, '}');
}

tl_status tli_export_model(tl_str *out, const tl_finished *f)
{
    tli_json j = {.out = out, .indent = 2};
    const tl_task_config *task = f->params->task.value;
    const tl_model *m = f->trainer->model;
    tl_model_size size = tl_model_measure(m);
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "format", "tilth model");
    tli_json_int(&j, "version", TLI_EXPORT_VERSION);
    add_origin(&j, f);
    tli_json_text(&j, "computed_in", tl_dtype_name(f->task->dtype));
    tli_json_int(&j, "parameters", size.params + size.state);
    if (task->model.desc && task->model.value)
        TL_TRY(add_struct(&j, "model", f->arena, task->model.desc, task->model.value));
    add_interface(&j, f);
    add_layouts(&j);
    tli_json_begin(&j, "layers", '[');
    TL_TRY(add_layers(&j, f->arena, m, m));
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
    return tl_str_status(out);
}
