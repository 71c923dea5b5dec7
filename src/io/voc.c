#include <tilth/io/voc.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/str.h>
#include <tilth/base/vec.h>

enum { DEEPEST = 16, LONGEST_FILE = 16 << 20, LONGEST_SIDE = 1 << 16, LONGEST_VALUE = 256 };

typedef struct word {
    const char *text;
    size_t length;
} word;

typedef struct parser {
    const char *name; /* of the file */
    const char *text, *at, *end;
    tl_arena *arena;
    word open[DEEPEST]; /* elements, from the outermost */
    int depth;
    bool begun;       /* <annotation> was there */
    bool leaf;        /* nothing but text was in the innermost one so far */
    const char *from; /* where its text begins */
    tl_voc_annotation *out;
    struct {
        tl_voc_object *items;
        int64_t count, capacity;
    } objects;
    int known; /* of the object that is open: a bit for its name, and for each side of its box */
} parser;

static tl_status fail(const parser *p, const char *why)
{
    int64_t line = 1;
    for (const char *c = p->text; c < p->at; c++) line += *c == '\n';
    return TL_FAIL(TL_EDATA, "'%s', line %" PRId64 ": %s", p->name, line, why);
}

/* --- values ----------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The text of an element, without blanks around it, and with its named characters. */
static tl_status read_value(char out[LONGEST_VALUE], const parser *p, const char *end)
{
    static const struct {
        const char *name;
        char c;
    } known[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
    const char *at = p->from;
    size_t length = 0;
    while (at < end && is_blank(*at)) at++;
    while (end > at && is_blank(end[-1])) end--;
    while (at < end) {
        size_t step = 1;
        char c = *at;
        for (size_t i = 0; c == '&' && step == 1 && i < TL_COUNT(known); i++) {
            size_t n = strlen(known[i].name);
            if ((size_t)(end - at) < n || memcmp(at, known[i].name, n) != 0) continue;
            c = known[i].c;
            step = n;
        }
        if (*at == '&' && step == 1) return fail(p, "a character that begins with & is not known");
        if (!c || length + 1 == LONGEST_VALUE) return fail(p, "a value is too long");
        out[length++] = c;
        at += step;
    }
    out[length] = '\0';
    return TL_OK;
}

static tl_status read_number(double *out, const parser *p, const char *text)
{
    char *end;
    *out = tl_strtod(text, &end);
    return *text && !*end && fabs(*out) <= 1e9 ? TL_OK : fail(p, "a number is expected");
}

static tl_status read_side(int64_t *out, const parser *p, const char *text)
{
    double number;
    TL_TRY(read_number(&number, p, text));
    if (number < 0 || number > LONGEST_SIDE || number != floor(number))
        return fail(p, "a side of the image must be a whole number of pixels");
    *out = (int64_t)number;
    return TL_OK;
}

/* --- elements --------------------------------------------------------------------------------- */

static bool is(word w, const char *name)
{
    return strlen(name) == w.length && memcmp(w.text, name, w.length) == 0;
}

/* Whether the open elements are these, from the outermost. */
static bool path_is(const parser *p, const char *const *names, int count)
{
    if (p->depth != count) return false;
    for (int i = 0; i < count; i++)
        if (!is(p->open[i], names[i])) return false;
    return true;
}
#define PATH_IS(p, ...)                                                                            \
    path_is((p), (const char *const[]){__VA_ARGS__},                                               \
            (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static tl_status take_value(parser *p, const char *end)
{
    static const char *const sides[] = {"xmin", "ymin", "xmax", "ymax"};
    char text[LONGEST_VALUE];
    bool sized = p->depth == 3 && is(p->open[1], "size");
    bool of_object = p->depth >= 3 && is(p->open[1], "object");
    if (!p->leaf || !is(p->open[0], "annotation") || !(sized || of_object)) return TL_OK;
    if (of_object && p->depth == 4 && !is(p->open[2], "bndbox")) return TL_OK;
    if (p->depth > 4) return TL_OK;
    word last = p->open[p->depth - 1];
    bool wanted = sized ? is(last, "height") || is(last, "width")
                        : p->depth == 4 || is(last, "name") || is(last, "difficult");
    if (!wanted) return TL_OK;
    TL_TRY(read_value(text, p, end));
    if (sized) return read_side(is(last, "height") ? &p->out->height : &p->out->width, p, text);
    tl_voc_object *o = &p->objects.items[p->objects.count - 1];
    if (p->depth == 4) {
        for (int i = 0; i < 4; i++) {
            if (!is(last, sides[i])) continue;
            TL_TRY(read_number(&o->box[i], p, text));
            o->box[i] -= i < 2;
            p->known |= 2 << i;
        }
    } else if (is(last, "name")) {
        o->name = tl_arena_strdup(p->arena, text);
        if (!o->name) return TL_ENOMEM;
        p->known |= 1;
    } else {
        o->difficult = strcmp(text, "1") == 0;
    }
    return TL_OK;
}

static tl_status begin_element(parser *p, word name)
{
    if (p->depth == DEEPEST) return fail(p, "elements are nested too deeply");
    p->open[p->depth++] = name;
    p->begun = true;
    p->leaf = true;
    p->from = p->at;
    if (p->depth == 1 && !is(name, "annotation"))
        return fail(p, "<annotation> is expected: this is no file of Pascal VOC");
    if (!PATH_IS(p, "annotation", "object")) return TL_OK;
    p->known = 0;
    return TL_VEC_PUSH(&p->objects, (tl_voc_object){.name = NULL}) ? TL_OK : TL_ENOMEM;
}

static tl_status end_element(parser *p, word name, const char *text_end)
{
    enum { ALL = 31 };
    if (!p->depth || p->open[p->depth - 1].length != name.length
        || memcmp(p->open[p->depth - 1].text, name.text, name.length) != 0)
        return fail(p, "an element ends that is not the one that is open");
    TL_TRY(take_value(p, text_end));
    if (PATH_IS(p, "annotation", "object") && p->known != ALL)
        return fail(p, "an object lacks its <name>, or a side of its <bndbox>");
    p->depth--;
    p->leaf = false;
    return TL_OK;
}

/* --- marks ------------------------------------------------------------------------------------ */

static bool begins(const parser *p, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(p->end - p->at) >= n && memcmp(p->at, with, n) == 0;
}

static tl_status skip_to(parser *p, const char *what)
{
    size_t n = strlen(what);
    const char *found = memmem(p->at, (size_t)(p->end - p->at), what, n);
    if (!found) return fail(p, "a mark does not end");
    p->at = found + n;
    return TL_OK;
}

/* Attributes, with '>' in their quotes, are passed over. */
static tl_status skip_attributes(parser *p, bool *alone)
{
    char quote = 0;
    for (; p->at < p->end; p->at++) {
        char c = *p->at;
        if (quote) {
            if (c == quote) quote = 0;
        } else if (c == '"' || c == '\'') {
            quote = c;
        } else if (c == '>') {
            *alone = p->at[-1] == '/';
            p->at++;
            return TL_OK;
        }
    }
    return fail(p, "a mark does not end");
}

static tl_status read_mark(parser *p)
{
    const char *text_end = p->at;
    bool closing = begins(p, "</"), alone = false;
    if (begins(p, "<?")) return skip_to(p, "?>");
    if (begins(p, "<!--")) return skip_to(p, "-->");
    if (begins(p, "<!")) return fail(p, "document types and CDATA are not read");
    p->at += closing ? 2 : 1;
    word name = {p->at, 0};
    while (p->at < p->end && !is_blank(*p->at) && !strchr("<>/&\"'", *p->at)) p->at++;
    name.length = (size_t)(p->at - name.text);
    if (!name.length) return fail(p, "the name of an element is expected");
    TL_TRY(skip_attributes(p, &alone));
    if (closing) return end_element(p, name, text_end);
    TL_TRY(begin_element(p, name));
    return alone ? end_element(p, name, p->from) : TL_OK;
}

static tl_status read_all(parser *p)
{
    for (;;) {
        const char *mark = memchr(p->at, '<', (size_t)(p->end - p->at));
        const char *text_end = mark ? mark : p->end;
        for (; !p->depth && p->at < text_end; p->at++)
            if (!is_blank(*p->at) && (unsigned char)*p->at < 0x80)
                return fail(p, "text stands outside of <annotation>");
        p->at = text_end;
        if (!mark) break;
        if (p->begun && !p->depth && !begins(p, "<!--") && !begins(p, "<?"))
            return fail(p, "nothing may follow </annotation>");
        TL_TRY(read_mark(p));
    }
    if (p->depth) return fail(p, "the file ends within an element: it was cut short");
    return p->begun ? TL_OK : fail(p, "<annotation> is expected: this is no file of Pascal VOC");
}

static tl_status keep_objects(parser *p)
{
    tl_voc_annotation *a = p->out;
    a->count = p->objects.count;
    a->objects = tl_arena_array(p->arena, a->count ? a->count : 1, sizeof *a->objects);
    if (!a->objects) return TL_ENOMEM;
    if (a->count) memcpy(a->objects, p->objects.items, (size_t)a->count * sizeof *a->objects);
    return TL_OK;
}

tl_status tl_voc_parse(tl_voc_annotation *out, tl_arena *arena, const char *name, const char *text,
                       size_t size)
{
    parser p = {.name = name,
                .text = text,
                .at = text,
                .end = text + size,
                .arena = arena,
                .from = text,
                .out = out};
    *out = (tl_voc_annotation){0};
    tl_status st = read_all(&p);
    if (st == TL_OK) st = keep_objects(&p);
    TL_VEC_FREE(&p.objects);
    if (st != TL_OK) *out = (tl_voc_annotation){0};
    return st;
}

tl_status tl_voc_read(tl_voc_annotation *out, tl_arena *arena, const char *path)
{
    char *text;
    size_t size;
    *out = (tl_voc_annotation){0};
    TL_TRY(tl_file_read(&text, &size, path, LONGEST_FILE));
    tl_status st = tl_voc_parse(out, arena, path, text, size);
    tl_free(text);
    return st;
}

/* --- colours ---------------------------------------------------------------------------------- */

/* Bits 0, 3 and 6 of a class are the upper bits of red, 1, 4 and 7 those of green, 2 and 5 those of
 * blue, each from bit 7 down. */
int tl_voc_class_of(uint8_t red, uint8_t green, uint8_t blue)
{
    const uint8_t parts[3] = {red, green, blue};
    int found = 0, used[3] = {0};
    for (int bit = 0; bit < 8; bit++) {
        int from = 7 - bit / 3;
        found |= (parts[bit % 3] >> from & 1) << bit;
        used[bit % 3] |= 1 << from;
    }
    for (int i = 0; i < 3; i++)
        if (parts[i] & ~used[i]) return -1;
    return found;
}
