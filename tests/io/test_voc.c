/* Pascal VOC's files: objects of XML, and classes of colours. */
#include "io/alloc_failures.h"
#include "io/folder.h"

#include <tilth/io/voc.h>

#define OBJECT(name, more)                                                                         \
    "<object><name>" name "</name>" more                                                           \
    "<bndbox><xmin>1</xmin><ymin>2.5</ymin><xmax> 30\n</xmax><ymax>40</ymax></bndbox></object>"

static tl_status parse(tl_voc_annotation *a, tl_arena *arena, const char *text)
{
    return tl_voc_parse(a, arena, "a.xml", text, strlen(text));
}

static void objects(void **state)
{
    (void)state;
    tl_arena *arena;
    tl_voc_annotation a;
    assert_ok(tl_arena_new(&arena));
    assert_ok(parse(&a, arena,
                    "<?xml version='1.0'?>\n<!-- <object> -->\n<annotation verified=\"a > b\">\n"
                    "<filename>x.jpg</filename><size><width>486</width><height>500</height>"
                    "<depth>3</depth></size><segmented/>\n" OBJECT(
                        "dog &amp; cat",
                        "<difficult>1</difficult><part><name>head</name><bndbox><xmin>9</xmin>"
                        "<ymin>9</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></part>")
                        OBJECT("person", "<pose>Left</pose>") "</annotation>\n"));
    assert_true(a.width == 486 && a.height == 500 && a.count == 2);
    assert_string_equal(a.objects[0].name, "dog & cat");
    assert_string_equal(a.objects[1].name, "person");
    assert_true(a.objects[0].difficult && !a.objects[1].difficult);
    const double box[4] = {0, 1.5, 30, 40};
    assert_memory_equal(a.objects[0].box, box, sizeof box);
    assert_ok(parse(&a, arena, "<annotation/>"));
    assert_true(a.count == 0 && a.height == 0);
    tl_arena_free(&arena);
}

static void bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "line 1: <annotation> is expected"},
        {"{}", "line 1: text stands outside of <annotation>"},
        {"<html></html>", "line 1: <annotation> is expected: this is no file of Pascal VOC"},
        {"<annotation>\n<size>", "line 2: the file ends within an element: it was cut short"},
        {"<annotation>\n<size></sizes>",
         "line 2: an element ends that is not the one that is open"},
        {"</annotation>", "an element ends that is not the one"},
        {"<annotation></annotation><annotation/>", "nothing may follow </annotation>"},
        {"<annotation", "a mark does not end"},
        {"<annotation a='", "a mark does not end"},
        {"<annotation><", "the name of an element is expected"},
        {"<!DOCTYPE a [<!ENTITY b 'c'>]><annotation/>", "document types and CDATA are not read"},
        {"<annotation><size><width>1e9</width></size></annotation>", "a side of the image must be"},
        {"<annotation><size><width>x</width></size></annotation>", "a number is expected"},
        {"<annotation>\n" OBJECT("&nbsp;", "") "</annotation>", "begins with & is not known"},
        {"<annotation><object><name>a</name></object></annotation>", "an object lacks its <name>"},
        {"<annotation><object/></annotation>", "an object lacks its <name>"},
        {"<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>", "<annotation> is expected"},
        {"<annotation><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>", "too deeply"},
    };
    tl_arena *arena;
    tl_voc_annotation a;
    assert_ok(tl_arena_new(&arena));
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        assert_fails(parse(&a, arena, cases[i].text), TL_EDATA, cases[i].why);
        assert_true(strncmp(tl_error_message(), "'a.xml', line ", 14) == 0 && !a.count);
    }
    char longest[400] = "<annotation>"
                        "<object><name>";
    memset(longest + strlen(longest), 'x', 300);
    strcat(longest, "</name></object>");
    assert_fails(parse(&a, arena, longest), TL_EDATA, "a value is too long");
    assert_fails(tl_voc_read(&a, arena, in_folder("none.xml")), TL_ENOTFOUND, "none.xml");
    tl_arena_free(&arena);
}

// All 256 colours of the palette, made as VOC's own tools make them; and no other.
static void colors(void **state)
{
    (void)state;
    int found = 0;
    for (int c = 0; c < 256; c++) {
        int rgb[3] = {0};
        for (int id = c, j = 0; j < 8; j++, id >>= 3)
            for (int i = 0; i < 3; i++) rgb[i] |= (id >> i & 1) << (7 - j);
        assert_int_equal(tl_voc_class_of((uint8_t)rgb[0], (uint8_t)rgb[1], (uint8_t)rgb[2]), c);
    }
    for (int i = 0; i < 1 << 24; i += 1)
        found += tl_voc_class_of((uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i) >= 0;
    assert_int_equal(found, 256);
    assert_int_equal(tl_voc_class_of(224, 224, 192), 255);
    assert_int_equal(tl_voc_class_of(128, 0, 0), 1);
}

static tl_status parse_once(void)
{
    tl_arena *arena;
    tl_voc_annotation a;
    TL_TRY(tl_arena_new(&arena));
    tl_status st = parse(&a, arena, "<annotation>" OBJECT("a", "") OBJECT("b", "") "</annotation>");
    tl_arena_free(&arena);
    return st;
}

static void memory_may_lack(void **state)
{
    (void)state;
    assert_survives_failures(parse_once, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(colors),
        cmocka_unit_test(memory_may_lack),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
