/* Calls: scopes, arguments from gin, and `_target_`. */
#include <string.h>

#include <tilth/base/alloc.h>

#include "desc/config/check.h"
#include "desc/gin/impl.h"

/* --- scopes ---------------------------------------------------------------------------------- */

const char *tl_gin_scope(const tl_gin *gin)
{
    return gin->scopes.count ? gin->scopes.items[gin->scopes.count - 1] : "";
}

tl_status tli_gin_scope_push(tl_gin *gin, const char *scope)
{
    return TL_VEC_PUSH(&gin->scopes, scope) ? TL_OK : TL_ENOMEM;
}

tl_status tl_gin_scope_begin(tl_gin *gin, const char *scope)
{
    if (!scope || !*scope) return tli_gin_scope_push(gin, "");
    if (!tli_gin_is_scope(scope, true))
        return TL_FAIL(TL_EINVAL, "'%s' is not a scope; scopes are names with '/' between them",
                       scope);
    const char *outer = tl_gin_scope(gin);
    tl_str joined = TL_STR_INIT;
    tl_str_addf(&joined, "%s%s%s", outer, *outer ? "/" : "", scope);
    tl_status st = tl_str_status(&joined);
    const char *interned = NULL;
    if (joined.length > TLI_GIN_MAX_NAME)
        st = TL_FAIL(TL_ELIMIT, "the scope '%.40s...' is longer than %d characters",
                     tl_str_text(&joined), TLI_GIN_MAX_NAME);
    else if (st == TL_OK && !(interned = tli_gin_intern(gin, tl_str_text(&joined)))) st = TL_ENOMEM;
    tl_str_deinit(&joined);
    return st == TL_OK ? tli_gin_scope_push(gin, interned) : st;
}

void tl_gin_scope_end(tl_gin *gin)
{
    TL_ASSERT(gin->scopes.count > 0 && "a scope ends that was not begun");
    gin->scopes.count--;
}

enum { TOLD_CALLS = 8 }; /* in the message of a failure */

/* --- what gin has for a call ----------------------------------------------------------------- */

tl_status tli_gin_record(tl_gin *gin, const tl_class *cls, tli_gin_binding *binding)
{
    tli_gin_section *s;
    TL_TRY(tli_gin_section_get(&s, gin, &gin->operative, tl_gin_scope(gin), cls));
    binding->used = true;
    return tl_map_set(&s->params, binding->param, binding);
}

void tli_gin_overlay(const tl_gin *gin, const tli_gin_info *info, tli_gin_binding **bound,
                     int64_t *order, int64_t *count)
{
    const char *scope = tl_gin_scope(gin);
    char partial[TLI_GIN_MAX_NAME + 1];
    size_t length = 0;
    *count = 0;
    for (;;) { // the root, then a, then a/b
        memcpy(partial, scope, length);
        partial[length] = '\0';
        const tli_gin_section *s = tli_gin_section_peek(&gin->config, partial, info->cls);
        for (int64_t i = 0; s && i < tl_map_count(&s->params); i++) {
            int64_t field = tli_gin_info_index(info, tl_map_key(&s->params, i));
            if (!bound[field]) order[(*count)++] = field;
            bound[field] = tl_map_at(&s->params, i);
        }
        if (!scope[length]) return;
        if (length) length++;
        length += strcspn(scope + length, "/");
    }
}

static bool is_bound(const tl_gin_call *c, int64_t field)
{
    const tli_gin_binding *b = c->bound[field];
    if (!b) return false;
    tli_gin_binding *macro;
    const tl_value *constant = NULL;
    bool name = b->value->kind == TL_VALUE_MACRO || b->value->kind == TL_VALUE_REFERENCE;
    if (name && tli_gin_meaning(&macro, &constant, NULL, c->gin, b->value, b->home) != TL_OK)
        return true; // evaluation will say what is wrong
    return constant != &tli_gin_required;
}

static tl_status check_required(const tl_gin_call *c)
{
    tl_str missing = TL_STR_INIT;
    for (int64_t i = 0; i < c->info->count; i++) {
        bool wanted = c->marks[i] == TLI_GIN_REQUIRED
                      || c->info->fields[i]->flags & TL_FIELD_REQUIRED || c->bound[i];
        if (!wanted || c->marks[i] == TLI_GIN_GIVEN || is_bound(c, i)) continue;
        tl_str_addf(&missing, "%s%s%s%s.%s", missing.length ? ", " : "", c->scope,
                    *c->scope ? "/" : "", tli_gin_minimal(c->gin, c->info->cls),
                    c->info->fields[i]->name);
    }
    tl_status st = tl_str_status(&missing);
    if (missing.length)
        st = TL_FAIL(TL_EINVAL, "required parameters have no value; bind %s in gin",
                     tl_str_text(&missing));
    tl_str_deinit(&missing);
    return st;
}

