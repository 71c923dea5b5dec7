/* From texts to batches with hidden words: documents are cut into pieces once; sentences are put
 * together and words are hidden as batches are made, anew in each pass. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/vec.h>
#include <tilth/io/tensorflow/tfrecord.h>

#include "zoo/language/data.h"

enum { MOST_FIELDS = 8, ENDS = 3 /* [CLS] and two [SEP], for which room is kept */ };

typedef struct offsets {
    int64_t *items;
    int64_t count, capacity;
} offsets;

/* Lives as long as the dataset. A sentence is a line of a document; without next sentences it is a
 * field of a record. */
typedef struct corpus {
    const tl_pretrain_text_data_config *data;
    const char *section;
    tl_tokenizer *tokenizer;
    int32_t cls, sep, mask;
    tl_ids ids;
    bool *goes_on;       /* of each piece of the vocabulary: it belongs to the one before */
    offsets sentences;   /* where each begins among the pieces, and where the last one ends */
    offsets documents;   /* where each begins among the sentences, and where the last one ends */
    offsets document_of; /* of each sentence */
} corpus;

static void free_corpus(void *payload)
{
    corpus *c = payload;
    tl_tokenizer_free(&c->tokenizer);
    tl_ids_deinit(&c->ids);
    tl_free(c->goes_on);
    TL_VEC_FREE(&c->sentences);
    TL_VEC_FREE(&c->documents);
    TL_VEC_FREE(&c->document_of);
    tl_free(c);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Ends the document, if it has a sentence. */
static tl_status end_document(corpus *c)
{
    int64_t count = c->sentences.count - 1;
    if (c->documents.items[c->documents.count - 1] == count) return TL_OK;
    return TL_VEC_PUSH(&c->documents, count) ? TL_OK : TL_ENOMEM;
}

static tl_status add_sentence(corpus *c, const char *text, size_t size, bool keep_empty)
{
    int64_t before = c->ids.count, document = c->documents.count - 1;
    TL_TRY(tl_tokenize(c->tokenizer, &c->ids, text, size));
    if (c->ids.count == before && !keep_empty) return TL_OK;
    if (!TL_VEC_PUSH(&c->sentences, c->ids.count)) return TL_ENOMEM;
    return TL_VEC_PUSH(&c->document_of, document) ? TL_OK : TL_ENOMEM;
}

/* Lines are sentences, ended by \n or \r\n. Where `blank_ends`, an empty one ends the document. */
static tl_status add_lines(corpus *c, const char *text, size_t size, bool blank_ends)
{
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((stop ? stop : end) - at);
        if (stop && length && at[length - 1] == '\r') length--;
        if (length) TL_TRY(add_sentence(c, at, length, false));
        else if (blank_ends) TL_TRY(end_document(c));
        at = stop ? stop + 1 : end;
    }
    return TL_OK;
}

static tl_status add_record(corpus *c, const tl_tfrecord *r)
{
    const tl_strings names = c->data->text_field_names;
    tl_feature found[MOST_FIELDS];
    TL_TRY(tl_example_find(found, names.items, names.count, r->data, r->size));
    for (int64_t i = 0; i < names.count; i++) {
        tl_bytes text;
        TL_TRY(tl_feature_bytes(&found[i], names.items[i], &text, 1));
        if (c->data->use_next_sentence_label)
            TL_TRY(add_lines(c, text.size ? text.data : "", text.size, false));
        else TL_TRY(add_sentence(c, text.size ? text.data : "", text.size, true));
    }
    return end_document(c);
}

static tl_status add_records(corpus *c, const char *path)
{
    tl_tfrecord_file *file;
    tl_tfrecord r;
    TL_TRY(tl_tfrecord_open(&file, path, NULL));
    tl_tfrecord_cursor at = {.file = file};
    tl_status st = TL_OK;
    for (bool more = true; st == TL_OK;) {
        st = tl_tfrecord_next(&at, &r, &more);
        if (st != TL_OK || !more) break;
        st = add_record(c, &r);
        if (st != TL_OK) st = tl_error_note(st, "record %" PRId64 " of '%s'", r.number, path);
    }
    tl_tfrecord_close(&file);
    return st;
}

