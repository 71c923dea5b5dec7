#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tilth/base/alloc.h>

#include "board/answer.h"
#include "io/inner/event_scan.h"
#include "io/inner/json_text.h"

/* --- pictures, histograms and texts: read from their files when somebody looks ---------------- */

enum { MOST_HISTOGRAMS = 60, MOST_TEXTS = 20, LONGEST_TEXT = 1 << 16, MOST_ROWS = 256 };

/* A record, by a copy of what the store says: reading holds no lock. */
typedef struct place {
    char path[4096];
    int32_t root;
    int64_t offset, step;
    double time;
} place;

static bool place_of(place *out, const tli_board_run *r, const tli_medium *m)
{
    if (m->file >= r->files.count) return false;
    *out = (place){.root = r->root, .offset = m->offset, .step = m->step, .time = m->time};
    return snprintf(out->path, sizeof out->path, "%s", r->files.items[m->file].path)
           < (int)sizeof out->path;
}

/* The value of that tag in the record; the reader, which owns it, is the caller's to close. NULL
 * when it is not there any more. */
static const tl_event_value *read_value(tl_event_reader **reader, const tli_store *s,
                                        const place *p, const char *tag)
{
    char path[64];
    tl_event e;
    bool more = false;
    *reader = NULL;
    int fd = tli_store_open(s, p->root, p->path);
    if (fd < 0) return NULL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    tl_status st = tl_event_reader_open(reader, path);
    close(fd);
    if (st != TL_OK) return NULL;
    tli_event_reader_seek(*reader, (uint64_t)p->offset);
    if (tl_event_reader_next(*reader, &e, &more) != TL_OK || !more) return NULL;
    for (int64_t i = 0; i < e.count; i++)
        if (strcmp(e.values[i].tag, tag) == 0) return &e.values[i];
    return NULL;
}

static const tli_tag *find_tag(const tli_board_run *r, const tli_request *q, int64_t from,
                               int64_t *at)
{
    const char *tag = tli_request_text(q, "tag", ""), *part = q->arg(q->payload, "part");
    for (*at = from; *at < r->tags.count; ++*at) {
        const tli_tag *t = &r->tags.items[*at];
        if (t->kind != TLI_TAG_NUMBER && t->kind != TLI_TAG_OTHER && strcmp(t->name, tag) == 0
            && (!part || strcmp(r->parts.items[t->part], part) == 0))
            return t;
    }
    return NULL;
}

/* --- one tag of a run ------------------------------------------------------------------------- */

/* More buckets than anybody sees (PyTorch has 1500) are joined with their neighbours. */
static void add_rows(tli_json *j, const tl_event_value *v)
{
    int64_t joined = (v->row_count + MOST_ROWS - 1) / MOST_ROWS;
    tli_json_begin(j, "rows", '[');
    for (int64_t i = 0; i < v->row_count; i += joined) {
        const double *row = v->rows + 3 * i;
        int64_t count = v->row_count - i < joined ? v->row_count - i : joined;
        double values[3] = {row[0], row[3 * (count - 1) + 1], 0};
        for (int64_t k = 0; k < count; k++) values[2] += row[3 * k + 2];
        tli_json_begin(j, NULL, '[');
        for (int k = 0; k < 3; k++) tli_json_number(j, NULL, values[k]);
        tli_json_end(j, ']');
    }
    tli_json_end(j, ']');
}

static void add_texts(tli_json *j, const tl_event_value *v)
{
    tli_json_begin(j, "texts", '[');
    for (int64_t i = 0; i < v->string_count && i < MOST_TEXTS; i++) {
        char *text = tl_alloc(LONGEST_TEXT + 1);
        size_t size = v->strings[i].size < LONGEST_TEXT ? v->strings[i].size : LONGEST_TEXT;
        if (!text) break;
        memcpy(text, v->strings[i].data, size);
        text[size] = '\0';
        tli_json_text(j, NULL, text);
        tl_free(text);
    }
    tli_json_end(j, ']');
}

/* `count` pictures stand behind width and height. */
static void add_pictures(tli_json *j, const tl_event_value *v)
{
    tli_json_int(j, "count", v->string_count > 2 ? v->string_count - 2 : 0);
    if (v->string_count > 1) {
        tli_json_text(j, "width", v->strings[0].data);
        tli_json_text(j, "height", v->strings[1].data);
    }
}

