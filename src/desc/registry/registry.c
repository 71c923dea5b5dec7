#include <tilth/desc/registry.h>

#include <string.h>

#include <tilth/base/vec.h>

#include "desc/config/apply.h"
#include "desc/registry/plugin.h"

typedef struct entry {
    const char *name;
    const tl_class *cls;
    const tl_module *module;
} entry;

/* Entries of one kind, sorted by name, so that what a folder holds stands together. */
typedef struct table {
    const tl_kind *kind;
    entry *items;
    int64_t count, capacity;
} table;

struct tl_registry {
    struct {
        table *items;
        int64_t count, capacity;
    } tables;
    struct {
        const tl_module **items;
        int64_t count, capacity;
    } modules;
    struct {
        void **items;
        int64_t count, capacity;
    } handles; /* of plug-ins */
};

tl_status tl_registry_new(tl_registry **out)
{
    *out = tl_alloc_zero(sizeof **out);
    return *out ? TL_OK : TL_FAIL_NOMEM(sizeof **out);
}

void tl_registry_free(tl_registry **registry)
{
    tl_registry *r = *registry;
    if (!r) return;
    for (int64_t i = 0; i < r->tables.count; i++) TL_VEC_FREE(&r->tables.items[i]);
    TL_VEC_FREE(&r->tables);
    TL_VEC_FREE(&r->modules);
    for (int64_t i = r->handles.count; i-- > 0;) tli_plugin_close(r->handles.items[i]);
    TL_VEC_FREE(&r->handles);
    tl_free(r);
    *registry = NULL;
}

/* --- finding ---------------------------------------------------------------------------------- */

static table *table_of(const tl_registry *r, const tl_kind *kind)
{
    for (int64_t i = 0; i < r->tables.count; i++)
        if (r->tables.items[i].kind == kind) return &r->tables.items[i];
    return NULL;
}

