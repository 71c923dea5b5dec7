/* Which class each pixel of a picture is, told and drawn. */
#include <inttypes.h>

#include <tilth/data/draw.h>

#include "tool/confusion.h"
#include "tool/predict.h"

static int64_t count_of(const tl_prediction *a, int64_t class_id)
{
    int64_t count = 0;
    for (int64_t i = 0; i < a->height * a->width; i++) count += a->pixels[i] == class_id;
    return count;
}

static void tell_plainly(tl_str *out, const tli_telling *t)
{
    const tl_prediction *a = t->answer;
    tl_str_addf(out, "%s:", t->file);
    for (int64_t i = 0; i < a->top_count; i++)
        tl_str_addf(out, "%s %s %.3f", i ? "," : "", a->top[i].name, a->top[i].probability);
    tl_str_addc(out, '\n');
}

static void tell_head(tl_str *out, const tli_telling *t)
{
    (void)t;
    tl_str_add(out, "file,class,class_id,share,pixels\n");
}

static void tell_rows(tl_str *out, const tli_telling *t)
{
    const tl_prediction *a = t->answer;
    for (int64_t i = 0; i < a->top_count; i++) {
        tli_csv_add(out, t->file);
        tl_str_addc(out, ',');
        tli_csv_add(out, a->top[i].name);
        tl_str_addf(out, ",%" PRId64 ",%.7g,%" PRId64 "\n", a->top[i].class_id,
                    a->top[i].probability, count_of(a, a->top[i].class_id));
    }
}

static void add_class(tli_json *j, const tl_prediction *a, const tl_answer *of)
{
    const tl_color color = tl_draw_color(of->class_id);
    char text[8];
    snprintf(text, sizeof text, "#%02x%02x%02x", color.red, color.green, color.blue);
    tli_json_begin(j, NULL, '{');
    tli_json_text(j, "class", of->name);
    tli_json_int(j, "class_id", of->class_id);
    tli_json_number(j, "share", tli_rounded(of->probability, 7));
    tli_json_int(j, "pixels", count_of(a, of->class_id));
    tli_json_text(j, "color", text);
    tli_json_end(j, '}');
}

static void tell_json(tl_str *out, const tli_telling *t)
{
    const tl_prediction *a = t->answer;
    tli_json j = {.out = out};
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "file", t->file);
    tli_json_int(&j, "height", a->height);
    tli_json_int(&j, "width", a->width);
    tli_json_begin(&j, "classes", '[');
    for (int64_t i = 0; i < a->top_count; i++) add_class(&j, a, &a->top[i]);
    tli_json_end(&j, ']');
    tli_json_pictures(&j, t);
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
}

static void draw(const tl_pixels *picture, const tli_telling *t)
{
    tl_draw_classes(picture, t->answer->pixels, -1, TL_DRAW_ALPHA);
}

const tli_teller tli_tell_pixels = {
    .plainly = tell_plainly, .json = tell_json, .head = tell_head, .rows = tell_rows, .draw = draw};
