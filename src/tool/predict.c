#include "tool/predict.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/train/distill/distillation.h>
#include <tilth/zoo/language.h>
#include <tilth/zoo/retinanet.h>
#include <tilth/zoo/segmentation.h>
#include <tilth/zoo/simclr.h>
#include <tilth/zoo/table.h>
#include <tilth/zoo/vision.h>

#include "base/inner/folder.h"
#include "tool/confusion.h"
#include "tool/finished.h"

static const tl_field predict_fields[] = {
    TL_F(tli_predict_flags, top, .i = 3, TL_AT_LEAST(1),
         .help = "classes that are printed for each image or text; of pixels always all"),
    TL_F(tli_predict_flags, count, .i = 0, TL_AT_LEAST(0),
         .help = "images or texts that are taken from each file with several (idx, TFRecord, CSV, "
                 "lines); 0: all"),
    TL_F(tli_predict_flags, csv,
         .help =
             "a table: file, class, probability, and the next classes; a row for each object, or "
             "class of pixels; of a table, its rows with the answers behind them"),
    TL_F(tli_predict_flags, text_columns, .flags = TL_FIELD_NULLABLE,
         .help = "columns of CSV, TSV and JSONL that hold texts, one or a pair; else as the run "
                 "was trained"),
    TL_F(tli_predict_flags, score, .d = 0.3, TL_RANGE(0, 1),
         .help = "objects in pictures that are told have at least this score"),
    TL_F(tli_predict_flags, pictures, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "folder for the pictures with the objects, or the classes of pixels, drawn into "
                 "them, as PNG files; it is made"),
    TL_F(tli_predict_flags, json,
         .help =
             "a JSON object a line: file, class, probability, top; file, objects; file, classes"),
    TL_F_END,
};
static const tl_desc predict_flags_desc = {
    .name = "predict",
    .help = "flags of `predict`",
    .size = sizeof(tli_predict_flags),
    .fields = predict_fields,
};

enum { OUTPUT, RUN }; /* structs of flags, by their place in the command's table */

/* --- classes and numbers ---------------------------------------------------------------------- */

static bool has_classes(const tli_telling *t)
{
    return tl_predictor_form(t->asking->p).classes;
}

static void tell_plainly(tl_str *out, const tli_telling *t)
{
    const tl_prediction *a = t->answer;
    tl_str_addf(out, "%s:", t->file);
    for (int64_t i = 0; i < a->top_count; i++)
        tl_str_addf(out, "%s %s %.3f", i ? "," : "", a->top[i].name, a->top[i].probability);
    for (int64_t i = 0; i < a->count && !has_classes(t); i++)
        tl_str_addf(out, "%s %g", i ? "," : "", (double)a->values[i]);
    tl_str_addc(out, '\n');
}

/* The columns are those of the first answer: all have as many. */
static void tell_head(tl_str *out, const tli_telling *t)
{
    const tl_prediction *a = t->answer;
    tl_str_add(out, "file");
    for (int64_t i = 0; i < a->top_count; i++) {
        if (i) tl_str_addf(out, ",class_%" PRId64 ",probability_%" PRId64, i + 1, i + 1);
        else tl_str_add(out, ",class,probability");
    }
    for (int64_t i = 0; i < a->count && !has_classes(t); i++) {
        if (i) tl_str_addf(out, ",value_%" PRId64, i + 1);
        else tl_str_add(out, ",value");
    }
    tl_str_addc(out, '\n');
}

static void tell_row(tl_str *out, const tli_telling *t)
{
    const tl_prediction *a = t->answer;
    tli_csv_add(out, t->file);
    for (int64_t i = 0; i < a->top_count; i++) {
        tl_str_addc(out, ',');
        tli_csv_add(out, a->top[i].name);
        tl_str_addf(out, ",%.7g", a->top[i].probability);
    }
    for (int64_t i = 0; i < a->count && !has_classes(t); i++)
        tl_str_addf(out, ",%.9g", (double)a->values[i]);
    tl_str_addc(out, '\n');
}

double tli_rounded(double value, int digits)
{
    char text[40];
    snprintf(text, sizeof text, "%.*g", digits, value);
    return tl_strtod(text, NULL);
}

static void add_answer(tli_json *j, const tl_answer *a)
{
    tli_json_text(j, "class", a->name);
    tli_json_number(j, "probability", tli_rounded(a->probability, 7));
}

static void tell_object(tl_str *out, const tli_telling *t)
{
    const tl_prediction *a = t->answer;
    tli_json j = {.out = out};
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "file", t->file);
    if (has_classes(t)) {
        if (a->top_count) add_answer(&j, &a->top[0]);
        tli_json_begin(&j, "top", '[');
        for (int64_t i = 0; i < a->top_count; i++) {
            tli_json_begin(&j, NULL, '{');
            add_answer(&j, &a->top[i]);
            tli_json_end(&j, '}');
        }
        tli_json_end(&j, ']');
    } else if (a->count == 1) {
        tli_json_number(&j, "value", tli_rounded(a->values[0], 9));
    } else {
        tli_json_begin(&j, "values", '[');
        for (int64_t i = 0; i < a->count; i++)
            tli_json_number(&j, NULL, tli_rounded(a->values[i], 9));
        tli_json_end(&j, ']');
    }
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
}

