/* Names in gin's text: which configurable, constant or macro they mean. */
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "desc/gin/impl.h"

/* --- the shape of names ---------------------------------------------------------------------- */

bool tli_gin_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Length of the identifier at `p`, 0 when there is none. */
static size_t identifier(const char *p)
{
    if (*p >= '0' && *p <= '9') return 0;
    size_t n = 0;
    while (tli_gin_is_word(p[n])) n++;
    return n;
}

/* Identifiers with one of the separators between any two. */
static bool is_joined(const char *text, const char *separators)
{
    for (;;) {
        size_t n = identifier(text);
        if (n == 0) return false;
        if (!text[n]) return true;
        if (!strchr(separators, text[n])) return false;
        text += n + 1;
    }
}

bool tli_gin_is_selector(const char *text)
{
    return is_joined(text, ".");
}

bool tli_gin_is_scope(const char *text, bool dots)
{
    return is_joined(text, dots ? "./" : "/");
}

bool tli_gin_ends_with(const char *whole, const char *end)
{
    size_t n = strlen(whole), m = strlen(end);
    return n >= m && strcmp(whole + n - m, end) == 0 && (n == m || whole[n - m - 1] == '.');
}

const char *tli_gin_intern(tl_gin *gin, const char *scope)
{
    if (!*scope) return "";
    const char *known = tl_map_get(&gin->interned, scope);
    if (known) return known;
    char *copy = tl_arena_strdup(gin->arena, scope);
    return copy && tl_map_set(&gin->interned, scope, copy) == TL_OK ? copy : NULL;
}

tl_status tli_gin_split(const char **scope, const char **selector, tl_gin *gin, const char *text)
{
    const char *slash = strrchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : 0;
    char buffer[TLI_GIN_MAX_NAME + 1];
    if (length > TLI_GIN_MAX_NAME)
        return TL_FAIL(TL_ELIMIT, "the scope '%.40s...' is longer than %d characters", text,
                       TLI_GIN_MAX_NAME);
    memcpy(buffer, text, length);
    buffer[length] = '\0';
    *selector = slash ? slash + 1 : text;
    *scope = tli_gin_intern(gin, buffer);
    return *scope ? TL_OK : TL_ENOMEM;
}

/* --- configurables --------------------------------------------------------------------------- */

typedef struct macro_args {
    const tl_value *value;
} macro_args;
static const tl_field macro_fields[] = {
    TL_F(macro_args, value, .flags = TL_FIELD_REQUIRED | TL_FIELD_NULLABLE,
         .accept =
             TL_ACCEPT_BOOL | TL_ACCEPT_NUMBER | TL_ACCEPT_STRING | TL_ACCEPT_LIST | TL_ACCEPT_MAP,
         .help = "what %name stands for"),
    TL_F_END,
};
static const tl_desc macro_desc = {
    .name = "gin.macro",
    .help = "arguments of gin.macro",
    .size = sizeof(macro_args),
    .fields = macro_fields,
};

typedef struct singleton_args {
    tl_ref constructor;
} singleton_args;
static const tl_field singleton_fields[] = {
    TL_F(singleton_args, constructor, .flags = TL_FIELD_REQUIRED,
         .help = "called once for each scope; all uses in that scope share what it gives"),
    TL_F_END,
};
static const tl_desc singleton_desc = {
    .name = "gin.singleton",
    .help = "arguments of gin.singleton",
    .size = sizeof(singleton_args),
    .fields = singleton_fields,
};

/* Macros and constants are put in where they are used; nobody gets to call them. */
static tl_status not_called(void **out, tl_gin *gin, const void *args)
{
    (void)gin;
    (void)args;
    *out = NULL;
    return TL_FAIL(TL_EINVAL, "macros and constants have values, not objects");
}

static tl_status singleton_call(void **out, tl_gin *gin, const void *args)
{
    const singleton_args *a = args;
    const char *key = tl_gin_scope(gin);
    *out = tl_map_get(&gin->singletons, key);
    if (tl_map_has(&gin->singletons, key)) return TL_OK;
    if (!a->constructor.target)
        return TL_FAIL(TL_EINVAL, "the constructor of the singleton '%s' is None", key);
    TL_TRY(tli_gin_call_argument(out, gin, a->constructor.target, a->constructor.scope));
    return tl_map_set(&gin->singletons, key, *out);
}

const tl_configurable_class tli_gin_macro = {
    .cls = TL_CONFIGURABLE("gin.macro", &macro_desc, .help = "a value with a name"),
    .call = not_called,
};
const tl_configurable_class tli_gin_constant = {
    .cls = TL_CONFIGURABLE("gin.constant", NULL, .help = "a value that the program defines"),
    .call = not_called,
};
const tl_configurable_class tli_gin_singleton = {
    .cls = TL_CONFIGURABLE("gin.singleton", &singleton_desc, .help = "an object that is made once"),
    .call = singleton_call,
};
const tl_value tli_gin_required = {.kind = TL_VALUE_SCALAR, .text = "%gin.REQUIRED", .weight = 1};

