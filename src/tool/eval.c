#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/clock.h>
#include <tilth/comm/world.h>
#include <tilth/nn/metrics.h>
#include <tilth/train/writers/metrics_file.h>

#include "tool/confusion.h"
#include "tool/experiment.h"
#include "tool/finished.h"
#include "tool/worst.h"

typedef struct eval_flags {
    int64_t mistakes;
    const char *confusion;
    const char *detections;
    bool page, json;
    tl_strings config_file;
    const char *params_override;
} eval_flags;
static const tl_field eval_fields[] = {
    TL_F(
        eval_flags, mistakes, .i = 5, TL_AT_LEAST(0),
        .help =
            "for classifications: how many kinds of mistakes are printed, the most frequent first"),
    TL_F(eval_flags, confusion, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "of classifications: which classes are taken for which, all of it, to standard "
                 "output in place of the rest (csv, svg, json), or to a file whose name ends so"),
    TL_F(eval_flags, detections, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "of detectors: all that was found goes to this file, as COCO's results, for "
                 "pycocotools or `tilth eval_coco`"),
    TL_F(eval_flags, page,
         .help = "leave the confusion and the worst mistakes, as examples to look at, in the run's "
                 "folder (confusion.json, mistakes.json), where `board` and `report` show them"),
    TL_F(eval_flags, json,
         .help = "one JSON object: checkpoint, step, seconds, metrics, and the confusion when "
                 "asked for"),
    TL_F(eval_flags, config_file, .flags = TL_FIELD_PATH,
         .help = "YAML files on top of the run's params.yaml"),
    TL_F(eval_flags, params_override, .s = "", .flags = TL_FIELD_PATH,
         .help = "on top of them: a YAML file, or key=value pairs"),
    TL_F_END,
};
static const tl_desc eval_flags_desc = {
    .name = "eval",
    .help = "flags of `eval`",
    .size = sizeof(eval_flags),
    .fields = eval_fields,
};

enum { OUTPUT, RUN }; /* structs of flags, by their place in the command's table */

/* --- where the confusion goes ----------------------------------------------------------------- */

typedef enum table_form { NONE, CSV, SVG, JSON } table_form;
typedef struct destination {
    table_form form;
    const char *file; /* NULL: standard output */
} destination;

static tl_status read_destination(destination *out, const eval_flags *flags)
{
    static const char *const names[] = {[CSV] = "csv", [SVG] = "svg", [JSON] = "json"};
    const char *given = flags->confusion;
    *out = (destination){0};
    if (!given) return TL_OK;
    const char *dot = strrchr(given, '.');
    for (int i = CSV; i <= JSON; i++) {
        if (strcmp(given, names[i]) == 0) *out = (destination){(table_form)i, NULL};
        else if (dot && strcmp(dot + 1, names[i]) == 0) *out = (destination){(table_form)i, given};
    }
    if (!out->form)
        return TL_FAIL(TL_EINVAL,
                       "--confusion=%s: expected csv, svg or json, or the name of a file that ends "
                       "in .csv, .svg or .json",
                       given);
    if (flags->json && !out->file && out->form != JSON)
        return TL_FAIL(TL_EINVAL,
                       "--confusion=%s and --json both go to standard output: name a file, as in "
                       "--confusion=confusion.%s, or say --confusion=json",
                       given, given);
    return TL_OK;
}

/* --- what was found --------------------------------------------------------------------------- */

typedef struct outcome {
    const tl_finished *f;
    tl_logs *logs;
    double seconds;
    tli_confusion confusion; /* no classes: it was not counted */
} outcome;

/* Counts of what was taken for what; NULL for tasks that answer otherwise, and where examples may
 * have several classes, of which none is taken for another. The programs of the trainer are not
 * captured yet, so that a metric more is just one more. */
static tl_status count_mistakes(tl_metric **out, const tl_finished *f)
{
    const tl_shape *answers = &f->trainer->model->output;
    tl_answer_form form;
    *out = NULL;
    tl_task_answer_form(f->task, &form);
    if (!form.classes || form.several || answers->rank < 2) return TL_OK;
    return tl_metrics_add(out, f->trainer->validation_metrics, &tl_metric_confusion_matrix,
                          &(tl_confusion_config){.metric.silent = true,
                                                 .num_classes = answers->dims[answers->rank - 1]},
                          "counted mistakes");
}

