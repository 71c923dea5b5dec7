/* Values as they reach a configurable: macros put in, references turned into what they name. */
#include <string.h>

#include "desc/gin/impl.h"

bool tli_gin_holds_names(const tl_value *v)
{
    if (v->kind == TL_VALUE_REFERENCE || v->kind == TL_VALUE_MACRO) return true;
    for (int64_t i = 0; i < v->count; i++)
        if (tli_gin_holds_names(tli_gin_child(v, i))) return true;
    return false;
}

void tli_gin_expansion_deinit(tli_gin_expansion *e)
{
    TL_VEC_FREE(&e->targets);
}

tl_status tli_gin_meaning(tli_gin_binding **macro, const tl_value **constant, const char **full,
                          tl_gin *gin, const tl_value *v, const char *home)
{
    const char *name = v->text, *scope, *selector;
    *macro = NULL;
    *constant = NULL;
    if (v->kind == TL_VALUE_REFERENCE) { // the long way to write it: @name/gin.macro()
        const tl_class *cls;
        if (!v->called || !strchr(name, '/')) return TL_OK;
        TL_TRY(tli_gin_split(&scope, &selector, gin, name));
        TL_TRY(tli_gin_find(&cls, gin, selector));
        name = scope;
        home = ""; // such a reference names its whole scope
        if (cls == &tli_gin_macro.cls) *macro = tli_gin_find_macro(gin, home, name);
        if (cls != &tli_gin_constant.cls) return TL_OK;
    }
    TL_TRY(tli_gin_find_constant(constant, full, gin, name));
    if (!*constant && v->kind == TL_VALUE_MACRO) *macro = tli_gin_find_macro(gin, home, name);
    return TL_OK;
}

static tl_status add_target(tli_gin_expansion *e, const tl_value *node, tl_ref ref)
{
    tli_gin_target target = {node, ref};
    return TL_VEC_PUSH(&e->targets, target) ? TL_OK : TL_ENOMEM;
}

static tl_status expand_reference(tli_gin_expansion *e, const tl_value **out, const tl_value *v)
{
    const char *selector;
    tl_ref ref = {0};
    TL_TRY(tli_gin_split(&ref.scope, &selector, e->gin, v->text));
    TL_TRY(tli_gin_find(&ref.target, e->gin, selector));
    if (!ref.target) return TL_FAIL(TL_ENOTFOUND, "there is no configurable '@%s'", selector);
    // A node of its own, since the same binding may be put in twice and give two objects.
    *out = tl_arena_copy(e->arena, v, sizeof *v);
    if (!*out) return TL_ENOMEM;
    if (e->live && v->called)
        TL_TRY(tli_gin_call_argument(&ref.object, e->gin, ref.target, ref.scope));
    return add_target(e, *out, ref);
}

/* A macro's value is looked up in the macro's own scope, as everything that it calls. */
static tl_status expand_macro(tli_gin_expansion *e, const tl_value **out, tli_gin_binding *macro)
{
    if (!e->live) return tli_gin_expand(e, out, macro->value, macro->home);
    tl_gin *gin = e->gin;
    const char *scope = tli_gin_intern(gin, macro->scope);
    if (!scope) return TL_ENOMEM;
    TL_TRY(tli_gin_scope_push(gin, scope));
    tl_status st = tli_gin_record(gin, &tli_gin_macro.cls, macro);
    if (st == TL_OK) st = tli_gin_expand(e, out, macro->value, macro->home);
    tl_gin_scope_end(gin);
    return st;
}

static tl_status expand_name(tli_gin_expansion *e, const tl_value **out, const tl_value *v,
                             const char *home)
{
    tli_gin_binding *macro;
    const tl_value *constant;
    TL_TRY(tli_gin_meaning(&macro, &constant, NULL, e->gin, v, home));
    if (constant == &tli_gin_required)
        return TL_FAIL(TL_EINVAL, "%%gin.REQUIRED stands where a value is needed");
    if (constant) {
        *out = constant;
        return TL_OK;
    }
    if (macro) return expand_macro(e, out, macro);
    if (v->kind == TL_VALUE_REFERENCE) return expand_reference(e, out, v);
    return TL_FAIL(TL_ENOTFOUND, "the macro '%%%s' is not defined", v->text);
}

static tl_status expand_list(tli_gin_expansion *e, const tl_value **out, const tl_value *v,
                             const char *home)
{
    const tl_value **items = tl_arena_array(e->arena, v->count, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < v->count; i++) TL_TRY(tli_gin_expand(e, &items[i], v->items[i], home));
    tl_value *list = tl_value_new_list(e->arena, v->place, items, v->count);
    if (!list) return TL_ENOMEM;
    list->tuple = v->tuple;
    *out = list;
    return TL_OK;
}