/* Everything that gin could have changed about this call. */
static tl_status record_call(const tl_gin_call *c)
{
    tli_gin_section *s; // also when the call has no parameters at all
    c->info->made = true;
    TL_TRY(tli_gin_section_get(&s, c->gin, &c->gin->operative, c->scope, c->info->cls));
    for (int64_t i = 0; i < c->info->count; i++) {
        if (c->marks[i] == TLI_GIN_GIVEN) continue;
        tli_gin_binding *b = c->bound[i] ? c->bound[i] : c->info->defaults[i];
        if (b) TL_TRY(tli_gin_record(c->gin, c->info->cls, b));
    }
    return TL_OK;
}

static tl_status evaluate(tl_gin_call *c, tli_apply *a, int64_t field)
{
    const tli_gin_binding *b = c->bound[field];
    const tl_field *f = c->info->fields[field];
    const tl_value *v;
    tl_status st = tli_gin_expand(&c->expansion, &v, b->value, b->home);
    if (st != TL_OK && c->gin->notes < TOLD_CALLS) {
        tl_str place = TL_STR_INIT;
        tl_place_write(&place, b->place);
        st = tl_error_note(st, "argument %s (%s)", f->name, tl_str_text(&place));
        tl_str_deinit(&place);
    }
    if (st != TL_OK) return st;
    tl_str_cut(&a->path, 0);
    tl_str_add(&a->path, f->name);
    tli_gin_set_member(a, f, c->args, v);
    return TL_OK;
}

/* Fills the arguments that the caller did not give. */
static tl_status fill_arguments(tl_gin_call *c)
{
    tli_diags diags = TLI_DIAGS_INIT;
    tli_apply a = {.arena = c->arena,
                   .registry = c->gin->registry,
                   .strict = true,
                   .diags = &diags,
                   .path = TL_STR_INIT,
                   .reference = tli_gin_reference,
                   .payload = &c->expansion};
    tl_status st = TL_OK;
    for (int64_t i = 0; i < c->bound_count && st == TL_OK; i++)
        if (c->marks[c->order[i]] != TLI_GIN_GIVEN) st = evaluate(c, &a, c->order[i]);
    if (st == TL_OK) st = tl_str_status(&a.path);
    // Also what concerns several parameters at once, whoever gave them.
    if (st == TL_OK && c->args && diags.count == 0)
        tli_check(&diags, c->info->cls->config, c->args, NULL, true);
    if (st == TL_OK) st = tli_diags_status(&diags);
    tl_str_deinit(&a.path);
    tli_diags_deinit(&diags);
    return st;
}

/* --- calls ----------------------------------------------------------------------------------- */

void tl_gin_call_free(tl_gin_call **call)
{
    tl_gin_call *c = *call;
    if (!c) return;
    tli_gin_expansion_deinit(&c->expansion);
    tl_arena_free(&c->arena);
    tl_free(c);
    *call = NULL;
}

tl_status tl_gin_call_begin_ref(tl_gin_call **out, tl_gin *gin, const tl_ref *ref)
{
    *out = NULL;
    if (!ref->target) return TL_FAIL(TL_EINVAL, "the reference is None; there is nothing to call");
    if (ref->object)
        return TL_FAIL(TL_EINVAL,
                       "'%s' was called when it was bound ('@%s()'); write '@%s' for "
                       "something that can be called",
                       tli_gin_selector(gin, ref->target), tli_gin_selector(gin, ref->target),
                       tli_gin_selector(gin, ref->target));
    tl_gin_call *c = tl_alloc_zero(sizeof *c);
    if (!c) return TL_FAIL_NOMEM(sizeof *c);
    c->gin = gin;
    tl_status st;
    TL_TRY_DONE(st, tl_arena_new(&c->arena));
    TL_TRY_DONE(st, tli_gin_info_get(&c->info, gin, ref->target));
    c->expansion = (tli_gin_expansion){.gin = gin, .arena = c->arena, .live = true};
    c->scope = tli_gin_intern(gin, ref->scope ? ref->scope : "");
    c->marks = tl_arena_array(c->arena, c->info->count, sizeof *c->marks);
    c->bound = tl_arena_array(c->arena, c->info->count, sizeof *c->bound);
    c->order = tl_arena_array(c->arena, c->info->count, sizeof *c->order);
    if (!c->scope || !c->marks || !c->bound || !c->order) st = TL_ENOMEM;
    else if (ref->target->config) st = tl_desc_new(&c->args, c->arena, ref->target->config);
done:
    if (st != TL_OK) tl_gin_call_free(&c);
    *out = c;
    return st;
}

