/* `tilth data pretraining`: text becomes records of masked pieces and next sentences. */
#include <inttypes.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/vec.h>

#include "tool/data_text.h"

static const char *const rules_names[] = {
    [TL_WORDPIECE_HF] = "hf",
    [TL_WORDPIECE_MODEL_GARDEN] = "model_garden",
    [TL_WORDPIECE_TF_TEXT] = "tf_text",
    [TL_WORDPIECE_BERT] = "bert",
    NULL,
};

static const char *const tokenizations[] = {"WordPiece", "SentencePiece", NULL};

static tl_status check_text_flags(const void *value)
{
    if (((const tli_text_flags *)value)->tokenization == TLI_BY_WORDPIECE) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "tokenization: SentencePiece is not here yet; WordPiece is, "
                                    "with a --vocab_file");
}

static const tl_field text_fields[] = {
    TL_F(tli_text_flags, input_file, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "pretraining: text files, or patterns of their names, separated by commas; a "
                 "sentence on each line, and an empty line between documents"),
    TL_F(tli_text_flags, output_file, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "pretraining: TFRecord files to write, separated by commas; they get the examples "
                 "in turn"),
    TL_F(tli_text_flags, vocab_file, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "vocab.txt of the model, or a tokenizer.json of Hugging Face"),
    TL_F(tli_text_flags, do_lower_case, .b = true,
         .help = "text is lowered; false for a cased model"),
    TL_F(tli_text_flags, rules, .names = rules_names, .i = TL_WORDPIECE_MODEL_GARDEN,
         .help = "whose rules cut text into pieces"),
    TL_F(tli_text_flags, tokenization, .names = tokenizations,
         .help = "what texts are cut into; SentencePiece is not here yet"),
    TL_F(tli_text_flags, gzip_compress, .help = "the files are compressed"),
    TL_F(tli_text_flags, use_v2_feature_names,
         .help = "pretraining: features are called input_word_ids and input_type_ids, not "
                 "input_ids and segment_ids"),
    TL_F_END,
};
const tl_desc tli_text_flags_desc = {
    .name = "data_text",
    .help = "flags of `data pretraining` and `data finetuning`",
    .size = sizeof(tli_text_flags),
    .base = &tl_pretraining_config_desc,
    .fields = text_fields,
    .check = check_text_flags,
};

/* --- what both commands need ------------------------------------------------------------------ */

