#include "tool/ckpt.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/io/checkpoint/manager.h>

#include "base/inner/clean.h"
#include "core/inner/element.h"
#include "io/inner/checkpoint.h"

typedef struct ckpt_flags {
    bool stats, json;
    double tolerance;
    bool overwrite;
    const char *experiment, *format, *out;
} ckpt_flags;
static const tl_field ckpt_fields[] = {
    TL_F(ckpt_flags, stats,
         .help = "show: the least, mean and greatest element of each tensor, and how many "
                 "are not finite"),
    TL_F(ckpt_flags, json,
         .help =
             "show: a JSON object, {\"checkpoints\": [{\"file\", ..., \"entries\": [...]}, ...]}"),
    TL_F(ckpt_flags, tolerance,
         .help = "diff: numbers that differ by no more than this count as equal"),
    TL_F(ckpt_flags, overwrite, .help = "convert, merge: replaces files that exist"),
    TL_F(ckpt_flags, experiment, .flags = TL_FIELD_NULLABLE,
         .help = "convert: the experiment of the run, if its folder does not name it"),
    TL_F(ckpt_flags, format, .flags = TL_FIELD_NULLABLE, .pattern = "^hf$",
         .help = "convert: hf makes TO a folder of Hugging Face, of a BERT"),
    TL_F(ckpt_flags, out, .flags = TL_FIELD_NULLABLE, .help = "merge: the file to write"),
    TL_F_END,
};
static const tl_desc ckpt_flags_desc = {
    .name = "ckpt",
    .help = "flags of `ckpt`",
    .size = sizeof(ckpt_flags),
    .fields = ckpt_fields,
};

/* --- rows ------------------------------------------------------------------------------------- */

static void add_spec(tl_str *out, const tl_safetensors_entry *e)
{
    tl_str spec = TL_STR_INIT;
    tl_safetensors_spec(&spec, e);
    const char *shape = strchr(tl_str_text(&spec), '[');
    if (e->readable) tl_str_addf(out, "%s%s", tl_dtype_name(e->dtype), shape ? shape : "");
    else tli_add_clean_word(out, tl_str_text(&spec));
    tl_str_deinit(&spec);
}

static void add_value(tl_str *out, const tl_state_entry *e)
{
    enum { SHOWN_TEXT = 60, SHOWN_WORDS = 4 };
    char number[32];
    tl_str_addf(out, "%s ", tl_state_kind_name(e->kind));
    switch (e->kind) {
    case TL_STATE_INT: tl_str_addf(out, "%" PRId64, e->i); break;
    case TL_STATE_DOUBLE:
        tl_double_text(number, e->d);
        tl_str_add(out, number);
        break;
    case TL_STATE_BOOL: tl_str_add(out, e->b ? "true" : "false"); break;
    case TL_STATE_TEXT:
        tl_str_addf(out, "'%.*s%s'", SHOWN_TEXT, e->text,
                    strlen(e->text) > SHOWN_TEXT ? "..." : "");
        break;
    case TL_STATE_WORDS:
        for (int64_t i = 0; i < e->count && i < SHOWN_WORDS; i++)
            tl_str_addf(out, "%s%016" PRIx64, i ? " " : "", e->words[i]);
        if (e->count > SHOWN_WORDS) tl_str_addf(out, " ... (%" PRId64 ")", e->count);
        break;
    default: break;
    }
}

tl_status tli_ckpt_add_row(tli_ckpt *k, tl_arena *arena, const char *path,
                           const tl_state_entry *value, const tl_safetensors_entry *e)
{
    tli_ckpt_row *row = &k->rows[k->count];
    tl_str text = TL_STR_INIT, clean = TL_STR_INIT, json = TL_STR_INIT;
    if (value) add_value(&text, value);
    else add_spec(&text, e);
    if (value) tli_ckpt_json_value(&json, value);
    tli_add_clean_word(&clean, tl_str_text(&text));
    *row = (tli_ckpt_row){.path = tl_arena_strdup(arena, path),
                          .text = tl_str_copy(&clean, arena),
                          .entry = e,
                          .tensor = !value,
                          .kind = value ? tl_state_kind_name(value->kind) : "tensor",
                          .value = tl_str_copy(&json, arena)};
    tl_str_deinit(&text);
    tl_str_deinit(&clean);
    tl_str_deinit(&json);
    if (!row->path || !row->text || !row->value) return TL_ENOMEM;
    k->count++;
    return tl_map_set(&k->by_path, path, row);
}