tl_status tl_gin_call_begin(tl_gin_call **out, tl_gin *gin, const char *name)
{
    *out = NULL;
    const char *slash = strrchr(name, '/'), *selector = slash ? slash + 1 : name;
    if (!tli_gin_is_selector(selector) || (slash && !tli_gin_is_scope(name, true)))
        return TL_FAIL(TL_EINVAL, "'%s' is not the name of a configurable", name);
    tl_ref ref = {0};
    TL_TRY(tli_gin_split(&ref.scope, &selector, gin, name));
    TL_TRY(tli_gin_find(&ref.target, gin, selector));
    char suggestion[128];
    if (!ref.target)
        return TL_FAIL(TL_ENOTFOUND, "there is no configurable '%s'%s", selector,
                       tli_gin_suggest(suggestion, sizeof suggestion, gin, selector));
    return tl_gin_call_begin_ref(out, gin, &ref);
}

void tl_gin_call_own(tl_gin_call *call)
{
    call->own = true;
}

void *tl_gin_call_args(tl_gin_call *call)
{
    return call->args;
}

static void mark(tl_gin_call *c, const char *param, int how)
{
    int64_t field = tli_gin_info_index(c->info, param);
    if (field >= 0) c->marks[field] = how;
    else if (!c->unknown) c->unknown = tl_arena_strdup(c->arena, param);
}

void tl_gin_call_give(tl_gin_call *call, const char *param)
{
    mark(call, param, TLI_GIN_GIVEN);
}

void tl_gin_call_require(tl_gin_call *call, const char *param)
{
    mark(call, param, TLI_GIN_REQUIRED);
}

/* True while the arguments of a call are being made. A singleton makes its object inside its own
 * call, but to the configuration that is still an argument. */
static bool makes_arguments(const tl_gin_call *c)
{
    return c && (!c->in_body || c->info->cls == &tli_gin_singleton.cls);
}

static void write_calls(tl_str *out, const tl_gin_call *c, const tl_gin_call *until)
{
    if (c != until) write_calls(out, c->outer, until);
    tl_str_addf(out, "%s%s%s -> ", c->scope, *c->scope ? "/" : "",
                tli_gin_selector(c->gin, c->info->cls));
}

/* A configurable that is among its own arguments would be called for ever. */
static tl_status check_recursion(const tl_gin_call *c)
{
    const tl_gin *gin = c->gin;
    for (const tl_gin_call *o = gin->top; makes_arguments(o); o = o->outer) {
        if (o->info != c->info || strcmp(o->scope, c->scope) != 0) continue;
        tl_str chain = TL_STR_INIT;
        write_calls(&chain, gin->top, o);
        tl_status st = TL_FAIL(TL_EINVAL, "the configurable is an argument of itself: %s%s%s%s",
                               tl_str_text(&chain), c->scope, *c->scope ? "/" : "",
                               tli_gin_selector(gin, c->info->cls));
        tl_str_deinit(&chain);
        return st;
    }
    if (gin->nesting >= TL_GIN_MAX_NESTING)
        return TL_FAIL(TL_ELIMIT, "calls are nested more than %d deep", TL_GIN_MAX_NESTING);
    return TL_OK;
}

static tl_status run(void **out, tl_gin_call *c)
{
    const tl_class *cls = c->info->cls;
    if (c->unknown) {
        int64_t count = 0;
        const char **names = cls->config ? tli_field_names(c->arena, cls->config, &count) : NULL;
        char suggestion[128];
        return TL_FAIL(TL_ENOTFOUND, "there is no parameter '%s'%s", c->unknown,
                       tli_suggest(suggestion, sizeof suggestion, c->unknown, names, count));
    }
    tli_gin_overlay(c->gin, c->info, c->bound, c->order, &c->bound_count);
    TL_TRY(record_call(c));
    TL_TRY(check_required(c));
    TL_TRY(fill_arguments(c));
    c->in_body = true;
    if (c->info->choice) return tli_gin_choose(out, c->gin, cls, c->args);
    const tl_configurable_class *k = TL_CLASS_METHOD(tl_configurable_class, cls, call);
    if (!k) return TL_FAIL(TL_EINVAL, "it has no method 'call'");
    return k->call(out, c->gin, c->args);
}

/* Says which call a failure comes from. A long chain is told by its innermost calls and its first
 * one. */
