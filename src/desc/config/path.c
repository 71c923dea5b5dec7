#include "desc/config/path.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

tl_status tli_path_parse(tli_path *out, tl_arena *arena, const char *text)
{
    const char *p = text;
    out->count = 0;
    for (;;) {
        if (out->count >= TL_COUNT(out->steps))
            return TL_FAIL(TL_ELIMIT, "'%.60s...': more than %lld levels", text,
                           (long long)TL_COUNT(out->steps));
        tli_step *step = &out->steps[out->count++];
        if (*p == '[' && out->count > 1) {
            char *end;
            bool digit = isdigit((unsigned char)p[1]);
            step->name = NULL;
            step->index = digit ? strtoll(p + 1, &end, 10) : 0;
            if (!digit || *end != ']')
                return TL_FAIL(TL_EINVAL, "'%s': expected an index such as [0] at '%s'", text, p);
            p = end + 1;
        } else {
            const char *start = p;
            while (is_name_char(*p)) p++;
            if (p == start) return TL_FAIL(TL_EINVAL, "'%s': expected a name at '%s'", text, p);
            step->name = tl_arena_strndup(arena, start, (size_t)(p - start));
            if (!step->name) return TL_ENOMEM;
        }
        if (!*p) return TL_OK;
        if (*p == '.') p++;
        else if (*p != '[') return TL_FAIL(TL_EINVAL, "'%s': expected '.' or '[' at '%s'", text, p);
    }
}

/* The walk: where it is, and the text of the path so far for messages. */
typedef struct walk {
    tl_arena *arena;
    const tli_path *path;
    tl_str text;
    tli_spot *spot;
} walk;

static tl_status find_field(walk *w, const tl_desc *desc, void *value, const char *name)
{
    const tl_field *f = tl_desc_field(desc, name);
    tli_path_name(&w->text, name);
    if (f) {
        *w->spot = (tli_spot){.desc = desc, .field = *f, .value = value};
        return TL_OK;
    }
    tl_arena *scratch;
    TL_TRY(tl_arena_new(&scratch));
    int64_t count = 0;
    const char **names = tli_field_names(scratch, desc, &count);
    char suggestion[128];
    tl_status st = TL_ENOMEM;
    if (names)
        st = TL_FAIL(TL_ENOTFOUND, "%s: unknown key%s", tl_str_text(&w->text),
                     tli_suggest(suggestion, sizeof suggestion, name, names, count));
    tl_arena_free(&scratch);
    return st;
}

static tl_status find_item(walk *w, int64_t index)
{
    tli_spot *s = w->spot;
    tl_structs *list = tl_field_at(&s->field, s->value);
    if (s->field.arity != TL_LIST)
        return TL_FAIL(TL_EINVAL, "%s: not a list, so it has no index [%lld]",
                       tl_str_text(&w->text), (long long)index);
    if (index >= list->count)
        return TL_FAIL(TL_EINVAL, "%s: index [%lld] is outside the list, which has %lld item%s",
                       tl_str_text(&w->text), (long long)index, (long long)list->count,
                       list->count == 1 ? "" : "s");
    tli_path_index(&w->text, index);
    tl_field element = tli_element_field(&s->field);
    if (w->arena) {
        list->items = tl_arena_copy(w->arena, list->items, (size_t)list->count * element.size);
        if (!list->items) return TL_ENOMEM;
    }
    void *item = (char *)list->items + (size_t)index * element.size;
    // With all that it points at, which may lie in a table as well.
    if (w->arena && element.type == TL_TYPE_STRUCT)
        TL_TRY(tl_desc_copy(w->arena, element.desc, item, item));
    *s = (tli_spot){.field = element, .value = item};
    return TL_OK;
}

static tl_status find_branch(walk *w, const char *name)
{
    tli_spot *s = w->spot;
    const tl_oneof *o = tl_field_at(&s->field, s->value);
    if (strcmp(name, "type") == 0) {
        tli_path_name(&w->text, name);
        s->oneof = "type";
        return TL_OK;
    }
    for (const tl_oneof_part *p = o->parts; p; p = p->next) {
        if (strcmp(p->name, name) != 0 || !p->value) continue;
        tli_path_name(&w->text, name);
        // A branch is found like an embedded struct.
        *s = (tli_spot){.value = p->value,
                        .field = {.name = p->name, .type = TL_TYPE_STRUCT, .desc = p->desc}};
        return TL_OK;
    }
    return TL_FAIL(TL_ENOTFOUND, "%s: its type is %s, so there is no '%s'", tl_str_text(&w->text),
                   o->type ? o->type : "null", name);
}

static tl_status find_free(walk *w, const tli_step *step)
{
    tli_spot *s = w->spot;
    const tl_value *at = s->free ? s->free : *(const tl_value **)tl_field_at(&s->field, s->value);
    const tl_value *found = NULL;
    if (at && step->name) found = tl_value_get(at, step->name);
    else if (at && at->kind == TL_VALUE_LIST && step->index < at->count)
        found = at->items[step->index];
    if (step->name) tli_path_name(&w->text, step->name);
    else tli_path_index(&w->text, step->index);
    if (!found && !step->name)
        return TL_FAIL(
            TL_EUNSUPPORTED,
            "%s: items of a free-form list cannot be set one by one; give the whole list",
            tl_str_text(&w->text));
    if (!found) return TL_FAIL(TL_ENOTFOUND, "%s: not there", tl_str_text(&w->text));
    s->free = found;
    return TL_OK;
}

/* Steps into the member that was found last. */
static tl_status descend(walk *w, const tli_step *step)
{
    tli_spot *s = w->spot;
    if (s->field.type == TL_TYPE_VALUE && s->field.arity == TL_ONE) return find_free(w, step);
    if (!step->name) return find_item(w, step->index);
    void *member = tl_field_at(&s->field, s->value);
    if (s->field.arity == TL_LIST)
        return TL_FAIL(TL_EINVAL, "%s: a list; name one of its items, as in [0]",
                       tl_str_text(&w->text));
    if (s->field.type == TL_TYPE_ONEOF && !s->oneof) return find_branch(w, step->name);
    const tl_desc *desc = tli_field_desc(&s->field, s->value);
    if (s->field.type == TL_TYPE_STRUCT && s->field.arity == TL_OPTIONAL) member = *(void **)member;
    else if (s->field.type == TL_TYPE_OBJECT) member = ((tl_object *)member)->value;
    else if (s->field.type != TL_TYPE_STRUCT)
        return TL_FAIL(TL_EINVAL, "%s: a single value, so it has no '%s'", tl_str_text(&w->text),
                       step->name);
    if (!member || !desc)
        return TL_FAIL(TL_ENOTFOUND, "%s: null, so it has no '%s'", tl_str_text(&w->text),
                       step->name);
    return find_field(w, desc, member, step->name);
}

tl_status tli_path_find(tli_spot *out, tl_arena *arena, const tl_desc *desc, void *value,
                        const tli_path *path)
{
    walk w = {.arena = arena, .path = path, .spot = out};
    tl_status st = path->steps[0].name ? find_field(&w, desc, value, path->steps[0].name)
                                       : TL_FAIL(TL_EINVAL, "a path starts with a name");
    for (int64_t i = 1; st == TL_OK && i < path->count; i++) st = descend(&w, &path->steps[i]);
    if (w.text.failed) st = tl_str_status(&w.text); // the message would not name the path
    tl_str_deinit(&w.text);
    return st;
}
