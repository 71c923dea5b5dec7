/* Private to io: the members of a JSON object, or of a list, one after the other, so that a large
 * one takes the memory of its largest member, not of all at once.
 *
 *     tli_json_members m = tli_json_members_of(text, size);
 *     for (bool more = true; ;) {
 *         TL_TRY_DONE(st, tli_json_members_next(&m, &more));
 *         if (!more) break;
 *         ... json_string_value(m.key), m.value, m.value_size ...
 *     }
 * done:
 *     tli_json_members_end(&m); */
#ifndef TLI_IO_JSON_MEMBERS_H
#define TLI_IO_JSON_MEMBERS_H

#include <jansson.h>

#include <tilth/base/status.h>

typedef struct tli_json_members {
    const char *text;
    size_t size, at;
    bool list, begun;
    json_t *key;       /* of the member that was found last; NULL in a list */
    const char *value; /* its text, which nobody has looked into yet */
    size_t value_size;
} tli_json_members;

tli_json_members tli_json_members_of(const char *text, size_t size);
tli_json_members tli_json_list_members_of(const char *text, size_t size);
/* `more` is false behind the last one, where nothing but space may follow. TL_EINVAL for what is no
 * object, or no list. */
TL_NODISCARD tl_status tli_json_members_next(tli_json_members *m, bool *more);
/* The first character of the value; 0 when there is none. */
static inline char tli_json_members_first(const tli_json_members *m)
{
    return m->value_size ? *m->value : 0;
}
/* Parses the value. Places in messages count from the begin of the whole text. */
TL_NODISCARD tl_status tli_json_members_value(const tli_json_members *m, json_t **out);
void tli_json_members_end(tli_json_members *m);

/* TL_EINVAL with the parser's words when it is no JSON, or an object has a name twice. */
TL_NODISCARD tl_status tli_json_parse(json_t **out, const char *text, size_t size);

#endif