/* A sentence on each line, an empty line between documents. */
static tl_status add_text(corpus *c, const char *path)
{
    tl_file_mapping file;
    TL_TRY(tl_file_map(&file, path));
    tl_status st = TL_OK;
    if (c->data->text_field_names.count > 1)
        st = TL_FAIL(TL_EINVAL,
                     "'%s' is a text, and %s.text_field_names has %" PRId64
                     " fields: they are for records",
                     path, c->section, c->data->text_field_names.count);
    if (st == TL_OK) st = add_lines(c, file.data, file.size, true);
    if (st == TL_OK) st = end_document(c);
    if (st == TL_OK) st = tl_file_mapping_check(&file, path);
    tl_file_unmap(&file);
    return st;
}

static bool is_text(const char *path)
{
    size_t length = strlen(path);
    return length > 4 && strcmp(path + length - 4, ".txt") == 0;
}

/* --- hidden words ----------------------------------------------------------------------------- */

/* Draws are those of the sample. */
typedef struct hiding {
    const corpus *c;
    tl_rng *rng;
    int64_t *items; /* where each item begins: a piece, or a word with all its pieces */
    int64_t count;
} hiding;

/* What may be hidden: all but [CLS] and [SEP]. */
static void find_items(hiding *h, const int32_t *words, int64_t length)
{
    const corpus *c = h->c;
    for (int64_t i = 0; i < length; i++) {
        if (words[i] == c->cls || words[i] == c->sep) continue;
        bool within = c->data->use_whole_word_masking && i && c->goes_on[words[i]]
                      && words[i - 1] != c->cls && words[i - 1] != c->sep;
        if (!within) h->items[h->count++] = i;
    }
}

/* So many of them, in the order of the text. `deterministic` takes the first ones. */
static int64_t choose_items(hiding *h)
{
    const tl_pretrain_text_data_config *d = h->c->data;
    const tl_opt_bool first = d->base.deterministic;
    int64_t count = (int64_t)ceilf((float)d->masking_rate * (float)h->count), kept = 0;
    if (count > d->max_predictions_per_seq) count = d->max_predictions_per_seq;
    if (count > h->count) count = h->count;
    if (first.set && first.value) return count;
    for (int64_t i = 0; i < h->count && kept < count; i++) {
        // of those that are left, as many as are still needed are as likely as any others
        if (tl_rng_below(h->rng, h->count - i) < count - kept) h->items[kept++] = h->items[i];
    }
    return kept;
}

/* [MASK] for eight of ten, any piece for one, the same for one. */
static int32_t hide(hiding *h, int32_t word)
{
    double draw = tl_rng_uniform_f64(h->rng);
    if (draw < 0.8) return h->c->mask;
    return draw < 0.9 ? (int32_t)tl_rng_below(h->rng, tl_tokenizer_count(h->c->tokenizer)) : word;
}

typedef struct guesses {
    int32_t *positions, *ids;
    float *weights;
    int64_t most;
} guesses;

static void hide_words(hiding *h, int32_t *words, int64_t length, const guesses *out)
{
    find_items(h, words, length);
    int64_t chosen = choose_items(h), count = 0;
    for (int64_t i = 0; i < chosen; i++) {
        int64_t at = h->items[i];
        do { // the pieces of a word stay together
            if (count == out->most) return;
            out->positions[count] = (int32_t)at;
            out->ids[count] = words[at];
            out->weights[count++] = 1;
            words[at] = hide(h, words[at]);
            at++;
        } while (h->c->data->use_whole_word_masking && at < length && words[at] != h->c->cls
                 && words[at] != h->c->sep && h->c->goes_on[words[at]]);
    }
}

/* --- examples --------------------------------------------------------------------------------- */

/* A sentence of another document of the same group of doc_batch_size; the last group has at least
 * two. */
static int64_t draw_sentence(const corpus *c, tl_rng *rng, int64_t document)
{
    int64_t documents = c->documents.count - 1, size = c->data->doc_batch_size,
            from = document / size * size;
    int64_t to = from + size < documents ? from + size : documents;
    if (to - from < 2) from = from ? from - 1 : 0, to = from + 2;
    int64_t other = from + tl_rng_below(rng, to - from - 1);
    other += other >= document;
    int64_t begin = c->documents.items[other], end = c->documents.items[other + 1];
    return begin + tl_rng_below(rng, end - begin);
}

/* The sentences of an example: the next one, or with a chance of one half, and behind the last one
 * of a document always, another. */
