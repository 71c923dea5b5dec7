/* From texts in records to batches: they are cut into pieces and packed where they are read. */
#include <string.h>
#include <tilth/data/pipeline.h>

#include "zoo/language/data.h"

enum { MOST_TEXTS = 8 };

typedef struct plan {
    const tl_sentence_text_data_config *data;
    const tl_tokenizer *tokenizer;
    int64_t texts;
    tli_words words;
    tli_limit labels;
    tl_feature_spec items[MOST_TEXTS + 2];
    tl_example_features features;
} plan;

/* As tensorflow-text's RoundRobinTrimmer: texts take a place in turn until none is left. */
void tli_round_robin(int64_t *lengths, int64_t count, int64_t room)
{
    int64_t taken[MOST_TEXTS] = {0};
    TL_ASSERT(count <= MOST_TEXTS);
    for (bool any = true; any && room > 0;) {
        any = false;
        for (int64_t i = 0; i < count && room > 0; i++) {
            if (taken[i] == lengths[i]) continue;
            taken[i]++, room--;
            any = true;
        }
    }
    memcpy(lengths, taken, (size_t)count * sizeof *lengths);
}

/* [CLS] a [SEP] b [SEP], then zeros. */
static tl_status pack(const tl_tokenizer *t, int64_t length, const tl_ids *pieces,
                      const int64_t *from, const int64_t *lengths, int64_t texts,
                      int32_t *const inputs[3])
{
    int32_t *words = inputs[0], *mask = inputs[1], *types = inputs[2], cls, sep;
    int64_t at = 0;
    TL_TRY(tl_tokenizer_need(t, "[CLS]", &cls));
    TL_TRY(tl_tokenizer_need(t, "[SEP]", &sep));
    memset(types, 0, (size_t)length * sizeof *types);
    words[at++] = cls;
    for (int64_t i = 0; i < texts; i++) {
        for (int64_t k = 0; k < lengths[i]; k++, at++) {
            words[at] = pieces->items[from[i] + k];
            types[at] = (int32_t)i;
        }
        types[at] = (int32_t)i;
        words[at++] = sep;
    }
    TL_ASSERT(at <= length);
    for (int64_t k = 0; k < length; k++) mask[k] = k < at;
    memset(words + at, 0, (size_t)(length - at) * sizeof *words);
    return TL_OK;
}

tl_status tli_sentence_pack_texts(const tl_tokenizer *t, int64_t length, const tl_bytes *texts,
                                  int64_t count, int32_t *const inputs[3])
{
    tl_ids pieces = {0};
    int64_t from[MOST_TEXTS], lengths[MOST_TEXTS];
    tl_status st = TL_OK;
    for (int64_t i = 0; i < count && st == TL_OK; i++) {
        from[i] = pieces.count;
        st = tl_tokenize(t, &pieces, texts[i].data, texts[i].size);
        lengths[i] = pieces.count - from[i];
    }
    if (st == TL_OK) {
        tli_round_robin(lengths, count, length - count - 1);
        st = pack(t, length, &pieces, from, lengths, count, inputs);
    }
    tl_ids_deinit(&pieces);
    return st;
}

static tl_status cut_and_pack(void *self, tl_sample *s)
{
    static const char *const kept[] = {"input_word_ids", "input_mask", "input_type_ids",
                                       "label_ids", "example_id"};
    plan *p = self;
    const int64_t length = p->data->seq_length;
    tl_bytes texts[MOST_TEXTS];
    int32_t *inputs[3];
    TL_TRY(tl_example_decode(&p->features, s));
    TL_TRY(tli_check_limit(s, &p->labels));
    for (int64_t i = 0; i < p->texts; i++) {
        const tl_sample_field *text;
        TL_TRY(tl_sample_get(s, p->items[i].spec.name, &text));
        texts[i] = (tl_bytes){text->data, (size_t)text->shape.dims[0]};
    }
    for (int i = 0; i < 3; i++)
        if (!(inputs[i] = tl_sample_add(s, kept[i], TL_I32, TL_SHAPE(length)))) return TL_ENOMEM;
    TL_TRY(tli_sentence_pack_texts(p->tokenizer, length, texts, p->texts, inputs));
    TL_TRY(tli_check_words(p->tokenizer, inputs[0], length, &p->words));
    tl_sample_keep(s, kept, TL_COUNT(kept));
    return TL_OK;
}

static tl_status check_config(const tl_sentence_text_data_config *d, const char *section)
{
    if (!d->text_fields.count)
        return TL_FAIL(TL_EINVAL, "%s.text_fields is empty: name the features that hold texts",
                       section);
    if (d->text_fields.count > MOST_TEXTS)
        return TL_FAIL(TL_ELIMIT, "%s.text_fields has %lld names; at most %d are possible", section,
                       (long long)d->text_fields.count, MOST_TEXTS);
    if (d->seq_length < d->text_fields.count + 2)
        return TL_FAIL(TL_EINVAL, "%s.seq_length is %lld: there is no room for %lld texts", section,
                       (long long)d->seq_length, (long long)d->text_fields.count);
    if (*d->vocab_file) return TL_OK;
    return TL_FAIL(TL_EINVAL, "%s.vocab_file is empty: name the vocabulary, a vocab.txt", section);
}