typedef struct rows {
    tli_ckpt *k;
    tl_arena *arena;
    bool alike;
} rows;

static tl_status add_state_entry(const tl_state_entry *e, void *payload)
{
    const rows *r = payload;
    const tl_safetensors_entry *tensor = tl_checkpoint_find(r->k->c, e->path), *bytes = tensor;
    bool number = e->kind == TL_STATE_INT || e->kind == TL_STATE_DOUBLE || e->kind == TL_STATE_BOOL;
    if (!tensor) bytes = tl_safetensors_find(tl_checkpoint_file(r->k->c), e->path);
    bool alias = strcmp(bytes->name, e->path) != 0;
    if (alias && r->alike) return TL_OK;
    bool as_value = !tensor && !(number && r->alike);
    TL_TRY(tli_ckpt_add_row(r->k, r->arena, e->path, as_value ? e : NULL, bytes));
    if (alias) r->k->rows[r->k->count - 1].same_as = bytes->name;
    return TL_OK;
}

static tl_status add_file(tli_ckpt *k, tl_arena *arena, bool alike)
{
    rows r = {k, arena, alike};
    int64_t entries, bytes;
    const tl_safetensors *f = tl_checkpoint_file(k->c);
    TL_TRY(tl_state_size(tl_checkpoint_state(k->c), &entries, &bytes));
    int64_t most = entries > tl_safetensors_count(f) ? entries : tl_safetensors_count(f);
    k->rows = tl_arena_array(arena, most, sizeof *k->rows);
    if (!k->rows) return TL_ENOMEM;
    if (tl_checkpoint_version(k->c))
        return tl_state_walk(tl_checkpoint_state(k->c), add_state_entry, &r);
    for (int64_t i = 0; i < tl_safetensors_count(f); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(f, i);
        TL_TRY(tli_ckpt_add_row(k, arena, e->name, NULL, e));
    }
    return TL_OK;
}

tl_status tli_ckpt_open(tli_ckpt *out, tl_arena *arena, const char *file, bool bundle, bool alike)
{
    bool damaged;
    tl_status st;
    *out = (tli_ckpt){.file = file};
    if (bundle) {
        st = tl_tensorbundle_open(&out->b, file);
        if (st != TL_OK) return st == TL_EINVAL ? tli_tool_damaged() : st;
        return tli_ckpt_add_bundle(out, arena, alike);
    }
    st = tli_checkpoint_open(&out->c, file, true, &damaged);
    if (st != TL_OK) return damaged ? tli_tool_damaged() : st;
    return add_file(out, arena, alike);
}

void tli_ckpt_deinit(tli_ckpt *k)
{
    tl_map_deinit(&k->by_path);
    tl_checkpoint_free(&k->c);
    tl_tensorbundle_free(&k->b);
}

/* --- show ------------------------------------------------------------------------------------- */

