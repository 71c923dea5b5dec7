/* Bindings sorted by configurable and scope, and everything about them checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/log.h>

#include "desc/gin/impl.h"

/* --- sections -------------------------------------------------------------------------------- */

enum { KEY_ROOM = TLI_GIN_MAX_NAME + 32 };

/* By address: a class need not be registered to be called, and two kinds may share a name. */
static bool write_key(char key[KEY_ROOM], const char *scope, const tl_class *cls)
{
    int n = snprintf(key, KEY_ROOM, "%s/%p", scope, (const void *)cls);
    return n > 0 && n < KEY_ROOM;
}

tli_gin_section *tli_gin_section_peek(const tl_map *sections, const char *scope,
                                      const tl_class *cls)
{
    char key[KEY_ROOM];
    return write_key(key, scope, cls) ? tl_map_get(sections, key) : NULL;
}

tl_status tli_gin_section_get(tli_gin_section **out, tl_gin *gin, tl_map *sections,
                              const char *scope, const tl_class *cls)
{
    *out = tli_gin_section_peek(sections, scope, cls);
    if (*out) return TL_OK;
    char key[KEY_ROOM];
    if (!write_key(key, scope, cls))
        return TL_FAIL(TL_ELIMIT, "the scope '%.40s...' is too long", scope);
    tli_gin_section *s = tl_arena_alloc(gin->arena, sizeof *s);
    if (!s || !(s->scope = tl_arena_strdup(gin->arena, scope))) return TL_ENOMEM;
    s->cls = cls;
    *out = s;
    return tl_map_set(sections, key, s);
}

static tl_status fill_info(tli_gin_info *info, tl_gin *gin)
{
    const tl_desc *desc = info->cls->config;
    if (!desc) return TL_OK;
    info->fields = tl_desc_sorted(gin->arena, desc, &info->count);
    info->defaults = tl_arena_array(gin->arena, info->count, sizeof *info->defaults);
    if (!info->fields || !info->defaults) return TL_ENOMEM;
    void *args;
    TL_TRY(tl_desc_new(&args, gin->arena, desc));
    for (int64_t i = 0; i < info->count; i++) {
        const tl_field *f = info->fields[i];
        const tl_value *value = NULL;
        if (f->flags & (TL_FIELD_REQUIRED | TL_FIELD_DENIED)) continue;
        TL_TRY(tli_gin_member(&value, gin, gin->arena, f, args));
        if (!value || !tli_gin_is_literal(value)) continue;
        tli_gin_binding *b = info->defaults[i] = tl_arena_alloc(gin->arena, sizeof *b);
        if (!b) return TL_ENOMEM;
        *b = (tli_gin_binding){.scope = "", .param = f->name, .home = "", .value = value};
    }
    return TL_OK;
}

tl_status tli_gin_info_get(tli_gin_info **out, tl_gin *gin, const tl_class *cls)
{
    char key[KEY_ROOM];
    (void)write_key(key, "", cls);
    *out = tl_map_get(&gin->infos, key);
    if (*out) return TL_OK;
    TL_TRY(tli_gin_learn_names(gin));
    tli_gin_info *info = tl_arena_alloc(gin->arena, sizeof *info);
    if (!info) return TL_ENOMEM;
    const tli_gin_name *name = tli_gin_name_of(gin, cls);
    info->cls = cls;
    info->choice = name && name->choice;
    TL_TRY(fill_info(info, gin));
    *out = info;
    return tl_map_set(&gin->infos, key, info);
}

int64_t tli_gin_info_index(const tli_gin_info *info, const char *param)
{
    int64_t low = 0, high = info->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = strcmp(info->fields[middle]->name, param);
        if (order == 0) return middle;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return -1;
}

/* --- checking -------------------------------------------------------------------------------- */

typedef struct checker {
    tl_gin *gin;
    tl_arena *arena; /* for the moment */
    tli_diags diags;
    bool final;    /* no more bindings will come */
    int64_t added; /* nodes that macros have put in so far */
    bool too_many; /* and that was reported */
} checker;

/* "a/f.x" */
static void write_path(tl_str *out, const tli_gin_binding *b)
{
    if (b->selector == tli_gin_macro.cls.name) tl_str_add(out, b->scope);
    else tl_str_addf(out, "%s%s%s.%s", b->scope, *b->scope ? "/" : "", b->selector, b->param);
}

