#include "tool/data.h"

#include <string.h>

#include <tilth/base/file.h>

#include "base/inner/clean.h"
#include "tool/data_text.h"

static const char *const encoding_names[] = {"png", "jpeg", "raw", NULL};

static const tl_field data_fields[] = {
    TL_F(tli_data_flags, examples, .i = 1, TL_AT_LEAST(0),
         .help = "show: how many of the first examples are shown"),
    TL_F(tli_data_flags, out, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "convert, coco, voc, cityscapes, shapes: beginning of the names of the new files, "
                 "such as out/train, which gives out/train-00000-of-00004; annotations: the JSON "
                 "file"),
    TL_F(tli_data_flags, shards, .i = 1, TL_AT_LEAST(1),
         .help = "convert, coco, voc, cityscapes, shapes: number of files"),
    TL_F(tli_data_flags, gzip,
         .help = "convert, coco, voc, cityscapes, shapes: the files are compressed"),
    TL_F(tli_data_flags, overwrite,
         .help = "files that are there are replaced; convert also removes others of an earlier "
                 "conversion"),
    TL_F(tli_data_flags, shuffle, .b = true,
         .help = "convert: examples are written in random order"),
    TL_F(tli_data_flags, seed, .i = 0,
         .help = "convert: seed of the random order; shapes: of the pictures (those of "
                 "detection/local and segmentation/local are 1 in training, 2 in validation)"),
    TL_F(tli_data_flags, encoding, .names = encoding_names,
         .help =
             "convert: how the images of an idx file are stored; files of images stay as they are"),
    TL_F(
        tli_data_flags, classes, .flags = TL_FIELD_NULLABLE,
        .help =
            "convert, voc, finetuning: file with the names of the classes, one on each line, which "
            "numbers them; for the records of validation, use the file of training"),
    TL_F(tli_data_flags, skip_bad,
         .help = "convert, coco, voc, cityscapes: images that cannot be decoded are left out; "
                 "finetuning: rows with too few cells"),
    TL_F(tli_data_flags, json, .help = "show: an object of JSON for each file, one a line"),
    TL_F(tli_data_flags, masks,
         .help = "coco, shapes, annotations: the masks of objects are written as well; voc: the "
                 "classes of pixels"),
    TL_F(tli_data_flags, split, .s = "train",
         .help = "voc, cityscapes: the part of the data, such as train or val"),
    TL_F(tli_data_flags, pictures, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "show: folder for PNG files of the examples that are shown, with their boxes, "
                 "masks and classes drawn"),
    TL_F(tli_data_flags, count, .i = 100, TL_RANGE(1, 10000000),
         .help = "shapes: how many pictures are made"),
    TL_F(tli_data_flags, kinds, .flags = TL_FIELD_NULLABLE,
         .help =
             "shapes: which are drawn, of circle, square, triangle, cross, ring, star, "
             "crescent, half, arrow and corner; classes are numbered in this order. If it is not "
             "given: the first five"),
    TL_F(tli_data_flags, folders,
         .help = "shapes: for classification, pictures with one shape each, as PNG files in a "
                 "folder for each kind; --out is the folder around them"),
    TL_F_END,
};
static const tl_desc data_flags_desc = {
    .name = "data",
    .help = "flags of `data`",
    .size = sizeof(tli_data_flags),
    .fields = data_fields,
};

/* --- what a word names ------------------------------------------------------------------------ */

// What says that it is compressed and cannot be unpacked is damaged, and so is what begins as
// records do and is none in the end; everything else may be another kind of file.
static tl_status open_records(tli_data_input *out)
{
    tl_tfrecord first;
    bool more;
    tl_status st = tl_tfrecord_open(&out->records, out->path, NULL);
    if (st != TL_OK) return st == TL_EINVAL ? tli_tool_damaged() : st;
    st = tl_tfrecord_head(out->records, 0, 0, &first, &more);
    if (st == TL_EINVAL && tl_tfrecord_begins(out->records)) st = tli_tool_damaged();
    if (st != TL_OK) tl_tfrecord_close(&out->records);
    return st;
}

// A file says itself what it is; when it says nothing we know, both readers tell what they miss.
static tl_status open_file(tli_data_input *out)
{
    tl_str why = TL_STR_INIT;
    tl_status st = open_records(out);
    out->kind = TLI_DATA_TFRECORD;
    if (st != TL_EINVAL) return st;
    tl_str_addf(&why, "%s\n%s", tl_error_message(), "and as an idx file: ");
    out->kind = TLI_DATA_IDX;
    st = tl_idx_open(&out->array, out->path);
    if (st == TL_EINVAL) {
        tl_str_add(&why, tl_error_message());
        st = TL_FAIL(TL_EINVAL, "'%s' is neither a TFRecord file nor an idx file. As TFRecord: %s",
                     out->path, tl_str_text(&why));
    }
    tl_str_deinit(&why);
    return st;
}

