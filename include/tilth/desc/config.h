/* A configuration being put together: a described struct, the sources that changed it, and where
 * each value came from.
 *
 *     tl_config *c;
 *     TL_TRY(tl_config_new(&c, registry, &mnist_desc));
 *     TL_TRY(tl_config_read(c, "a.yaml"));
 *     TL_TRY(tl_config_override(c, "hidden=256,sizes=[14,14]", "--params_override"));
 *     TL_TRY(tl_config_finish(c));                           // checks; from here on it is const
 *     const mnist_config *m = tl_config_value(c);
 *     ...
 *     tl_config_free(&c);
 *
 * Later sources win. Each source is applied as a whole; all that is wrong with it is reported
 * together, and the configuration must not be used after a failure. Strict by default: unknown keys
 * fail, with the nearest known one; when not strict they are skipped with a warning each.
 *
 * Thread word: one thread at a time until finished, immutable afterwards. */
#ifndef TILTH_DESC_CONFIG_H
#define TILTH_DESC_CONFIG_H

#include <tilth/desc/registry.h>
#include <tilth/desc/yaml.h>

TL_BEGIN

typedef struct tl_config tl_config;

/* `registry` (may be NULL) is asked for the branches of open one-ofs; it must outlive the
 * config. */
TL_API TL_NODISCARD tl_status tl_config_new(tl_config **out, const tl_registry *registry,
                                            const tl_desc *desc);
TL_API void tl_config_free(tl_config **config);
TL_API void tl_config_set_strict(tl_config *c, bool strict);

TL_API const tl_desc *tl_config_desc(const tl_config *c);
TL_API const void *tl_config_value(const tl_config *c);
/* To change it in C; NULL once it is finished. New memory comes from the config's arena. */
TL_API void *tl_config_edit(tl_config *c);
TL_API tl_arena *tl_config_arena(tl_config *c);

/* Sources. A map is merged into structs and free-form maps, key by key, and an empty one empties a
 * free-form map; lists and scalars replace, but for a list of as many structs as there are: these
 * are merged one by one. `source` names the text in messages and in tl_config_source. */
TL_API TL_NODISCARD tl_status tl_config_apply(tl_config *c, const tl_value *map);
TL_API TL_NODISCARD tl_status tl_config_read(tl_config *c, const char *path);
TL_API TL_NODISCARD tl_status tl_config_yaml(tl_config *c, const char *text, const char *source);
/* Model Garden's --params_override: `a.b=1,c='x, y',d=[1,2],e[0]=3,e[1]=4`, else YAML or JSON text
 * with a map, else the path of a YAML file. Empty text changes nothing. */
TL_API TL_NODISCARD tl_status tl_config_override(tl_config *c, const char *text,
                                                 const char *source);
/* One word of Hydra's: `a.b=1` sets what exists, `+a.b=1` adds what is not there, `++a.b=1` does
 * either, `~a.b` deletes (sets an optional to null, empties a list, removes a map's key). Paths may
 * hold indexes: `a[0].b=1`. A value that starts with a quote, `[` or `{` is read as Hydra reads it
 * ('it\'s', {a:1,b:[2,3]}); any other is taken as it is. */
TL_API TL_NODISCARD tl_status tl_config_word(tl_config *c, const char *word, const char *source);
/* Several of them; all that is wrong with them is reported together. */
typedef struct tl_word {
    const char *text, *source;
} tl_word;
TL_API TL_NODISCARD tl_status tl_config_words(tl_config *c, const tl_word *words, int64_t count);
/* What stands behind the `=` of a word, in the arena; and a word with this in its place: for who
 * has words of their own (libai.h). */
TL_API TL_NODISCARD tl_status tl_word_value(const tl_value **out, tl_arena *arena, const char *text,
                                            const char *source);
TL_API TL_NODISCARD tl_status tl_config_word_value(tl_config *c, const char *word,
                                                   const tl_value *value, const char *source);
/* The CSV form alone, as a map. Fails when the text is not of that form. */
TL_API TL_NODISCARD tl_status tl_csv_parse(const tl_value **out, tl_arena *arena, const char *text,
                                           const char *source);

/* Cross-field checks, restrictions, and fields whose feature is not there; then const. */
TL_API TL_NODISCARD tl_status tl_config_finish(tl_config *c);
/* One more restriction, "a.b <= c.d"; `text` must outlive the config. */
TL_API TL_NODISCARD tl_status tl_config_restrict(tl_config *c, const char *text);

/* What is in the configuration now, such as an experiment's own defaults, is what a reader of its
 * YAML will start from: tl_config_write then leaves a quiet field out only when it has its default
 * there too. */
TL_API TL_NODISCARD tl_status tl_config_mark_base(tl_config *c);

/* Where the value at a dotted path came from: "a.yaml:7:3", "--params_override", "default". This
 * and the explained form below keep texts in the config: one thread at a time. */
TL_API const char *tl_config_source(tl_config *c, const char *path);
/* Whether somebody has set the value at a dotted path, or one below it: not when it is the default
 * of its row, or what an experiment's own defaults say. */
TL_API bool tl_config_is_given(tl_config *c, const char *path);
/* What tl_yaml_write writes, and what must be written beside it to be read again
 * (tl_config_mark_base). With `explain`, each line says where its value came from. */
TL_API TL_NODISCARD tl_status tl_config_write(tl_str *out, const tl_config *c, bool explain);
/* The same for whoever goes on from it: rows with TL_FIELD_BLANK have their default. */
TL_API TL_NODISCARD tl_status tl_config_write_saved(tl_str *out, const tl_config *c);

/* Chooses a branch of a one-of by name, from its closed list or from the registry, and gives the
 * branch's struct to fill. The registry may be NULL for closed lists. */
TL_API TL_NODISCARD tl_status tl_oneof_select(void **out, tl_oneof *oneof, const tl_field *field,
                                              const char *type, tl_arena *arena,
                                              const tl_registry *registry);

TL_END

#endif
