#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/text/tokenizer.h>

#include "tool/tool.h"

typedef struct tokenize_flags {
    const char *vocab;
    tl_wordpiece_rules rules;
    bool lower, tokens;
} tokenize_flags;
static const char *const rule_names[] = {"hf", "model_garden", "tf_text", "bert", NULL};
static const tl_field tokenize_fields[] = {
    TL_F(tokenize_flags, vocab, .flags = TL_FIELD_NULLABLE | TL_FIELD_PATH,
         .help = "vocab.txt, a tokenizer.json of Hugging Face, or a folder with one of them"),
    TL_F(tokenize_flags, rules, .names = rule_names,
         .help = "whose numbers: those of Hugging Face's tokenizers, of Model Garden's tools, of "
                 "tensorflow-text, or of google-research/bert"),
    TL_F(tokenize_flags, lower,
         .help = "text is lowered and loses its accents, as for uncased models; a tokenizer.json "
                 "says so itself"),
    TL_F(tokenize_flags, tokens, .help = "the pieces, instead of their numbers"),
    TL_F_END,
};
static const tl_desc tokenize_flags_desc = {
    .name = "tokenize",
    .help = "flags of `tokenize`",
    .size = sizeof(tokenize_flags),
    .fields = tokenize_fields,
};

enum { CHUNK = 1 << 16 }; // bytes that are written at once

typedef struct tokenizing {
    tli_run *run;
    const tl_tokenizer *tokenizer;
    bool tokens;
    tl_ids ids;
} tokenizing;

static void add_number(tl_str *out, int32_t number)
{
    char digits[12];
    int at = TL_COUNT(digits);
    do digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    tl_str_addn(out, digits + at, sizeof digits - (size_t)at);
}

static tl_status take_line(tokenizing *t, const char *line, size_t size)
{
    tl_str *out = &t->run->text;
    t->ids.count = 0;
    TL_TRY(tl_tokenize(t->tokenizer, &t->ids, line, size));
    for (int64_t i = 0; i < t->ids.count; i++) {
        if (i) tl_str_addc(out, ' ');
        if (t->tokens) tl_str_add(out, tl_tokenizer_piece(t->tokenizer, t->ids.items[i]));
        else add_number(out, t->ids.items[i]);
    }
    tl_str_addc(out, '\n');
    return out->length < CHUNK && !out->failed ? TL_OK : tli_tell_now(t->run);
}

static tl_status take_text(tokenizing *t, const char *path, const char *text, size_t size)
{
    const char *end = text + size;
    for (int64_t number = 1; text < end; number++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *to = newline ? newline : end;
        TL_TRY_NOTE(take_line(t, text, (size_t)(to - text)), "%s, line %" PRId64, path, number);
        text = newline ? newline + 1 : end;
    }
    return TL_OK;
}

static tl_status take_file(tokenizing *t, const char *path)
{
    tl_file_mapping file = TL_FILE_MAPPING_INIT;
    tl_file_info info;
    char *text;
    size_t size;
    tl_status st;
    TL_TRY(tl_file_stat(&info, path));
    if (info.exists && !info.is_regular) { // what a shell hands over: <(...)
        TL_TRY(tl_file_read(&text, &size, path, (size_t)1 << 30));
        st = take_text(t, path, text, size);
        tl_free(text);
        return st;
    }
    TL_TRY(tl_file_map(&file, path));
    st = take_text(t, path, file.data, file.size);
    if (st == TL_OK) st = tl_file_mapping_check(&file, path);
    tl_file_unmap(&file);
    return st;
}

static tl_status take_input(tokenizing *t)
{
    char *line = NULL;
    size_t room = 0;
    tl_status st = TL_OK;
    ssize_t size;
    for (int64_t number = 1; st == TL_OK; number++) {
        errno = 0;
        if ((size = getline(&line, &room, stdin)) < 0) break;
        if (line[size - 1] == '\n') size--;
        st = take_line(t, line, (size_t)size);
        if (st != TL_OK) st = tl_error_note(st, "standard input, line %" PRId64, number);
    }
    if (st == TL_OK && errno) st = TL_FAIL(TL_EIO, "standard input: %s", strerror(errno));
    free(line);
    return st;
}

static tl_status run_tokenize(tli_run *run)
{
    const tokenize_flags *given = run->given[0];
    tl_tokenizer *tokenizer;
    tl_status st = TL_OK;
    if (!given->vocab)
        return TL_FAIL(TL_EINVAL, "--vocab is missing: a vocab.txt, or a tokenizer.json");
    TL_TRY_NOTE(tl_wordpiece_new(&tokenizer, &(tl_wordpiece_args){.vocab = given->vocab,
                                                                  .rules = given->rules,
                                                                  .cased = !given->lower}),
                "--vocab");
    tokenizing t = {.run = run, .tokenizer = tokenizer, .tokens = given->tokens};
    run->form = TLI_FORM_DATA;
    if (given->lower && !tl_tokenizer_lowers(tokenizer))
        st = TL_FAIL(TL_EINVAL,
                     "--lower: %s says that its model is cased; leave the flag out, or give its "
                     "vocab.txt",
                     given->vocab);
    for (int64_t i = 0; st == TL_OK && i < run->words.count; i++)
        st = take_file(&t, run->words.items[i]);
    if (st == TL_OK && !run->words.count) st = take_input(&t);
    if (st != TL_OK) { // what was done before is told
        tl_error error;
        tl_error_save(&error);
        if (tli_tell_now(run) == TL_OK) tl_error_restore(&error);
    }
    tl_ids_deinit(&t.ids);
    tl_tokenizer_free(&tokenizer);
    return st;
}

const tli_command tli_command_tokenize = {
    .name = "tokenize",
    .brief = "text as the numbers of WordPiece",
    .usage = "--vocab=FILE [--rules=NAME] [--lower] [--tokens] [FILE...]\n\n"
             "Prints the numbers of the pieces of each line, of files or of the standard input. No "
             "special pieces are added. Programs that tokenize for BERT do not agree about all of "
             "Unicode: --rules says whose numbers are wanted.",
    .flags = {{"Tokenizing", &tokenize_flags_desc}},
    .run = run_tokenize,
};
