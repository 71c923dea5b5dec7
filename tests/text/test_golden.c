/* Every character of Unicode and a few hundred lines, beside what four programs made of them:
 * tests/golden/tokenizers.py asked them. */
#include "test.h"

#include <stdlib.h>

#include <zlib.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>
#include <tilth/text/tokenizer.h>

#include "text/utf8.h"

enum { BLOCK = 4096, LAST = 0x10ffff, RULES = 4 };
static const char *const rules[RULES] = {"hf", "model_garden", "tf_text", "bert"};

static char *golden, *lines;
static size_t lines_size;
static tl_str vocab = TL_STR_INIT;

/* What stands behind the words at the beginning of a line of the golden file. */
static char *row(const char *words)
{
    size_t length = strlen(words);
    for (char *p = golden; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
        if (strncmp(p, words, length) == 0 && p[length] == ' ') return p + length;
    fail_msg("there is no row '%s'", words);
    return NULL;
}

/* Characters of the ranges, alone and behind "##". */
static void add_chars(const char *prefix)
{
    char *p = row("ranges"), bytes[4];
    while (*p == ' ') {
        uint32_t first = (uint32_t)strtoul(p + 1, &p, 16), last = (uint32_t)strtoul(p + 1, &p, 16);
        for (uint32_t c = first; c <= last; c++) {
            tl_str_add(&vocab, prefix);
            tl_str_addn(&vocab, bytes, (size_t)tli_utf8_encode(bytes, c));
            tl_str_addc(&vocab, '\n');
        }
    }
}

static int read_files(void **state)
{
    (void)state;
    assert_ok(tl_file_read(&golden, NULL, TEST_DATA "/golden/tokenizers.txt", 1 << 20));
    assert_ok(tl_file_read(&lines, &lines_size, TEST_DATA "/golden/tokenizers_lines.txt", 1 << 20));
    tl_str_add(&vocab, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
    add_chars("");
    add_chars("##");
    for (char *p = row("words"); *p == ' ';) {
        size_t length = strcspn(++p, " \n");
        tl_str_addn(&vocab, p, length);
        tl_str_addc(&vocab, '\n');
        p += length;
    }
    assert_ok(tl_str_status(&vocab));
    return 0;
}

static int free_files(void **state)
{
    (void)state;
    tl_free(golden);
    tl_free(lines);
    tl_str_deinit(&vocab);
    return 0;
}

/* Checksum of a line's ids and their end, behind what was before. */
static uLong add_line(uLong sum, const tl_tokenizer *t, tl_ids *ids, const char *text, size_t size)
{
    // Exactly these bytes, so that reading beyond them is noticed where that is looked for.
    char *copy = SANITIZED ? malloc(size + !size) : NULL;
    int32_t end = -1; // -2: refused
    if (copy) text = memcpy(copy, text, size);
    ids->count = 0;
    if (tl_tokenize(t, ids, text, size) != TL_OK) end = -2;
    free(copy);
    assert_true(ids->count < (int64_t)(8 * size + 8));
    if (!TL_VEC_PUSH(ids, end)) fail();
    return crc32(sum, (const Bytef *)ids->items, (uInt)((size_t)ids->count * sizeof *ids->items));
}

typedef void check_fn(const tl_tokenizer *t, tl_ids *ids, const char *name);

static void each_rule(const char *what, check_fn *check)
{
    for (int r = 0; r < RULES; r++)
        for (int cased = 0; cased < 2; cased++) {
            tl_tokenizer *t;
            tl_ids ids = {0};
            char name[64];
            tl_wordpiece_args args = {.cased = cased};
            snprintf(name, sizeof name, "%s %s %s", what, rules[r], cased ? "cased" : "lower");
            assert_ok(tl_wordpiece_rules_find(&args.rules, rules[r]));
            assert_ok(tl_wordpiece_from_memory(&t, "vocab.txt", vocab.data, vocab.length, &args));
            assert_int_equal(tl_tokenizer_lowers(t), !cased);
            check(t, &ids, name);
            tl_ids_deinit(&ids);
            tl_tokenizer_free(&t);
        }
}

/* The two lines that show a character among others: "x?y ?" and "AΣ?b A?Σ x\u0345?\u0334". */
static uLong add_char(uLong sum, const tl_tokenizer *t, tl_ids *ids, uint32_t c)
{
    char one[5] = {0}, text[64];
    int length = tli_utf8_encode(one, c == '\n' ? ' ' : c);
    static const char *const around[] = {"x",     "y ", "", "A\u03a3", "b A", "\u03a3 x\u0345",
                                         "\u0334"};
    for (int line = 0, part = 0; line < 2; line++) {
        size_t size = 0;
        for (int i = 0; i < (line ? 4 : 3); i++, part++) {
            size_t more = strlen(around[part]);
            memcpy(text + size, around[part], more);
            size += more;
            if (i == (line ? 3 : 2)) continue;
            memcpy(text + size, one, (size_t)length);
            size += (size_t)length;
        }
        sum = add_line(sum, t, ids, text, size);
    }
    return sum;
}

static void check_blocks(const tl_tokenizer *t, tl_ids *ids, const char *name)
{
    char *p = row(name);
    for (uint32_t block = 0; block < (LAST + 1) / BLOCK; block++) {
        uLong want = strtoul(p, &p, 16), found = crc32(0, NULL, 0);
        bool empty = block * BLOCK >= 0x40000 && block * BLOCK < 0xe0000; // nothing is assigned
        if (!test_takes(block, 7) || (empty && block % 8 && !test_takes_all())) continue;
        for (uint32_t c = block * BLOCK; c < (block + 1) * BLOCK; c++)
            if (c < 0xd800 || c >= 0xe000) found = add_char(found, t, ids, c);
        if (found != want)
            fail_msg("%s: characters from U+%04X on: %08lx, not %08lx", name, block * BLOCK, found,
                     want);
    }
}

static void check_lines(const tl_tokenizer *t, tl_ids *ids, const char *name)
{
    char *p = row(name);
    int number = 1;
    for (const char *line = lines; line < lines + lines_size; number++) {
        const char *end = memchr(line, '\n', (size_t)(lines + lines_size - line));
        uLong want = strtoul(p, &p, 16);
        uLong found = add_line(crc32(0, NULL, 0), t, ids, line, (size_t)(end - line));
        if (found != want) fail_msg("%s: line %d: %08lx, not %08lx", name, number, found, want);
        line = end + 1;
    }
    assert_true(number > 250 && *p == '\n');
}

static void every_character(void **state)
{
    (void)state;
    each_rule("blocks", check_blocks);
}

static void lines_of_many_scripts(void **state)
{
    (void)state;
    each_rule("lines", check_lines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character),
        cmocka_unit_test(lines_of_many_scripts),
    };
    return cmocka_run_group_tests(tests, read_files, free_files);
}
