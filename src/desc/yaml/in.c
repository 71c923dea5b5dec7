#include <tilth/desc/yaml.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include <tilth/base/file.h>
#include <tilth/base/map.h>
#include <tilth/base/vec.h>

typedef struct anchor {
    const tl_value *value; /* NULL while the anchored node is still being read */
    int height;            /* levels of that node, aliases inside it followed */
} anchor;

typedef struct reader {
    tl_arena *arena;
    const char *source;
    yaml_parser_t parser;
    yaml_event_t event; /* the current one, owned */
    bool has_event;
    tl_map anchors;   /* name -> anchor */
    const char *text; /* the whole input */
    size_t length;
    int depth;   /* of the node being read */
    int deepest; /* level reached inside the node being read, aliases followed */
} reader;

static tl_place place_of(const reader *r, yaml_mark_t mark)
{
    return (tl_place){r->source, (int)mark.line + 1, (int)mark.column + 1};
}

/* A failure at a place: "a.yaml:3:7: ...". */
#define FAIL_AT(code, place, ...) fail_at((place), TL_FAIL(code, __VA_ARGS__))

static tl_status fail_at(tl_place place, tl_status code)
{
    return tl_error_note(code, "%s:%d:%d", place.source, place.line, place.column);
}

/* Where a byte of the input is. libyaml counts bytes only where it cannot read characters. */
static tl_place place_of_byte(const reader *r, size_t offset)
{
    tl_place place = {r->source, 1, 1};
    size_t mark = r->length >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    for (size_t i = mark; i < offset && i < r->length; i++) {
        if (r->text[i] == '\n') place.line++, place.column = 1;
        else if (((unsigned char)r->text[i] & 0xc0) != 0x80) place.column++;
    }
    return place;
}

/* True when the place is a tab, or stands behind one that begins its line. */
static bool at_tab(const reader *r, yaml_mark_t mark)
{
    const char *p = r->text, *end = r->text + r->length;
    for (size_t i = 0; p && i < mark.line; i++)
        p = (p = memchr(p, '\n', (size_t)(end - p))) ? p + 1 : NULL;
    while (p && p < end && *p == ' ') p++;
    return p && p < end && *p == '\t';
}

static tl_status syntax_error(reader *r)
{
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return TL_FAIL(TL_ENOMEM, "out of memory");
    const char *problem = p->problem ? p->problem : "cannot be read";
    if (p->error == YAML_READER_ERROR && p->encoding != YAML_UTF8_ENCODING)
        return TL_FAIL(TL_EINVAL, "%s: not YAML: %s at byte %zu", r->source, problem,
                       p->problem_offset);
    if (p->error == YAML_READER_ERROR)
        return FAIL_AT(TL_EINVAL, place_of_byte(r, p->problem_offset), "not YAML: %s", problem);
    tl_place place = place_of(r, p->problem_mark);
    if (at_tab(r, p->problem_mark))
        return FAIL_AT(TL_EINVAL, place, "not YAML: a tab; lines are indented with blanks");
    if (!p->context) return FAIL_AT(TL_EINVAL, place, "not YAML: %s", problem);
    // What was begun may lie far above, as an opening quote does.
    return FAIL_AT(TL_EINVAL, place, "not YAML: %s, %s (begun at line %d, column %d)", problem,
                   p->context, (int)p->context_mark.line + 1, (int)p->context_mark.column + 1);
}

static tl_status next_event(reader *r)
{
    if (r->has_event) yaml_event_delete(&r->event);
    r->has_event = false;
    if (!yaml_parser_parse(&r->parser, &r->event)) return syntax_error(r);
    r->has_event = true;
    return TL_OK;
}

/* --- tags and anchors ------------------------------------------------------------------------- */

typedef enum node_tag { TAG_NONE, TAG_STRING, TAG_TUPLE, TAG_OTHER_STANDARD } node_tag;

