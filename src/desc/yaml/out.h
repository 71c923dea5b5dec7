/* Private to desc: the YAML writer, saying also which key each line belongs to. */
#ifndef TILTH_SRC_DESC_YAML_OUT_H
#define TILTH_SRC_DESC_YAML_OUT_H

#include <tilth/desc/yaml.h>

/* Writes a document as tl_yaml_write does, and to `keys` (NULL: not) the dotted path of every key
 * of a described struct that has a line of its own, in order, one a line, behind one of these.
 * `base` (NULL: the defaults) is what a reader starts from: quiet fields that differ from it are
 * written, though they be at their default. */
enum { TLI_KEY_LEAF = '=', TLI_KEY_STRUCT = '.' };
tl_status tli_yaml_write_keys(tl_str *out, tl_str *keys, const tl_desc *desc, const void *value,
                              const void *base);

/* Writes a document without what is of this start alone: tl_config_write_saved. */
tl_status tli_yaml_write_saved(tl_str *out, const tl_desc *desc, const void *value,
                               const void *base);

/* A member as YAML on one line, as it would stand behind its key. */
tl_status tli_field_text(tl_str *out, const tl_field *field, const void *value);

#endif
