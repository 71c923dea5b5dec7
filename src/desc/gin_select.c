/* Names in gin's text: which configurable, constant or macro they mean. */
#include <stdio.h>
#include <string.h>

#include <tilth/base/alloc.h>

#include "desc/gin_impl.h"

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
         .accept = TL_ACCEPT_BOOL | TL_ACCEPT_NUMBER | TL_ACCEPT_STRING | TL_ACCEPT_LIST
                   | TL_ACCEPT_MAP,
         .help = "what %name stands for"),
    TL_F_END,
};
static const tl_desc macro_desc = {.name = "gin.macro", .help = "arguments of gin.macro",
                                   .size = sizeof(macro_args), .fields = macro_fields};

typedef struct singleton_args {
    tl_ref constructor;
} singleton_args;
static const tl_field singleton_fields[] = {
    TL_F(singleton_args, constructor, .flags = TL_FIELD_REQUIRED,
         .help = "called once for each scope; all uses in that scope share what it gives"),
    TL_F_END,
};
static const tl_desc singleton_desc = {.name = "gin.singleton",
                                       .help = "arguments of gin.singleton",
                                       .size = sizeof(singleton_args),
                                       .fields = singleton_fields};

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

/* All configurables: gin's own ones first. */
static int64_t class_count(const tl_gin *gin)
{
    return TL_COUNT(own) + tl_registry_count(gin->registry, &tl_kind_configurable);
}

static const tl_class *class_at(const tl_gin *gin, int64_t i)
{
    if (i < TL_COUNT(own)) return &own[i]->cls;
    return tl_registry_at(gin->registry, &tl_kind_configurable, i - TL_COUNT(own));
}

static tl_status ambiguous(const tl_gin *gin, const char *selector)
{
    tl_str matches = TL_STR_INIT;
    for (int64_t i = 0; i < class_count(gin); i++)
        if (tli_gin_ends_with(class_at(gin, i)->name, selector))
            tl_str_addf(&matches, "%s%s", matches.length ? ", " : "", class_at(gin, i)->name);
    tl_status st = TL_FAIL(TL_EINVAL, "'%s' is ambiguous: it could be %s; write more of the name",
                           selector, tl_str_text(&matches));
    tl_str_deinit(&matches);
    return st;
}

tl_status tli_gin_find(const tl_class **out, tl_gin *gin, const char *selector)
{
    int64_t count = class_count(gin);
    if (count != gin->known) { // a module was added: other names may have become ambiguous
        tl_map_deinit(&gin->selectors);
        gin->known = count;
    }
    *out = tl_map_get(&gin->selectors, selector);
    if (*out) return TL_OK;
    int64_t matches = 0;
    for (int64_t i = 0; i < count; i++) {
        const tl_class *cls = class_at(gin, i);
        if (!tli_gin_ends_with(cls->name, selector)) continue;
        *out = cls;
        matches++;
        if (strlen(cls->name) != strlen(selector)) continue;
        matches = 1; // a whole name means itself, also when it is the end of another
        break;
    }
    if (matches > 1) return ambiguous(gin, selector);
    if (*out && strlen((*out)->name) > TLI_GIN_MAX_NAME)
        return TL_FAIL(TL_ELIMIT, "the name '%.40s...' is longer than %d characters", (*out)->name,
                       TLI_GIN_MAX_NAME);
    return *out ? tl_map_set(&gin->selectors, selector, (void *)(uintptr_t)*out) : TL_OK;
}

const char *tli_gin_suggest(char *buffer, size_t size, tl_gin *gin, const char *selector)
{
    // Whole names and last names both count, since either may be what was meant.
    int64_t count = class_count(gin);
    const char **names = tl_alloc((size_t)count * 2 * sizeof *names);
    buffer[0] = '\0';
    if (!names) return buffer;
    for (int64_t i = 0; i < count; i++) {
        names[i] = class_at(gin, i)->name;
        const char *dot = strrchr(names[i], '.');
        names[count + i] = dot ? dot + 1 : names[i];
    }
    tli_suggest(buffer, size, selector, names, count * 2);
    tl_free(names);
    return buffer;
}

const char *tli_gin_minimal(const tl_gin *gin, const tl_class *cls)
{
    const char *end = cls->name + strlen(cls->name);
    while (end > cls->name) {
        do end--;
        while (end > cls->name && end[-1] != '.');
        int64_t matches = 0;
        for (int64_t i = 0; i < class_count(gin); i++)
            matches += tli_gin_ends_with(class_at(gin, i)->name, end);
        if (matches <= 1) return end;
    }
    return cls->name;
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