static void add_size(tl_str *out, int64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double size = (double)bytes;
    for (; size >= 1024 && unit < 4; unit++) size /= 1024;
    tl_str_addf(out, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
}

static void add_kind(tl_str *out, const tli_ckpt *k)
{
    int version = k->c ? tl_checkpoint_version(k->c) : 0;
    const char *numerics = version ? tl_checkpoint_numerics(k->c) : NULL;
    const int64_t files = k->c ? tl_safetensors_file_count(tl_checkpoint_file(k->c)) : 0;
    if (k->b)
        tl_str_addf(out, "TensorBundle, %" PRId64 " data file%s", tl_tensorbundle_shards(k->b),
                    tl_tensorbundle_shards(k->b) == 1 ? "" : "s");
    else if (version)
        tl_str_addf(out, "checkpoint, version %d, checksum %08" PRIx32, version,
                    tl_checkpoint_crc(k->c));
    else tl_str_add(out, "plain safetensors, no checksum");
    if (files) tl_str_addf(out, ", %" PRId64 " file%s", files, files == 1 ? "" : "s");
    if (!numerics) return;
    tl_str_add(out, ", computed with '");
    tli_add_clean_word(out, numerics);
    tl_str_addc(out, '\'');
}

static void add_summary(tl_str *out, const tli_ckpt *k)
{
    int64_t bytes = 0, elements = 0;
    for (int64_t i = 0; i < k->count; i++) {
        const tl_safetensors_entry *e = k->rows[i].entry;
        if (k->rows[i].same_as) continue;
        bytes += (int64_t)e->bytes;
        if (k->rows[i].tensor && e->readable && tl_dtype_is_float(e->dtype))
            elements += (int64_t)(e->bytes / tl_dtype_size(e->dtype));
    }
    tl_str_addf(out, "%s: ", k->file);
    add_kind(out, k);
    tl_str_addf(out, "\n%" PRId64 " entries, %" PRId64 " floating-point elements in tensors, ",
                k->count, elements);
    add_size(out, bytes);
    tl_str_addc(out, '\n');
}

static void add_notes(tl_str *out, const tl_safetensors *f)
{
    for (int64_t i = 0; i < tl_safetensors_note_count(f); i++) {
        const tl_safetensors_note *note = tl_safetensors_note_at(f, i);
        if (strncmp(note->key, "tilth.", 6) == 0) continue;
        tli_add_clean_word(out, note->key);
        tl_str_add(out, " = ");
        tli_add_clean_word(out, note->value);
        tl_str_addc(out, '\n');
    }
}

tli_ckpt_stats tli_ckpt_measure(const tl_safetensors_entry *e)
{
    tli_ckpt_stats s = {.least = INFINITY, .greatest = -INFINITY};
    double sum = 0, element[1];
    size_t size = tl_dtype_size(e->dtype);
    int64_t count = (int64_t)(e->bytes / size);
    for (int64_t i = 0; i < count; i++) {
        tl_safetensors_bytes(element, e, (size_t)i * size, size); // files are not aligned
        double x = tli_element_get(e->dtype, element, 0);
        if (!isfinite(x)) continue;
        s.least = fmin(s.least, x);
        s.greatest = fmax(s.greatest, x);
        sum += x;
        s.finite++;
    }
    s.strange = count - s.finite;
    if (!s.finite) return (tli_ckpt_stats){.strange = s.strange};
    s.mean = sum / (double)s.finite;
    return s;
}

static void add_stats(tl_str *out, const tl_safetensors_entry *e)
{
    tli_ckpt_stats s = tli_ckpt_measure(e);
    if (s.finite)
        tl_str_addf(out, "  least %.6g, mean %.6g, greatest %.6g", s.least, s.mean, s.greatest);
    if (s.strange) tl_str_addf(out, "  %" PRId64 " NOT FINITE", s.strange);
}

/* Longer ones stand alone: all others would be filled up with as many blanks. */
enum { WIDEST_PATH = 200 };

static tl_status show(tli_run *run, const char *word, bool stats)
{
    tli_ckpt k = {0};
    tl_str *out = &run->text;
    const char *file;
    bool bundle;
    size_t width = 0;
    tl_status st;
    TL_TRY_DONE(st, tl_checkpoint_locate(&file, &bundle, run->arena, word));
    TL_TRY_DONE(st, tli_ckpt_open(&k, run->arena, file, bundle, false));
    add_summary(out, &k);
    if (k.c) add_notes(out, tl_checkpoint_file(k.c));
    tl_str_addc(out, '\n');
    for (int64_t i = 0; i < k.count; i++)
        width = strlen(k.rows[i].path) > width ? strlen(k.rows[i].path) : width;
    if (width > WIDEST_PATH) width = WIDEST_PATH;
    for (int64_t i = 0; i < k.count; i++) {
        const tli_ckpt_row *row = &k.rows[i];
        tli_add_clean_word(out, row->path);
        tl_str_pad(out, ' ',
                   strlen(row->path) < width ? (int64_t)(width + 2 - strlen(row->path)) : 2);
        tl_str_add(out, row->text);
        if (row->same_as) tl_str_addf(out, ", the same as %s", row->same_as);
        else if (stats && row->entry->readable && row->tensor) add_stats(out, row->entry);
        tl_str_addc(out, '\n');
    }
    st = tl_str_status(out);
done:
    tli_ckpt_deinit(&k);
    return st;
}

static tl_status show_json(tli_run *run, tli_json *j, const char *word, bool stats)
{
    tli_ckpt k = {0};
    const char *file;
    bool bundle;
    tl_status st;
    TL_TRY_DONE(st, tl_checkpoint_locate(&file, &bundle, run->arena, word));
    TL_TRY_DONE(st, tli_ckpt_open(&k, run->arena, file, bundle, false));
    tli_ckpt_add_json(j, &k, stats);
    st = tl_str_status(&run->text);
done:
    tli_ckpt_deinit(&k);
    return st;
}

static tl_status show_all_json(tli_run *run, bool stats)
{
    tli_json j = {.out = &run->text, .indent = 2};
    tli_json_begin(&j, NULL, '{');
    tli_json_begin(&j, "checkpoints", '[');
    for (int64_t i = 1; i < run->words.count; i++)
        TL_TRY(show_json(run, &j, run->words.items[i], stats));
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&run->text, '\n');
    return tl_str_status(&run->text);
}

