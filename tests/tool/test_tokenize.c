/* `tilth tokenize`: numbers and pieces of files and of the standard input, and what it refuses. */
#include "tool/tool_lab.h"

#include <fcntl.h>
#include <unistd.h>

#include <tilth/base/file.h>

static void put(const char *path, const char *text)
{
    assert_ok(tl_file_write_atomic(path, text, strlen(text)));
}

static int settle(void **state)
{
    if (tool_open(state) != 0) return -1;
    put("vocab.txt", "[PAD]\n[UNK]\n[MASK]\nhello\nHello\n##s\n,\nstrasse\nstra\u00dfe\n");
    put("a.txt", "Hello, [MASK]\n\nhellos Stra\u00dfe");
    put("b.txt", "hello\r\n");
    put("bad.txt", "hello\nhello \xff\n");
    assert_ok(tl_mkdirs("both"));
    put("both/tokenizer.json",
        "{\"normalizer\": {\"type\": \"BertNormalizer\", \"lowercase\": false}, \"pre_tokenizer\": "
        "{\"type\": \"BertPreTokenizer\"}, \"model\": {\"type\": \"WordPiece\", \"unk_token\": "
        "\"[UNK]\", \"vocab\": {\"[UNK]\": 0, \"Hello\": 1}}}");
    return 0;
}

static void test_numbers_and_pieces(void **state)
{
    (void)state;
    run("tokenize", "--vocab=vocab.txt", "a.txt", "b.txt");
    went_well();
    assert_string_equal(out, "4 6 2\n\n3 5 1\n3\n");
    run("tokenize", "--vocab=vocab.txt", "--lower", "--tokens", "a.txt");
    went_well();
    assert_string_equal(out, "hello , [MASK]\n\nhello ##s stra\u00dfe\n");
    run("tokenize", "--vocab=vocab.txt", "--lower", "--tokens", "--rules=tf_text", "a.txt");
    went_well();
    assert_string_equal(out, "hello , [UNK] [UNK] [UNK]\n\nhello ##s strasse\n");
    run("tokenize", "--vocab=vocab.txt", "--rules=bert", "bad.txt");
    went_well();
    assert_string_equal(out, "3\n3\n");
}

static void test_standard_input(void **state)
{
    (void)state;
    int before = dup(STDIN_FILENO), file = open("a.txt", O_RDONLY | O_CLOEXEC);
    assert_true(before >= 0 && file >= 0);
    assert_true(dup2(file, STDIN_FILENO) >= 0);
    clearerr(stdin);
    run("tokenize", "--vocab=vocab.txt", "--tokens");
    dup2(before, STDIN_FILENO);
    close(before);
    close(file);
    went_well();
    assert_string_equal(out, "Hello , [MASK]\n\nhello ##s [UNK]\n");
}

static void test_a_tokenizer_json_says_it_itself(void **state)
{
    (void)state;
    run("tokenize", "--vocab=both", "--tokens", "a.txt");
    went_well();
    assert_string_equal(out, "Hello [UNK] [UNK] [UNK] [UNK]\n\n[UNK] [UNK]\n");
    run("tokenize", "--vocab=both", "--lower", "a.txt");
    failed(2, "--lower: both says that its model is cased");
    run("tokenize", "--vocab=both/tokenizer.json", "--rules=bert", "a.txt");
    failed(2, "holds Hugging Face's rules: give a vocab.txt for the rules bert");
    run("tokenize", "--vocab=both", "--rules=bert", "a.txt");
    failed(2, "the folder 'both' has no vocab.txt");
}

static void test_mistakes(void **state)
{
    (void)state;
    run("tokenize", "a.txt");
    failed(2, "--vocab is missing: a vocab.txt, or a tokenizer.json");
    run("tokenize", "--vocab=none.txt", "a.txt");
    failed(2, "--vocab: ");
    run("tokenize", "--vocab=vocab.txt", "--rules=gpt", "a.txt");
    failed(2, "gpt");
    run("tokenize", "--vocab=vocab.txt", "none.txt");
    failed(2, "none.txt");
    run("tokenize", "--vocab=b.txt", "a.txt");
    failed(2, "--vocab: 'b.txt' has no piece '[UNK]'");
    // what came before it was told
    run("tokenize", "--vocab=vocab.txt", "bad.txt");
    ended(1, "bad.txt, line 2: byte 7 of the text (0xff) is no UTF-8");
    assert_string_equal(out, "3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_and_pieces),
        cmocka_unit_test(test_standard_input),
        cmocka_unit_test(test_a_tokenizer_json_says_it_itself),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, settle, tool_close);
}