/* Tags that change nothing, or that say what the member's type says anyway, are let through. */
static tl_status read_tag(node_tag *out, const reader *r, const char *text)
{
    static const char standard[] = "tag:yaml.org,2002:";
    *out = TAG_NONE;
    if (!text) return TL_OK;
    if (strcmp(text, "!") == 0) { // the "non-specific" tag: take it as it is written, a string
        *out = TAG_STRING;
        return TL_OK;
    }
    if (strncmp(text, standard, sizeof standard - 1) == 0) {
        const char *name = text + sizeof standard - 1;
        static const struct {
            const char *name;
            node_tag tag;
        } known[] = {
            {"str", TAG_STRING},
            {"python/str", TAG_STRING},
            {"python/unicode", TAG_STRING},
            {"python/tuple", TAG_TUPLE},
            {"int", TAG_OTHER_STANDARD},
            {"float", TAG_OTHER_STANDARD},
            {"bool", TAG_OTHER_STANDARD},
            {"null", TAG_OTHER_STANDARD},
            {"map", TAG_OTHER_STANDARD},
            {"seq", TAG_OTHER_STANDARD},
            {"python/int", TAG_OTHER_STANDARD},
            {"python/float", TAG_OTHER_STANDARD},
            {"python/bool", TAG_OTHER_STANDARD},
            {"python/none", TAG_OTHER_STANDARD},
            {"python/list", TAG_OTHER_STANDARD},
            {"python/dict", TAG_OTHER_STANDARD},
        };
        for (int64_t i = 0; i < TL_COUNT(known); i++) {
            if (strcmp(name, known[i].name) != 0) continue;
            *out = known[i].tag;
            return TL_OK;
        }
    }
    return FAIL_AT(TL_EINVAL, place_of(r, r->event.start_mark),
                   "the tag '%s' is not supported (only YAML's own types and !!python/tuple are)",
                   text);
}

static tl_status open_anchor(anchor **out, reader *r, const yaml_char_t *name)
{
    *out = NULL;
    if (!name) return TL_OK;
    anchor *a = tl_arena_alloc(r->arena, sizeof *a);
    if (!a) return TL_ENOMEM;
    TL_TRY(tl_map_set(&r->anchors, (const char *)name, a)); // a later anchor of that name wins
    *out = a;
    return TL_OK;
}

static tl_status check_depth(const reader *r, int depth)
{
    if (depth <= TL_YAML_MAX_DEPTH) return TL_OK;
    return FAIL_AT(TL_ELIMIT, place_of(r, r->event.start_mark), "nested deeper than %d levels",
                   TL_YAML_MAX_DEPTH);
}

static tl_status read_alias(const tl_value **out, reader *r)
{
    const char *name = (const char *)r->event.data.alias.anchor;
    tl_place place = place_of(r, r->event.start_mark);
    const anchor *a = tl_map_get(&r->anchors, name);
    if (!a)
        return FAIL_AT(TL_EINVAL, place, "the alias *%s has no anchor &%s before it", name, name);
    if (!a->value)
        return FAIL_AT(TL_EINVAL, place, "the alias *%s stands inside its own anchor", name);
    TL_TRY(check_depth(r, r->depth + a->height));
    if (r->deepest < r->depth + a->height) r->deepest = r->depth + a->height;
    *out = a->value;
    return TL_OK;
}

/* --- nodes ------------------------------------------------------------------------------------ */

static tl_status read_node(const tl_value **out, reader *r);

static tl_status check_weight(int64_t weight, tl_place place)
{
    if (weight <= TL_YAML_MAX_NODES) return TL_OK;
    return FAIL_AT(TL_ELIMIT, place,
                   "more than %d values (aliases counted each time they are used)",
                   TL_YAML_MAX_NODES);
}

static tl_status read_scalar(const tl_value **out, reader *r)
{
    node_tag tag;
    TL_TRY(read_tag(&tag, r, (const char *)r->event.data.scalar.tag));
    const char *text = (const char *)r->event.data.scalar.value;
    tl_place place = place_of(r, r->event.start_mark);
    if (strlen(text) != r->event.data.scalar.length)
        return FAIL_AT(TL_EINVAL, place, "a string with a zero byte in it");
    bool plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE || tag == TAG_OTHER_STANDARD;
    *out = tl_value_new_scalar(r->arena, place, text, tag == TAG_STRING || !plain);
    return *out ? TL_OK : TL_ENOMEM;
}

typedef struct value_list {
    const tl_value **items;
    int64_t count, capacity;
} value_list;

static tl_status read_list(const tl_value **out, reader *r)
{
    node_tag tag;
    TL_TRY(read_tag(&tag, r, (const char *)r->event.data.sequence_start.tag));
    tl_place place = place_of(r, r->event.start_mark);
    value_list list = {0};
    tl_status st = TL_OK;
    int64_t weight = 0;
    for (;;) {
        const tl_value *item = NULL;
        TL_TRY_DONE(st, next_event(r));
        if (r->event.type == YAML_SEQUENCE_END_EVENT) break;
        TL_TRY_DONE(st, read_node(&item, r));
        TL_TRY_DONE(st, TL_VEC_PUSH(&list, item) ? TL_OK : TL_ENOMEM);
        weight += item->weight;
        TL_TRY_DONE(st, check_weight(weight, place));
    }
    tl_value *v = tl_value_new_list(r->arena, place, list.items, list.count);
    if (v) v->tuple = tag == TAG_TUPLE;
    *out = v;
    st = v ? TL_OK : TL_ENOMEM;
done:
    TL_VEC_FREE(&list);
    return st;
}