static tl_status show_all(tli_run *run, const void *flags)
{
    const ckpt_flags *given = flags;
    if (given->json) return show_all_json(run, given->stats);
    for (int64_t i = 1; i < run->words.count; i++) {
        if (i > 1) tl_str_addc(&run->text, '\n');
        TL_TRY(show(run, run->words.items[i], given->stats));
    }
    return TL_OK;
}

/* --- verify and diff -------------------------------------------------------------------------- */

/* What was found is written also when the command ends with 1. */
static tl_status write_now(tli_run *run)
{
    TL_TRY(tli_write_out(run->tool, &run->text));
    tl_str_cut(&run->text, 0);
    return TL_OK;
}

static tl_status verify_bundle(tli_run *run, const char *prefix)
{
    tl_tensorbundle *b;
    TL_TRY(tl_tensorbundle_open(&b, prefix));
    tl_status st = tl_tensorbundle_verify(b);
    if (st == TL_OK)
        tl_str_addf(&run->text, "%s: intact, %" PRId64 " entries, TensorBundle\n", prefix,
                    tl_tensorbundle_count(b));
    tl_tensorbundle_free(&b);
    return st;
}

static tl_status verify(tli_run *run, const char *word)
{
    const char *file;
    bool bundle;
    tl_checkpoint *c;
    int64_t entries, bytes;
    TL_TRY(tl_checkpoint_locate(&file, &bundle, run->arena, word));
    if (bundle) return verify_bundle(run, file);
    TL_TRY(tl_checkpoint_open(&c, file));
    tl_status st = tl_state_size(tl_checkpoint_state(c), &entries, &bytes);
    if (st == TL_OK)
        tl_str_addf(&run->text, "%s: intact, %" PRId64 " entries, checksum %08" PRIx32 "\n", file,
                    entries, tl_checkpoint_crc(c));
    tl_checkpoint_free(&c);
    return st;
}

static tl_status verify_all(tli_run *run, const void *flags)
{
    const ckpt_flags *given = flags;
    (void)given;
    tl_str failures = TL_STR_INIT;
    int64_t failed = 0;
    for (int64_t i = 1; i < run->words.count; i++) {
        if (verify(run, run->words.items[i]) == TL_OK) continue;
        tl_str_addf(&failures, "%s%s", failed++ ? "\n" : "", tl_error_message());
    }
    tl_status st = failed ? write_now(run) : TL_OK;
    if (failed && st == TL_OK) st = TL_FAIL(TL_EIO, "%s", tl_str_text(&failures));
    tl_str_deinit(&failures);
    return st;
}

