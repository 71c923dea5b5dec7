#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/rng.h>
#include <tilth/io/tensorflow/example.h>
#include <tilth/io/image/jpeg.h>
#include <tilth/io/image/png.h>

#include "core/inner/element.h"
#include "tool/data_shards.h"

/* The files that are written, and where examples come from. */
typedef struct converting {
    tli_run *run;
    const tli_data_flags *given;
    tli_shards shards;
    const char *classes;     /* path for the names of the classes, of a folder */
    const char *folder_path; /* these two, or the three below */
    tl_image_folder folder;
    const tl_idx *images, *labels;
    const char *images_path;
    tl_str example, encoded; /* used again and again */
} converting;

/* --- examples --------------------------------------------------------------------------------- */

static void add_head(tl_example_writer *w, const char *format, int64_t height, int64_t width,
                     int64_t channels)
{
    tl_example_add_text(w, "image/format", format);
    tl_example_add_ints(w, "image/height", &height, 1);
    tl_example_add_ints(w, "image/width", &width, 1);
    tl_example_add_ints(w, "image/channels", &channels, 1);
}

// A file stays as it is. It was decoded when the folder was listed.
static tl_status make_from_file(converting *c, int64_t index)
{
    const tl_image_file *from = &c->folder.files[index];
    tl_file_mapping file;
    TL_TRY(tl_file_map(&file, from->path));
    tl_example_writer w = tl_example_begin(&c->example);
    tl_example_add_bytes(&w, "image/encoded", &(tl_bytes){file.data, file.size}, 1);
    tl_example_add_ints(&w, "image/class/label", &from->label, 1);
    tl_example_add_text(&w, "image/class/text", c->folder.classes[from->label]);
    tl_example_add_text(&w, "image/filename", tl_path_basename(from->path));
    add_head(&w, from->format == TL_FORMAT_JPEG ? "jpeg" : "png", from->height, from->width,
             from->channels);
    tl_status st = tl_example_end(&w);
    if (st == TL_OK) st = tl_file_mapping_check(&file, from->path);
    tl_file_unmap(&file);
    return st == TL_OK ? st : tl_error_note(st, "'%s'", from->path);
}

static tl_status encode(tl_str *out, tli_data_encoding encoding, const tl_image *image)
{
    tl_png_image png = {image->width, image->height, image->channels, image->pixels};
    if (encoding == TLI_DATA_PNG) return tl_png_encode(out, &png);
    if (encoding == TLI_DATA_JPEG) return tl_jpeg_encode(out, image, NULL);
    tl_str_addn(out, (const char *)image->pixels,
                (size_t)(image->height * image->width * image->channels));
    return tl_str_status(out);
}

static tl_status make_from_array(converting *c, int64_t index)
{
    static const char *const formats[] = {"png", "jpeg", "raw"};
    const tl_shape *shape = &c->images->shape;
    int64_t channels = shape->rank == 4 ? shape->dims[3] : 1;
    tl_image image = {shape->dims[1], shape->dims[2], channels,
                      (uint8_t *)(uintptr_t)tl_idx_item(c->images, index), 0};
    int64_t label = (int64_t)tli_element_get(c->labels->dtype, c->labels->data, index);
    tl_str_cut(&c->encoded, 0);
    TL_TRY_NOTE(encode(&c->encoded, c->given->encoding, &image), "'%s', image %" PRId64,
                c->images_path, index);
    tl_example_writer w = tl_example_begin(&c->example);
    tl_example_add_bytes(&w, "image/encoded", &(tl_bytes){c->encoded.data, c->encoded.length}, 1);
    tl_example_add_ints(&w, "image/class/label", &label, 1);
    add_head(&w, formats[c->given->encoding], image.height, image.width, channels);
    return tl_example_end(&w);
}

/* --- files ------------------------------------------------------------------------------------ */

// Examples in their order or a random one, dealt out to the files like cards.
static tl_status write_examples(converting *c, int64_t count)
{
    int64_t *order = tl_arena_array(c->run->arena, count ? count : 1, sizeof *order);
    tl_rng rng;
    if (!order) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) order[i] = i;
    tl_rng_init(&rng, (uint64_t)c->given->seed);
    if (c->given->shuffle) tl_rng_shuffle(&rng, order, count);
    for (int64_t i = 0; i < count; i++) {
        tl_str_cut(&c->example, 0);
        TL_TRY(c->folder_path ? make_from_file(c, order[i]) : make_from_array(c, order[i]));
        TL_TRY(tli_shards_write(&c->shards, c->example.data, c->example.length));
    }
    return TL_OK;
}

// The names of the classes, one a line, beside the records: numbers alone say little.
static tl_status finish_folder(converting *c)
{
    const tl_image_folder *f = &c->folder;
    tl_str *out = &c->run->text;
    int64_t turned = 0;
    TL_TRY(tl_class_list_write(c->classes, (tl_strings){f->classes, f->class_count}));
    tl_str_addf(out, "wrote %s\n", c->classes);
    tli_data_add_notes(out, f);
    for (int64_t i = 0; i < f->count; i++) turned += f->files[i].turned;
    if (turned)
        tl_str_addf(out,
                    "%" PRId64 " %s turned by EXIF; training on records ignores that unless "
                    "exif_orientation is true\n",
                    turned, turned == 1 ? "is" : "are");
    return tl_str_status(out);
}

