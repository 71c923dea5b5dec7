#include <tilth/desc/config.h>

#include <ctype.h>
#include <string.h>

#include <tilth/base/file.h>
#include <tilth/base/vec.h>

#include "desc/config/check.h"
#include "desc/config/impl.h"
#include "desc/config/path.h"
#include "desc/config/restrict.h"
#include "desc/yaml/out.h"

tl_status tl_config_new(tl_config **out, const tl_registry *registry, const tl_desc *desc)
{
    tl_config *c = *out = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    *c = (tl_config){.registry = registry, .desc = desc, .strict = true};
    tl_status st = tl_arena_new(&c->arena);
    if (st == TL_OK) st = tl_desc_new(&c->value, c->arena, desc);
    if (st != TL_OK) tl_config_free(out);
    return st;
}

void tl_config_free(tl_config **config)
{
    tl_config *c = *config;
    if (!c) return;
    tl_map_deinit(&c->sources.map);
    TL_VEC_FREE(&c->restrictions);
    tl_arena_free(&c->arena);
    tl_free(c);
    *config = NULL;
}

void tl_config_set_strict(tl_config *c, bool strict)
{
    c->strict = strict;
}

const tl_desc *tl_config_desc(const tl_config *c)
{
    return c->desc;
}

const void *tl_config_value(const tl_config *c)
{
    return c->value;
}

void *tl_config_edit(tl_config *c)
{
    return c->finished ? NULL : c->value;
}

tl_arena *tl_config_arena(tl_config *c)
{
    return c->arena;
}

/* --- sources ---------------------------------------------------------------------------------- */

tl_status tli_config_open(const tl_config *c)
{
    return c->finished ? TL_FAIL(TL_ESTATE, "the configuration is finished and cannot change")
                       : TL_OK;
}

tli_apply tli_config_apply(tl_config *c, tli_diags *diags)
{
    c->sources.round++;
    return (tli_apply){.arena = c->arena,
                       .registry = c->registry,
                       .strict = c->strict,
                       .diags = diags,
                       .sources = &c->sources};
}

tl_status tl_config_apply(tl_config *c, const tl_value *map)
{
    TL_TRY(tli_config_open(c));
    if (!map) return TL_OK;
    tli_diags diags = TLI_DIAGS_INIT;
    tli_apply a = tli_config_apply(c, &diags);
    tli_apply_struct(&a, c->desc, c->value, map);
    tl_status st = tli_diags_status(&diags);
    tl_str_deinit(&a.path);
    tli_diags_deinit(&diags);
    return st;
}

tl_status tl_config_read(tl_config *c, const char *path)
{
    const tl_value *map;
    TL_TRY(tli_config_open(c));
    TL_TRY(tl_yaml_read(&map, c->arena, path));
    return tl_config_apply(c, map);
}

tl_status tl_config_yaml(tl_config *c, const char *text, const char *source)
{
    const tl_value *map;
    TL_TRY(tli_config_open(c));
    TL_TRY(tl_yaml_parse(&map, c->arena, text, strlen(text), source));
    return tl_config_apply(c, map);
}

/* Text that is neither overrides nor a map: a file's name, or one of the two with a mistake in
 * it. */
static tl_status override_with_file(tl_config *c, const char *text, const char *source,
                                    const tl_error *csv)
{
    if (tl_file_exists(text)) return tl_config_read(c, text);
    if (strchr(text, '=')) {
        tl_error_restore(csv);
        return csv->code;
    }
    return TL_FAIL(
        TL_ENOTFOUND,
        "%s: '%s' is neither overrides (a.b=1,c=2), nor a YAML map, nor a file that exists", source,
        text);
}

/* `name.name[0] =`: whoever writes that means an override, however it goes on. */
static bool starts_like_csv(const char *text)
{
    const char *p = text;
    while (isalnum((unsigned char)*p) || *p == '_' || *p == '.') p++;
    if (*p == '[') p += strcspn(p, "]=");
    if (*p == ']') p++;
    while (*p == ' ') p++;
    return p > text && *p == '=' && !tl_file_exists(text);
}

tl_status tl_config_override(tl_config *c, const char *text, const char *source)
{
    TL_TRY(tli_config_open(c));
    while (isspace((unsigned char)*text)) text++;
    if (!*text) return TL_OK;
    const tl_value *map = NULL;
    tl_status st = tl_csv_parse(&map, c->arena, text, source);
    if (st == TL_OK) return tl_config_apply(c, map);
    if (st == TL_ENOMEM) return st;
    if (starts_like_csv(text)) return st;
    tl_error csv;
    tl_error_save(&csv);
    st = tl_yaml_parse(&map, c->arena, text, strlen(text), source);
    if (st == TL_ENOMEM) return st;
    if (st == TL_OK && map && map->kind == TL_VALUE_MAP) return tl_config_apply(c, map);
    // Braces, newlines and "key: value" can only be YAML, so its error is the one to show.
    if (st != TL_OK && (*text == '{' || strpbrk(text, "\n") || strstr(text, ": "))) return st;
    return override_with_file(c, text, source, &csv);
}

tl_status tl_config_mark_base(tl_config *c)
{
    TL_TRY(tli_config_open(c));
    void *copy = tl_arena_alloc(c->arena, c->desc->size);
    if (!copy) return TL_ENOMEM;
    TL_TRY(tl_desc_copy(c->arena, c->desc, copy, c->value));
    c->base = copy;
    return TL_OK;
}

/* --- finishing -------------------------------------------------------------------------------- */

tl_status tl_config_restrict(tl_config *c, const char *text)
{
    TL_TRY(tli_config_open(c));
    return TL_VEC_PUSH(&c->restrictions, text) ? TL_OK : TL_ENOMEM;
}

