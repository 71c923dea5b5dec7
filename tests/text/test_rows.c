/* Texts with labels in tables and in lines of JSON: what is read, and what is refused where. */
#include "text/text_lab.h"

#include <tilth/text/rows.h>

/* "first|second|label\n" of all rows. */
static const char *read_all(const char *name, const char *text, const tl_text_rows_args *args)
{
    static tl_str out;
    tl_text_rows *rows;
    tl_str_cut(&out, 0);
    tl_status st = tl_text_rows_from_memory(&rows, name, text, strlen(text), args);
    while (st == TL_OK) {
        tl_text_row row;
        bool more = true;
        st = tl_text_rows_next(rows, &row, &more);
        if (st != TL_OK || !more) break;
        tl_str_addf(&out, "%lld:%.*s|%.*s|%s\n", (long long)row.line, (int)row.first.size,
                    row.first.size ? row.first.data : "", (int)row.second.size,
                    row.second.size ? row.second.data : "", row.label ? row.label : "NULL");
    }
    tl_text_rows_free(&rows);
    assert_ok(tl_str_status(&out));
    return st == TL_OK ? tl_str_text(&out) : tl_error_message();
}

#define reads(name, text, expected, ...)                                                           \
    assert_string_equal(read_all(name, text, &(tl_text_rows_args){__VA_ARGS__}), expected)

static void refuses_text(const char *told, const char *expected)
{
    if (!strstr(told, expected)) fail_msg("'%s'\n  lacks '%s'", told, expected);
}
#define refuses(name, text, expected, ...)                                                         \
    refuses_text(read_all(name, text, &(tl_text_rows_args){__VA_ARGS__}), expected)

static void tables_are_read(void **state)
{
    (void)state;
    reads("a.csv", "text,label\nhello,1\n\"a, \"\"b\"\"\",2\n", "2:hello||1\n3:a, \"b\"||2\n",
          .first = "text", .label = "label");
    reads("a.csv", "text,label\nhello,1\n", "2:hello|1|NULL\n", .first = "0", .second = "-1");
    reads("a.csv", "a;b\n1;2\n", "1:a||b\n2:1||2\n", .first = "0", .label = "1",
          .header = TL_HEADER_NO);
    // quotes are characters where tabs separate, unless it is said
    reads("a.tsv", "text\tlabel\n\"hello\tx\nsay \"hi\"\ty\n", "2:\"hello||x\n3:say \"hi\"||y\n",
          .first = "text", .label = "label");
    reads("a.tsv", "text\tlabel\n\"he\tllo\"\tx\n", "2:he\tllo||x\n", .first = "text",
          .label = "label", .quoting = TL_SET(true));
    reads("a.csv", "text,label\n\"hello,x\n", "2:\"hello||x\n", .first = "text", .label = "label",
          .quoting = TL_SET(false));
    reads("a.txt", "text\tlabel\n\"hello\tx\n", "2:\"hello||x\n", .first = "text", .label = "label",
          .delimiter = '\t');
    reads("a.tsv", "text\tlabel\nab\nc\td\ne", "3:c||d\n", .first = "text", .label = "label",
          .skip_short = true);
    reads("a.tsv", "text\tlabel\n\tx\n", "2:||x\n", .first = "text", .label = "label");
}

static void tables_are_refused(void **state)
{
    (void)state;
    refuses("a.csv", "text,label\nhello,\n", "a.csv:2: column 'label': the label is missing",
            .first = "text", .label = "label");
    refuses("a.csv", "text,label\nhello,1\nx\n", "a.csv:3: the row has 1 cell", .first = "text",
            .label = "label");
    refuses("a.csv", "text,label\nhello,1\n", "has no column 'texts', did you mean 'text'?",
            .first = "texts");
    refuses("a.csv", "", "a.csv", .first = "text");
    refuses("a.csv", "text,label\nhello,1\n", "the column of the texts is not given", .label = "0");
    refuses("a.csv", "\x93NUMPY", "a.csv", .first = "0");
}

/* What is read must be UTF-8, texts as well as labels; columns that nobody reads may be what they
 * are. */
static void other_encodings_are_refused(void **state)
{
    (void)state;
    refuses("a.csv",
            "text,label\nhello,1\nStra\xdf"
            "e,2\n",
            "a.csv:3: column 'text': the text is no UTF-8", .first = "text", .label = "label");
    refuses("a.tsv", "a\tb\tl\nx\t\"na\xefve\"\tz\n",
            "a.tsv:2: column 'b': the text is no UTF-8; if it is Windows-1252 or Latin-1, `iconv "
            "-f WINDOWS-1252 -t UTF-8 FILE >NEW` writes it anew",
            .first = "a", .second = "b", .label = "l");
    refuses("a.csv", "text,label\nhello,gr\xfcn\n", "a.csv:2: column 'label': the text is no UTF-8",
            .first = "text", .label = "label");
    reads("a.csv", "text,note,label\nhello,gr\xfcn,1\nna\xc3\xafve,,2\n",
          "2:hello||1\n3:na\xc3\xafve||2\n", .first = "text", .label = "label");
}