tl_status tli_data_open(tli_data_input *out, tl_arena *arena, const char *path,
                        const tl_image_folder_args *how)
{
    tl_image_folder_args args = *how;
    *out = (tli_data_input){.path = path};
    if (!tl_dir_exists(path)) return open_file(out);
    out->kind = TLI_DATA_FOLDER;
    args.path = path;
    return tl_image_folder_list(&out->folder, arena, &args);
}

void tli_data_close(tli_data_input *in)
{
    tl_tfrecord_close(&in->records);
    tl_idx_close(&in->array);
}

tl_status tli_data_check_split(const char *split)
{
    if (*split && tl_path_stays_inside(split) && !strpbrk(split, "*?[]\\")) return TL_OK;
    return TL_FAIL(TL_EINVAL, "--split: '%s' is no name of a part of the data, such as train",
                   split);
}

void tli_data_add_size(tl_str *out, double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
    tl_str_addf(out, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

void tli_data_add_notes(tl_str *out, const tl_image_folder *f)
{
    tl_str notes = TL_STR_INIT;
    tl_image_folder_notes(&notes, f);
    for (const char *at = tl_str_text(&notes); *at;) {
        const char *end = strchrnul(at, '\n');
        tl_str line = TL_STR_INIT;
        tl_str_addn(&line, at, (size_t)(end - at));
        tli_add_clean_word(out, tl_str_text(&line));
        tl_str_addc(out, '\n');
        tl_str_deinit(&line);
        at = *end ? end + 1 : end;
    }
    tl_str_deinit(&notes);
}

void tli_data_json_class(tli_json *j, int64_t number, const char *name, int64_t count)
{
    tli_json_begin(j, NULL, '{');
    tli_json_int(j, "class", number);
    if (name) tli_json_text(j, "name", name);
    tli_json_int(j, "count", count);
    tli_json_end(j, '}');
}

/* --- the command ------------------------------------------------------------------------------ */

static tl_status run_data(tli_run *run)
{
    static const tli_verb verbs[] = {
        {"show", tli_data_show, false},
        {"convert", tli_data_convert, false},
        {"coco", tli_data_coco, false},
        {"voc", tli_data_voc, false},
        {"cityscapes", tli_data_cityscapes, false},
        {"annotations", tli_data_annotations, false},
        {"shapes", tli_data_shapes, true},
        {"pretraining", tli_data_pretraining, true},
        {"finetuning", tli_data_finetuning, true},
    };
    return tli_run_verb(run, verbs, TL_COUNT(verbs), "a file, or a folder of images");
}

const tli_command tli_command_data = {
    .name = "data",
    .brief = "what is in files of training data, and other files made of them",
    .usage =
        "show FILE... | convert FILE [LABELS] --out=PREFIX [flags]\n"
        "       data coco IMAGES ANNOTATIONS.json --out=PREFIX [--masks] [flags]\n"
        "       data voc FOLDER --split=NAME --out=PREFIX [--masks] [flags]\n"
        "       data cityscapes FOLDER --split=NAME --out=PREFIX [flags]\n"
        "       data annotations RECORDS... --out=FILE.json [--masks]\n"
        "       data shapes --out=PREFIX [--count=N] [--seed=N] [--kinds=NAMES] [--masks] "
        "[--folders]\n"
        "       data pretraining --vocab_file=FILE --input_file=FILES --output_file=FILES "
        "[flags]\n"
        "       data finetuning --vocab_file=FILE --train_file=FILE "
        "--train_data_output_path=FILE [flags]\n\n"
        "show tells what is in TFRecord files (features, their types and counts, with every "
        "checksum verified), in idx files and in folders of images, which have a subfolder "
        "for each class; every image is decoded once. With --pictures it also draws the boxes, "
        "masks and classes of the first records. convert writes TFRecord files of "
        "tf.train.Example with image/encoded and image/class/label, from a folder of images "
        "or from an idx file of images and one of their labels; the names of a folder's "
        "classes go to PREFIX.classes.txt. If images cannot be decoded, convert names all of "
        "them and writes nothing, unless --skip_bad leaves them out. coco writes the records of "
        "Model Garden's create_coco_tf_record, from a folder of images and the boxes and masks "
        "that a COCO file lists for them; voc and cityscapes write records of the folders of "
        "Pascal VOC and Cityscapes, with boxes or the classes of pixels; and annotations a COCO "
        "file of the objects of records. shapes makes pictures up: records with boxes and the "
        "classes of pixels, as detection/local and segmentation/local have them, or with --folders "
        "labelled pictures for `--experiment=images`. "
        "show continues after a "
        "file that cannot be shown. It ends with 1 when the first such file is damaged, and "
        "with 2 when that file is missing or of an unknown kind. pretraining makes examples of "
        "masked pieces and next sentences of text, and finetuning examples of texts with "
        "labels of tables, of JSON objects or of a folder of GLUE: those of Model Garden's "
        "create_pretraining_data and create_finetuning_data, whose flags they have.",
    .flags = {{"Data", &data_flags_desc},
              {"Texts", &tli_text_flags_desc},
              {"Fine-tuning", &tli_finetuning_flags_desc}},
    .absent = tli_absent_text_flags,
    .run = run_data,
};