static tl_status note_call(const tl_gin_call *c, tl_status st)
{
    if (c->own && !c->bound_count) return st;
    const char *slash = *c->scope ? "/" : "", *name = tli_gin_selector(c->gin, c->info->cls);
    if (c->gin->notes++ < TOLD_CALLS) return tl_error_note(st, "%s%s%s", c->scope, slash, name);
    if (c->outer) return st;
    return tl_error_note(st, "%s%s%s: ...", c->scope, slash, name);
}

tl_status tl_gin_call_run(void **out, tl_gin_call **call)
{
    tl_gin_call *c = *call;
    tl_gin *gin = c->gin;
    int64_t scopes = gin->scopes.count;
    tl_status st;
    *out = NULL;
    TL_TRY_DONE(st, tli_gin_settle(gin));
    if (!*c->scope) c->scope = tl_gin_scope(gin);
    TL_TRY_DONE(st, check_recursion(c));
    TL_TRY_DONE(st, tli_gin_scope_push(gin, c->scope));
    if (!makes_arguments(gin->top)) gin->argument_calls = 0;
    c->outer = gin->top;
    gin->top = c;
    gin->nesting++;
    gin->notes = 0;
    st = run(out, c);
    gin->nesting--;
    gin->top = c->outer;
    gin->scopes.count = scopes; // also those that a failed body has left open
    if (st != TL_OK) st = note_call(c, st);
done:
    if (st != TL_OK) *out = NULL;
    tl_gin_call_free(call);
    return st;
}

tl_status tl_gin_call_ref(void **out, tl_gin *gin, const tl_ref *ref)
{
    tl_gin_call *call;
    *out = NULL;
    TL_TRY(tl_gin_call_begin_ref(&call, gin, ref));
    return tl_gin_call_run(out, &call);
}

tl_status tl_gin_call_name(void **out, tl_gin *gin, const char *name)
{
    tl_gin_call *call;
    *out = NULL;
    TL_TRY(tl_gin_call_begin(&call, gin, name));
    return tl_gin_call_run(out, &call);
}

/* Makes gin free the object, unless its class leaves that to others. */
static tl_status own(tl_gin *gin, const tl_class *cls, void *object)
{
    const tli_gin_name *name = tli_gin_name_of(gin, cls);
    if (name && name->choice) return TL_OK; // lives in gin's arena
    const tl_configurable_class *k = TL_CLASS_METHOD(tl_configurable_class, cls, free);
    if (!k || !object) return TL_OK;
    tli_gin_owned owned = {k->free, object};
    if (TL_VEC_PUSH(&gin->owned, owned)) return TL_OK;
    k->free(object);
    return TL_ENOMEM;
}

tl_status tli_gin_call_argument(void **out, tl_gin *gin, const tl_class *cls, const char *scope)
{
    if (++gin->argument_calls > TL_GIN_MAX_CALLS)
        return TL_FAIL(TL_ELIMIT, "more than %d arguments '@name()' are called for one call",
                       TL_GIN_MAX_CALLS);
    const tl_ref ref = {.target = cls, .scope = scope};
    TL_TRY(tl_gin_call_ref(out, gin, &ref));
    tl_status st = own(gin, cls, *out);
    if (st != TL_OK) *out = NULL;
    return st;
}

tl_status tl_gin_value_ref(tl_ref *out, const tl_gin *gin, const tl_value *reference)
{
    if (reference->kind != TL_VALUE_REFERENCE) {
        tl_str found = TL_STR_INIT;
        tl_value_name(&found, reference);
        tl_status st = TL_FAIL(TL_EINVAL, "expected a reference, found %s", tl_str_text(&found));
        tl_str_deinit(&found);
        return reference->place.source ? tli_gin_at(st, reference->place) : st;
    }
    if (!gin->top) return TL_FAIL(TL_ESTATE, "no configurable is being called");
    return tli_gin_reference(out, reference, &gin->top->expansion);
}

/* --- _target_ -------------------------------------------------------------------------------- */

static bool is_target(const tl_value *v)
{
    return v->kind == TL_VALUE_MAP && tl_value_get(v, "_target_");
}

/* A key with a meaning of its own, as Hydra has them. */
static bool is_special(const char *key)
{
    size_t n = strlen(key);
    return n > 2 && key[0] == '_' && key[n - 1] == '_';
}

/* What a map with `_target_` makes, as an argument. */
static tl_status give_target(tl_gin_call *c, tli_apply *a, const tl_field *f, const tl_value *map)
{
    const tl_value *name = tl_value_get(map, "_target_");
    const char *selector;
    tl_ref ref = {.scope = ""};
    if (name->kind == TL_VALUE_SCALAR) {
        TL_TRY(tli_gin_split(&ref.scope, &selector, c->gin, name->text));
        TL_TRY(tli_gin_find(&ref.target, c->gin, selector));
    }
    TL_TRY(tl_instantiate(&ref.object, c->gin, map));
    TL_TRY(own(c->gin, ref.target, ref.object));
    tli_apply_target(a, f, tl_field_at(f, c->args), &ref, map->place);
    return TL_OK;
}

