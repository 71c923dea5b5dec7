/* `tilth data show`: idx files, folders of images, and one file after the other. */
#include <inttypes.h>

#include "base/inner/clean.h"
#include "core/inner/element.h"
#include "tool/data.h"
#include "tool/data_images.h"

/* --- idx files -------------------------------------------------------------------------------- */

typedef struct statistics {
    int64_t count;
    double least, mean, greatest;
} statistics;

static statistics statistics_of(const tl_idx *x)
{
    statistics s = {.count = tl_shape_count(&x->shape)};
    double sum = 0;
    for (int64_t i = 0; i < s.count; i++) {
        double v = tli_element_get(x->dtype, x->data, i);
        s.least = i == 0 || v < s.least ? v : s.least;
        s.greatest = i == 0 || v > s.greatest ? v : s.greatest;
        sum += v;
    }
    if (s.count) s.mean = sum / (double)s.count;
    return s;
}

/* Labels: how many of each. */
enum { MOST_LABELS = 256 };
typedef struct label_counts {
    int64_t of[MOST_LABELS], others;
} label_counts;

static bool is_labels(const tl_idx *x)
{
    return x->shape.rank == 1 && tl_dtype_classify(x->dtype) == TL_CLASS_INT;
}

static void count_labels(label_counts *out, const tl_idx *x)
{
    *out = (label_counts){0};
    for (int64_t i = 0; is_labels(x) && i < x->shape.dims[0]; i++) {
        double v = tli_element_get(x->dtype, x->data, i);
        if (v >= 0 && v < MOST_LABELS) out->of[(int)v]++;
        else out->others++;
    }
}

static void add_classes(tl_str *out, const tl_idx *x)
{
    label_counts counts;
    count_labels(&counts, x);
    for (int i = 0; i < MOST_LABELS; i++)
        if (counts.of[i]) tl_str_addf(out, "  %d: %" PRId64 " times\n", i, counts.of[i]);
    if (counts.others) tl_str_addf(out, "  others: %" PRId64 " times\n", counts.others);
}

static tl_status show_array_json(tli_run *run, const char *path, const tl_idx *x)
{
    tli_json j = {.out = &run->text};
    statistics s = statistics_of(x);
    label_counts counts;
    count_labels(&counts, x);
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "file", path);
    tli_json_text(&j, "kind", "idx");
    tli_json_int(&j, "count", x->shape.dims[0]);
    tli_json_int(&j, "bytes", (int64_t)x->item_size * x->shape.dims[0]);
    tli_json_bool(&j, "compressed", x->packed);
    tli_json_text(&j, "dtype", tl_dtype_name(x->dtype));
    tli_json_begin(&j, "shape", '[');
    for (int i = 0; i < x->shape.rank; i++) tli_json_int(&j, NULL, x->shape.dims[i]);
    tli_json_end(&j, ']');
    tli_json_number(&j, "min", s.least);
    tli_json_number(&j, "mean", s.mean);
    tli_json_number(&j, "max", s.greatest);
    tli_json_begin(&j, "classes", '[');
    for (int i = 0; i < MOST_LABELS; i++)
        if (counts.of[i]) tli_data_json_class(&j, i, NULL, counts.of[i]);
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&run->text, '\n');
    return tl_str_status(&run->text);
}

// An image in letters, dark to bright; two rows of pixels become one of letters, for letters are
// tall.
static void draw(tl_str *out, const uint8_t *pixels, int64_t height, int64_t width)
{
    static const char shades[] = " .:-=+*#%@";
    for (int64_t y = 0; y < height; y += 2) {
        tl_str_add(out, "  ");
        for (int64_t x = 0; x < width; x++) {
            int upper = pixels[y * width + x],
                lower = y + 1 < height ? pixels[(y + 1) * width + x] : upper;
            tl_str_addc(out, shades[(upper + lower) * 10 / 511]);
        }
        tl_str_addc(out, '\n');
    }
}

static tl_status show_array(tli_run *run, const char *path, const tl_idx *x, int64_t examples)
{
    enum { WIDEST = 76 };
    tl_str *out = &run->text;
    char shape[TL_SHAPE_TEXT];
    int64_t items = x->shape.dims[0];
    tli_add_clean_word(out, path);
    tl_str_addf(out, ": idx%s, %s %s, ", x->packed ? ", compressed" : "", tl_dtype_name(x->dtype),
                tl_shape_text(shape, &x->shape));
    tli_data_add_size(out, (double)x->item_size * (double)items);
    tl_str_addc(out, '\n');
    statistics s = statistics_of(x);
    if (s.count) tl_str_addf(out, "least %g, mean %g, greatest %g\n", s.least, s.mean, s.greatest);
    add_classes(out, x);
    bool drawn = x->shape.rank == 3 && x->dtype == TL_U8 && x->shape.dims[2] <= WIDEST;
    for (int64_t i = 0; drawn && i < items && i < examples; i++) {
        tl_str_addf(out, "item %" PRId64 ":\n", i);
        draw(out, tl_idx_item(x, i), x->shape.dims[1], x->shape.dims[2]);
    }
    return tl_str_status(out);
}

/* --- folders ---------------------------------------------------------------------------------- */