#define WRONG(c, code, place, binding, ...)                                                        \
    do {                                                                                           \
        tl_str path_ = TL_STR_INIT;                                                                \
        write_path(&path_, (binding));                                                             \
        tli_diag(&(c)->diags, (code), (place), tl_str_text(&path_), __VA_ARGS__);                  \
        tl_str_deinit(&path_);                                                                     \
    } while (0)

/* Turns the thread's failure into one more message, unless it is none of the text's fault. */
static tl_status wrong_from_error(checker *c, tl_status st, tl_place place,
                                  const tli_gin_binding *b)
{
    if (st == TL_OK || st == TL_ENOMEM) return st;
    WRONG(c, st, place, b, "%s", tl_error_message());
    return TL_OK;
}

static void unknown_parameter(checker *c, const tli_gin_binding *b, const tl_class *cls)
{
    int64_t count = 0;
    const char **names = cls->config ? tli_field_names(c->arena, cls->config, &count) : NULL;
    char suggestion[128];
    tli_suggest(suggestion, sizeof suggestion, b->param, names, count);
    tl_str known = TL_STR_INIT;
    for (int64_t i = 0; !*suggestion && names && i < count && i < 12; i++)
        tl_str_addf(&known, "%s%s", i ? ", " : "; it has ", names[i]);
    if (count == 0) tl_str_add(&known, "; it has none");
    WRONG(c, TL_ENOTFOUND, b->place, b, "'%s' has no parameter '%s'%s%s",
          tli_gin_selector(c->gin, cls), b->param, suggestion, tl_str_text(&known));
    tl_str_deinit(&known);
}

/* The class that a binding is for; NULL when there is nothing to bind. */
static tl_status find_class(checker *c, const tl_class **out, tli_gin_binding *b)
{
    tl_status st = tli_gin_find(out, c->gin, b->selector);
    if (st != TL_OK) {
        *out = NULL;
        return wrong_from_error(c, st, b->place, b);
    }
    if (*out) return TL_OK;
    char suggestion[128];
    if (b->skippable) {
        if (!b->skipped)
            TL_LOG_INFO("the binding of '%s.%s' is skipped: no such configurable", b->selector,
                        b->param);
        b->skipped = true;
    } else {
        WRONG(c, TL_ENOTFOUND, b->place, b, "there is no configurable '%s'%s", b->selector,
              tli_gin_suggest(suggestion, sizeof suggestion, c->gin, b->selector));
    }
    return TL_OK;
}

static bool is_named_value(const tl_class *cls)
{
    return cls == &tli_gin_macro.cls || cls == &tli_gin_constant.cls;
}

/* The names of all references in a value, also of bindings that a later one overrides. */
static tl_status check_references(checker *c, const tli_gin_binding *b, const tl_value *v)
{
    for (int64_t i = 0; i < v->count; i++) TL_TRY(check_references(c, b, tli_gin_child(v, i)));
    if (v->kind != TL_VALUE_REFERENCE) return TL_OK;
    const char *scope, *selector;
    const tl_class *cls = NULL;
    tl_status st = tli_gin_split(&scope, &selector, c->gin, v->text);
    if (st == TL_OK) st = tli_gin_find(&cls, c->gin, selector);
    if (st != TL_OK) return wrong_from_error(c, st, v->place, b);
    char suggestion[128];
    const char *call = v->called ? "()" : "";
    if (!cls)
        WRONG(c, TL_ENOTFOUND, v->place, b, "there is no configurable '@%s%s'%s", selector, call,
              tli_gin_suggest(suggestion, sizeof suggestion, c->gin, selector));
    else if (is_named_value(cls) && (!v->called || !*scope))
        WRONG(c, TL_EINVAL, v->place, b, "a macro has a value and cannot be called; write '%%%s'",
              *scope ? scope : "name");
    return TL_OK;
}