tl_status tli_split_commas(tl_strings *out, tl_arena *arena, const char *flag, const char *list)
{
    int64_t count = 1, i = 0;
    for (const char *p = list; *p; p++) count += *p == ',';
    const char **items = tl_arena_array(arena, count, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (const char *at = list;; at = strchrnul(at, ',') + 1) {
        size_t length = strcspn(at, ",");
        if (!length) return TL_FAIL(TL_EINVAL, "--%s: '%s' has an empty part", flag, list);
        if (!(items[i++] = tl_arena_strndup(arena, at, length))) return TL_ENOMEM;
        if (!at[length]) break;
    }
    *out = (tl_strings){items, count};
    return TL_OK;
}

tl_status tli_text_tokenizer(tl_tokenizer **out, const tli_run *run)
{
    const tli_text_flags *f = run->given[TLI_DATA_TEXT_FLAGS];
    *out = NULL;
    if (run->words.count > 1)
        return TL_FAIL(TL_EINVAL, "'%.80s': `%s` takes its files by flags", run->words.items[1],
                       run->words.items[0]);
    if (!f->vocab_file || !*f->vocab_file)
        return TL_FAIL(TL_EINVAL, "`%s` needs --vocab_file, the vocabulary of the model",
                       run->words.items[0]);
    return tl_wordpiece_new(out, &(tl_wordpiece_args){.vocab = f->vocab_file,
                                                      .rules = f->rules,
                                                      .cased = !f->do_lower_case});
}

tl_status tli_text_output(const tli_run *run, const char *path)
{
    const tli_data_flags *given = run->given[TLI_DATA_FLAGS];
    if (!given->overwrite && tl_file_exists(path))
        return TL_FAIL(TL_EEXISTS, "'%s' exists; --overwrite replaces it", path);
    const char *folder = tl_path_dirname(run->arena, path);
    return folder ? tl_mkdirs(folder) : TL_ENOMEM;
}

/* --- the command ------------------------------------------------------------------------------ */

typedef struct making {
    tli_run *run;
    const tli_text_flags *given;
    tl_strings outputs;
    tl_pool *pool;
    tl_tokenizer *tokenizer;
    tl_documents *documents;
    tl_pretraining *examples;
    int64_t files;
} making;

static tl_status check_outputs(making *m)
{
    const tl_strings *o = &m->outputs;
    TL_TRY(tli_split_commas(&m->outputs, m->run->arena, "output_file", m->given->output_file));
    for (int64_t i = 0; i < o->count; i++) {
        for (int64_t k = 0; k < i; k++)
            if (strcmp(o->items[i], o->items[k]) == 0)
                return TL_FAIL(TL_EINVAL, "--output_file: '%s' is there twice", o->items[i]);
        TL_TRY(tli_text_output(m->run, o->items[i]));
    }
    return TL_OK;
}

static tl_status read_pattern(making *m, const char *pattern)
{
    tl_path_list found;
    // A name with brackets in it is a file, where there is one.
    if (tl_file_exists(pattern)) {
        m->files++;
        return tl_documents_add_file(m->documents, pattern);
    }
    TL_TRY(tl_glob(&found, m->run->arena, pattern));
    if (!found.count) return TL_FAIL(TL_ENOTFOUND, "--input_file: no file matches '%s'", pattern);
    for (int64_t i = 0; i < found.count; i++)
        TL_TRY(tl_documents_add_file(m->documents, found.items[i]));
    m->files += found.count;
    return TL_OK;
}

static tl_status read_all(making *m)
{
    tl_strings patterns;
    TL_TRY(tli_split_commas(&patterns, m->run->arena, "input_file", m->given->input_file));
    TL_TRY(tl_documents_new(&m->documents, m->tokenizer, m->pool));
    for (int64_t i = 0; i < patterns.count; i++) TL_TRY(read_pattern(m, patterns.items[i]));
    tl_documents_size size = tl_documents_measure(m->documents);
    if (!size.documents)
        return TL_FAIL(TL_EDATA, "'%s': there is no text in it", m->given->input_file);
    tl_str_addf(&m->run->text,
                "read %" PRId64 " file%s: %" PRId64 " document%s, %" PRId64 " sentence%s, %" PRId64
                " pieces\n",
                m->files, m->files == 1 ? "" : "s", size.documents, size.documents == 1 ? "" : "s",
                size.sentences, size.sentences == 1 ? "" : "s", size.pieces);
    return tli_tell_now(m->run);
}

static tl_status write_all(making *m)
{
    const tli_text_flags *f = m->given;
    const tl_strings *o = &m->outputs;
    TL_TRY(tl_pretraining_new(&m->examples, m->documents, &f->base));
    TL_TRY(tl_pretraining_write(
        m->examples, o->items, o->count,
        &(tl_pretraining_files){.gzip = f->gzip_compress, .v2_names = f->use_v2_feature_names}));
    tl_str_addf(&m->run->text, "wrote %" PRId64 " examples to %s",
                tl_pretraining_count(m->examples), o->items[0]);
    if (o->count > 1)
        tl_str_addf(&m->run->text, " and %" PRId64 " more file%s", o->count - 1,
                    o->count == 2 ? "" : "s");
    tl_str_addc(&m->run->text, '\n');
    return tl_str_status(&m->run->text);
}

static tl_status check_given(const tli_text_flags *f)
{
    if (!f->input_file || !*f->input_file)
        return TL_FAIL(TL_EINVAL, "`pretraining` needs --input_file, the text to make examples of");
    if (!f->output_file || !*f->output_file)
        return TL_FAIL(TL_EINVAL, "`pretraining` needs --output_file, the TFRecord file to write");
    return tl_desc_check(&tl_pretraining_config_desc, &f->base);
}

tl_status tli_data_pretraining(tli_run *run, const void *flags)
{
    making m = {.run = run, .given = run->given[TLI_DATA_TEXT_FLAGS]};
    tl_status st;
    (void)flags;
    TL_TRY(check_given(m.given));
    TL_TRY_DONE(st, tli_text_tokenizer(&m.tokenizer, run));
    TL_TRY_DONE(st, check_outputs(&m));
    TL_TRY_DONE(st, tl_pool_new(&m.pool, 0));
    TL_TRY_DONE(st, read_all(&m));
    st = write_all(&m);
done:
    tl_pretraining_free(&m.examples);
    tl_documents_free(&m.documents);
    tl_pool_free(&m.pool);
    tl_tokenizer_free(&m.tokenizer);
    return st;
}
