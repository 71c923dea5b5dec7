/* YAML in and out.
 *
 * In: one document, through libyaml, into values (value.h). Anchors, aliases and merge keys work;
 * duplicate keys, unknown tags, documents after the first, and input that is too large, too deep or
 * would expand too far are refused. JSON is read as the YAML it is. Out: as Model Garden writes it:
 * keys sorted, block maps, lists in one line, so that any YAML reader takes it and what is written
 * reads back equal.
 *
 * Thread word: one thread at a time for each arena. */
#ifndef TILTH_DESC_YAML_H
#define TILTH_DESC_YAML_H

#include <tilth/desc/desc.h>

TL_BEGIN

enum {
    TL_YAML_MAX_BYTES = 16 << 20,
    TL_YAML_MAX_DEPTH = 64,
    TL_YAML_MAX_NODES = 1 << 20 /* after aliases are expanded */
};

/* An empty document gives a NULL value. `source` names the text in messages. */
TL_API TL_NODISCARD tl_status tl_yaml_parse(const tl_value **out, tl_arena *arena, const char *text,
                                            size_t length, const char *source);
TL_API TL_NODISCARD tl_status tl_yaml_read(const tl_value **out, tl_arena *arena, const char *path);

/* Writes a described struct as a document. */
TL_API TL_NODISCARD tl_status tl_yaml_write(tl_str *out, const tl_desc *desc, const void *value);
/* Writes a value as a document; maps keep their order. */
TL_API TL_NODISCARD tl_status tl_yaml_write_value(tl_str *out, const tl_value *value);

TL_END

#endif