static const tli_teller tell_classes = {
    .plainly = tell_plainly, .json = tell_object, .head = tell_head, .rows = tell_row};

static const tli_teller *teller_of(const tl_answer_form *form)
{
    return form->objects ? &tli_tell_objects : form->pixels ? &tli_tell_pixels : &tell_classes;
}

/* --- asking ----------------------------------------------------------------------------------- */

void tli_ask_tell(tli_asking *a, const tli_telling *t)
{
    if (a->flags->json) {
        a->teller->json(&a->text, t);
    } else if (a->flags->csv) {
        if (!a->begun) a->teller->head(&a->text, t);
        a->teller->rows(&a->text, t);
    } else {
        a->teller->plainly(&a->text, t);
    }
    a->begun = true;
    a->told++;
}

tl_status tli_ask_failed(tli_asking *a, tl_status status)
{
    if (status == TL_ENOMEM || a->ended) return status;
    tli_complain(a->run->tool, "predict", tl_error_message());
    tl_error_clear();
    a->failed++;
    return TL_OK;
}

/* A picture that cannot be drawn, or written, is told all the same. */
static tl_status answer_one(tli_asking *a, const tl_query *query, const tl_prediction *one)
{
    tli_telling t = {.asking = a, .file = query->file, .answer = one};
    if (one->status != TL_OK) {
        tli_complain(a->run->tool, "predict", one->message);
        a->failed++;
        return TL_OK;
    }
    tl_status st = a->flags->pictures ? tli_draw_answer(a, query, &t) : TL_OK;
    if (st != TL_OK) {
        TL_TRY(tli_ask_failed(a, st));
        a->failed--;
        a->undrawn++;
    }
    tli_ask_tell(a, &t);
    return TL_OK;
}

static tl_status answer(tli_asking *a)
{
    tl_predictions *answers = NULL;
    TL_TRY(tl_predictor_run(&answers, a->p, a->queries, a->waiting));
    tl_status st = TL_OK;
    for (int64_t i = 0; i < a->waiting && st == TL_OK; i++)
        st = answer_one(a, &a->queries[i], &answers->items[i]);
    tl_predictions_free(&answers);
    TL_TRY(st);
    tl_arena_free(&a->names);
    return tl_arena_new(&a->names);
}

tl_status tli_ask_flush(tli_asking *a)
{
    if (a->ended) return TL_OK;
    tl_status st = a->waiting ? answer(a) : TL_OK;
    if (st == TL_OK)
        st = tli_write_form(a->run->tool, &a->text, a->flags->csv ? TLI_FORM_DATA : TLI_FORM_PLAIN);
    tl_str_cut(&a->text, 0);
    a->waiting = 0;
    a->ended = st != TL_OK;
    return st;
}

tl_status tli_ask(tli_asking *a, const char *name, const tl_query *query)
{
    tl_query *q = &a->queries[a->waiting];
    *q = *query;
    q->file = tl_arena_strdup(a->names, name);
    if (!q->file) return TL_ENOMEM;
    return ++a->waiting == a->at_once ? tli_ask_flush(a) : TL_OK;
}

/* --- the command ------------------------------------------------------------------------------ */

/* A file is one query. */
static tl_status ask_file(tli_asking *a, const char *path)
{
    return tli_ask(a, path, &(tl_query){0});
}

/* What a word of the command line names, by the configuration of the task that is asked. */
typedef struct reader {
    const tl_desc *task;
    tl_status (*ask)(tli_asking *a, const char *path);
} reader;
static const reader readers[] = {{&tl_image_task_config_desc, tli_ask_images},
                                 {&tl_retinanet_task_config_desc, tli_ask_images},
                                 {&tl_segmentation_task_config_desc, tli_ask_images},
                                 {&tl_simclr_finetune_config_desc, tli_ask_images},
                                 {&tl_table_task_config_desc, tli_ask_table},
                                 {&tl_sentence_task_config_desc, tli_ask_texts},
                                 {&tl_sentence_text_task_config_desc, tli_ask_texts},
                                 {&tl_text_task_config_desc, tli_ask_texts},
                                 {&tl_task_config_desc, ask_file}};

static const reader *reader_of(const tl_desc *task)
{
    const reader *r = readers;
    while (r->ask != ask_file && !tl_desc_is(task, r->task)) r++;
    return r;
}

tl_object tli_answering(const tl_experiment_config *params)
{
    tl_object task = params->task;
    while (task.desc && tl_desc_is(task.desc, &tl_distillation_config_desc)) {
        const tl_oneof *student = &((const tl_distillation_config *)task.value)->student;
        if (!student->desc) break;
        task = (tl_object){student->desc, student->value};
    }
    return task;
}