static tl_status read_counts(double **out, int64_t *classes, const tl_finished *f,
                             tl_metric *counted)
{
    tl_ctx *c = f->trainer->ctx;
    tl_mark mark = tl_ctx_begin(c);
    tl_tensor *result = tl_metric_result(counted, c);
    *classes = result ? result->shape.dims[0] : 0;
    *out = tl_arena_array(f->arena, *classes * *classes + 1, sizeof **out);
    tl_status st = tl_ctx_status(c);
    if (st == TL_OK && !*out) st = TL_ENOMEM;
    if (st == TL_OK) st = tl_tensor_get_doubles(result, *out, *classes * *classes);
    tl_ctx_end(c, mark);
    return st;
}

static tl_status fill_confusion(tli_confusion *k, const tl_finished *f, tl_metric *counted)
{
    double *counts;
    TL_TRY(read_counts(&counts, &k->classes, f, counted));
    const char **names = tl_arena_array(f->arena, k->classes + 1, sizeof *names);
    if (!names) return TL_ENOMEM;
    for (int64_t i = 0; i < k->classes; i++)
        if (!(names[i] = tl_finished_class(f, i))) return TL_ENOMEM;
    k->counts = counts;
    k->names = names;
    return TL_OK;
}

static tl_status evaluate(outcome *o, const destination *to)
{
    const tl_trainer_config *t = o->f->params->trainer.value;
    tl_metric *counted;
    TL_TRY(count_mistakes(&counted, o->f));
    if (to->form && !counted)
        return TL_FAIL(TL_EINVAL,
                       "--confusion: the task '%s' does not choose one of several classes",
                       o->f->task->name);
    int64_t begin = tl_clock_ns();
    TL_TRY(tl_trainer_evaluate(o->f->trainer, t->validation_steps, o->logs));
    o->seconds = (double)(tl_clock_ns() - begin) * 1e-9;
    return counted ? fill_confusion(&o->confusion, o->f, counted) : TL_OK;
}

/* --- as text ---------------------------------------------------------------------------------- */

/* The most frequent one that comes behind those that were told: less often, or as often and further
 * on. -1: none. */
static int64_t next_mistake(const tli_confusion *k, int64_t last)
{
    int64_t best = -1;
    for (int64_t i = 0; i < k->classes * k->classes; i++) {
        double times = k->counts[i];
        if (i / k->classes == i % k->classes || times <= 0) continue;
        if (last >= 0 && (times > k->counts[last] || (times == k->counts[last] && i <= last)))
            continue;
        if (best < 0 || times > k->counts[best]) best = i;
    }
    return best;
}

static void tell_mistakes(tl_str *out, const tli_confusion *k, int64_t wanted)
{
    int64_t at = -1;
    for (int64_t i = 0; i < wanted && (at = next_mistake(k, at)) >= 0; i++)
        tl_str_addf(out, "%s  %.0f of class '%s' taken for '%s'\n",
                    i ? "" : "mistakes, most frequent first:\n", k->counts[at],
                    k->names[at / k->classes], k->names[at % k->classes]);
}

static tl_status add_report(const tl_logs_entry *e, void *payload)
{
    if (e->kind == TL_LOGS_TEXT) tl_str_addf(payload, "%s\n", e->text);
    return TL_OK;
}

static tl_status tell_text(tl_str *out, const outcome *o, int64_t mistakes)
{
    tl_str_addf(out, "%s, step %" PRId64 ", in %.1f s:\n", o->f->file, o->f->trainer->global_step,
                o->seconds);
    TL_TRY(tli_add_numbers(out, o->logs, 0, 6, NULL));
    tell_mistakes(out, &o->confusion, mistakes);
    // what the task has to say instead
    if (!o->confusion.classes) TL_TRY(tl_logs_walk(o->logs, add_report, out));
    return tl_str_status(out);
}

/* --- as JSON ---------------------------------------------------------------------------------- */

static tl_status add_member(const tl_logs_entry *e, void *payload)
{
    double value;
    if (e->kind != TL_LOGS_NUMBER) return TL_OK;
    TL_TRY(tl_logs_entry_number(&value, e));
    tli_json_number(payload, e->name, value);
    return TL_OK;
}