static tl_status expand_map(tli_gin_expansion *e, const tl_value **out, const tl_value *v,
                            const char *home)
{
    tl_value_pair *pairs = tl_arena_copy(e->arena, v->pairs, (size_t)v->count * sizeof *pairs);
    if (!pairs) return TL_ENOMEM;
    for (int64_t i = 0; i < v->count; i++)
        TL_TRY(tli_gin_expand(e, &pairs[i].value, v->pairs[i].value, home));
    *out = tl_value_new_map(e->arena, v->place, pairs, v->count);
    return *out ? TL_OK : TL_ENOMEM;
}

tl_status tli_gin_expand(tli_gin_expansion *e, const tl_value **out, const tl_value *v,
                         const char *home)
{
    if (!tli_gin_holds_names(v)) {
        *out = v;
        return TL_OK;
    }
    if (e->gin->nesting >= TL_GIN_MAX_NESTING)
        return TL_FAIL(TL_ELIMIT, "calls, macros and brackets are nested more than %d deep",
                       TL_GIN_MAX_NESTING);
    e->gin->nesting++;
    tl_status st = v->kind == TL_VALUE_LIST  ? expand_list(e, out, v, home)
                   : v->kind == TL_VALUE_MAP ? expand_map(e, out, v, home)
                                             : expand_name(e, out, v, home);
    e->gin->nesting--;
    return st;
}

tl_status tli_gin_reference(tl_ref *out, const tl_value *v, void *payload)
{
    const tli_gin_expansion *e = payload;
    for (int64_t i = 0; i < e->targets.count; i++) {
        if (e->targets.items[i].node != v) continue;
        *out = e->targets.items[i].ref;
        return TL_OK;
    }
    return TL_FAIL(TL_EINVAL,
                   "the reference @%s belongs to no argument of the call that is running", v->text);
}

tl_status tli_gin_choose(void **out, tl_gin *gin, const tl_class *cls, const void *config)
{
    tl_oneof *o = *out = tl_arena_alloc(gin->arena, sizeof *o);
    tl_oneof_part *part = tl_arena_alloc(gin->arena, sizeof *part);
    if (!o || !part) return TL_ENOMEM;
    part->name = cls->name;
    part->desc = cls->config;
    if (part->desc) {
        part->value = tl_arena_alloc(gin->arena, part->desc->size);
        if (!part->value) return TL_ENOMEM;
        TL_TRY(tl_desc_copy(gin->arena, part->desc, part->value, config));
    }
    *o = (tl_oneof){part->name, part->value, part->desc, part};
    return TL_OK;
}

/* --- members --------------------------------------------------------------------------------- */

/* In Python 5 is no string: where a word is wanted, quotes are too. */
static bool check_quotes(tli_apply *a, const tl_field *f, const tl_value *v)
{
    if (v->kind == TL_VALUE_LIST && f->arity == TL_LIST) {
        tl_field element = tli_element_field(f);
        bool fine = true;
        size_t length = a->path.length;
        for (int64_t i = 0; i < v->count; i++) {
            tli_path_index(&a->path, i);
            fine &= check_quotes(a, &element, v->items[i]);
            tl_str_cut(&a->path, length);
        }
        return fine;
    }
    bool word = f->type == TL_TYPE_STRING || f->type == TL_TYPE_ENUM;
    if (!word || v->kind != TL_VALUE_SCALAR || v->quoted || tl_value_is_null(v)) return true;
    tl_str found = TL_STR_INIT;
    tl_value_name(&found, v);
    tli_diag(a->diags, TL_EINVAL, v->place, tl_str_text(&a->path),
             "expected a string, found %s (write it in quotes)", tl_str_text(&found));
    tl_str_deinit(&found);
    return false;
}

static void not_a_value(tli_apply *a, const tl_field *f, const tl_value *v)
{
    tl_str expected = TL_STR_INIT;
    tl_field_type_text(&expected, f);
    tli_diag(a->diags, TL_EINVAL, v->place, tl_str_text(&a->path),
             "expected %s, found the reference @%s%s", tl_str_text(&expected), v->text,
             v->called ? "()" : "");
    tl_str_deinit(&expected);
}

void tli_gin_set_member(tli_apply *a, const tl_field *f, void *args, const tl_value *v)
{
    int kind = v->kind == TL_VALUE_LIST ? TL_ACCEPT_LIST : TL_ACCEPT_MAP;
    if (f->type == TL_TYPE_VALUE && v->kind == TL_VALUE_REFERENCE) {
        not_a_value(a, f, v);
    } else if (f->type == TL_TYPE_VALUE && tli_gin_holds_names(v) && f->accept & kind) {
        // Not copied: its references are known by their address (tl_gin_value_ref).
        *(const tl_value **)tl_field_at(f, args) = v;
    } else if (check_quotes(a, f, v)) {
        tli_apply_field(a, f, args, v);
    }
}
