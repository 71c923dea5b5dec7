/* What a detector has found, told and drawn. */
#include <inttypes.h>

#include <tilth/data/draw.h>

#include "tool/confusion.h"
#include "tool/predict.h"

/* One object of an answer. */
typedef struct object {
    double score, box[4];
    int64_t class_number;
} object;

/* The number'th place of the answer; false: it holds nothing that is told. */
static bool object_at(object *out, const tli_telling *t, int64_t number)
{
    const float *v = t->answer->values + number * TL_OBJECT_NUMBERS;
    const double score = (double)v[TL_OBJECT_SCORE];
    if (!(score > 0 && score >= t->asking->flags->score)) return false;
    *out = (object){.score = score, .class_number = (int64_t)v[TL_OBJECT_CLASS]};
    for (int i = 0; i < 4; i++) out->box[i] = (double)v[TL_OBJECT_BOX + i];
    return true;
}

static int64_t places(const tli_telling *t)
{
    return t->answer->count / TL_OBJECT_NUMBERS;
}

enum { NAME = 256 };

/* Names begin with class 1: 0 is the background. */
static const char *name_of(char room[NAME], const tli_telling *t, int64_t class_number)
{
    const tl_strings names = tl_predictor_form(t->asking->p).names;
    if (class_number >= 1 && class_number <= names.count)
        snprintf(room, NAME, "%s", names.items[class_number - 1]);
    else snprintf(room, NAME, "%" PRId64, class_number);
    return room;
}

static void tell_plainly(tl_str *out, const tli_telling *t)
{
    object o;
    char name[NAME];
    int64_t told = 0;
    tl_str_addf(out, "%s:", t->file);
    for (int64_t i = 0; i < places(t); i++) {
        if (!object_at(&o, t, i)) continue;
        tl_str_addf(out, "%s %s %.3f [%.0f, %.0f, %.0f, %.0f]", told++ ? "," : "",
                    name_of(name, t, o.class_number), o.score, o.box[0], o.box[1], o.box[2],
                    o.box[3]);
    }
    tl_str_add(out, told ? "\n" : " nothing\n");
}

static void tell_head(tl_str *out, const tli_telling *t)
{
    (void)t;
    tl_str_add(out, "file,class,score,ymin,xmin,ymax,xmax\n");
}

static void tell_rows(tl_str *out, const tli_telling *t)
{
    object o;
    char name[NAME];
    for (int64_t i = 0; i < places(t); i++) {
        if (!object_at(&o, t, i)) continue;
        tli_csv_add(out, t->file);
        tl_str_addc(out, ',');
        tli_csv_add(out, name_of(name, t, o.class_number));
        tl_str_addf(out, ",%.7g,%.7g,%.7g,%.7g,%.7g\n", o.score, o.box[0], o.box[1], o.box[2],
                    o.box[3]);
    }
}

static void add_object(tli_json *j, const tli_telling *t, const object *o)
{
    char name[NAME];
    tli_json_begin(j, NULL, '{');
    tli_json_text(j, "class", name_of(name, t, o->class_number));
    tli_json_int(j, "class_id", o->class_number);
    tli_json_number(j, "score", tli_rounded(o->score, 7));
    tli_json_begin(j, "box", '[');
    for (int i = 0; i < 4; i++) tli_json_number(j, NULL, tli_rounded(o->box[i], 7));
    tli_json_end(j, ']');
    tli_json_end(j, '}');
}

static void tell_json(tl_str *out, const tli_telling *t)
{
    tli_json j = {.out = out};
    object o;
    tli_json_begin(&j, NULL, '{');
    tli_json_text(&j, "file", t->file);
    tli_json_begin(&j, "objects", '[');
    for (int64_t i = 0; i < places(t); i++)
        if (object_at(&o, t, i)) add_object(&j, t, &o);
    tli_json_end(&j, ']');
    tli_json_pictures(&j, t);
    tli_json_end(&j, '}');
    tl_str_addc(out, '\n');
}

/* The best come first, and are drawn above the others. */
static void draw(const tl_pixels *picture, const tli_telling *t)
{
    object o;
    char name[NAME], text[NAME + 16];
    for (int64_t i = places(t) - 1; i >= 0; i--) {
        if (!object_at(&o, t, i)) continue;
        snprintf(text, sizeof text, "%s: %d%%", name_of(name, t, o.class_number),
                 (int)(100 * o.score));
        tl_draw_box(picture, o.box, tl_draw_color(o.class_number), text);
    }
}

const tli_teller tli_tell_objects = {
    .plainly = tell_plainly, .json = tell_json, .head = tell_head, .rows = tell_rows, .draw = draw};