static int64_t choose_sentences(const corpus *c, tl_rng *rng, int64_t index, int64_t out[],
                                int32_t *is_random)
{
    const int64_t fields = c->data->text_field_names.count;
    if (!c->data->use_next_sentence_label) {
        for (int64_t i = 0; i < fields; i++) out[i] = index * fields + i;
        return fields;
    }
    int64_t document = c->document_of.items[index];
    bool last = index + 1 == c->documents.items[document + 1];
    *is_random = tl_rng_uniform_f64(rng) > 0.5 || last;
    out[0] = index;
    out[1] = *is_random ? draw_sentence(c, rng, document) : index + 1;
    return 2;
}

static int64_t put_together(const corpus *c, const int64_t *sentences, int64_t count,
                            int32_t *words, int32_t *types)
{
    const int64_t length = c->data->seq_length;
    int64_t at = 0, room = length - ENDS;
    words[at++] = c->cls;
    for (int64_t i = 0; i < count; i++) {
        int64_t from = c->sentences.items[sentences[i]],
                pieces = c->sentences.items[sentences[i] + 1] - from;
        if (pieces > room) pieces = room; // the first one takes all that it needs
        room -= pieces;
        for (int64_t k = 0; k < pieces && at < length; k++, at++) {
            words[at] = c->ids.items[from + k];
            types[at] = (int32_t)i;
        }
        if (at == length) break;
        types[at] = (int32_t)i;
        words[at++] = c->sep;
    }
    return at;
}

static tl_status make_example(void *self, tl_sample *s)
{
    const corpus *c = self;
    const int64_t length = c->data->seq_length, most = c->data->max_predictions_per_seq;
    int64_t sentences[MOST_FIELDS], index;
    tl_rng rng;
    TL_TRY(tl_sample_int(s, "number", &index));
    int32_t *words = tl_sample_add(s, "input_word_ids", TL_I32, TL_SHAPE(length));
    int32_t *mask = tl_sample_add(s, "input_mask", TL_I32, TL_SHAPE(length));
    int32_t *types = tl_sample_add(s, "input_type_ids", TL_I32, TL_SHAPE(length));
    int32_t *positions = tl_sample_add(s, "masked_lm_positions", TL_I32, TL_SHAPE(most));
    int32_t *ids = tl_sample_add(s, "masked_lm_ids", TL_I32, TL_SHAPE(most));
    float *weights = tl_sample_add(s, "masked_lm_weights", TL_F32, TL_SHAPE(most));
    int32_t *next = NULL, is_random = 0;
    if (c->data->use_next_sentence_label)
        next = tl_sample_add(s, "next_sentence_labels", TL_I32, TL_SHAPE(1));
    int64_t *items = tl_sample_scratch(s, (size_t)length * sizeof *items);
    if (!words || !mask || !types || !positions || !ids || !weights || !items
        || (c->data->use_next_sentence_label && !next))
        return TL_ENOMEM;
    memset(words, 0, (size_t)length * sizeof *words);
    memset(types, 0, (size_t)length * sizeof *types);
    memset(positions, 0, (size_t)most * sizeof *positions);
    memset(ids, 0, (size_t)most * sizeof *ids);
    memset(weights, 0, (size_t)most * sizeof *weights);
    tl_sample_rng(s, &rng);
    int64_t count = choose_sentences(c, &rng, index, sentences, &is_random);
    int64_t end = put_together(c, sentences, count, words, types);
    for (int64_t i = 0; i < length; i++) mask[i] = i < end;
    hiding h = {.c = c, .rng = &rng, .items = items};
    hide_words(&h, words, end, &(guesses){positions, ids, weights, most});
    if (next) *next = is_random; // as in records: 1 where the second does not follow
    tl_sample_remove(s, "number");
    return TL_OK;
}

static tl_status make_number(void *self, int64_t index, tl_sample *out)
{
    int64_t *number = tl_sample_add(out, "number", TL_I64, TL_SCALAR);
    (void)self;
    if (!number) return TL_ENOMEM;
    *number = index;
    return TL_OK;
}

/* --- opening ---------------------------------------------------------------------------------- */

