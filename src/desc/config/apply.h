/* Private to desc: values going into described structs, and the list of all that was wrong. */
#ifndef TILTH_SRC_DESC_APPLY_H
#define TILTH_SRC_DESC_APPLY_H

#include <tilth/base/map.h>
#include <tilth/desc/registry.h>

/* Collects messages, one line each: "a.yaml:7:3: trainer.steps: expected an integer, found ...". */
enum { TLI_DIAGS_SHOWN = 20 };
typedef struct tli_diags {
    tl_str text;
    size_t ends[TLI_DIAGS_SHOWN]; /* of the messages in the text */
    int64_t count;
    tl_status code; /* of the first message */
} tli_diags;
#define TLI_DIAGS_INIT TL_INIT(TL_STR_INIT, {0}, 0, TL_OK)

void tli_diags_deinit(tli_diags *d);
/* `path` may be empty; a place without a source is left out. */
void tli_diag(tli_diags *d, tl_status code, tl_place place, const char *path, const char *format,
              ...) TL_PRINTF(5, 6);
/* TL_OK, or one failure that holds all messages (as many of the first 20 as fit, then how many
 * more). */
tl_status tli_diags_status(const tli_diags *d);

/* Where each value came from: dotted path -> tli_source. Later ones have the higher order. */
typedef struct tli_source {
    tl_place place;
    int64_t order;
    int64_t round; /* which source it came with, counted from 1 */
} tli_source;
typedef struct tli_sources {
    tl_map map;
    int64_t next, round;
} tli_sources;

/* Where the value at `path` was written; an empty place when it is a default. */
tl_place tli_source_of(const tli_sources *sources, const char *path);
/* Whether an experiment's own defaults said it, rather than its user. */
bool tli_source_is_experiment(tl_place place);
/* The newest that was said inside of a path, by somebody other than the experiment itself; or
 * NULL. */
const tli_source *tli_source_inside(const tli_sources *sources, const char *path);

typedef struct tli_apply {
    tl_arena *arena;             /* what the structs' members will point at */
    const tl_registry *registry; /* for open one-ofs; may be NULL */
    bool strict;
    tli_diags *diags;
    tli_sources *sources; /* NULL to keep none */
    tl_str path;          /* dotted path of what is being applied */
    /* Turns a gin reference into a tl_ref; NULL: references are refused. The object of what a
     * one-of can choose is a tl_oneof, or NULL while types are checked and nothing is called. */
    tl_status (*reference)(tl_ref *out, const tl_value *v, void *payload);
    void *payload;
} tli_apply;

/* What tells that nobody wrote a value: tl_config_source gives it, and it is the place of the
 * values that rows have by default. */
#define TLI_DEFAULT "default"

/* A path with `~/` at its beginning as one in the user's home; the text itself when there is none.
 * `several`: paths with commas between them. */
TL_NODISCARD tl_status tli_home_expand(const char **out, tl_arena *arena, const char *text,
                                       bool several);
/* The same of a value, and of all in it. */
TL_NODISCARD tl_status tli_home_expand_value(const tl_value **out, tl_arena *arena,
                                             const tl_value *v);

/* True when a free-form row takes a value of this kind. */
bool tli_accepts(const tl_field *field, const tl_value *v);

/* Merges a map into a struct. Everything wrong goes to `diags`. */
void tli_apply_struct(tli_apply *a, const tl_desc *desc, void *value, const tl_value *map);
/* Sets one member. `value` is the struct that holds it. The path must already name the member. */
void tli_apply_field(tli_apply *a, const tl_field *field, void *value, const tl_value *v);
/* Sets a reference, or a one-of, to what a reference at `place` names. False: it does not fit,
 * which was told. */
bool tli_apply_target(tli_apply *a, const tl_field *f, void *member, const tl_ref *ref,
                      tl_place place);
/* Remembers that the value at the current path was written at `place`. */
void tli_remember(tli_apply *a, tl_place place);
/* Appends ".name" (or "name" at the root) or "[3]" to the path; cut back with tl_str_cut. */
void tli_path_name(tl_str *path, const char *name);
void tli_path_index(tl_str *path, int64_t index);

/* Walks the rows of a description, its own first, then those of its bases that it does not refine:
 *     for (tli_rows r = tli_rows_of(desc); tli_rows_next(&r);) use(r.field); */
typedef struct tli_rows {
    const tl_desc *top, *desc;
    const tl_field *next, *field;
} tli_rows;
tli_rows tli_rows_of(const tl_desc *desc);
bool tli_rows_next(tli_rows *r);

/* Names of all fields of a description; for suggestions. In the arena, NULL when out of memory. */
const char **tli_field_names(tl_arena *arena, const tl_desc *desc, int64_t *count);
/* ", did you mean 'x'?" or "". The buffer is the caller's. */
const char *tli_suggest(char *buffer, size_t size, const char *word, const char *const *names,
                        int64_t count);

/* True when a list may be null, and is: only then does it matter whether `items` is NULL. */
static inline bool tli_list_is_null(const tl_field *field, const void *list)
{
    return field->flags & TL_FIELD_NULLABLE && !((const tl_structs *)list)->items;
}
/* A row whose member may be null, as the table says. */
static inline bool tli_is_nullable(const tl_field *field)
{
    return (field->arity == TL_OPTIONAL && !(field->flags & TL_FIELD_FILLED))
           || field->flags & TL_FIELD_NULLABLE;
}
/* A struct whose zeros are meant. */
bool tli_is_complete(const tl_desc *desc, const void *value);
/* The member of both structs is the same. */
bool tli_field_equal(const tl_field *field, const void *a, const void *b);
/* Element of a list: its size, and the row that describes one element alone. */
size_t tli_element_size(const tl_field *field);
tl_field tli_element_field(const tl_field *field);
/* `member` already holds a shallow copy; what it points at is copied now. */
TL_NODISCARD tl_status tli_copy_field(tl_arena *arena, const tl_field *f, void *member);

/* Adds a name from outside so that it cannot pass for more than one line: \x0a for a line break. */
void tli_add_visible(tl_str *out, const char *text);
/* A copy of a value whose parts all say that they were written at `place`. NULL: no memory. */
const tl_value *tli_value_at(tl_arena *arena, const tl_value *v, tl_place place);

/* One-ofs. A branch by its name; true with a NULL description for one without fields. */
bool tli_oneof_branch(const tl_desc **out, const tl_field *field, const char *name,
                      const tl_registry *registry);
/* The names of all branches, then the key "type" itself, which `count` does not include. NULL when
 * out of memory. */
const char **tli_oneof_names(tl_arena *arena, const tl_field *field, const tl_registry *registry,
                             int64_t *count);
/* Whether a name ends in another one, as a whole or behind a dot, however the two are written:
 * he_normal, HeNormal; Conv2d, Conv2D. */
bool tli_ends_loosely(const char *whole, const char *end);
/* The branch that a name means, however it is written; the name itself when it means none. */
const char *tli_oneof_called(tl_arena *arena, const tl_field *field, const tl_registry *registry,
                             const char *name);
/* The part of that name, made with its defaults when it was not touched before. */
tl_status tli_oneof_part(tl_oneof_part **out, tl_oneof *oneof, const char *name,
                         const tl_desc *desc, tl_arena *arena);

/* The description of what a struct-like member holds now (struct, optional, object, one-of
 * branch). */
const tl_desc *tli_field_desc(const tl_field *field, const void *value);

#endif
