/* One-ofs: which branches there are, and the one that is chosen. */
#include <string.h>

#include <tilth/desc/config.h>

#include "desc/config/apply.h"

bool tli_oneof_branch(const tl_desc **out, const tl_field *f, const char *name,
                      const tl_registry *registry)
{
    for (const tl_branch *b = f->branches; b && b->name; b++) {
        if (strcmp(b->name, name) != 0) continue;
        *out = b->desc;
        return true;
    }
    const tl_class *cls = f->kind && registry ? tl_registry_peek(registry, f->kind, name) : NULL;
    if (cls) *out = cls->config;
    return cls != NULL;
}

const char **tli_oneof_names(tl_arena *arena, const tl_field *f, const tl_registry *registry,
                             int64_t *count)
{
    int64_t n = 0, open = f->kind && registry ? tl_registry_count(registry, f->kind) : 0;
    for (const tl_branch *b = f->branches; b && b->name; b++) n++;
    const char **names = tl_arena_array(arena, n + open + 1, sizeof *names);
    if (!names) return NULL;
    for (int64_t i = 0; i < n; i++) names[i] = f->branches[i].name;
    for (int64_t i = 0; i < open; i++) names[n + i] = tl_registry_at(registry, f->kind, i)->name;
    *count = n + open;
    names[*count] = "type";
    return names;
}

/* The character before `*end`, in lower case, joints left out; 0 at the start. */
static char step_back(const char *start, const char **end)
{
    while (*end > start && ((*end)[-1] == '_' || (*end)[-1] == '-')) --*end;
    if (*end == start) return '\0';
    char c = *--*end;
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool tli_ends_loosely(const char *whole, const char *end)
{
    const char *p = whole + strlen(whole), *q = end + strlen(end);
    for (;;) {
        char a = step_back(whole, &p), b = step_back(end, &q);
        if (!b) return !a || a == '.';
        if (a != b) return false;
    }
}

const char *tli_oneof_called(tl_arena *arena, const tl_field *f, const tl_registry *registry,
                             const char *name)
{
    const tl_desc *desc;
    int64_t count = 0;
    if (tli_oneof_branch(&desc, f, name, registry)) return name;
    const char **names = tli_oneof_names(arena, f, registry, &count);
    for (int64_t i = 0; names && i < count; i++)
        if (tli_ends_loosely(names[i], name)) return names[i];
    return name;
}

tl_status tli_oneof_part(tl_oneof_part **out, tl_oneof *o, const char *name, const tl_desc *desc,
                         tl_arena *arena)
{
    for (tl_oneof_part *p = o->parts; p; p = p->next) {
        if (strcmp(p->name, name) != 0) continue;
        *out = p;
        return TL_OK;
    }
    tl_oneof_part *part = tl_arena_alloc(arena, sizeof *part);
    if (!part || !(part->name = tl_arena_strdup(arena, name))) return TL_ENOMEM;
    part->desc = desc;
    if (desc) TL_TRY(tl_desc_new(&part->value, arena, desc));
    part->next = o->parts;
    o->parts = part;
    *out = part;
    return TL_OK;
}

tl_status tl_oneof_select(void **out, tl_oneof *o, const tl_field *field, const char *type,
                          tl_arena *arena, const tl_registry *registry)
{
    if (!type) {
        *o = (tl_oneof){.parts = o->parts};
        if (out) *out = NULL;
        return TL_OK;
    }
    const tl_desc *desc = NULL;
    if (!tli_oneof_branch(&desc, field, type, registry)) {
        int64_t count = 0;
        const char **names = tli_oneof_names(arena, field, registry, &count);
        if (!names) return TL_ENOMEM;
        tl_str known = TL_STR_INIT;
        for (int64_t i = 0; i < count; i++) tl_str_addf(&known, "%s%s", i ? ", " : "", names[i]);
        char suggestion[128];
        tli_suggest(suggestion, sizeof suggestion, type, names, count);
        tl_status st = tl_str_status(&known);
        if (st == TL_OK)
            st = TL_FAIL(TL_ENOTFOUND, "unknown type '%s'%s (known: %s)", type, suggestion,
                         count ? tl_str_text(&known) : "none");
        tl_str_deinit(&known);
        return st;
    }
    tl_oneof_part *part;
    TL_TRY(tli_oneof_part(&part, o, type, desc, arena));
    o->type = part->name;
    o->desc = part->desc;
    o->value = part->value;
    if (out) *out = part->value;
    return TL_OK;
}