static tl_status open_texts(void *self, const char *name, const char *const *paths, int64_t count,
                            tl_source **out)
{
    corpus *c = self;
    (void)name;
    if (c->sentences.count > 1)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "input_path is a map; texts are named by a path, or a list");
    for (int64_t i = 0; i < count; i++)
        TL_TRY(is_text(paths[i]) ? add_text(c, paths[i]) : add_records(c, paths[i]));
    int64_t documents = c->documents.count - 1, sentences = c->sentences.count - 1;
    if (!sentences) return TL_FAIL(TL_EINVAL, "'%s' has no text", paths[0]);
    if (c->data->use_next_sentence_label && documents < 2)
        return TL_FAIL(TL_EINVAL,
                       "'%s' has one document, and sentences that do not follow come from another "
                       "one: give more, or set %s.use_next_sentence_label=false",
                       paths[0], c->section);
    return tl_source_function(out, make_number, c, sentences / c->data->text_field_names.count);
}

/* A vocabulary without capital letters is one of an uncased model. */
static bool has_capitals(const tl_tokenizer *t)
{
    for (int64_t i = 0; i < tl_tokenizer_count(t); i++) {
        const char *p = tl_tokenizer_piece(t, i);
        if (!p || *p == '[') continue;
        for (; *p; p++)
            if (*p >= 'A' && *p <= 'Z') return true;
    }
    return false;
}

static tl_status open_vocabulary(corpus *c)
{
    tl_wordpiece_args how = {.vocab = c->data->vocab_file_path, .rules = TL_WORDPIECE_TF_TEXT};
    TL_TRY(tl_wordpiece_new(&c->tokenizer, &how));
    if (has_capitals(c->tokenizer)) {
        how.cased = true;
        tl_tokenizer_free(&c->tokenizer);
        TL_TRY(tl_wordpiece_new(&c->tokenizer, &how));
    }
    TL_TRY(tl_tokenizer_need(c->tokenizer, "[CLS]", &c->cls));
    TL_TRY(tl_tokenizer_need(c->tokenizer, "[SEP]", &c->sep));
    TL_TRY(tl_tokenizer_need(c->tokenizer, "[MASK]", &c->mask));
    int64_t count = tl_tokenizer_count(c->tokenizer);
    c->goes_on = tl_alloc_zero((size_t)count * sizeof *c->goes_on);
    if (!c->goes_on) return TL_FAIL_NOMEM((size_t)count * sizeof *c->goes_on);
    for (int64_t i = 0; i < count; i++) {
        const char *p = tl_tokenizer_piece(c->tokenizer, i);
        c->goes_on[i] = p && strncmp(p, "##", 2) == 0;
    }
    return TL_OK;
}

static tl_status check_config(const tl_pretrain_text_data_config *d, const char *section)
{
    if (!tl_paths_given(d->base.input_path))
        return TL_FAIL(
            TL_EINVAL,
            "%s.tfds_name: nothing is fetched from TensorFlow Datasets. Name texts by "
            "%s.input_path, and set tfds_name to '': TFRecords with the feature '%s', or "
            ".txt files with a sentence on each line and an empty line between documents",
            section, section, d->text_field_names.count ? d->text_field_names.items[0] : "text");
    if (!d->text_field_names.count || d->text_field_names.count > MOST_FIELDS)
        return TL_FAIL(TL_EINVAL, "%s.text_field_names has %" PRId64 " names; 1 to %d are possible",
                       section, d->text_field_names.count, MOST_FIELDS);
    if (d->use_next_sentence_label && d->text_field_names.count > 1)
        return TL_FAIL(TL_EINVAL,
                       "%s.text_field_names has %" PRId64 " names, and next sentences are those of "
                       "one text: name one, or set use_next_sentence_label=false",
                       section, d->text_field_names.count);
    if (d->seq_length < ENDS + 1)
        return TL_FAIL(TL_EINVAL, "%s.seq_length is %" PRId64 ": there is no room for a text",
                       section, d->seq_length);
    if (d->base.global_batch_size > 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "global_batch_size is 0: set it in %s", section);
}

static tl_status new_corpus(corpus **out, const tl_pretrain_text_data_config *data,
                            const tli_language_inputs *args)
{
    const int64_t none = 0;
    corpus *c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    TL_TRY(tl_arena_defer(args->arena, free_corpus, c));
    c->data = data;
    c->section = args->section;
    TL_TRY_NOTE(open_vocabulary(c), "%s.vocab_file_path", args->section);
    TL_TRY(tli_check_pieces(c->tokenizer, "vocab_file_path", args));
    if (!TL_VEC_PUSH(&c->sentences, none) || !TL_VEC_PUSH(&c->documents, none)) return TL_ENOMEM;
    *out = c;
    return TL_OK;
}

