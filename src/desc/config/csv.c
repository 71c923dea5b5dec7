/* Model Garden's override strings: `a.b=1,c.d='x, y',e=[1,2],f[0]=3,f[1]=4,g={h: 1}`. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/vec.h>
#include <tilth/desc/config.h>

#include "desc/config/apply.h"

/* What has been said about one name so far. */
typedef struct group {
    const char *name, *path;    /* the path from the root, for messages */
    size_t length;              /* of the name */
    const tl_value *leaf;       /* name=value */
    struct group *first, *last; /* name.x=..., in order */
    struct group *next;
    const tl_value **items; /* name[i]=...; NULL where nothing was given */
    int64_t count;
} group;

typedef struct reader {
    tl_arena *arena;
    const char *at;
    tl_place place;
    const char *path; /* of the name whose value is being read */
} reader;

enum { LONGEST_LIST = 4096, DEEPEST = 32 };

static tl_status malformed(const reader *r, const char *expected)
{
    enum { SHOWN = 40 };
    return TL_FAIL(TL_EINVAL, "%s: expected %s at '%.*s%s'", r->place.source, expected, SHOWN,
                   r->at, strlen(r->at) > SHOWN ? "..." : "");
}

static void skip_blanks(reader *r)
{
    while (isspace((unsigned char)*r->at)) r->at++;
}

static tl_status find_child(group **out, reader *r, group *parent, const char *name, size_t length)
{
    for (group *g = parent->first; g; g = g->next) {
        if (g->length != length || memcmp(g->name, name, length) != 0) continue;
        *out = g;
        return TL_OK;
    }
    group *g = tl_arena_alloc(r->arena, sizeof *g);
    if (!g || !(g->name = tl_arena_strndup(r->arena, name, length))) return TL_ENOMEM;
    g->path = *parent->name ? tl_arena_printf(r->arena, "%s.%s", parent->path, g->name) : g->name;
    if (!g->path) return TL_ENOMEM;
    g->length = length;
    *(parent->last ? &parent->last->next : &parent->first) = g;
    parent->last = g;
    *out = g;
    return TL_OK;
}

static tl_status read_name(group **out, reader *r, group *root)
{
    group *g = root;
    for (int depth = 0;; depth++) {
        const char *start = r->at;
        // The first part starts with a letter; the others may be numbers, as keys of free maps are.
        bool inner = g != root && (isdigit((unsigned char)*r->at) || *r->at == '_');
        if (!isalpha((unsigned char)*r->at) && !inner) return malformed(r, "a name");
        if (depth == DEEPEST) return malformed(r, "fewer levels of names");
        while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
        TL_TRY(find_child(&g, r, g, start, (size_t)(r->at - start)));
        if (*r->at != '.') break;
        r->at++;
    }
    *out = g;
    return TL_OK;
}

/* `[3]` behind a name; -1 when there is none. */
static tl_status read_index(int64_t *out, reader *r)
{
    *out = -1;
    if (*r->at != '[') return TL_OK;
    const char *start = r->at++;
    char *end;
    if (!isdigit((unsigned char)*r->at)) return malformed(r, "an index such as [0]");
    unsigned long long index = strtoull(r->at, &end, 10);
    if (*end != ']' || index >= LONGEST_LIST) {
        r->at = start;
        return malformed(r, "an index from [0] to [4095]");
    }
    r->at = end + 1;
    *out = (int64_t)index;
    return TL_OK;
}

/* A part of the text that is YAML by itself: a quoted string or a map. */
static tl_status read_yaml(const tl_value **out, reader *r, const char *end)
{
    const tl_value *read = NULL;
    tl_status st = tl_yaml_parse(&read, r->arena, r->at, (size_t)(end - r->at), "its value");
    if (st == TL_ENOMEM) return st;
    if (st != TL_OK) return tl_error_note(st, "%s: %s", r->place.source, r->path);
    // Line and column inside the part would mislead.
    *out = read ? tli_value_at(r->arena, read, r->place) : NULL;
    r->at = end;
    return *out ? TL_OK : TL_ENOMEM;
}

/* Behind the quoted string that starts at `p`, as YAML ends it; NULL when it does not end. */
static const char *behind_quotes(const char *p)
{
    char quote = *p++;
    for (; *p; p++) {
        if (quote == '"' && *p == '\\' && p[1]) p++;
        else if (*p == quote && quote == '\'' && p[1] == quote) p++;
        else if (*p == quote) return p + 1;
    }
    return NULL;
}

static tl_status read_quoted(const tl_value **out, reader *r)
{
    const char *end = behind_quotes(r->at);
    return end ? read_yaml(out, r, end) : malformed(r, "a closing quote");
}

/* {a: 1, b: [2, 3]}: up to the brace that closes it. */
static tl_status read_braces(const tl_value **out, reader *r)
{
    int depth = 0;
    for (const char *p = r->at; p && *p; p++) {
        // a quote inside a word is none
        bool begins = strchr("{[,: ", p == r->at ? '{' : p[-1]) != NULL;
        if ((*p == '\'' || *p == '"') && begins) {
            if (!(p = behind_quotes(p))) break;
            p--;
        }
        if (*p == '{') depth++;
        if (*p == '}' && --depth == 0) return read_yaml(out, r, p + 1);
    }
    return malformed(r, "a closing '}'");
}