/* Puts a binding into its section, after the ones before it. */
static tl_status sort_binding(checker *c, tli_gin_binding *b)
{
    const tl_class *cls;
    TL_TRY(find_class(c, &cls, b));
    if (!cls) return TL_OK;
    TL_TRY(check_references(c, b, b->value));
    const tl_field *f = cls->config ? tl_desc_field(cls->config, b->param) : NULL;
    if (!f) {
        unknown_parameter(c, b, cls);
    } else if (f->flags & TL_FIELD_DENIED) {
        WRONG(c, TL_EINVAL, b->place, b,
              "the parameter '%s' of '%s' cannot be bound: the program sets it", b->param,
              tli_gin_selector(c->gin, cls));
    } else if (cls == &tli_gin_macro.cls && !*b->scope) {
        WRONG(c, TL_EINVAL, b->place, b, "a macro needs a name: write 'name = value'");
    } else {
        tli_gin_section *s;
        TL_TRY(tli_gin_section_get(&s, c->gin, &c->gin->config, b->scope, cls));
        return tl_map_set(&s->params, f->name, b);
    }
    return TL_OK;
}

/* --- macros ---------------------------------------------------------------------------------- */

/* Macros that are being looked into, outermost last. */
typedef struct open_macro {
    tli_gin_binding *binding;
    const struct open_macro *outer;
    int depth;
} open_macro;

enum { BAD = -1 }; /* weight of a value with a mistake that has been reported */

static tl_status weigh(checker *c, int64_t *out, const tl_value *v, const tli_gin_binding *user,
                       const open_macro *open);

static void write_open(tl_str *out, const open_macro *open, const tli_gin_binding *until)
{
    if (open->binding != until) write_open(out, open->outer, until);
    tl_str_addf(out, "%%%s -> ", open->binding->scope);
}

static void undefined_macro(checker *c, const tl_value *v, const tli_gin_binding *user)
{
    const tl_map *config = &c->gin->config;
    const char **names = tl_arena_array(c->arena, tl_map_count(config), sizeof *names);
    int64_t count = 0;
    for (int64_t i = 0; names && i < tl_map_count(config); i++) {
        const tli_gin_section *s = tl_map_at(config, i);
        if (s->cls == &tli_gin_macro.cls) names[count++] = s->scope;
    }
    char suggestion[128];
    WRONG(c, TL_ENOTFOUND, v->place, user, "the macro '%%%s' is not defined%s", v->text,
          tli_suggest(suggestion, sizeof suggestion, v->text, names, count));
}

/* What a macro weighs with all macros in it put in; found once and kept. */
static tl_status weigh_macro(checker *c, int64_t *out, tli_gin_binding *macro, const tl_value *use,
                             const tli_gin_binding *user, const open_macro *open)
{
    if (macro->state == TLI_GIN_OPEN) {
        tl_str chain = TL_STR_INIT;
        write_open(&chain, open, macro);
        WRONG(c, TL_EINVAL, use->place, user, "the macro is defined by itself: %s%%%s",
              tl_str_text(&chain), macro->scope);
        tl_str_deinit(&chain);
        *out = BAD;
        return TL_OK;
    }
    if (macro->state == TLI_GIN_NEW) {
        open_macro inner = {macro, open, open ? open->depth + 1 : 1};
        if (inner.depth > TL_GIN_MAX_NESTING) {
            WRONG(c, TL_ELIMIT, use->place, user, "macros are nested more than %d deep",
                  TL_GIN_MAX_NESTING);
            *out = BAD;
            return TL_OK;
        }
        macro->state = TLI_GIN_OPEN;
        tl_status st = weigh(c, &macro->weight, macro->value, macro, &inner);
        macro->state = TLI_GIN_CHECKED;
        TL_TRY(st);
    }
    *out = macro->weight;
    return TL_OK;
}

/* 1, or BAD when the reference names nothing. */
static tl_status weigh_reference(checker *c, int64_t *out, const tl_value *v,
                                 const tli_gin_binding *user)
{
    const char *scope, *selector;
    const tl_class *cls = NULL;
    tl_status st = tli_gin_split(&scope, &selector, c->gin, v->text);
    if (st == TL_OK) st = tli_gin_find(&cls, c->gin, selector);
    if (st == TL_ENOMEM) return st;
    if (st != TL_OK) cls = NULL;
    *out = cls && !is_named_value(cls) ? 1 : BAD; // without a class it has been reported
    if (cls && is_named_value(cls) && v->called && *scope) {
        const tl_value name = {.kind = TL_VALUE_MACRO, .text = scope, .place = v->place};
        undefined_macro(c, &name, user);
    }
    return TL_OK;
}