static void add_item(tli_json *j, const tli_store *s, const place *p, const char *tag,
                     tli_tag_kind kind)
{
    tl_event_reader *reader;
    const tl_event_value *v = read_value(&reader, s, p, tag);
    tli_json_begin(j, NULL, '{');
    tli_json_int(j, "step", p->step);
    tli_json_number(j, "time", p->time);
    if (v && kind == TLI_TAG_HISTOGRAM) add_rows(j, v);
    if (v && kind == TLI_TAG_TEXT) add_texts(j, v);
    if (v && kind == TLI_TAG_IMAGE) add_pictures(j, v);
    tli_json_end(j, '}');
    tl_event_reader_close(&reader);
}

/* Spread over all that there are; the last one is always among them. */
static int64_t choose(place *out, const tli_board_run *r, const tli_tag *t, int64_t most)
{
    int64_t count = t->media.count, chosen = 0;
    for (int64_t i = 0; i < count && i < most; i++) {
        int64_t at = count <= most ? i : (i + 1) * count / most - 1;
        chosen += place_of(&out[chosen], r, &t->media.items[at]);
    }
    return chosen;
}

void tli_answer_media(tli_answer *a, tli_store *s, const tli_request *q)
{
    tli_json j = {.out = &a->body};
    int64_t most = tli_request_int(q, "most", MOST_HISTOGRAMS);
    place *places = tl_alloc(MOST_HISTOGRAMS * sizeof *places);
    if (!places) {
        tli_answer_fail(a, 503, "there is no memory for this answer");
        return;
    }
    tli_json_begin(&j, NULL, '[');
    for (int64_t from = 0;; from++) {
        tli_store_lock(s);
        const tli_board_run *r = tli_request_run(a, s, q);
        const tli_tag *t = r ? find_tag(r, q, from, &from) : NULL;
        if (!t) {
            tli_store_unlock(s);
            break;
        }
        tli_tag_kind kind = t->kind;
        int64_t of_kind = kind == TLI_TAG_TEXT ? MOST_TEXTS : MOST_HISTOGRAMS;
        int64_t count = choose(places, r, t, most < of_kind ? most : of_kind);
        tli_json_begin(&j, NULL, '{');
        tli_json_text(&j, "part", r->parts.items[t->part]);
        tli_json_int(&j, "count", t->media.count);
        tli_store_unlock(s);
        tli_json_begin(&j, "items", '[');
        for (int64_t i = 0; i < count; i++)
            add_item(&j, s, &places[i], tli_request_text(q, "tag", ""), kind);
        tli_json_end(&j, ']');
        tli_json_end(&j, '}');
    }
    if (a->status == 200) tli_json_end(&j, ']');
    tl_free(places);
}

/* --- one picture ------------------------------------------------------------------------------ */

static const char *type_of(const tl_event_bytes *b)
{
    static const struct {
        const char *head, *type;
    } types[] = {{"\x89PNG", "image/png"}, {"\xff\xd8\xff", "image/jpeg"}, {"GIF8", "image/gif"}};
    for (int i = 0; i < TL_COUNT(types); i++)
        if (b->size > 8 && memcmp(b->data, types[i].head, strlen(types[i].head)) == 0)
            return types[i].type;
    return NULL;
}

void tli_answer_image(tli_answer *a, tli_store *s, const tli_request *q)
{
    int64_t step = tli_request_int(q, "step", -1), index = tli_request_int(q, "index", 0), at;
    place p;
    bool found = false;
    tl_event_reader *reader = NULL;
    tli_store_lock(s);
    const tli_board_run *r = tli_request_run(a, s, q);
    const tli_tag *t = r ? find_tag(r, q, 0, &at) : NULL;
    for (int64_t i = t && t->kind == TLI_TAG_IMAGE ? t->media.count : 0; i-- > 0 && !found;)
        found = t->media.items[i].step == step && place_of(&p, r, &t->media.items[i]);
    tli_store_unlock(s);
    if (a->status != 200) return;
    const tl_event_value *v =
        found ? read_value(&reader, s, &p, tli_request_text(q, "tag", "")) : NULL;
    const tl_event_bytes *image =
        v && index >= 0 && index < v->string_count - 2 ? &v->strings[2 + index] : NULL;
    const char *type = image ? type_of(image) : NULL;
    if (type) {
        tl_str_addn(&a->body, image->data, image->size);
        a->type = type;
        a->keep = true;
    } else {
        tli_answer_fail(a, 404, "there is no such picture");
    }
    tl_event_reader_close(&reader);
}