/* Sets the parameter that a key names. What is wrong goes to the diags. */
static tl_status give_pair(tl_gin_call *c, tli_apply *a, const tl_value_pair *pair)
{
    if (strcmp(pair->key, "_target_") == 0) return TL_OK;
    if (is_special(pair->key)) {
        tli_diag(a->diags, TL_EUNSUPPORTED, pair->place, pair->key,
                 strcmp(pair->key, "_args_") == 0
                     ? "arguments have names here; write each as a key of its own"
                     : "this key is not supported beside '_target_'");
        return TL_OK;
    }
    int64_t field = tli_gin_info_index(c->info, pair->key);
    if (field < 0) {
        int64_t count = 0;
        const tl_desc *desc = c->info->cls->config;
        const char **names = desc ? tli_field_names(c->arena, desc, &count) : NULL;
        char suggestion[128];
        tli_diag(a->diags, TL_ENOTFOUND, pair->place, pair->key,
                 "'%s' has no parameter of this name%s", tli_gin_selector(c->gin, c->info->cls),
                 tli_suggest(suggestion, sizeof suggestion, pair->key, names, count));
        return TL_OK;
    }
    const tl_field *f = c->info->fields[field];
    bool takes_objects = f->type == TL_TYPE_REF || f->type == TL_TYPE_ONEOF;
    tl_str_cut(&a->path, 0);
    tl_str_add(&a->path, f->name);
    if (takes_objects && is_target(pair->value)) TL_TRY(give_target(c, a, f, pair->value));
    else tli_apply_field(a, f, c->args, pair->value);
    c->marks[field] = TLI_GIN_GIVEN;
    return TL_OK;
}

/* @name in a map that comes from gin. */
static tl_status plain_reference(tl_ref *out, const tl_value *v, void *payload)
{
    tl_gin *gin = payload;
    const char *selector;
    TL_TRY(tli_gin_split(&out->scope, &selector, gin, v->text));
    TL_TRY(tli_gin_find(&out->target, gin, selector));
    if (!out->target) return TL_FAIL(TL_ENOTFOUND, "there is no configurable '@%s'", selector);
    return v->called ? tli_gin_call_argument(&out->object, gin, out->target, out->scope) : TL_OK;
}

static tl_status instantiate(void **out, tl_gin *gin, const tl_value *map, const tl_value *name)
{
    tl_gin_call *c;
    tli_diags diags = TLI_DIAGS_INIT;
    tl_status st = tl_gin_call_begin(&c, gin, name->text);
    if (st != TL_OK) return tli_gin_at(st, name->place);
    tli_apply a = {.arena = c->arena,
                   .registry = gin->registry,
                   .strict = true,
                   .diags = &diags,
                   .path = TL_STR_INIT,
                   .reference = plain_reference,
                   .payload = gin};
    for (int64_t i = 0; i < map->count; i++) TL_TRY_DONE(st, give_pair(c, &a, &map->pairs[i]));
    TL_TRY_DONE(st, tl_str_status(&a.path));
    TL_TRY_DONE(st, tli_diags_status(&diags));
    st = tl_gin_call_run(out, &c);
    if (st != TL_OK) st = tli_gin_at(st, name->place);
done:
    tl_gin_call_free(&c);
    tl_str_deinit(&a.path);
    tli_diags_deinit(&diags);
    return st;
}

tl_status tl_instantiate(void **out, tl_gin *gin, const tl_value *map)
{
    *out = NULL;
    const tl_value *name = tl_value_get(map, "_target_");
    if (!name)
        return tli_gin_at(TL_FAIL(TL_EINVAL,
                                  "expected a map with the key '_target_', which names what "
                                  "is to be made"),
                          map->place);
    if (name->kind != TL_VALUE_SCALAR || tl_value_is_null(name))
        return tli_gin_at(TL_FAIL(TL_EINVAL, "'_target_' must be the name of a configurable"),
                          name->place);
    if (gin->nesting >= TL_GIN_MAX_NESTING)
        return tli_gin_at(
            TL_FAIL(TL_ELIMIT, "'_target_' is nested more than %d deep", TL_GIN_MAX_NESTING),
            map->place);
    gin->nesting++;
    tl_status st = instantiate(out, gin, map, name);
    gin->nesting--;
    return st;
}