typedef struct pair_list {
    tl_value_pair *items;
    int64_t count, capacity;
    tl_map seen; /* key -> its index + 1 */
} pair_list;

static tl_status add_pair(pair_list *list, tl_value_pair pair)
{
    if (!TL_VEC_PUSH(list, pair)) return TL_ENOMEM;
    return tl_map_set(&list->seen, pair.key, (void *)(intptr_t)list->count);
}

/* `<<: *base` or `<<: [*a, *b]`: keys that are not there yet, earlier maps before later ones. */
static tl_status merge(pair_list *list, const tl_value *from, tl_place place, bool nested)
{
    if (from->kind == TL_VALUE_LIST && !nested) {
        for (int64_t i = 0; i < from->count; i++) TL_TRY(merge(list, from->items[i], place, true));
        return TL_OK;
    }
    if (from->kind != TL_VALUE_MAP)
        return FAIL_AT(TL_EINVAL, place, "a merge key (<<) needs a map or a list of maps");
    for (int64_t i = 0; i < from->count; i++) {
        if (!tl_map_has(&list->seen, from->pairs[i].key)) TL_TRY(add_pair(list, from->pairs[i]));
    }
    return TL_OK;
}

/* The key of a pair; the current event is its start. */
static tl_status read_key(tl_value_pair *pair, reader *r)
{
    const tl_value *key = NULL;
    tl_place place = place_of(r, r->event.start_mark);
    TL_TRY(read_node(&key, r));
    if (key->kind != TL_VALUE_SCALAR)
        return FAIL_AT(TL_EINVAL, place, "a key must be a word, not a list or a map");
    *pair = (tl_value_pair){.key = key->text, .key_quoted = key->quoted, .place = place};
    return TL_OK;
}

static tl_status read_pairs(pair_list *list, reader *r)
{
    pair_list merges = {.seen = TL_MAP_INIT};
    tl_status st = TL_OK;
    int64_t weight = 0;
    for (;;) {
        tl_value_pair pair;
        TL_TRY_DONE(st, next_event(r));
        if (r->event.type == YAML_MAPPING_END_EVENT) break;
        TL_TRY_DONE(st, read_key(&pair, r));
        TL_TRY_DONE(st, next_event(r));
        TL_TRY_DONE(st, read_node(&pair.value, r));
        weight += pair.value->weight + 1;
        TL_TRY_DONE(st, check_weight(weight, pair.place));
        if (strcmp(pair.key, "<<") == 0 && !pair.key_quoted) {
            TL_TRY_DONE(st, TL_VEC_PUSH(&merges, pair) ? TL_OK : TL_ENOMEM);
            continue;
        }
        int64_t first = (intptr_t)tl_map_get(&list->seen, pair.key);
        if (first) {
            tl_place before = list->items[first - 1].place;
            st = FAIL_AT(TL_EEXISTS, pair.place, "the key '%s' is given twice (first at line %d)",
                         pair.key, before.line);
            goto done;
        }
        TL_TRY_DONE(st, add_pair(list, pair));
    }
    // Merged keys come last, wherever << stands: what is written out wins. Of two << the later one
    // does, as in Model Garden's reader.
    for (int64_t i = merges.count; i-- > 0;)
        TL_TRY_DONE(st, merge(list, merges.items[i].value, merges.items[i].place, false));
done:
    TL_VEC_FREE(&merges);
    return st;
}

static tl_status read_map(const tl_value **out, reader *r)
{
    node_tag tag;
    TL_TRY(read_tag(&tag, r, (const char *)r->event.data.mapping_start.tag));
    tl_place place = place_of(r, r->event.start_mark);
    pair_list list = {.seen = TL_MAP_INIT};
    tl_status st = read_pairs(&list, r);
    if (st == TL_OK) {
        *out = tl_value_new_map(r->arena, place, list.items, list.count);
        st = *out ? check_weight((*out)->weight, place) : TL_ENOMEM;
    }
    tl_map_deinit(&list.seen);
    TL_VEC_FREE(&list);
    return st;
}

