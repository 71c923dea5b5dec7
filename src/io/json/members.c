#include "io/json/members.h"

#include <string.h>

// Any value, which begins at `place` of something larger.
static tl_status parse(json_t **out, const char *text, size_t size, size_t flags, size_t place)
{
    json_error_t error;
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES | flags, &error);
    if (*out) return TL_OK;
    // Where the parser finds no memory it often says nothing at all, and sometimes the wrong thing.
    if (!error.text[0] || json_error_code(&error) == json_error_out_of_memory)
        return TL_FAIL_NOMEM(size);
    return TL_FAIL(TL_EINVAL, "%s (at character %zu)", error.text, place + (size_t)error.position);
}

tl_status tli_json_parse(json_t **out, const char *text, size_t size)
{
    return parse(out, text, size, 0, 0);
}

tli_json_members tli_json_members_of(const char *text, size_t size)
{
    return (tli_json_members){.text = text, .size = size};
}

tli_json_members tli_json_list_members_of(const char *text, size_t size)
{
    return (tli_json_members){.text = text, .size = size, .list = true};
}

void tli_json_members_end(tli_json_members *m)
{
    json_decref(m->key);
    m->key = NULL;
}

static tl_status fail(const tli_json_members *m, const char *wanted)
{
    return TL_FAIL(TL_EINVAL, "%s expected at character %zu%s", wanted, m->at + 1,
                   m->at == m->size ? ", the end" : "");
}

/* The next character that is no space; 0 at the end. */
static char peek(tli_json_members *m)
{
    while (m->at < m->size && strchr(" \t\r\n", m->text[m->at]) && m->text[m->at]) m->at++;
    return m->at < m->size ? m->text[m->at] : 0;
}

static bool skip(tli_json_members *m, char c)
{
    if (peek(m) != c) return false;
    m->at++;
    return true;
}

/* Goes behind a text in quotes. */
static void skip_text(tli_json_members *m)
{
    for (m->at++; m->at < m->size && m->text[m->at] != '"'; m->at++)
        if (m->text[m->at] == '\\') m->at++;
    m->at = m->at < m->size ? m->at + 1 : m->size;
}

/* Goes behind a value by counting brackets; whether it is a good one is for the parser to say. */
static void skip_value(tli_json_members *m)
{
    int64_t depth = 0;
    while (m->at < m->size) {
        char c = m->text[m->at];
        if (c == '"') {
            skip_text(m);
        } else {
            if (!depth && (c == ',' || c == '}' || c == ']')) return;
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
            m->at++;
        }
        if (!depth && (c == '"' || c == '}' || c == ']')) return;
    }
}

static tl_status read_key(tli_json_members *m)
{
    if (peek(m) != '"') return fail(m, "a name in quotes is");
    size_t from = m->at;
    skip_text(m);
    TL_TRY(parse(&m->key, m->text + from, m->at - from, JSON_DECODE_ANY, from));
    return skip(m, ':') ? TL_OK : fail(m, "':' is");
}

static tl_status read_end(tli_json_members *m)
{
    if (!skip(m, m->list ? ']' : '}')) return fail(m, m->list ? "',' or ']' is" : "',' or '}' is");
    return peek(m) || m->at < m->size ? fail(m, "nothing more is") : TL_OK;
}

tl_status tli_json_members_next(tli_json_members *m, bool *more)
{
    bool first = !m->begun;
    *more = false;
    tli_json_members_end(m);
    if (first && !skip(m, m->list ? '[' : '{')) return fail(m, m->list ? "'[' is" : "'{' is");
    m->begun = true;
    if (first ? peek(m) == (m->list ? ']' : '}') : !skip(m, ',')) return read_end(m);
    if (!m->list) TL_TRY(read_key(m));
    (void)peek(m);
    size_t from = m->at;
    skip_value(m);
    m->value = m->text + from;
    m->value_size = m->at - from;
    *more = true;
    return TL_OK;
}

tl_status tli_json_members_value(const tli_json_members *m, json_t **out)
{
    return parse(out, m->value, m->value_size, JSON_DECODE_ANY, (size_t)(m->value - m->text));
}