static tl_status tell_json(tl_str *out, const outcome *o, bool confusion)
{
    tli_json j = {.out = out};
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "checkpoint", o->f->file);
    tli_json_int(&j, "step", o->f->trainer->global_step);
    tli_json_number(&j, "seconds", round(o->seconds * 1000) / 1000);
    tli_json_begin(&j, "metrics", '{');
    TL_TRY(tl_logs_walk(o->logs, add_member, &j));
    tli_json_end(&j, '}');
    if (confusion) tli_confusion_json(&j, "confusion", &o->confusion);
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
    return tl_str_status(out);
}

/* --- for others ------------------------------------------------------------------------------- */

/* Whether a checkpoint, which may be the prefix of several files, lies in a folder, or below it. */
static bool lies_in(const char *file, const char *folder, tl_arena *arena)
{
    const char *slash = strrchr(file, '/'),
               *above = slash ? tl_arena_strndup(arena, file, (size_t)(slash - file) + 1) : ".";
    char *inner = above ? realpath(above, NULL) : NULL, *outer = realpath(folder, NULL);
    size_t length = outer ? strlen(outer) : 0;
    bool in = inner && outer && strncmp(inner, outer, length) == 0
              && (inner[length] == '/' || !inner[length]);
    free(inner);
    free(outer);
    return in;
}

/* It is an event of the run when it is the run that was evaluated: its weights, with its own
 * configuration. */
static bool is_of_the_run(const tl_finished *f, const tl_finished_args *a)
{
    bool changed =
        a->word_count || a->config_file.count || (a->params_override && *a->params_override);
    return f->kind != TL_FOLDER_EXPORTED && !changed && f->file
           && lies_in(f->file, a->folder, f->arena);
}

/* --- the command ------------------------------------------------------------------------------ */

static void add_confusion(tl_str *out, const tli_confusion *k, table_form form)
{
    tli_json j = {.out = out};
    if (form == CSV) tli_confusion_csv(out, k);
    if (form == SVG) tli_confusion_svg(out, k);
    if (form != JSON) return;
    tli_confusion_json(&j, NULL, k);
    tl_str_addc(out, '\n');
}

static tl_status write_confusion(const tli_confusion *k, const destination *to)
{
    tl_str text = TL_STR_INIT;
    add_confusion(&text, k, to->form);
    tl_status st = tli_write_file(to->file, &text);
    tl_str_deinit(&text);
    return st;
}

static tl_status write_in(const char *folder, const char *name, const tl_str *text)
{
    tl_str path = TL_STR_INIT;
    tl_str_addf(&path, "%s/%s", folder, name);
    tl_status st = tl_str_status(&path);
    if (st == TL_OK) st = tl_str_status(text);
    if (st == TL_OK) st = tli_write_file(tl_str_text(&path), text);
    tl_str_deinit(&path);
    return st;
}

/* What the page shows of an evaluation, in the folder of the run. */
static tl_status write_for_page(const outcome *o, const tl_finished_args *which)
{
    tl_str text = TL_STR_INIT;
    tl_status st = TL_OK;
    if (o->confusion.classes) {
        add_confusion(&text, &o->confusion, JSON);
        st = write_in(which->folder, "confusion.json", &text);
        tl_str_cut(&text, 0);
    }
    const tl_trainer_config *t = o->f->params->trainer.value;
    if (st == TL_OK) st = tli_worst_find(&text, o->f, t->validation_steps);
    if (st == TL_OK) st = write_in(which->folder, "mistakes.json", &text);
    tl_str_deinit(&text);
    return st == TL_OK ? TL_OK : tl_error_note(st, "--page");
}

static tl_status check_page(const tl_finished *f, const tl_finished_args *which)
{
    if (!is_of_the_run(f, which))
        return TL_FAIL(TL_EINVAL, "--page: this is not the run's own evaluation: the page shows "
                                  "its own weights and its own configuration");
    if (!tli_worst_can(f))
        return TL_FAIL(TL_EINVAL,
                       "--page: answers of the task '%s' are neither one of several classes nor a "
                       "number, so that no examples of mistakes can be chosen",
                       f->task->name);
    return TL_OK;
}

static tl_status tell(tli_run *run, const outcome *o, const destination *to)
{
    const eval_flags *flags = run->given[OUTPUT];
    if (to->file) TL_TRY(write_confusion(&o->confusion, to));
    if (flags->json || (to->form == JSON && !to->file))
        return tell_json(&run->text, o, to->form != NONE);
    if (to->file || !to->form) return tell_text(&run->text, o, flags->mistakes);
    if (to->form == CSV) run->form = TLI_FORM_DATA;
    add_confusion(&run->text, &o->confusion, to->form);
    return tl_str_status(&run->text);
}

