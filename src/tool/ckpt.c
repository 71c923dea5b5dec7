#include "tool/ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/io/checkpoint_manager.h>

#include "core/element.h"
#include "io/checkpoint_impl.h"

typedef struct ckpt_flags {
    bool stats;
    double tolerance;
} ckpt_flags;
static const tl_field ckpt_fields[] = {
    TL_F(ckpt_flags, stats,
         .help = "show: the least, mean and greatest element of each tensor, and how many "
                 "are not finite"),
    TL_F(ckpt_flags, tolerance,
         .help = "diff: numbers that are apart by no more than this are equal"),
    TL_F_END
};
static const tl_desc ckpt_flags_desc = {
    .name = "ckpt",
    .help = "flags of `ckpt`",
    .size = sizeof(ckpt_flags),
    .fields = ckpt_fields,
};

/* --- rows ------------------------------------------------------------------------------------- */

void tli_ckpt_add_clean(tl_str *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c < 0x20 || c == 0x7f)
            tl_str_addf(out, "\\x%02x", c);
        else
            tl_str_addc(out, *p);
    }
}

static void add_spec(tl_str *out, const tl_safetensors_entry *e)
{
    tl_str spec = TL_STR_INIT;
    tl_safetensors_spec(&spec, e);
    const char *shape = strchr(tl_str_text(&spec), '[');
    if (e->readable)
        tl_str_addf(out, "%s%s", tl_dtype_name(e->dtype), shape ? shape : "");
    else
        tli_ckpt_add_clean(out, tl_str_text(&spec));
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

typedef struct rows {
    tli_ckpt *k;
    tl_arena *arena;
} rows;

static tl_status add_row(rows *r, const char *path, const tl_state_entry *value,
                         const tl_safetensors_entry *e)
{
    tli_ckpt_row *row = &r->k->rows[r->k->count];
    tl_str text = TL_STR_INIT, clean = TL_STR_INIT;
    if (value)
        add_value(&text, value);
    else
        add_spec(&text, e);
    tli_ckpt_add_clean(&clean, tl_str_text(&text));
    *row = (tli_ckpt_row){.path = tl_arena_strdup(r->arena, path),
                          .text = tl_str_copy(&clean, r->arena),
                          .entry = e,
                          .same_as = strcmp(e->name, path) == 0 ? NULL : e->name};
    tl_str_deinit(&text);
    tl_str_deinit(&clean);
    if (!row->path || !row->text) return TL_ENOMEM;
    r->k->count++;
    return tl_map_set(&r->k->by_path, path, row);
}

static tl_status add_state_entry(const tl_state_entry *e, void *payload)
{
    rows *r = payload;
    const tl_safetensors_entry *tensor = tl_checkpoint_find(r->k->c, e->path);
    if (tensor) return add_row(r, e->path, NULL, tensor);
    return add_row(r, e->path, e, tl_safetensors_find(tl_checkpoint_file(r->k->c), e->path));
}

tl_status tli_ckpt_open(tli_ckpt *out, tl_arena *arena, const char *word)
{
    rows r = {out, arena};
    bool damaged;
    int64_t entries, bytes;
    *out = (tli_ckpt){0};
    TL_TRY(tl_checkpoint_resolve(&out->file, arena, word));
    TL_TRY(tli_checkpoint_open(&out->c, out->file, true, &damaged));
    const tl_safetensors *f = tl_checkpoint_file(out->c);
    TL_TRY(tl_state_size(tl_checkpoint_state(out->c), &entries, &bytes));
    int64_t most = entries > tl_safetensors_count(f) ? entries : tl_safetensors_count(f);
    out->rows = tl_arena_array(arena, most, sizeof *out->rows);
    if (!out->rows) return TL_ENOMEM;
    if (tl_checkpoint_version(out->c))
        return tl_state_walk(tl_checkpoint_state(out->c), add_state_entry, &r);
    for (int64_t i = 0; i < tl_safetensors_count(f); i++) {
        const tl_safetensors_entry *e = tl_safetensors_at(f, i);
        TL_TRY(add_row(&r, e->name, NULL, e));
    }
    return TL_OK;
}

void tli_ckpt_deinit(tli_ckpt *k)
{
    tl_map_deinit(&k->by_path);
    tl_checkpoint_free(&k->c);
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

static void add_summary(tl_str *out, const tli_ckpt *k)
{
    int64_t bytes = 0, elements = 0;
    for (int64_t i = 0; i < k->count; i++) {
        const tli_ckpt_row *row = &k->rows[i];
        if (row->same_as) continue;
        bytes += (int64_t)row->entry->bytes;
        const tl_safetensors_entry *tensor = tl_checkpoint_find(k->c, row->path);
        if (tensor && tl_dtype_is_float(tensor->dtype))
            elements += (int64_t)(tensor->bytes / tl_dtype_size(tensor->dtype));
    }
    int version = tl_checkpoint_version(k->c);
    const char *numerics = tl_checkpoint_numerics(k->c);
    tl_str_addf(out, "%s: ", k->file);
    if (version)
        tl_str_addf(out, "checkpoint, version %d, checksum %08" PRIx32, version,
                    tl_checkpoint_crc(k->c));
    else
        tl_str_add(out, "plain safetensors, no checksum");
    if (version && numerics) {
        tl_str_add(out, ", computed with '");
        tli_ckpt_add_clean(out, numerics);
        tl_str_addc(out, '\'');
    }
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
        tli_ckpt_add_clean(out, note->key);
        tl_str_add(out, " = ");
        tli_ckpt_add_clean(out, note->value);
        tl_str_addc(out, '\n');
    }
}

static void add_stats(tl_str *out, const tl_safetensors_entry *e)
{
    double least = INFINITY, greatest = -INFINITY, sum = 0, element[1];
    size_t size = tl_dtype_size(e->dtype);
    int64_t count = (int64_t)(e->bytes / size), finite = 0;
    for (int64_t i = 0; i < count; i++) {
        memcpy(element, (const char *)e->data + (size_t)i * size, size); // files are not aligned
        double x = tli_element_get(e->dtype, element, 0);
        if (!isfinite(x)) continue;
        least = fmin(least, x);
        greatest = fmax(greatest, x);
        sum += x;
        finite++;
    }
    if (finite)
        tl_str_addf(out, "  least %.6g, mean %.6g, greatest %.6g", least, sum / (double)finite,
                    greatest);
    if (finite < count) tl_str_addf(out, "  %" PRId64 " NOT FINITE", count - finite);
}

static tl_status show(tli_run *run, const char *word, bool stats)
{
    tli_ckpt k;
    tl_str *out = &run->text;
    size_t width = 0;
    tl_status st;
    TL_TRY_DONE(st, tli_ckpt_open(&k, run->arena, word));
    add_summary(out, &k);
    add_notes(out, tl_checkpoint_file(k.c));
    tl_str_addc(out, '\n');
    for (int64_t i = 0; i < k.count; i++)
        width = strlen(k.rows[i].path) > width ? strlen(k.rows[i].path) : width;
    for (int64_t i = 0; i < k.count; i++) {
        const tli_ckpt_row *row = &k.rows[i];
        tli_ckpt_add_clean(out, row->path);
        tl_str_pad(out, ' ', (int64_t)(width + 2 - strlen(row->path)));
        tl_str_add(out, row->text);
        if (row->same_as)
            tl_str_addf(out, ", the same as %s", row->same_as);
        else if (stats && row->entry->readable && tl_checkpoint_find(k.c, row->path))
            add_stats(out, row->entry);
        tl_str_addc(out, '\n');
    }
    st = tl_str_status(out);
done:
    tli_ckpt_deinit(&k);
    return st;
}

static tl_status show_all(tli_run *run, const void *flags)
{
    const ckpt_flags *given = flags;
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
    TL_TRY(tl_str_status(&run->text));
    errno = 0;
    if (fputs(tl_str_text(&run->text), run->tool->out) < 0 || fflush(run->tool->out) != 0)
        return TL_FAIL(TL_EIO, "standard output: %s",
                       errno ? strerror(errno) : "cannot be written");
    tl_str_cut(&run->text, 0);
    return TL_OK;
}

static tl_status verify(tli_run *run, const char *word)
{
    const char *file;
    tl_checkpoint *c;
    int64_t entries, bytes;
    TL_TRY(tl_checkpoint_resolve(&file, run->arena, word));
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
    int64_t different;
    tl_status st;
    if (run->words.count != 3) return TL_FAIL(TL_EINVAL, "`diff` compares two files");
    if (!(given->tolerance >= 0))
        return TL_FAIL(TL_EINVAL, "--tolerance must be a number from 0 on");
    TL_TRY_DONE(st, tli_ckpt_open(&a, run->arena, run->words.items[1]));
    TL_TRY_DONE(st, tli_ckpt_open(&b, run->arena, run->words.items[2]));
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

static tl_status run_ckpt(tli_run *run)
{
    static const tli_verb verbs[] = {{"show", show_all}, {"diff", diff_two}, {"verify", verify_all}};
    return tli_run_verb(run, verbs, TL_COUNT(verbs), "a file, or a folder with checkpoints");
}

const tli_command tli_command_ckpt = {
    .name = "ckpt",
    .brief = "what is in checkpoints, whether they are intact, how two differ",
    .usage = "show|diff|verify FILE... [flags]\n\n"
             "show tells what is in a checkpoint or another safetensors file, verify checks every "
             "byte of checkpoints, diff tells where two files differ. A FILE may be named without "
             "its suffix; a folder stands for its latest checkpoint. verify and diff end with 1 "
             "when a file is damaged, or when two differ.",
    .flags = {{"Checkpoints", &ckpt_flags_desc}},
    .run = run_ckpt,
};