static void show_image(tl_str *out, const tl_image_file *f)
{
    tli_add_clean_word(out, f->path);
    tl_str_addf(out,
                ": class %" PRId64 ", %s %" PRId64 " x %" PRId64 " x %" PRId64 ", %zu bytes%s\n",
                f->label, tl_image_format_name(f->format), f->height, f->width, f->channels,
                f->bytes, f->turned ? ", turned by EXIF" : "");
}

static double bytes_of(const tl_image_folder *f)
{
    double bytes = 0;
    for (int64_t i = 0; i < f->count; i++) bytes += (double)f->files[i].bytes;
    return bytes;
}

static tl_status show_folder_text(tli_run *run, const tl_image_folder *f, tli_image_facts *facts,
                                  int64_t examples)
{
    tl_str *out = &run->text;
    tli_add_clean_word(out, f->path);
    tl_str_addf(out, ": folder of images, %" PRId64 " classes, %" PRId64 " images, ",
                f->class_count, f->count);
    tli_data_add_size(out, bytes_of(f));
    tl_str_addc(out, '\n');
    for (int64_t i = 0; i < f->class_count; i++) {
        tl_str_addf(out, "  %" PRId64 "  ", i);
        tli_add_clean_word(out, f->classes[i]);
        tl_str_addf(out, ", %" PRId64 " image%s\n", f->counts[i], f->counts[i] == 1 ? "" : "s");
    }
    tli_image_facts_tell(out, facts);
    tl_image_folder quiet = *f; // those that cannot be read are told at the end
    quiet.bad_count = 0;
    tli_data_add_notes(out, &quiet);
    for (int64_t i = 0; i < f->count && i < examples; i++) show_image(out, &f->files[i]);
    return tl_str_status(out);
}

static tl_status show_folder_json(tli_run *run, const tl_image_folder *f, tli_image_facts *facts)
{
    tli_json j = {.out = &run->text};
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "file", f->path);
    tli_json_text(&j, "kind", "image_folder");
    tli_json_int(&j, "count", f->count);
    tli_json_int(&j, "bytes", (int64_t)bytes_of(f));
    tli_json_begin(&j, "classes", '[');
    for (int64_t i = 0; i < f->class_count; i++)
        tli_data_json_class(&j, i, f->classes[i], f->counts[i]);
    tli_json_end(&j, ']');
    tli_image_facts_json(&j, facts);
    tli_json_begin(&j, "not_read", '{');
    for (int64_t i = 0; i < f->passed_count; i++)
        tli_json_int(&j, f->passed[i].ending, f->passed[i].count);
    tli_json_end(&j, '}');
    tli_json_begin(&j, "empty", '[');
    for (int64_t i = 0; i < f->empty.count; i++) tli_json_text(&j, NULL, f->empty.items[i]);
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&run->text, '\n');
    return tl_str_status(&run->text);
}

static tl_status show_folder(tli_run *run, const tl_image_folder *f, const tli_data_flags *given)
{
    tli_image_facts facts = {0};
    tl_status st = tli_image_facts_of(&facts, f);
    if (st == TL_OK)
        st = given->json ? show_folder_json(run, f, &facts)
                         : show_folder_text(run, f, &facts, given->examples);
    if (st == TL_OK && facts.bad.count) st = tli_image_facts_fail(&facts, f->path);
    tli_image_facts_deinit(&facts);
    return st;
}

/* --- any -------------------------------------------------------------------------------------- */

static tl_status show(tli_run *run, const char *word, const tli_data_flags *given)
{
    tli_data_input in;
    tl_status st = tli_data_open(&in, run->arena, word,
                                 &(tl_image_folder_args){.check = true, .skip_bad = true});
    if (st == TL_OK && in.kind == TLI_DATA_TFRECORD)
        st = tli_data_show_records(run, in.records, given);
    else if (st == TL_OK && in.kind == TLI_DATA_IDX)
        st = given->json ? show_array_json(run, word, &in.array)
                         : show_array(run, word, &in.array, given->examples);
    else if (st == TL_OK) st = show_folder(run, &in.folder, given);
    tli_data_close(&in);
    return st;
}

// One file after the other; what cannot be shown is told at the end.
static tl_status show_all(tli_run *run, const tli_data_flags *given, tl_status *first,
                          tl_str *failures)
{
    for (int64_t i = 1; i < run->words.count; i++) {
        tl_status st = show(run, run->words.items[i], given);
        if (st == TL_ENOMEM) return st;
        if (st != TL_OK) tl_str_addf(failures, "%s%s", *first ? "\n" : "", tl_error_message());
        if (st != TL_OK && *first == TL_OK) *first = st;
        // the rest is written as ever
        if (i + 1 == run->words.count && *first == TL_OK) return TL_OK;
        if (i + 1 < run->words.count && run->text.length && !given->json)
            tl_str_addc(&run->text, '\n');
        TL_TRY(tli_write_out(run->tool, &run->text));
        tl_str_cut(&run->text, 0);
    }
    return TL_OK;
}

tl_status tli_data_show(tli_run *run, const void *flags)
{
    tl_str failures = TL_STR_INIT;
    tl_status first = TL_OK, st = show_all(run, flags, &first, &failures);
    if (st == TL_OK) st = tl_str_status(&failures);
    if (st == TL_OK && first != TL_OK) st = TL_FAIL(first, "%s", tl_str_text(&failures));
    tl_str_deinit(&failures);
    return st;
}