tl_status tli_pretrain_text_inputs(tl_dataset **out, const tl_pretrain_text_data_config *data,
                                   const tli_language_inputs *args)
{
    corpus *c = NULL;
    *out = NULL;
    TL_TRY(check_config(data, args->section));
    TL_TRY(new_corpus(&c, data, args));
    const tl_sample_map map = {make_example, c};
    tl_pipeline_args a = {.maps = &map, .map_count = 1};
    const tl_pipeline_reader reader = {.pipelines = args->input->pipelines,
                                       .pipeline = args->input->pipeline,
                                       .replicas = args->input->replicas,
                                       .seed = args->input->seed,
                                       .section = args->section,
                                       .open = open_texts,
                                       .open_self = c};
    TL_TRY(tl_pipeline_args_read(&a, args->arena, &data->base, &reader));
    // a buffer of documents is one of so many sentences
    if (a.shuffle > 0) {
        int64_t each = (c->sentences.count - 1) / (c->documents.count - 1);
        a.shuffle *= each > 1 ? each : 1;
    }
    return tl_pipeline_new(out, &a);
}

/* --- what is configured ----------------------------------------------------------------------- */

#define WIKI_F(member, ...) TL_F(tl_pretrain_text_data_config, member, __VA_ARGS__)
#define BASE_F(member, ...) TL_F_AS(tl_pretrain_text_data_config, base.member, #member, __VA_ARGS__)
static const char *const file_types[] = {"tfrecord", "sstable", "recordio", NULL};
static const tl_field fields[] = {
    BASE_F(tfds_name, .s = "", .accept = TL_ACCEPT_STRING | TL_ACCEPT_MAP,
           .help = "a dataset of TensorFlow Datasets, which is not fetched; set input_path, and "
                   "this to ''"),
    BASE_F(tfds_split, .s = "", .help = "a part of a dataset; without effect"),
    BASE_F(global_batch_size, .i = 512, TL_AT_LEAST(0),
           .help = "examples of one step, over all replicas"),
    BASE_F(is_training, .set = true, .b = true,
           .help = "repeat and shuffle the examples; null is as false"),
    BASE_F(deterministic, .help = "true hides the first words of an example, not random ones"),
    BASE_F(shuffle_buffer_size, .i = 100, TL_AT_LEAST(0),
           .help = "documents among whose sentences the next one is drawn in training"),
    WIKI_F(doc_batch_size, .i = 8, TL_AT_LEAST(2),
           .help = "documents among which sentences are drawn that do not follow"),
    WIKI_F(seq_length, .i = 512, TL_AT_LEAST(1), .help = "pieces of an example"),
    WIKI_F(max_predictions_per_seq, .i = 76, TL_AT_LEAST(1),
           .help = "places of an example that may be hidden"),
    WIKI_F(use_next_sentence_label, .b = true,
           .help = "examples are pairs of sentences, which follow each other or do not"),
    WIKI_F(text_field_names, TL_DEFAULT_LIST(char *, "text"), .flags = TL_FIELD_NULLABLE,
           .help = "features that hold texts; one, where there are pairs of sentences"),
    WIKI_F(vocab_file_path, .s = "", .flags = TL_FIELD_PATH, .help = "the vocabulary, a vocab.txt"),
    WIKI_F(masking_rate, .d = 0.15, TL_RANGE(0, 1), .help = "share of the words that is hidden"),
    WIKI_F(use_whole_word_masking, .help = "words are hidden with all their pieces"),
    WIKI_F(file_type, .names = file_types, .help = "tfrecord; .txt files are told by their names"),
    TL_F_END,
};

static tl_status check(const void *value)
{
    const tl_pretrain_text_data_config *d = value;
    if (d->file_type == TL_LANGUAGE_TFRECORD) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "file_type: %s is not supported; write TFRecords",
                   file_types[d->file_type]);
}

const tl_desc tl_pretrain_text_data_config_desc = {
    .name = "pretrain_text_data",
    .help = "texts whose words are hidden as they are read",
    .size = sizeof(tl_pretrain_text_data_config),
    .fields = fields,
    .base = &tl_data_config_desc,
    .check = check,
};