// What can be refused without a look at the images.
static tl_status check_out(converting *c)
{
    c->shards = (tli_shards){.run = c->run, .given = c->given};
    if (c->folder_path) {
        c->classes = tl_arena_printf(c->run->arena, "%s.classes.txt", c->given->out);
        if (!c->classes) return TL_ENOMEM;
    }
    c->shards.companion = c->classes;
    return tli_shards_check(&c->shards);
}

static tl_status convert(converting *c, int64_t count)
{
    tl_status st;
    TL_TRY_DONE(st, tli_shards_begin(&c->shards));
    TL_TRY_DONE(st, write_examples(c, count));
    TL_TRY_DONE(st, tli_shards_commit(&c->shards));
    if (c->folder_path) st = finish_folder(c);
done:
    tli_shards_abort(&c->shards);
    tl_str_deinit(&c->example);
    tl_str_deinit(&c->encoded);
    return st;
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status check_pair(const char *images_path, const tl_idx *images, const char *labels_path,
                            const tl_idx *labels)
{
    char shape[TL_SHAPE_TEXT];
    int rank = images->shape.rank;
    int64_t channels = rank == 4 ? images->shape.dims[3] : 1;
    bool empty =
        rank >= 3 && images->shape.dims[0] && !(images->shape.dims[1] && images->shape.dims[2]);
    if (images->dtype != TL_U8 || (rank != 3 && rank != 4) || channels < 1 || channels > 4 || empty)
        return TL_FAIL(
            TL_EINVAL,
            "'%s' holds no images, but %s of %s; [count, height, width] or [count, height, width, "
            "channels] of uint8 is wanted",
            images_path, tl_shape_text(shape, &images->shape), tl_dtype_name(images->dtype));
    if (labels->shape.rank != 1 || tl_dtype_classify(labels->dtype) != TL_CLASS_INT)
        return TL_FAIL(
            TL_EINVAL, "'%s' holds no labels, but %s of %s; one row of whole numbers is wanted",
            labels_path, tl_shape_text(shape, &labels->shape), tl_dtype_name(labels->dtype));
    if (images->shape.dims[0] != labels->shape.dims[0])
        return TL_FAIL(TL_EINVAL, "'%s' holds %" PRId64 " images and '%s' %" PRId64 " labels",
                       images_path, images->shape.dims[0], labels_path, labels->shape.dims[0]);
    return TL_OK;
}

static tl_status convert_pair(tli_run *run, const tli_data_flags *given,
                              const tli_data_input *images)
{
    if (run->words.count != 3)
        return TL_FAIL(TL_EINVAL,
                       "an idx file of images is converted together with one of their labels: "
                       "`convert IMAGES LABELS`");
    const char *path = run->words.items[2];
    tl_idx labels;
    TL_TRY(tl_idx_open(&labels, path));
    tl_status st = check_pair(images->path, &images->array, path, &labels);
    converting c = {.run = run,
                    .given = given,
                    .images = &images->array,
                    .labels = &labels,
                    .images_path = images->path};
    if (st == TL_OK && given->classes)
        st = TL_FAIL(TL_EINVAL, "--classes numbers the classes of a folder; the labels of idx "
                                "files are numbers already");
    if (st == TL_OK) st = check_out(&c);
    if (st == TL_OK) st = convert(&c, labels.shape.dims[0]);
    tl_idx_close(&labels);
    return st;
}

static tl_status convert_folder(tli_run *run, const tli_data_flags *given)
{
    const char *path = run->words.items[1];
    tl_image_folder_args how = {.path = path, .check = true, .skip_bad = given->skip_bad};
    if (run->words.count != 2)
        return TL_FAIL(TL_EINVAL, "one folder of images is converted at a time");
    converting c = {.run = run, .given = given, .folder_path = path};
    TL_TRY(check_out(&c));
    if (given->classes)
        TL_TRY_NOTE(tl_class_list_read(&how.classes, run->arena, given->classes), "--classes");
    TL_TRY(tl_image_folder_list(&c.folder, run->arena, &how));
    return convert(&c, c.folder.count);
}

tl_status tli_data_convert(tli_run *run, const void *flags)
{
    const tli_data_flags *given = flags;
    const char *path = run->words.items[1];
    tli_data_input in;
    TL_TRY(tli_shards_need_out(run, given));
    if (tl_dir_exists(path)) return convert_folder(run, given);
    tl_status st = tli_data_open(&in, run->arena, path, &(tl_image_folder_args){0});
    if (st == TL_OK && in.kind == TLI_DATA_IDX) st = convert_pair(run, given, &in);
    else if (st == TL_OK) st = TL_FAIL(TL_EINVAL, "'%s' is a TFRecord file already", in.path);
    tli_data_close(&in);
    return st;
}
