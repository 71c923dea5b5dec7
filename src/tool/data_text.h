/* Private to tool: `tilth data pretraining` and `tilth data finetuning`, which make records of
 * texts.
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_SRC_TOOL_DATA_TEXT_H
#define TILTH_SRC_TOOL_DATA_TEXT_H

#include <tilth/text/classification.h>
#include <tilth/text/pretraining.h>

#include "tool/data.h"

typedef enum tli_pieces_by { TLI_BY_WORDPIECE, TLI_BY_SENTENCEPIECE } tli_pieces_by;
typedef struct tli_text_flags {
    tl_pretraining_config base; /* max_seq_length is for both */
    const char *input_file, *output_file;
    const char *vocab_file;
    bool do_lower_case;
    tl_wordpiece_rules rules;
    bool gzip_compress, use_v2_feature_names;
    tli_pieces_by tokenization;
} tli_text_flags;
extern const tl_desc tli_text_flags_desc;

typedef enum tli_finetuning_type {
    TLI_FINETUNING_CLASSES,
    TLI_FINETUNING_NUMBERS
} tli_finetuning_type;
typedef enum tli_mnli_type { TLI_MNLI_MATCHED, TLI_MNLI_MISMATCHED } tli_mnli_type;

typedef struct tli_finetuning_flags {
    tli_finetuning_type fine_tuning_task_type;
    const char *input_data_dir, *classification_task_name;
    tli_mnli_type mnli_type;
    const char *train_file, *eval_file, *test_file;
    const char *text_columns, *label_column, *labels;
    tl_table_header header;
    const char *delimiter;
    tl_opt_bool quoting;
    const char *train_data_output_path, *eval_data_output_path, *test_data_output_path;
    const char *meta_data_file_path;
} tli_finetuning_flags;
extern const tl_desc tli_finetuning_flags_desc;
/* Of create_pretraining_data and create_finetuning_data. */
extern const tli_absent_flag tli_absent_text_flags[];

/* The structs of the flags of `data`, in their order. */
enum { TLI_DATA_FLAGS, TLI_DATA_TEXT_FLAGS, TLI_DATA_FINETUNING_FLAGS };

tl_status tli_data_pretraining(tli_run *run, const void *flags);
tl_status tli_data_finetuning(tli_run *run, const void *flags);

/* Both need a vocabulary, and no words behind the verb. */
TL_NODISCARD tl_status tli_text_tokenizer(tl_tokenizer **out, const tli_run *run);
/* The parts of a list with commas; an empty part is TL_EINVAL, with the name of the flag. */
TL_NODISCARD tl_status tli_split_commas(tl_strings *out, tl_arena *arena, const char *flag,
                                        const char *list);
/* TL_EEXISTS when the file is there and may not be replaced. Makes its folder. */
TL_NODISCARD tl_status tli_text_output(const tli_run *run, const char *path);

#endif