static tl_status weigh_name(checker *c, int64_t *out, const tl_value *v,
                            const tli_gin_binding *user, const open_macro *open)
{
    tli_gin_binding *macro;
    const tl_value *constant;
    tl_status st = tli_gin_meaning(&macro, &constant, NULL, c->gin, v, user->home);
    *out = BAD;
    if (st != TL_OK) // what is wrong with references has been reported already
        return v->kind == TL_VALUE_MACRO || st == TL_ENOMEM
                   ? wrong_from_error(c, st, v->place, user)
                   : TL_OK;
    if (constant) *out = constant->weight;
    else if (macro) return weigh_macro(c, out, macro, v, user, open);
    else if (v->kind == TL_VALUE_REFERENCE) return weigh_reference(c, out, v, user);
    else undefined_macro(c, v, user);
    return TL_OK;
}

/* The number of nodes that a value has with its macros put in. Undefined and circular macros are
 * reported, and make it BAD. */
static tl_status weigh(checker *c, int64_t *out, const tl_value *v, const tli_gin_binding *user,
                       const open_macro *open)
{
    if (v->kind == TL_VALUE_MACRO || v->kind == TL_VALUE_REFERENCE)
        return weigh_name(c, out, v, user, open);
    int64_t total = 1;
    bool bad = false;
    for (int64_t i = 0; i < v->count; i++) {
        int64_t weight;
        TL_TRY(weigh(c, &weight, tli_gin_child(v, i), user, open));
        bad |= weight == BAD;
        total += weight;
        if (total > INT64_C(1) << 40) total = INT64_C(1) << 40; // far beyond what is accepted
    }
    *out = bad ? BAD : total;
    return TL_OK;
}

/* --- types ----------------------------------------------------------------------------------- */

static bool is_required(checker *c, const tli_gin_binding *b)
{
    const tl_value *constant = NULL;
    tli_gin_binding *macro;
    if (b->value->kind != TL_VALUE_MACRO && b->value->kind != TL_VALUE_REFERENCE) return false;
    if (tli_gin_meaning(&macro, &constant, NULL, c->gin, b->value, b->home) != TL_OK) return false;
    return constant == &tli_gin_required;
}

/* True when the singleton of this scope, or one around it, has a constructor. */
static bool has_constructor(const tl_gin *gin, const char *scope)
{
    char partial[TLI_GIN_MAX_NAME + 1];
    size_t length = strlen(scope);
    if (length > TLI_GIN_MAX_NAME) return false;
    memcpy(partial, scope, length + 1);
    for (;;) {
        const tli_gin_section *s =
            tli_gin_section_peek(&gin->config, partial, &tli_gin_singleton.cls);
        if (s && tl_map_has(&s->params, "constructor")) return true;
        if (length == 0) return false;
        char *slash = strrchr(partial, '/');
        length = slash ? (size_t)(slash - partial) : 0;
        partial[length] = '\0';
    }
}

static void check_singletons(checker *c, const tli_gin_binding *b, const tli_gin_expansion *e)
{
    for (int64_t i = 0; i < e->targets.count; i++) {
        const tli_gin_target *t = &e->targets.items[i];
        if (t->ref.target != &tli_gin_singleton.cls || !*t->ref.scope) continue;
        if (!has_constructor(c->gin, t->ref.scope))
            WRONG(
                c, TL_ENOTFOUND, t->node->place, b,
                "the singleton '%s' has no constructor; bind %s/gin.singleton.constructor = @name",
                t->ref.scope, t->ref.scope);
    }
}

