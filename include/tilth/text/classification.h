/* Data for fine-tuning: texts, or pairs of them, with a class or a number each, as records of Model
 * Garden's create_finetuning_data.
 *
 *     tl_text_rows_args columns = {.first = "review", .label = "stars"};
 *     tl_strings classes;
 *     TL_TRY(tl_text_classes_find(&classes, arena, "train.csv", &columns));
 *     tl_classification_args args = {
 *         .tokenizer = tokenizer, .columns = columns, .classes = classes};
 *     tl_classification_result written;
 *     TL_TRY(tl_classification_write("train.tfrecord", "train.csv", &args, &written));
 *
 * A record has input_ids, input_mask and segment_ids, padded with zeros to max_seq_length;
 * label_ids (the number of the class, or for a regression the label itself as a float);
 * is_real_example, which is 1; and example_id, the number of the row from 0 on. A text becomes
 * [CLS] a [SEP] with a cut at the end, a pair [CLS] a [SEP] b [SEP] with pieces taken off the end
 * of the longer one, of b where both are as long. A second text without a piece counts as none.
 *
 * Ownership: classes belong to the arena. Thread word: free-threaded; a packer one thread at a
 * time. */
#ifndef TILTH_TEXT_CLASSIFICATION_H
#define TILTH_TEXT_CLASSIFICATION_H

#include <tilth/base/map.h>
#include <tilth/base/pool.h>
#include <tilth/text/rows.h>
#include <tilth/text/tokenizer.h>

TL_BEGIN

/* --- sequences -------------------------------------------------------------------------------- */

/* Members are for reading. */
typedef struct tl_packer {
    const tl_tokenizer *tokenizer;
    int64_t length; /* pieces of a sequence, at most */
    int32_t cls, sep;
    tl_ids ids;    /* of the last sequence, without padding */
    int64_t first; /* of them: pieces of the first segment, [CLS] a [SEP] */
    bool was_cut;  /* the texts did not fit */
    tl_ids second; /* private */
} tl_packer;
/* At least 5 pieces. A vocabulary without [CLS] or [SEP] is an error that names its file. */
TL_API TL_NODISCARD tl_status tl_packer_init(tl_packer *p, const tl_tokenizer *tokenizer,
                                             int64_t length);
TL_API void tl_packer_deinit(tl_packer *p);
/* Makes a sequence of a text, or of two; the second one may have no data. */
TL_API TL_NODISCARD tl_status tl_packer_pack(tl_packer *p, tl_bytes first, tl_bytes second);

/* --- classes ---------------------------------------------------------------------------------- */

enum { TL_TEXT_CLASSES = 10000 /* at most */ };

/* The labels of a file, each once: sorted by bytes, or by number where all are whole numbers. */
TL_API TL_NODISCARD tl_status tl_text_classes_find(tl_strings *out, tl_arena *arena,
                                                   const char *path,
                                                   const tl_text_rows_args *columns);

/* The keys of a map in that order. */
TL_API TL_NODISCARD tl_status tl_text_classes_sort(tl_strings *out, tl_arena *arena,
                                                   const tl_map *labels);

/* --- files ------------------------------------------------------------------------------------ */

typedef struct tl_classification_args {
    const tl_tokenizer *tokenizer;
    int64_t max_seq_length;    /* (optional: 128) */
    tl_text_rows_args columns; /* without a label: all labels are 0 */
    tl_strings classes;        /* in the order of their numbers; not for a regression */
    bool is_regression;        /* labels are numbers */
    bool gzip;
    tl_pool *pool; /* (optional: none) */
} tl_classification_args;

typedef struct tl_classification_result {
    int64_t rows;
    int64_t cut;     /* rows whose texts did not fit */
    int64_t skipped; /* rows with too few cells, which were passed over */
} tl_classification_result;

/* Writes the rows of a file to a TFRecord file, which appears when all of it is written. A label
 * that is no class, or no number, is TL_EDATA with file, line and column; so is a file without
 * rows. */
TL_API TL_NODISCARD tl_status tl_classification_write(const char *to, const char *from,
                                                      const tl_classification_args *args,
                                                      tl_classification_result *result);

TL_END

#endif