static tl_status read_plain(const tl_value **out, reader *r, const char *stops)
{
    size_t length = strcspn(r->at, stops);
    const char *start = r->at;
    r->at += length;
    if (*r->at == '[') return malformed(r, "a flat list, or quotes around a text with '['");
    while (length && isspace((unsigned char)start[length - 1])) length--;
    char *text = tl_arena_strndup(r->arena, start, length);
    *out = text ? tl_value_new_scalar(r->arena, r->place, text, false) : NULL;
    return *out ? TL_OK : TL_ENOMEM;
}

typedef struct value_list {
    const tl_value **items;
    int64_t count, capacity;
} value_list;

static tl_status read_items(value_list *list, reader *r)
{
    r->at++;
    for (skip_blanks(r); *r->at != ']'; skip_blanks(r)) {
        const tl_value *item;
        if (list->count == LONGEST_LIST) return malformed(r, "a list of at most 4096");
        if (*r->at == '[') return malformed(r, "a flat list (lists of lists are not possible)");
        if (*r->at == '\'' || *r->at == '"') TL_TRY(read_quoted(&item, r));
        else if (*r->at == '{') TL_TRY(read_braces(&item, r));
        else TL_TRY(read_plain(&item, r, ",[]"));
        if (!TL_VEC_PUSH(list, item)) return TL_ENOMEM;
        skip_blanks(r);
        if (*r->at == ',') r->at++;
        else if (*r->at != ']') return malformed(r, "',' or ']'");
    }
    r->at++;
    return TL_OK;
}

static tl_status read_list(const tl_value **out, reader *r)
{
    value_list list = {0};
    tl_status st = read_items(&list, r);
    if (st == TL_OK) {
        *out = tl_value_new_list(r->arena, r->place, list.items, list.count);
        st = *out ? TL_OK : TL_ENOMEM;
    }
    TL_VEC_FREE(&list);
    return st;
}

static tl_status read_value(const tl_value **out, reader *r)
{
    skip_blanks(r);
    if (*r->at == '\'' || *r->at == '"') TL_TRY(read_quoted(out, r));
    else if (*r->at == '{') TL_TRY(read_braces(out, r));
    else if (*r->at == '[') TL_TRY(read_list(out, r));
    else TL_TRY(read_plain(out, r, ",["));
    skip_blanks(r);
    if (*r->at && *r->at != ',') return malformed(r, "',' between overrides");
    return TL_OK;
}

static tl_status set_item(reader *r, group *g, int64_t index, const tl_value *value)
{
    if (index >= g->count) {
        const tl_value **items = tl_arena_array(r->arena, index + 1, sizeof *items);
        if (!items) return TL_ENOMEM;
        if (g->count) memcpy(items, g->items, (size_t)g->count * sizeof *items);
        g->items = items;
        g->count = index + 1;
    }
    g->items[index] = value; // what is given twice has its last value, as in the original
    return TL_OK;
}

static tl_status read_override(reader *r, group *root)
{
    group *g = NULL;
    int64_t index;
    const tl_value *value;
    TL_TRY(read_name(&g, r, root));
    TL_TRY(read_index(&index, r));
    skip_blanks(r);
    if (*r->at != '=') return malformed(r, "'=' behind a name");
    r->at++;
    r->path = g->path;
    TL_TRY(read_value(&value, r));
    if (index >= 0) return set_item(r, g, index, value);
    g->leaf = value;
    return TL_OK;
}

/* --- the groups as a value -------------------------------------------------------------------- */

static tl_status build(const tl_value **out, const reader *r, const group *g);

static tl_status build_map(const tl_value **out, const reader *r, const group *g)
{
    int64_t count = 0;
    for (const group *child = g->first; child; child = child->next) count++;
    tl_value_pair *pairs = tl_arena_array(r->arena, count, sizeof *pairs);
    if (!pairs) return TL_ENOMEM;
    count = 0;
    for (const group *child = g->first; child; child = child->next) {
        pairs[count].key = child->name;
        pairs[count].place = r->place;
        TL_TRY(build(&pairs[count++].value, r, child));
    }
    *out = tl_value_new_map(r->arena, r->place, pairs, count);
    return *out ? TL_OK : TL_ENOMEM;
}

static tl_status build(const tl_value **out, const reader *r, const group *g)
{
    if (!!g->leaf + !!g->items + !!g->first > 1)
        return TL_FAIL(TL_EINVAL, "%s: '%s' is given both as a whole and in parts", r->place.source,
                       g->path);
    if (g->leaf) {
        *out = g->leaf;
        return TL_OK;
    }
    if (!g->items) return build_map(out, r, g);
    for (int64_t i = 0; i < g->count; i++)
        if (!g->items[i])
            return TL_FAIL(TL_EINVAL,
                           "%s: '%s[%lld]' is not given (every index from 0 to %lld must be)",
                           r->place.source, g->path, (long long)i, (long long)(g->count - 1));
    *out = tl_value_new_list(r->arena, r->place, g->items, g->count);
    return *out ? TL_OK : TL_ENOMEM;
}

tl_status tl_csv_parse(const tl_value **out, tl_arena *arena, const char *text, const char *source)
{
    reader r = {.arena = arena, .at = text};
    if (!(r.place.source = tl_arena_strdup(arena, source))) return TL_ENOMEM;
    group root = {.name = "", .path = ""};
    skip_blanks(&r);
    while (*r.at) {
        TL_TRY(read_override(&r, &root));
        if (*r.at != ',') break;
        r.at++;
        skip_blanks(&r);
    }
    return build_map(out, &r, &root);
}