static const tl_configurable_class *const own[] = {&tli_gin_macro, &tli_gin_constant,
                                                   &tli_gin_singleton};

/* --- what can be named ----------------------------------------------------------------------- */

/* "he_normal" as Python writes the name of a class: HeNormal. */
static void write_class_name(tl_str *out, const char *name)
{
    bool start = true;
    for (; *name; name++) {
        bool joint = *name == '_' || *name == '-';
        bool lower = *name >= 'a' && *name <= 'z';
        if (!joint) tl_str_addc(out, start && lower ? (char)(*name - 'a' + 'A') : *name);
        start = joint;
    }
}

static const tli_gin_name *peek_name(const tl_gin *gin, const char *selector)
{
    for (int64_t i = 0; i < gin->names.count; i++)
        if (strcmp(gin->names.items[i].selector, selector) == 0) return &gin->names.items[i];
    return NULL;
}

/* "layers.Dense"; "layers.dense" when another layer has that name already. */
static const char *choice_selector(tl_gin *gin, const tl_kind *kind, const char *name)
{
    tl_str text = TL_STR_INIT;
    tl_str_addf(&text, "%s.", kind->plural);
    write_class_name(&text, name);
    if (peek_name(gin, tl_str_text(&text))) {
        tl_str_cut(&text, strlen(kind->plural) + 1);
        tl_str_add(&text, name);
    }
    const char *selector = tl_str_copy(&text, gin->arena);
    tl_str_deinit(&text);
    return selector;
}

static tl_status add_name(tl_gin *gin, const tl_kind *kind, const tl_class *cls)
{
    tli_gin_name added = {.selector = cls->name, .cls = cls};
    if (kind != &tl_kind_configurable) {
        added.choice = kind;
        added.selector = choice_selector(gin, kind, cls->name);
    }
    return added.selector && TL_VEC_PUSH(&gin->names, added) ? TL_OK : TL_ENOMEM;
}

/* The class whose name another one is; NULL for most. */
static const tl_class *stands_for(const tl_kind *kind, const tl_class *cls)
{
    if (kind != &tl_kind_configurable) return NULL;
    const tl_configurable_class *with = TL_CLASS_METHOD(tl_configurable_class, cls, stands_for);
    return with ? with->stands_for : NULL;
}

static tl_status add_kind(tl_gin *gin, const tl_kind *kind)
{
    if (kind != &tl_kind_configurable && !kind->names_are_keys) return TL_OK;
    for (int64_t i = 0; i < tl_registry_count(gin->registry, kind); i++) {
        const tl_class *cls = tl_registry_at(gin->registry, kind, i);
        if (!stands_for(kind, cls)) TL_TRY(add_name(gin, kind, cls));
    }
    return TL_OK;
}

/* Of classes that are there: a module may be without the one that it names. */
static tl_status add_aliases(tl_gin *gin)
{
    const tl_kind *kind = &tl_kind_configurable;
    for (int64_t i = 0; i < tl_registry_count(gin->registry, kind); i++) {
        const tl_class *cls = tl_registry_at(gin->registry, kind, i), *of = stands_for(kind, cls);
        const tli_gin_name *own_name = of ? tli_gin_name_of(gin, of) : NULL;
        if (!own_name) continue;
        const tli_gin_name added = {cls->name, of, own_name->choice, true};
        if (!TL_VEC_PUSH(&gin->names, added)) return TL_ENOMEM;
    }
    return TL_OK;
}

static int64_t entry_count(const tl_registry *r)
{
    int64_t count = 0;
    for (int64_t i = 0; i < tl_registry_kind_count(r); i++)
        count += tl_registry_count(r, tl_registry_kind_at(r, i));
    return count;
}

tl_status tli_gin_learn_names(tl_gin *gin)
{
    int64_t known = entry_count(gin->registry) + 1;
    if (gin->known == known) return TL_OK;
    tl_map_deinit(&gin->selectors); // names may have become ambiguous
    gin->names.count = 0;
    gin->known = 0;
    for (int64_t i = 0; i < TL_COUNT(own); i++)
        TL_TRY(add_name(gin, &tl_kind_configurable, &own[i]->cls));
    TL_TRY(add_kind(gin, &tl_kind_configurable));
    for (int64_t i = 0; i < tl_registry_kind_count(gin->registry); i++) {
        const tl_kind *kind = tl_registry_kind_at(gin->registry, i);
        if (kind != &tl_kind_configurable) TL_TRY(add_kind(gin, kind));
    }
    TL_TRY(add_aliases(gin));
    gin->known = known;
    return TL_OK;
}

const tli_gin_name *tli_gin_name_of(const tl_gin *gin, const tl_class *cls)
{
    for (int64_t i = 0; i < gin->names.count; i++)
        if (gin->names.items[i].cls == cls && !gin->names.items[i].alias)
            return &gin->names.items[i];
    return NULL;
}

const char *tli_gin_selector(const tl_gin *gin, const tl_class *cls)
{
    const tli_gin_name *name = tli_gin_name_of(gin, cls);
    return name ? name->selector : cls->name;
}

/* --- finding them ---------------------------------------------------------------------------- */