/* Reads the node whose first event is the current one. */
static tl_status read_node(const tl_value **out, reader *r)
{
    if (r->event.type == YAML_ALIAS_EVENT) return read_alias(out, r);
    TL_TRY(check_depth(r, r->depth + 1));
    int outer_deepest = r->deepest;
    r->deepest = ++r->depth;
    anchor *a = NULL;
    tl_status st;
    switch (r->event.type) {
    case YAML_SCALAR_EVENT:
        st = open_anchor(&a, r, r->event.data.scalar.anchor);
        if (st == TL_OK) st = read_scalar(out, r);
        break;
    case YAML_SEQUENCE_START_EVENT:
        st = open_anchor(&a, r, r->event.data.sequence_start.anchor);
        if (st == TL_OK) st = read_list(out, r);
        break;
    case YAML_MAPPING_START_EVENT:
        st = open_anchor(&a, r, r->event.data.mapping_start.anchor);
        if (st == TL_OK) st = read_map(out, r);
        break;
    default: st = TL_FAIL(TL_EINTERNAL, "%s: unexpected YAML event", r->source); break;
    }
    r->depth--;
    if (st == TL_OK && a) {
        a->value = *out;
        a->height = r->deepest - r->depth;
    }
    if (r->deepest < outer_deepest) r->deepest = outer_deepest;
    return st;
}

static tl_status read_document(const tl_value **out, reader *r)
{
    *out = NULL;
    TL_TRY(next_event(r)); // stream start
    TL_TRY(next_event(r));
    if (r->event.type == YAML_STREAM_END_EVENT) return TL_OK;
    TL_TRY(next_event(r)); // past document start
    bool nothing = r->event.type == YAML_SCALAR_EVENT && r->event.data.scalar.length == 0
                   && r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    TL_TRY(read_node(out, r));
    if (nothing) *out = NULL; // `---` alone
    TL_TRY(next_event(r));    // document end
    TL_TRY(next_event(r));
    if (r->event.type != YAML_STREAM_END_EVENT)
        return FAIL_AT(TL_EINVAL, place_of(r, r->event.start_mark),
                       "a second document begins here; only one is read from a file");
    return TL_OK;
}

/* The four hexadecimal digits of `\\uXXXX`, or -1. */
static int code_unit(const char *p, const char *end)
{
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u') return -1;
    int unit = 0;
    for (int i = 2; i < 6; i++) {
        const char *digits = "0123456789abcdef", *at = strchr(digits, tolower((unsigned char)p[i]));
        if (!p[i] || !at) return -1;
        unit = unit * 16 + (int)(at - digits);
    }
    return unit;
}

/* JSON writes characters beyond 16 bits as two escapes, YAML as one of eight digits. Only what
 * stands between double quotes is changed. */
static tl_status join_surrogates(const char **text, size_t *length, tl_arena *arena)
{
    const char *p = *text, *end = *text + *length;
    if (!*length || (!memmem(p, *length, "\\ud", 3) && !memmem(p, *length, "\\uD", 3)))
        return TL_OK;
    char *copy = tl_arena_alloc(arena, *length + 1), *to = copy;
    if (!copy) return TL_ENOMEM;
    bool quoted = false;
    for (p = *text; p < end;) {
        int high = quoted ? code_unit(p, end) : -1;
        int low = high >= 0xd800 && high < 0xdc00 ? code_unit(p + 6, end) : -1;
        if (low >= 0xdc00 && low < 0xe000) {
            to += sprintf(to, "\\U%08x", 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00));
            p += 12;
            continue;
        }
        if (quoted && *p == '\\' && p + 1 < end) *to++ = *p++; // the next one is escaped
        else if (*p == '"') quoted = !quoted;
        *to++ = *p++;
    }
    *text = copy;
    *length = (size_t)(to - copy);
    return TL_OK;
}

tl_status tl_yaml_parse(const tl_value **out, tl_arena *arena, const char *text, size_t length,
                        const char *source)
{
    if (length > TL_YAML_MAX_BYTES)
        return TL_FAIL(TL_ELIMIT, "%s: %zu bytes, more than the %d that are read as YAML", source,
                       length, TL_YAML_MAX_BYTES);
    TL_TRY(join_surrogates(&text, &length, arena));
    reader r = {.arena = arena, .anchors = TL_MAP_INIT, .text = text, .length = length};
    if (!(r.source = tl_arena_strdup(arena, source))) return TL_ENOMEM;
    if (!yaml_parser_initialize(&r.parser)) return TL_FAIL_NOMEM(sizeof r.parser);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    // Text without a mark is UTF-8; UTF-16 files announce themselves and are read as well.
    tl_status st = read_document(out, &r);
    if (r.has_event) yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    tl_map_deinit(&r.anchors);
    return st;
}

tl_status tl_yaml_read(const tl_value **out, tl_arena *arena, const char *path)
{
    char *text;
    size_t length;
    TL_TRY(tl_file_read(&text, &length, path, TL_YAML_MAX_BYTES));
    tl_status st = tl_yaml_parse(out, arena, text, length, path);
    tl_free(text);
    return st;
}