/* All have read the same weights: while a training goes on, the latest may be another one. */
static tl_status compare_steps(tl_world *world, const tl_finished *f)
{
    tl_comm *c = tl_world_comm(world);
    int64_t steps[TL_COMM_RANKS], own = f->trainer->global_step;
    tl_part parts[TL_COMM_RANKS];
    for (int32_t r = 0; r < c->size; r++) parts[r] = (tl_part){&steps[r], sizeof steps[r]};
    TL_TRY(tl_comm_all_gather(c->world, &(tl_part){&own, sizeof own}, parts));
    for (int32_t r = 1; r < c->size; r++)
        if (steps[r] != steps[0])
            return TL_FAIL(TL_ESTATE,
                           "rank %" PRId32 " has read the checkpoint of step %" PRId64
                           ", rank 0 that of step %" PRId64
                           ": a training goes on in the folder; name one (--checkpoint=ckpt-N)",
                           r, steps[r], steps[0]);
    return TL_OK;
}

static tl_status eval_in(tli_run *run, tl_world *world)
{
    const eval_flags *flags = run->given[OUTPUT];
    const bool chief = !world || tl_world_comm(world)->rank == 0;
    tl_finished_args which = tli_finished_args(run, run->given[RUN]);
    tl_finished f;
    outcome o = {.f = &f};
    destination to;
    TL_TRY(read_destination(&to, flags));
    if (world && flags->page)
        return TL_FAIL(TL_EUNSUPPORTED, "--page: mistakes are looked for by one process, and there "
                                        "are several: evaluate without it, or with one");
    which.evaluates = true;
    which.world = world;
    which.config_file = flags->config_file;
    which.params_override = flags->params_override;
    TL_TRY(tli_words_of(&which.words, &which.word_count, run));
    tl_status st = tl_finished_open(&f, &which);
    if (st == TL_OK) st = tl_logs_new(&o.logs);
    if (st == TL_OK && world) st = compare_steps(world, &f);
    if (st == TL_OK && chief && flags->detections) {
        st = tl_task_write_objects(f.task, flags->detections);
        if (st != TL_OK) st = tl_error_note(st, "--detections");
    }
    if (st == TL_OK && flags->page) st = check_page(&f, &which);
    if (st == TL_OK) st = evaluate(&o, &to);
    if (st == TL_OK && flags->page) st = write_for_page(&o, &which);
    if (st == TL_OK && chief && is_of_the_run(&f, &which))
        tl_metrics_file_evaluated(which.folder, f.trainer->global_step, o.logs);
    if (st == TL_OK && chief) st = tell(run, &o, &to);
    tl_logs_free(&o.logs);
    tl_finished_close(&f);
    return st;
}

static tl_status run_eval(tli_run *run)
{
    tl_world *world = NULL;
    tl_who who;
    TL_TRY(tl_who_find(&who, NULL));
    if (who.size == 1) return eval_in(run, NULL);
    TL_TRY(tl_world_open(&world, NULL));
    tl_status st = eval_in(run, world);
    if (st == TL_OK) st = tl_comm_barrier(tl_world_comm(world)->world); // all leave together
    tl_world_close(&world, st);
    return st;
}

const tli_command tli_command_eval = {
    .name = "eval",
    .brief = "evaluates a run that was trained before",
    .usage =
        "--model_dir=FOLDER [--checkpoint=latest|best|PATH] [--page] [--json] "
        "[--confusion=csv|svg|FILE] [--detections=FILE] [--config_file=FILE] "
        "[--params_override=PAIRS] [WORD...]\n\n"
        "Evaluates the model of a run with its validation data, and prints the metrics, and which "
        "classes are taken for each other. It writes only the files of --confusion, "
        "--detections and --page, and a line of the run's metrics.jsonl unless the configuration "
        "is changed. "
        "Words change the "
        "configuration, such as task.validation_data.input_path=FILES:\n" TLI_WORDS_HELP,
    .flags = {{"Output", &eval_flags_desc}, {"Run", &tli_finished_flags_desc}},
    .takes_overrides = true,
    .run = run_eval,
};