/* What is wrong with a row says nothing of the next one. */
static void goes_on(const char *name, const char *text, bool expected)
{
    tl_text_rows *rows;
    tl_text_row row;
    bool more = true;
    assert_ok(tl_text_rows_from_memory(&rows, name, text, strlen(text),
                                       &(tl_text_rows_args){.first = "text"}));
    assert_int_equal(tl_text_rows_next(rows, &row, &more), TL_EDATA);
    assert_int_equal(tl_text_rows_go_on(rows), expected);
    if (expected) {
        assert_ok(tl_text_rows_next(rows, &row, &more));
        assert_true(more && row.first.size == 2 && memcmp(row.first.data, "ok", 2) == 0);
    }
    tl_text_rows_free(&rows);
}

static void a_bad_row_is_passed(void **state)
{
    (void)state;
    goes_on("a.csv",
            "text,n\nStra\xdf"
            "e,1\nok,2\n",
            true);
    goes_on("a.jsonl", "{\"text\": \"x\",}\n{\"text\": \"ok\"}\n", true);
    goes_on("a.jsonl", "{\"text\": 1}\n{\"text\": \"ok\"}\n", true);
    goes_on("a.csv", "text,n\na\nok,2\n", false); // where rows end is not known
}

static void lines_of_json_are_read(void **state)
{
    (void)state;
    reads("a.jsonl",
          "{\"t\": \"hello\", \"l\": \"x\", \"more\": [1, {}]}\n\n  \r\n"
          "{\"l\": 3, \"t\": \"\\u00e9\\n\"}\r\n{\"t\": \"\", \"l\": 0.5}\n"
          "{\"t\": \"a\", \"l\": true}\n{\"t\": \"b\", \"l\": false}",
          "1:hello||x\n4:\xc3\xa9\n||3\n5:||0.5\n6:a||true\n7:b||false\n", .first = "t",
          .label = "l");
    reads("a.ndjson", "\xef\xbb\xbf{\"a\": \"x\", \"b\": \"y\"}", "1:x|y|NULL\n", .first = "a",
          .second = "b");
    reads("a.json", "", "", .first = "a");
}

static void lines_of_json_are_refused(void **state)
{
    (void)state;
    refuses("a.jsonl", "{\"t\": \"x\"}\n{\"t\": \"x\",}\n", "a.jsonl:2: column ", .first = "t");
    refuses("a.jsonl", "[1]\n", "a.jsonl:1: a JSON object is expected on each line", .first = "t");
    refuses("a.jsonl", "{\"text\": \"x\", \"y\": 1}\n",
            "a.jsonl:1: there is no 't'; the object has text, y", .first = "t");
    refuses("a.jsonl", "{}\n", "a.jsonl:1: there is no 't'; the object has nothing", .first = "t");
    refuses("a.jsonl", "{\"t\": 1}\n", "a.jsonl:1: column 't': a text is expected", .first = "t");
    refuses("a.jsonl", "{\"t\": \"x\", \"l\": null}\n",
            "a.jsonl:1: column 'l': a text or a number is expected", .first = "t", .label = "l");
    refuses("a.jsonl", "{\"t\": \"x\", \"l\": \"\"}\n",
            "a.jsonl:1: column 'l': the label is missing", .first = "t", .label = "l");
    refuses("a.jsonl", "{\"t\": \"x\", \"l\": \"a\\u0000b\"}\n", "a zero byte stands in the label",
            .first = "t", .label = "l");
    refuses("a.jsonl", "{\"t\": \"x\", \"t\": \"y\"}\n", "duplicate", .first = "t");
    refuses("a.jsonl", "{\"t\": \"\xff\"}\n", "a.jsonl:1: column ", .first = "t");
}

static void files_are_read(void **state)
{
    (void)state;
    tl_text_rows *rows;
    tl_text_row row;
    bool more = true;
    put_bytes(in_folder("a.jsonl"), "{\"t\": \"x\"}", 10);
    put_bytes(in_folder("a.csv"), "t,l\nx,y\n", 8);
    const char *const names[] = {"a.jsonl", "a.csv"};
    for (int i = 0; i < 2; i++) {
        more = true;
        assert_ok(
            tl_text_rows_open(&rows, in_folder(names[i]), &(tl_text_rows_args){.first = "t"}));
        assert_ok(tl_text_rows_next(rows, &row, &more));
        assert_true(more);
        assert_memory_equal(row.first.data, "x", 1);
        assert_ok(tl_text_rows_next(rows, &row, &more));
        assert_false(more);
        tl_text_rows_free(&rows);
    }
    assert_fails(tl_text_rows_open(&rows, in_folder("b.jsonl"), &(tl_text_rows_args){.first = "t"}),
                 TL_ENOTFOUND, "b.jsonl");
    assert_null(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_read),
        cmocka_unit_test(tables_are_refused),
        cmocka_unit_test(other_encodings_are_refused),
        cmocka_unit_test(a_bad_row_is_passed),
        cmocka_unit_test(lines_of_json_are_read),
        cmocka_unit_test(lines_of_json_are_refused),
        cmocka_unit_test(files_are_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