static tl_status diff_two(tli_run *run, const void *flags)
{
    const ckpt_flags *given = flags;
    tli_ckpt a = {0}, b = {0};
    const char *files[2];
    bool bundles[2];
    int64_t different;
    tl_status st;
    if (run->words.count != 3) return TL_FAIL(TL_EINVAL, "`diff` compares two files");
    if (!(given->tolerance >= 0))
        return TL_FAIL(TL_EINVAL, "--tolerance must be a number from 0 on");
    for (int i = 0; i < 2; i++)
        TL_TRY(tl_checkpoint_locate(&files[i], &bundles[i], run->arena, run->words.items[i + 1]));
    bool alike = bundles[0] != bundles[1];
    TL_TRY_DONE(st, tli_ckpt_open(&a, run->arena, files[0], bundles[0], alike));
    TL_TRY_DONE(st, tli_ckpt_open(&b, run->arena, files[1], bundles[1], alike));
    TL_TRY_DONE(st, tli_ckpt_diff(&run->text, &different, &a, &b, given->tolerance));
    if (!different) goto done;
    TL_TRY_DONE(st, write_now(run));
    st = TL_FAIL(TL_ESTATE, "'%s' and '%s' differ in %" PRId64 " entr%s", a.file, b.file, different,
                 different == 1 ? "y" : "ies");
done:
    tli_ckpt_deinit(&b);
    tli_ckpt_deinit(&a);
    return st;
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status convert_one(tli_run *run, const void *flags)
{
    const ckpt_flags *given = flags;
    if (run->words.count != 3) return TL_FAIL(TL_EINVAL, "`convert` needs two names: FROM and TO");
    return tli_ckpt_convert(run, run->words.items[1], run->words.items[2],
                            &(tli_ckpt_conversion){.experiment = given->experiment,
                                                   .format = given->format,
                                                   .overwrite = given->overwrite});
}

static tl_status merge_one(tli_run *run, const void *flags)
{
    const ckpt_flags *given = flags;
    const char *file;
    tl_checkpoint *c;
    if (run->words.count != 2 || !given->out)
        return TL_FAIL(TL_EINVAL,
                       "`merge` needs a checkpoint and the file to write: ckpt merge CKPT -o FILE");
    TL_TRY(tl_checkpoint_resolve(&file, run->arena, run->words.items[1]));
    if (tl_file_exists(given->out) && !given->overwrite)
        return TL_FAIL(TL_EEXISTS, "'%s' exists; --overwrite replaces it", given->out);
    TL_TRY(tl_checkpoint_merge(given->out, file));
    TL_TRY(tl_checkpoint_open(&c, given->out));
    tl_str_addf(&run->text, "%s: %" PRId64 " entries of '%s', checksum %08" PRIx32 "\n", given->out,
                tl_safetensors_count(tl_checkpoint_file(c)), file, tl_checkpoint_crc(c));
    tl_checkpoint_free(&c);
    return tl_str_status(&run->text);
}

static tl_status run_ckpt(tli_run *run)
{
    static const tli_verb verbs[] = {
        {"show", show_all, false},       {"diff", diff_two, false},   {"verify", verify_all, false},
        {"convert", convert_one, false}, {"merge", merge_one, false},
    };
    return tli_run_verb(run, verbs, TL_COUNT(verbs), "a file, or a folder with checkpoints");
}

const tli_command tli_command_ckpt = {
    .name = "ckpt",
    .brief = "shows, checks, compares, converts and merges checkpoints",
    .usage =
        "show|diff|verify FILE... [flags]\n       ckpt convert FROM TO [--experiment=NAME] "
        "[--format=hf] [--overwrite]\n       ckpt merge CKPT -o FILE [--overwrite]\n\n"
        "show tells what is in a checkpoint, another safetensors file, or a TensorBundle (a "
        "checkpoint of TensorFlow: PREFIX or PREFIX.index), verify checks every byte of "
        "checkpoints, diff tells where two files differ. A FILE may be named without its suffix; a "
        "folder stands for its latest checkpoint. They end with 1 when a file is damaged, or when "
        "two differ. convert turns a TensorBundle into a checkpoint, when TO ends with "
        ".safetensors, or a checkpoint into the TensorBundle with the prefix TO. When FROM is in "
        "the folder of a run, or in a folder below it, weights and slots get the names that they "
        "have in Model Garden, or in Tilth. --experiment names the experiment if the folder does "
        "not. FROM must then belong to that model, and the new checkpoint is for eval, predict and "
        "task.init_checkpoint. Otherwise a/b/kernel is a/b/kernel/.ATTRIBUTES/VARIABLE_VALUE. FROM "
        "may also be a BERT's folder of Hugging Face (config.json and model.safetensors), or the "
        "checkpoint of BERT's first release with bert_config.json beside it; with --format=hf TO "
        "is such a folder, and FROM a checkpoint in the folder of a run. merge writes a checkpoint "
        "that is divided (ckpt-N.safetensors.index.json and the files that it names) as one file, "
        "byte for byte the one that an undivided save writes.",
    .flags = {{"Checkpoints", &ckpt_flags_desc}},
    .alias = {"o", "out"},
    .run = run_ckpt,
};