/* Index of the first entry whose name is not less. */
static int64_t lower_bound(const table *t, const char *name)
{
    int64_t low = 0, high = t ? t->count : 0;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (strcmp(t->items[middle].name, name) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static const entry *find_entry(const table *t, const char *name)
{
    int64_t i = lower_bound(t, name);
    return t && i < t->count && strcmp(t->items[i].name, name) == 0 ? &t->items[i] : NULL;
}

/* Entries inside the folder `name`: their number, and the first of them. */
static int64_t folder_entries(const table *t, const char *name, const entry **first)
{
    size_t length = strlen(name);
    int64_t count = 0;
    for (int64_t i = 0; t && i < t->count; i++) {
        const char *n = t->items[i].name;
        if (strncmp(n, name, length) != 0 || n[length] != '/') continue;
        if (count++ == 0 && first) *first = &t->items[i];
    }
    return count;
}

const tl_class *tl_registry_peek(const tl_registry *r, const tl_kind *kind, const char *name)
{
    const entry *e = find_entry(table_of(r, kind), name);
    return e ? e->cls : NULL;
}

static tl_status fail_folder(const table *t, const tl_kind *kind, const char *name, int64_t count)
{
    enum { SHOWN = 10 };
    const entry *first = NULL;
    (void)folder_entries(t, name, &first);
    tl_str list = TL_STR_INIT;
    for (int64_t i = 0; i < count && i < SHOWN; i++)
        tl_str_addf(&list, "%s%s", i ? ", " : "", first[i].name);
    if (count > SHOWN) tl_str_add(&list, ", ...");
    tl_status st = tl_str_status(&list);
    if (st == TL_OK)
        st = TL_FAIL(TL_ENOTFOUND, "'%s' is a folder of %s, choose one of them: %s", name,
                     kind->plural, tl_str_text(&list));
    tl_str_deinit(&list);
    return st;
}

/* Few names are told; many are for the command that lists them. */
static void tell_names(tl_str *out, const tl_kind *kind, const char *const *names, int64_t count)
{
    enum { FEW = 16 };
    if (count > FEW) tl_str_addf(out, "the command `list %s` shows what there is", kind->plural);
    else tl_str_add(out, count ? "there are: " : "there are none");
    for (int64_t i = 0; i < count && count <= FEW; i++)
        tl_str_addf(out, "%s%s", i ? ", " : "", names[i]);
}

static tl_status fail_unknown(const table *t, const tl_kind *kind, const char *name)
{
    int64_t count = t ? t->count : 0;
    const char **names = tl_alloc((size_t)(count + 1) * sizeof *names);
    if (!names) return TL_FAIL_NOMEM((size_t)(count + 1) * sizeof *names);
    for (int64_t i = 0; i < count; i++) names[i] = t->items[i].name;
    char suggestion[160];
    tl_str known = TL_STR_INIT;
    tli_suggest(suggestion, sizeof suggestion, name, names, count);
    tell_names(&known, kind, names, count);
    tl_status st = tl_str_status(&known);
    if (st == TL_OK)
        st = TL_FAIL(TL_ENOTFOUND,
                     "there is no %s '%s'%s (%s; modules of your own are loaded with --plugin)",
                     kind->name, name, suggestion, tl_str_text(&known));
    tl_str_deinit(&known);
    tl_free(names);
    return st;
}

tl_status tl_registry_find(const tl_class **out, const tl_registry *r, const tl_kind *kind,
                           const char *name)
{
    const table *t = table_of(r, kind);
    const entry *e = find_entry(t, name);
    if (e) {
        *out = e->cls;
        return TL_OK;
    }
    *out = NULL;
    int64_t inside = folder_entries(t, name, NULL);
    return inside ? fail_folder(t, kind, name, inside) : fail_unknown(t, kind, name);
}

static const entry *find_config(const table *t, const tl_desc *config)
{
    for (int64_t i = 0; t && i < t->count; i++)
        if (t->items[i].cls->config == config) return &t->items[i];
    return NULL;
}

tl_status tl_registry_find_by_config(const tl_class **out, const tl_registry *r,
                                     const tl_kind *kind, const tl_desc *config)
{
    const entry *e = find_config(table_of(r, kind), config);
    *out = e ? e->cls : NULL;
    if (e) return TL_OK;
    return TL_FAIL(TL_ENOTFOUND,
                   "no %s is registered for the config '%s' (a config that derives from another "
                   "needs a %s of its own)",
                   kind->name, config->name, kind->name);
}

/* --- adding ----------------------------------------------------------------------------------- */

static tl_status check_name(const tl_kind *kind, const char *name)
{
    if (!name || !*name) return TL_FAIL(TL_EINVAL, "an entry has no name");
    size_t length = strlen(name);
    if (kind->names_are_keys
        && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
               != length)
        return TL_FAIL(TL_EINVAL,
                       "the %s '%s' is chosen by a key, so its name may have only letters, digits, "
                       "'_' and '-'",
                       kind->name, name);
    if (name[0] == '/' || name[length - 1] == '/' || strstr(name, "//"))
        return TL_FAIL(TL_EINVAL, "'%s' is not a name: '/' must stand between two parts", name);
    return TL_OK;
}

/* A name cannot be both a leaf and a folder, nor be there twice. */
static tl_status check_free(const table *t, const tl_kind *kind, const char *name,
                            const tl_module *module)
{
    const entry *other = find_entry(t, name);
    if (other)
        return TL_FAIL(TL_EEXISTS,
                       "the %s '%s' is registered by module '%s' and again by module '%s'",
                       kind->name, name, other->module->name, module->name);
    if (folder_entries(t, name, &other))
        return TL_FAIL(
            TL_EEXISTS,
            "the %s '%s' of module '%s' is a folder already, because of '%s' of module '%s'",
            kind->name, name, module->name, other->name, other->module->name);
    for (int64_t i = 0; t && i < t->count; i++) {
        const entry *e = &t->items[i];
        size_t length = strlen(e->name);
        if (strncmp(e->name, name, length) == 0 && name[length] == '/')
            return TL_FAIL(TL_EEXISTS,
                           "the %s '%s' of module '%s' would make a folder of '%s' of module '%s'",
                           kind->name, name, module->name, e->name, e->module->name);
    }
    return TL_OK;
}

static tl_status check_config(const table *t, const tl_kind *kind, const tl_class *cls,
                              const tl_module *module)
{
    const entry *other = kind->by_config ? find_config(t, cls->config) : NULL;
    if (!other) return TL_OK;
    return TL_FAIL(TL_EEXISTS,
                   "the config '%s' belongs to the %s '%s' of module '%s' and again to '%s' of "
                   "module '%s'",
                   cls->config->name, kind->name, other->name, other->module->name, cls->name,
                   module->name);
}

static tl_status insert(tl_registry *r, const tl_entry *from, const tl_module *module)
{
    TL_TRY(check_name(from->kind, from->cls->name));
    TL_TRY(tl_class_verify(from->kind, from->cls));
    table *t = table_of(r, from->kind);
    for (int64_t i = 0; !t && i < r->tables.count; i++)
        if (strcmp(r->tables.items[i].kind->name, from->kind->name) == 0)
            return TL_FAIL(
                TL_EEXISTS,
                "there are two kinds '%s': the module seems to bring a libtilth of its own (a "
                "plug-in links none; the program that loads it uses the shared one)",
                from->kind->name);
    if (!t) {
        if (!TL_VEC_PUSH(&r->tables, (table){.kind = from->kind})) return TL_ENOMEM;
        t = &r->tables.items[r->tables.count - 1];
    }
    TL_TRY(check_free(t, from->kind, from->cls->name, module));
    TL_TRY(check_config(t, from->kind, from->cls, module));
    entry added = {from->cls->name, from->cls, module};
    if (!TL_VEC_PUSH(t, added)) return TL_ENOMEM;
    int64_t at = t->count - 1;
    for (; at > 0 && strcmp(t->items[at - 1].name, added.name) > 0; at--)
        t->items[at] = t->items[at - 1];
    t->items[at] = added;
    return TL_OK;
}

static void forget(tl_registry *r, const tl_module *module)
{
    int64_t tables = 0;
    for (int64_t i = 0; i < r->tables.count; i++) {
        table *t = &r->tables.items[i];
        int64_t kept = 0;
        for (int64_t j = 0; j < t->count; j++)
            if (t->items[j].module != module) t->items[kept++] = t->items[j];
        t->count = kept;
        if (kept) r->tables.items[tables++] = *t;
        else TL_VEC_FREE(t); // a kind that came with this module
    }
    r->tables.count = tables;
}

tl_status tl_registry_add(tl_registry *r, const tl_module *module)
{
    if (module->abi != TL_ABI)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "the module was built for ABI %u, this Tilth (%s) has ABI %d: rebuild it",
                       module->abi, TL_VERSION, TL_ABI);
    if (module->size < sizeof *module || !module->name)
        return TL_FAIL(TL_EINVAL, "the module has no proper head (start it with TL_MODULE_HEAD)");
    for (int64_t i = 0; i < r->modules.count; i++) {
        if (r->modules.items[i] == module) return TL_OK;
        if (strcmp(r->modules.items[i]->name, module->name) == 0)
            return TL_FAIL(TL_EEXISTS, "another module '%s' is already registered", module->name);
    }
    if (!TL_VEC_PUSH(&r->modules, module)) return TL_ENOMEM;
    tl_status st = TL_OK;
    for (int64_t i = 0; i < module->count && st == TL_OK; i++) {
        const tl_entry *e = &module->entries[i];
        st = e->kind && e->cls ? insert(r, e, module)
                               : TL_FAIL(TL_EINVAL, "entry %lld has no %s", (long long)i,
                                         e->kind ? "class" : "kind");
    }
    if (st == TL_OK) return TL_OK;
    forget(r, module);
    r->modules.count--;
    return tl_error_note(st, "module '%s'", module->name);
}

tl_status tl_registry_load(tl_registry *r, const char *path)
{
    void *handle;
    const tl_module *module;
    TL_TRY_NOTE(tli_plugin_open(&handle, &module, path), "plug-in '%s'", path);
    if (!TL_VEC_PUSH(&r->handles, handle)) {
        tli_plugin_close(handle);
        return TL_ENOMEM;
    }
    tl_status st = tl_registry_add(r, module);
    if (st == TL_OK) return TL_OK;
    st = tl_error_note(st, "plug-in '%s'", path); // while the module's name can still be read
    tli_plugin_close(r->handles.items[--r->handles.count]);
    return st;
}

/* --- listing ---------------------------------------------------------------------------------- */

bool tl_registry_has_module(const tl_registry *r, const char *name)
{
    for (int64_t i = 0; i < r->modules.count; i++)
        if (strcmp(r->modules.items[i]->name, name) == 0) return true;
    return false;
}

int64_t tl_registry_count(const tl_registry *r, const tl_kind *kind)
{
    const table *t = table_of(r, kind);
    return t ? t->count : 0;
}

const tl_class *tl_registry_at(const tl_registry *r, const tl_kind *kind, int64_t index)
{
    const table *t = table_of(r, kind);
    TL_ASSERT(t && index >= 0 && index < t->count);
    return t->items[index].cls;
}

const char *tl_registry_origin(const tl_registry *r, const tl_kind *kind, const char *name)
{
    const entry *e = find_entry(table_of(r, kind), name);
    return e ? e->module->name : NULL;
}

int64_t tl_registry_kind_count(const tl_registry *r)
{
    return r->tables.count;
}

const tl_kind *tl_registry_kind_at(const tl_registry *r, int64_t index)
{
    TL_ASSERT(index >= 0 && index < r->tables.count);
    return r->tables.items[index].kind;
}

tl_status tl_registry_find_kind(const tl_kind **out, const tl_registry *r, const char *name)
{
    enum { COMPARED = 64 };
    const char *names[COMPARED];
    int64_t count = 0;
    tl_str known = TL_STR_INIT;
    for (int64_t i = 0; i < r->tables.count; i++) {
        *out = r->tables.items[i].kind;
        if (count < COMPARED) names[count++] = (*out)->plural;
        if (strcmp((*out)->name, name) == 0 || strcmp((*out)->plural, name) == 0) {
            tl_str_deinit(&known);
            return TL_OK;
        }
        tl_str_addf(&known, "%s%s", i ? ", " : "", (*out)->plural);
    }
    *out = NULL;
    char suggestion[160];
    tl_status st = tl_str_status(&known);
    if (st == TL_OK)
        st = TL_FAIL(TL_ENOTFOUND, "there is no kind '%s'%s (there are: %s)", name,
                     tli_suggest(suggestion, sizeof suggestion, name, names, count),
                     tl_str_text(&known));
    tl_str_deinit(&known);
    return st;
}