tl_status tl_config_finish(tl_config *c)
{
    TL_TRY(tli_config_open(c));
    tli_diags diags = TLI_DIAGS_INIT;
    tli_check(&diags, c->desc, c->value, &c->sources, true);
    for (int64_t i = 0; i < c->restrictions.count; i++) {
        tl_status st = tli_restrict(c->restrictions.items[i], c->desc, c->value);
        if (st != TL_OK) tli_diag(&diags, st, (tl_place){0}, "", "%s", tl_error_message());
        if (st == TL_ENOMEM) diags.code = st;
    }
    tl_status st = tli_diags_status(&diags);
    tli_diags_deinit(&diags);
    c->finished = st == TL_OK;
    return st;
}

/* --- explaining ------------------------------------------------------------------------------- */

/* Inside a free-form value each part knows its place itself; the others are remembered. False when
 * there is no memory to find out. */
static bool source_of(tl_place *out, const tl_config *c, const char *path)
{
    tl_error before;
    tl_error_save(&before); // a path that leads nowhere is no failure here
    tl_arena_mark scope = tl_arena_begin(c->arena);
    tli_path steps;
    tli_spot spot = {0};
    tl_status st = tli_path_parse(&steps, c->arena, path);
    if (st == TL_OK) st = tli_path_find(&spot, NULL, c->desc, c->value, &steps);
    *out = st == TL_OK && spot.free ? spot.free->place : tli_source_of(&c->sources, path);
    tl_arena_end(c->arena, scope);
    tl_error_restore(&before);
    if (out->source && strcmp(out->source, TLI_DEFAULT) == 0) *out = (tl_place){0};
    return st != TL_ENOMEM;
}

static void write_source(tl_str *out, const tl_config *c, const char *path)
{
    tl_place place;
    if (!source_of(&place, c, path)) out->failed = true;
    else if (place.source) tl_place_write(out, place);
    else tl_str_add(out, TLI_DEFAULT);
}

const char *tl_config_source(tl_config *c, const char *path)
{
    tl_str text = TL_STR_INIT;
    write_source(&text, c, path);
    const char *copy = tl_str_copy(&text, c->arena);
    tl_str_deinit(&text);
    return copy ? copy : "?";
}

bool tl_config_is_given(tl_config *c, const char *path)
{
    tl_place place = tli_source_of(&c->sources, path);
    bool said = place.source && !tli_source_is_experiment(place);
    return said || tli_source_inside(&c->sources, path);
}

/* A key as tli_yaml_write_keys tells it. */
typedef struct written_key {
    const char *path; /* NULL: no more */
    size_t length;
    bool leaf; /* a value, rather than a struct with lines of its own */
} written_key;

static written_key next_key(const char **keys)
{
    const char *end = strchr(*keys, '\n');
    if (!end) return (written_key){0};
    written_key key = {*keys + 1, (size_t)(end - *keys - 1), **keys == TLI_KEY_LEAF};
    *keys = end + 1;
    return key;
}

/* Whether the line starts with the last name of the path at its depth. */
static bool line_is_key(const char *line, const written_key *key)
{
    size_t indent = 0, name = 0;
    if (!key->path) return false;
    for (size_t i = 0; i < key->length; i++)
        if (key->path[i] == '.') indent += 2, name = i + 1;
    size_t length = key->length - name;
    return strspn(line, " ") == indent && strncmp(line + indent, key->path + name, length) == 0
           && line[indent + length] == ':';
}

/* Puts the source behind the last line of each value: a comment inside a folded text would end
 * it. */
static void explain(tl_str *out, const tl_config *c, const char *yaml, const char *keys)
{
    enum { COLUMN = 58 };
    tl_str path = TL_STR_INIT;
    bool open = false; // a value whose source is still to be written
    written_key next = next_key(&keys);
    for (const char *line = yaml; *line;) {
        const char *end = strchr(line, '\n');
        const char *behind = end + 1;
        if (line_is_key(line, &next)) {
            tl_str_cut(&path, 0);
            tl_str_addn(&path, next.path, next.length);
            open = next.leaf || !strchr(":}", end[-1]); // a struct's own line has no value but null
            next = next_key(&keys);
        }
        size_t start = out->length;
        tl_str_addn(out, line, (size_t)(end - line));
        if (open && (!*behind || line_is_key(behind, &next))) {
            int64_t width = (int64_t)(out->length - start);
            tl_str_pad(out, ' ', width < COLUMN ? COLUMN - width : 2);
            tl_str_add(out, "# ");
            write_source(out, c, tl_str_text(&path));
            open = false;
        }
        tl_str_addc(out, '\n');
        line = behind;
    }
    if (path.failed) out->failed = true;
    tl_str_deinit(&path);
}

tl_status tl_config_write(tl_str *out, const tl_config *c, bool explained)
{
    if (!explained) return tli_yaml_write_keys(out, NULL, c->desc, c->value, c->base);
    tl_str yaml = TL_STR_INIT, keys = TL_STR_INIT;
    tl_status st = tli_yaml_write_keys(&yaml, &keys, c->desc, c->value, c->base);
    if (st == TL_OK) st = tl_str_status(&keys);
    if (st == TL_OK) {
        explain(out, c, tl_str_text(&yaml), tl_str_text(&keys));
        st = tl_str_status(out);
    }
    tl_str_deinit(&yaml);
    tl_str_deinit(&keys);
    return st;
}

tl_status tl_config_write_saved(tl_str *out, const tl_config *c)
{
    return tli_yaml_write_saved(out, c->desc, c->value, c->base);
}
