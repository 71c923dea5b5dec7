/* tokenizer.json of Hugging Face: what it says about BERT's tokenizers is done, and everything else
 * is refused by name. tests/interop/check_tokenizers.py compares with tokenizers itself. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <tilth/base/str.h>
#include <tilth/text/tokenizer.h>

#define ADDED                                                                                      \
    "{\"id\": 0, \"content\": \"[PAD]\", \"single_word\": false, \"lstrip\": false, "              \
    "\"rstrip\": false, \"normalized\": false, \"special\": true}, "                               \
    "{\"id\": 4, \"content\": \"[MASK]\", \"special\": true}"
#define NORMALIZER                                                                                 \
    "{\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": true, "        \
    "\"strip_accents\": null, \"lowercase\": true}"
#define BERT "{\"type\": \"BertPreTokenizer\"}"
#define VOCAB                                                                                      \
    "{\"[PAD]\": 0, \"[UNK]\": 1, \"[CLS]\": 2, \"[SEP]\": 3, \"[MASK]\": 4, \"want\": 5, "        \
    "\"##ed\": 6, \"caf\\u00e9\": 7, \"cafe\": 8, \"\\u535a\": 9, \"a\\u535a\": 10, \"Want\": 12}"
#define MODEL                                                                                      \
    "{\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": \"##\", "  \
    "\"max_input_chars_per_word\": 100, \"vocab\": " VOCAB "}"

static const char *file_of(const char *added, const char *normalizer, const char *split,
                           const char *model)
{
    static char text[8192];
    snprintf(text, sizeof text,
             "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": "
             "[%s], \"normalizer\": %s, \"pre_tokenizer\": %s, \"post_processor\": null, "
             "\"decoder\": {\"type\": \"WordPiece\"}, \"model\": %s}",
             added, normalizer, split, model);
    return text;
}

static tl_status open_file(tl_tokenizer **t, const char *text, tl_wordpiece_rules rules)
{
    return tl_wordpiece_from_memory(t, "x/tokenizer.json", text, strlen(text),
                                    &(tl_wordpiece_args){.rules = rules, .cased = true});
}

static void gives(const char *file, const char *text, const char *want)
{
    tl_tokenizer *t;
    tl_ids ids = {0};
    tl_str found = TL_STR_INIT;
    assert_ok(open_file(&t, file, TL_WORDPIECE_HF));
    assert_ok(tl_tokenize(t, &ids, text, strlen(text)));
    for (int64_t i = 0; i < ids.count; i++)
        tl_str_addf(&found, "%s%s", i ? " " : "", tl_tokenizer_piece(t, ids.items[i]));
    assert_string_equal(tl_str_text(&found), want);
    tl_str_deinit(&found);
    tl_ids_deinit(&ids);
    tl_tokenizer_free(&t);
}

#define NORMALIZED(...)                                                                            \
    file_of(ADDED, "{\"type\": \"BertNormalizer\", " __VA_ARGS__ "}", BERT, MODEL)

static void the_file_says_it_itself(void **state)
{
    (void)state;
    const char *text = "Wanted Caf\u00e9 a\u535a [MASK] [CLS]";
    tl_tokenizer *t;
    // [CLS] is no added token here: its letters are lowered, and unknown
    gives(file_of(ADDED, NORMALIZER, BERT, MODEL), text,
          "want ##ed cafe [UNK] \u535a [MASK] [UNK] [UNK] [UNK]");
    gives(NORMALIZED("\"lowercase\": false"), text,
          "Want ##ed [UNK] [UNK] \u535a [MASK] [UNK] [UNK] [UNK]");
    gives(NORMALIZED("\"strip_accents\": false"), "Caf\u00c9", "caf\u00e9");
    gives(NORMALIZED("\"strip_accents\": true, \"lowercase\": false"), "caf\u00e9", "cafe");
    gives(NORMALIZED("\"handle_chinese_chars\": false"), "a\u535a", "a\u535a");
    gives(NORMALIZED("\"clean_text\": false"), "w\u200bant want", "[UNK] want");
    gives(file_of("", "null", BERT, MODEL), "Wanted want [MASK]",
          "Want ##ed want [UNK] [UNK] [UNK]");
    assert_ok(open_file(&t, file_of(ADDED, NORMALIZER, BERT, MODEL), TL_WORDPIECE_HF));
    assert_true(tl_tokenizer_lowers(t)); // whatever the arguments say
    assert_int_equal(tl_tokenizer_count(t), 13);
    assert_null(tl_tokenizer_piece(t, 11));
    assert_string_equal(tl_tokenizer_piece(t, 12), "Want");
    assert_int_equal(tl_tokenizer_find(t, "##ed"), 6);
    tl_tokenizer_free(&t);
}

static void models_differ(void **state)
{
    (void)state;
    gives(file_of("", NORMALIZER, BERT,
                  "{\"type\": \"WordPiece\", \"unk_token\": \"<unk>\", "
                  "\"continuing_subword_prefix\": \"\", \"max_input_chars_per_word\": 6, "
                  "\"vocab\": {\"<unk>\": 0, \"a\": 1, \"ab\": 2}}"),
          "aaba x abaaab abaabaa", "a ab a <unk> ab a a ab <unk>");
    gives(file_of("", NORMALIZER, BERT,
                  "{\"continuing_subword_prefix\": \"@@\", \"vocab\": {\"[UNK]\": 0, \"a\": 1, "
                  "\"@@b\": 2, \"##b\": 3}}"),
          "ab b", "a @@b [UNK]");
    // added tokens that the model lacks, of which the longest counts
    gives(file_of("{\"id\": 13, \"content\": \"<a>\"}, {\"id\": 14, \"content\": \"<a>b\"}, "
                  "{\"id\": 15, \"content\": \"ed\"}",
                  NORMALIZER, BERT, MODEL),
          "want<a>wanted<a>b", "want <a> want ed <a>b");
}

#define refused(file, code, message)                                                               \
    do {                                                                                           \
        tl_tokenizer *refused_;                                                                    \
        assert_fails(open_file(&refused_, file, TL_WORDPIECE_HF), code, message);                  \
        assert_null(refused_);                                                                     \
    } while (0)

static void other_kinds_are_refused_by_name(void **state)
{
    (void)state;
    tl_tokenizer *t;
    refused(file_of("", NORMALIZER, BERT, "{\"type\": \"BPE\", \"vocab\": {}}"), TL_EUNSUPPORTED,
            "'x/tokenizer.json': model is 'BPE', but only WordPiece is understood");
    refused(file_of("", NORMALIZER, BERT, "{\"type\": \"Unigram\"}"), TL_EUNSUPPORTED,
            "model is 'Unigram'");
    refused(file_of("", "{\"type\": \"Sequence\", \"normalizers\": []}", BERT, MODEL),
            TL_EUNSUPPORTED, "normalizer is 'Sequence', but only BertNormalizer is understood");
    refused(file_of("", NORMALIZER, "{\"type\": \"ByteLevel\"}", MODEL), TL_EUNSUPPORTED,
            "pre_tokenizer is 'ByteLevel', but only BertPreTokenizer is understood");
    refused(file_of("", NORMALIZER, "null", MODEL), TL_EINVAL,
            "pre_tokenizer must be BertPreTokenizer");
    refused(file_of("{\"id\": 4, \"content\": \"[MASK]\", \"single_word\": true}", NORMALIZER, BERT,
                    MODEL),
            TL_EUNSUPPORTED, "'[MASK]' is looked for as a word (single_word)");
    refused(file_of("{\"id\": 20, \"content\": \"Oslo\", \"normalized\": true}", NORMALIZER, BERT,
                    MODEL),
            TL_EUNSUPPORTED, "'Oslo' is looked for in normalized text (normalized)");
    assert_fails(open_file(&t, file_of("", NORMALIZER, BERT, MODEL), TL_WORDPIECE_TF_TEXT),
                 TL_EINVAL, "holds Hugging Face's rules: give a vocab.txt for the rules tf_text");
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static const char many[] = "{\"id\": 5, \"content\": \"[PAD]\"}";
    refused("", TL_EINVAL, "'x/tokenizer.json', line 1: ");
    refused("{\n\"model\": {,", TL_EINVAL, "'x/tokenizer.json', line 2: ");
    refused("[1]", TL_EINVAL, "'x/tokenizer.json' is no tokenizer.json");
    refused("{}", TL_EINVAL, "model must be WordPiece");
    refused(file_of("", NORMALIZER, BERT, "{\"type\": \"WordPiece\"}"), TL_EINVAL,
            "model.vocab must be an object");
    refused(file_of("", NORMALIZER, BERT, "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}"),
            TL_ENOTFOUND, "'x/tokenizer.json' has no piece '[UNK]'");
    refused(file_of("", NORMALIZER, BERT, "{\"type\": \"WordPiece\", \"vocab\": {\"a\": \"b\"}}"),
            TL_EINVAL, "the number of 'a' is no integer");
    refused(file_of("", NORMALIZER, BERT, "{\"type\": \"WordPiece\", \"vocab\": {\"a\": -1}}"),
            TL_ELIMIT, "piece number -1");
    refused(file_of("", NORMALIZER, BERT,
                    "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 9000000000000}}"),
            TL_ELIMIT, "piece number 9000000000000: numbers are from 0 to 4194303");
    refused(
        file_of("", NORMALIZER, BERT, "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 1, \"b\": 1}}"),
        TL_EEXISTS, "'a' and 'b' have the same number 1");
    refused(file_of("", NORMALIZER, BERT,
                    "{\"type\": \"WordPiece\", \"max_input_chars_per_word\": 1001, \"vocab\": {}}"),
            TL_EINVAL, "max_input_chars_per_word must be a number from 0 to 1000");
    refused(file_of("", NORMALIZER, BERT, "{\"type\": \"WordPiece\", \"unk_token\": 3}"), TL_EINVAL,
            "model.unk_token must be a text");
    refused(NORMALIZED("\"lowercase\": 1"), TL_EINVAL,
            "normalizer.lowercase must be true or false");
    refused(file_of("{\"id\": 4}", NORMALIZER, BERT, MODEL), TL_EINVAL,
            "added_tokens: an entry has no content or no id");
    refused(file_of(many, NORMALIZER, BERT, MODEL), TL_EEXISTS,
            "added_tokens: 'want' and '[PAD]' have the same number 5");
}

static tl_status everything(void)
{
    tl_tokenizer *t;
    tl_ids ids = {0};
    TL_TRY(open_file(&t, file_of(ADDED, NORMALIZER, BERT, MODEL), TL_WORDPIECE_HF));
    tl_status st = tl_tokenize(t, &ids, "wanted [MASK]", 13);
    tl_ids_deinit(&ids);
    tl_tokenizer_free(&t);
    return st;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_survives_failures(everything, 8);
}

static void a_folder_may_have_both(void **state)
{
    (void)state;
    static const char vocab[] = "[UNK]\nwanted\n";
    const char *json = file_of(ADDED, NORMALIZER, BERT, MODEL);
    tl_tokenizer *t;
    assert_ok(tl_file_write_atomic(in_folder("vocab.txt"), vocab, strlen(vocab)));
    assert_ok(tl_file_write_atomic(in_folder("tokenizer.json"), json, strlen(json)));
    assert_ok(tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = folder}));
    assert_int_equal(tl_tokenizer_count(t), 13);
    tl_tokenizer_free(&t);
    assert_ok(
        tl_wordpiece_new(&t, &(tl_wordpiece_args){.vocab = folder, .rules = TL_WORDPIECE_BERT}));
    assert_int_equal(tl_tokenizer_count(t), 2);
    tl_tokenizer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_says_it_itself),
        cmocka_unit_test(models_differ),
        cmocka_unit_test(other_kinds_are_refused_by_name),
        cmocka_unit_test(damaged_files_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_folder_may_have_both),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