const char *tli_predict_example(const tl_experiment_config *params, tl_arena *arena)
{
    const tl_object object = tli_answering(params);
    if (!object.desc) return NULL;
    const reader *r = reader_of(object.desc);
    if (r->task == &tl_table_task_config_desc || r->task == &tl_text_task_config_desc)
        return TLI_ANY_TABLE;
    if (r->ask != tli_ask_images) return NULL;
    const tl_data_config *data = ((const tl_task_config *)object.value)->validation_data;
    const bool arrays = r->task == &tl_image_task_config_desc && data
                        && ((const tl_image_data_config *)data)->file_type == TL_IMAGES_IDX;
    const tl_value *path = arrays ? data->input_path : NULL;
    if (!path || path->kind != TL_VALUE_SCALAR) return TLI_ANY_IMAGE;
    const char *first = tl_arena_strndup(arena, path->text, strcspn(path->text, ","));
    return first ? first : TLI_ANY_IMAGE;
}

static tl_status ask_all(tli_asking *a)
{
    const reader *r = reader_of(tli_answering(tl_predictor_finished(a->p)->params).desc);
    for (int64_t i = 0; i < a->run->words.count; i++) {
        tl_status st = r->ask(a, a->run->words.items[i]);
        if (st != TL_OK) TL_TRY(tli_ask_failed(a, st));
    }
    TL_TRY(tli_ask_flush(a));
    if (a->failed)
        return TL_FAIL(TL_EIO, "%" PRId64 " could not be read (see above); %" PRId64 " could",
                       a->failed, a->told);
    if (a->undrawn)
        return TL_FAIL(TL_EIO, "%" PRId64 " could not be drawn (see above); %" PRId64 " could",
                       a->undrawn, a->told - a->undrawn);
    return TL_OK;
}

/* Opens the model, and the folder that pictures go to. */
static tl_status open_asking(tli_asking *a, const tli_finished_flags *which)
{
    const char *pictures = a->flags->pictures;
    TL_TRY(tl_predictor_open(&a->p, a->run->registry, which->model_dir,
                             &(tl_predictor_args){.checkpoint = which->checkpoint,
                                                  .experiment = which->experiment,
                                                  .top = a->flags->top}));
    TL_TRY(tl_arena_new(&a->names));
    const tl_answer_form form = tl_predictor_form(a->p);
    a->teller = teller_of(&form);
    a->at_once = form.pixels ? TLI_MAPPED_AT_ONCE : TLI_ASKED_AT_ONCE;
    if (!pictures) return TL_OK;
    if (!a->teller->draw)
        return TL_FAIL(TL_EINVAL,
                       "--pictures: this run finds neither objects nor classes of pixels that "
                       "could be drawn");
    TL_TRY_NOTE(tl_mkdirs(pictures), "--pictures");
    return tli_folder_hold_new(&a->hold, pictures); // names may come from records
}

static tl_status run_predict(tli_run *run)
{
    const tli_predict_flags *flags = run->given[OUTPUT];
    tli_asking a = {.run = run, .flags = flags, .text = TL_STR_INIT, .drawn = TL_MAP_INIT};
    if (!run->words.count)
        return TL_FAIL(TL_EINVAL,
                       "no image is named: say one or more files (PNG, JPEG, idx, TFRecord; CSV, "
                       "TSV or npy for a run of a table; CSV, TSV, JSONL, lines of text or - for "
                       "a run of texts) or folders");
    if (flags->csv && flags->json) return TL_FAIL(TL_EINVAL, "--csv and --json cannot be combined");
    tl_status st = open_asking(&a, run->given[RUN]);
    if (st == TL_OK) st = ask_all(&a);
    tl_map_deinit(&a.drawn);
    tli_folder_hold_free(&a.hold);
    tl_str_deinit(&a.text);
    tl_arena_free(&a.names);
    tl_predictor_free(&a.p);
    return st;
}

const tli_command tli_command_predict = {
    .name = "predict",
    .brief = "predicts classes of images, pixels or texts, objects in images, or targets of a "
             "table's rows",
    .usage =
        "--model_dir=FOLDER [--checkpoint=latest|best|PATH] [--csv|--json] [--pictures=FOLDER] "
        "FILE...\n\n"
        "Gives images to the model of a run, or to an exported model, and prints the "
        "likeliest classes of each with their probabilities, as it goes; of a detector the objects "
        "in it, with their boxes as ymin, xmin, ymax, xmax in pixels; of a model of segmentation "
        "the classes of its pixels, with their shares. --pictures draws both: "
        "FOLDER/photos/a.jpg.png "
        "is photos/a.jpg with what was found, FOLDER/photos/a.jpg.labels.png has the number of a "
        "class at each pixel. Files are PNG or "
        "JPEG, idx or TFRecord files with several images, or folders, of which all images in "
        "them and below them are taken. For a run of a table they are CSV, TSV or npy, and "
        "rows are named FILE:LINE; for a run of texts CSV, TSV or JSONL with the column of the "
        "texts, files with a text on each line, - for lines of standard input, or folders of "
        ".txt files. A file that cannot be read is reported on standard error, "
        "and the others are still read; the exit code is then 1.",
    .flags = {{"Output", &predict_flags_desc}, {"Run", &tli_finished_flags_desc}},
    .run = run_predict,
};