static bool has_name(const tli_gin_name *name, const char *selector, bool loosely)
{
    if (!loosely) return tli_gin_ends_with(name->selector, selector);
    return name->choice && tli_ends_loosely(name->selector, selector);
}

static tl_status ambiguous(const tl_gin *gin, const char *selector, bool loosely)
{
    tl_str matches = TL_STR_INIT;
    for (int64_t i = 0; i < gin->names.count; i++)
        if (has_name(&gin->names.items[i], selector, loosely))
            tl_str_addf(&matches, "%s%s", matches.length ? ", " : "", gin->names.items[i].selector);
    tl_status st = TL_FAIL(TL_EINVAL, "'%s' is ambiguous: it could be %s; write more of the name",
                           selector, tl_str_text(&matches));
    tl_str_deinit(&matches);
    return st;
}

static tl_status match(const tl_class **out, const tl_gin *gin, const char *selector, bool loosely)
{
    int64_t matches = 0;
    for (int64_t i = 0; i < gin->names.count; i++) {
        const tli_gin_name *name = &gin->names.items[i];
        if (!has_name(name, selector, loosely)) continue;
        matches += name->cls != *out; // two names of one class are no question
        *out = name->cls;
        // A whole name means itself, also when it is the end of another.
        if (strlen(name->selector) == strlen(selector)) return TL_OK;
    }
    return matches > 1 ? ambiguous(gin, selector, loosely) : TL_OK;
}

tl_status tli_gin_find(const tl_class **out, tl_gin *gin, const char *selector)
{
    TL_TRY(tli_gin_learn_names(gin));
    *out = tl_map_get(&gin->selectors, selector);
    if (*out) return TL_OK;
    TL_TRY(match(out, gin, selector, false));
    if (!*out) TL_TRY(match(out, gin, selector, true));
    if (*out && strlen((*out)->name) > TLI_GIN_MAX_NAME)
        return TL_FAIL(TL_ELIMIT, "the name '%.40s...' is longer than %d characters", (*out)->name,
                       TLI_GIN_MAX_NAME);
    return *out ? tl_map_set(&gin->selectors, selector, (void *)(uintptr_t)*out) : TL_OK;
}

const char *tli_gin_suggest(char *buffer, size_t size, tl_gin *gin, const char *selector)
{
    // Whole names and last names both count, since either may be what was meant.
    int64_t count = gin->names.count;
    const char **names = tl_alloc((size_t)count * 2 * sizeof *names);
    buffer[0] = '\0';
    if (!names) return buffer;
    for (int64_t i = 0; i < count; i++) {
        names[i] = gin->names.items[i].selector;
        const char *dot = strrchr(names[i], '.');
        names[count + i] = dot ? dot + 1 : names[i];
    }
    tli_suggest(buffer, size, selector, names, count * 2);
    tl_free(names);
    return buffer;
}

const char *tli_gin_minimal(const tl_gin *gin, const tl_class *cls)
{
    const char *whole = tli_gin_selector(gin, cls), *end = whole + strlen(whole);
    while (end > whole) {
        do end--;
        while (end > whole && end[-1] != '.');
        int64_t matches = 0;
        for (int64_t i = 0; i < gin->names.count; i++)
            matches += gin->names.items[i].cls != cls
                       && tli_gin_ends_with(gin->names.items[i].selector, end);
        if (!matches) return end;
    }
    return whole;
}

/* --- constants and macros -------------------------------------------------------------------- */

tl_status tli_gin_find_constant(const tl_value **out, const char **full, const tl_gin *gin,
                                const char *name)
{
    const char *found = NULL;
    *out = NULL;
    bool exact = tl_map_has(&gin->constants, name); // which wins, as with configurables
    for (int64_t i = 0; i < tl_map_count(&gin->constants); i++) {
        const char *key = tl_map_key(&gin->constants, i);
        if (exact ? strcmp(key, name) != 0 : !tli_gin_ends_with(key, name)) continue;
        if (found)
            return TL_FAIL(TL_EINVAL, "'%%%s' is ambiguous: it could be %%%s or %%%s", name, found,
                           key);
        found = key;
    }
    if (found) *out = tl_map_get(&gin->constants, found);
    if (full) *full = found;
    return TL_OK;
}

tli_gin_binding *tli_gin_find_macro(const tl_gin *gin, const char *home, const char *name)
{
    size_t length = strlen(home);
    for (;;) { // the file's own scope, then those around it
        char path[TLI_GIN_MAX_NAME + 1];
        if (length + strlen(name) + 1 <= TLI_GIN_MAX_NAME) {
            snprintf(path, sizeof path, "%.*s%s%s", (int)length, home, length ? "/" : "", name);
            const tli_gin_section *s = tli_gin_section_peek(&gin->config, path, &tli_gin_macro.cls);
            tli_gin_binding *found = s ? tl_map_get(&s->params, "value") : NULL;
            if (found) return found;
        }
        if (length == 0) return NULL;
        while (length > 0 && home[length - 1] != '/') length--;
        if (length > 0) length--;
    }
}