tl_status tli_sentence_text_inputs(tl_dataset **out, const tl_sentence_text_data_config *data,
                                   const tl_tokenizer *tokenizer, const tli_language_inputs *args)
{
    *out = NULL;
    plan *p = tl_arena_alloc(args->arena, sizeof *p);
    if (!p) return TL_ENOMEM;
    *p = (plan){.data = data,
                .tokenizer = tokenizer,
                .texts = data->text_fields.count,
                .words = args->words};
    int32_t id; // they are looked for once here, so that a vocabulary without them is told early
    TL_TRY_NOTE(tl_tokenizer_need(tokenizer, "[CLS]", &id), "%s.vocab_file", args->section);
    TL_TRY_NOTE(tl_tokenizer_need(tokenizer, "[SEP]", &id), "%s.vocab_file", args->section);
    TL_TRY(tli_check_label_type(data->label_type, args));
    const char *fields_key = tl_arena_printf(args->arena, "%s.text_fields", args->section);
    const char *label_key = tl_arena_printf(args->arena, "%s.label_field", args->section);
    if (!fields_key || !label_key) return TL_ENOMEM;
    int64_t count = 0;
    for (; count < p->texts; count++)
        p->items[count] = (tl_feature_spec){
            .spec = {data->text_fields.items[count], TL_U8, TL_SHAPE(-1)}, .name_key = fields_key};
    const tl_dtype label = strcmp(data->label_type, "float") == 0 ? TL_F32 : TL_I32;
    p->items[count++] = (tl_feature_spec){
        .spec = {data->label_field, label, TL_SCALAR}, .as = "label_ids", .name_key = label_key};
    TL_TRY(tli_class_limit(&p->labels, data->label_field, "label_ids", args));
    if (data->include_example_id)
        p->items[count++] = (tl_feature_spec){.spec = {"example_id", TL_I64, TL_SCALAR}};
    p->features = (tl_example_features){p->items, count};
    tl_pipeline_args a = {.decode = {cut_and_pack, p}};
    return tli_read_records(out, &a, &data->base, args);
}

tl_status tli_sentence_tokenizer(tl_tokenizer **out, const tl_sentence_text_data_config *data,
                                 const char *section)
{
    *out = NULL;
    TL_TRY(check_config(data, section));
    TL_TRY_NOTE(tl_wordpiece_new(out, &(tl_wordpiece_args){.vocab = data->vocab_file,
                                                           .rules = TL_WORDPIECE_TF_TEXT,
                                                           .cased = !data->lower_case}),
                "%s.vocab_file", section);
    return TL_OK;
}

/* --- what is configured ----------------------------------------------------------------------- */

#define TEXT_F(member, ...) TL_F(tl_sentence_text_data_config, member, __VA_ARGS__)
static const char *const tokenizations[] = {"WordPiece", "SentencePiece", NULL};
static const char *const file_types[] = {"tfrecord", "sstable", "recordio", NULL};
static const tl_field fields[] = {
    TL_F_AS(tl_sentence_text_data_config, base.global_batch_size, "global_batch_size", .i = 32,
            TL_AT_LEAST(0), .help = "examples of one step, over all replicas"),
    TL_F_AS(tl_sentence_text_data_config, base.is_training, "is_training", .set = true, .b = true,
            .help = "repeat and shuffle the examples; null is as false"),
    TEXT_F(text_fields, .flags = TL_FIELD_NULLABLE,
           .help = "features that hold texts; one, or two for pairs"),
    TEXT_F(label_field, .s = "label", .help = "feature of the label"),
    TEXT_F(label_type, .s = "int", .pattern = "^(int|float)$",
           .help = "int for classes, float for numbers"),
    TEXT_F(include_example_id, .help = "examples have a number, example_id"),
    TEXT_F(seq_length, .i = 128, TL_AT_LEAST(1), .help = "pieces of an example"),
    TEXT_F(tokenization, .names = tokenizations, .help = "how texts are cut: WordPiece"),
    TEXT_F(vocab_file, .s = "", .flags = TL_FIELD_PATH, .help = "the vocabulary, a vocab.txt"),
    TEXT_F(lower_case, .b = true, .help = "texts are lowered, for uncased models"),
    TEXT_F(preprocessing_hub_module_url, .s = "", .flags = TL_FIELD_LATER,
           .help = "a module that cuts texts; instead, set vocab_file"),
    TEXT_F(file_type, .names = file_types, .help = "tfrecord"),
    TL_F_END,
};

static tl_status check(const void *value)
{
    const tl_sentence_text_data_config *d = value;
    if (d->tokenization != TL_TOKENIZE_WORDPIECE)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "tokenization: SentencePiece is not here yet; WordPiece is");
    if (d->file_type == TL_LANGUAGE_TFRECORD) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "file_type: %s is not supported; write TFRecords",
                   file_types[d->file_type]);
}

const tl_desc tl_sentence_text_data_config_desc = {
    .name = "sentence_text_data",
    .help = "texts with a label",
    .size = sizeof(tl_sentence_text_data_config),
    .fields = fields,
    .base = &tl_data_config_desc,
    .check = check,
};