/* Tries the value on a struct of the configurable's parameters. */
static tl_status check_member(checker *c, const tl_class *cls, const tli_gin_binding *b)
{
    tli_gin_expansion e = {.gin = c->gin, .arena = c->arena};
    tli_apply a = {.arena = c->arena,
                   .registry = c->gin->registry,
                   .strict = true,
                   .diags = &c->diags,
                   .path = TL_STR_INIT,
                   .reference = tli_gin_reference,
                   .payload = &e};
    const tl_value *v;
    tl_status st = tli_gin_expand(&e, &v, b->value, b->home);
    if (st != TL_OK) {
        st = wrong_from_error(c, st, b->value->place, b);
        goto done;
    }
    check_singletons(c, b, &e);
    if (cls == &tli_gin_macro.cls) goto done;
    if (cls == &tli_gin_singleton.cls && v->kind == TL_VALUE_REFERENCE && v->called)
        WRONG(c, TL_EINVAL, v->place, b,
              "gin.singleton calls its constructor itself; write '@%s' without '()'", v->text);
    void *args;
    TL_TRY_DONE(st, tl_desc_new(&args, c->arena, cls->config));
    write_path(&a.path, b);
    tli_gin_set_member(&a, tl_desc_field(cls->config, b->param), args, v);
    st = tl_str_status(&a.path);
done:
    tl_str_deinit(&a.path);
    tli_gin_expansion_deinit(&e);
    return st;
}

static tl_status check_binding(checker *c, const tl_class *cls, tli_gin_binding *b)
{
    if (is_required(c, b)) {
        if (c->final)
            WRONG(c, TL_EINVAL, b->place, b,
                  "it is set to %%gin.REQUIRED, and nothing overrides it");
        return TL_OK;
    }
    int64_t weight;
    if (cls == &tli_gin_macro.cls) TL_TRY(weigh_macro(c, &weight, b, b->value, b, NULL));
    else TL_TRY(weigh(c, &weight, b->value, b, NULL));
    if (weight == BAD) return TL_OK;
    int64_t growth = weight - b->value->weight;
    if (growth > 0) c->added += growth;
    if (growth > 0 && c->added > TL_GIN_MAX_NODES) {
        if (!c->too_many)
            WRONG(c, TL_ELIMIT, b->place, b, "macros expand to more than %d values in all",
                  TL_GIN_MAX_NODES);
        c->too_many = true;
        return TL_OK;
    }
    tl_arena_mark mark = tl_arena_begin(c->arena);
    tl_status st = check_member(c, cls, b);
    tl_arena_end(c->arena, mark);
    return st;
}

static void clear_config(tl_gin *gin)
{
    for (int64_t i = 0; i < tl_map_count(&gin->config); i++)
        tl_map_deinit(&((tli_gin_section *)tl_map_at(&gin->config, i))->params);
    tl_map_deinit(&gin->config);
}

static tl_status check_all(checker *c)
{
    tl_gin *gin = c->gin;
    clear_config(gin);
    for (int64_t i = 0; i < gin->bindings.count; i++) {
        gin->bindings.items[i]->state = TLI_GIN_NEW;
        TL_TRY(sort_binding(c, gin->bindings.items[i]));
    }
    for (int64_t i = 0; i < tl_map_count(&gin->config); i++) {
        const tli_gin_section *s = tl_map_at(&gin->config, i);
        for (int64_t k = 0; k < tl_map_count(&s->params); k++)
            TL_TRY(check_binding(c, s->cls, tl_map_at(&s->params, k)));
    }
    return tli_diags_status(&c->diags);
}

static tl_status settle(tl_gin *gin, bool final)
{
    checker c = {.gin = gin, .diags = TLI_DIAGS_INIT, .final = final};
    TL_TRY(tli_gin_learn_names(gin));
    TL_TRY(tl_arena_new(&c.arena));
    // What is wrong is found again by whoever asks next: nothing is forgotten by reporting it.
    tl_status st = check_all(&c);
    gin->settled = st == TL_OK;
    gin->settled_known = gin->known;
    tli_diags_deinit(&c.diags);
    tl_arena_free(&c.arena);
    return st;
}

tl_status tli_gin_settle(tl_gin *gin)
{
    TL_TRY(tli_gin_learn_names(gin));
    // A module that was added since may have given names another meaning.
    bool same = gin->settled_known == gin->known;
    return gin->settled && same ? TL_OK : settle(gin, false);
}

tl_status tl_gin_finalize(tl_gin *gin)
{
    if (gin->locked) return TL_FAIL(TL_ESTATE, "the gin configuration is finalised already");
    TL_TRY(settle(gin, true));
    gin->locked = true;
    return TL_OK;
}
