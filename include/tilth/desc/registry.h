/* The registry: names to classes, by kind; and modules, which fill it.
 *
 *     static const tl_entry entries[] = {{&tl_kind_task, &mine.cls},
 *                                        {&tl_kind_experiment, &mine_exp.cls}};
 *     const tl_module mine_module = {TL_MODULE_HEAD("mine"), entries, TL_COUNT(entries)};
 *     ...
 *     tl_registry *r;
 *     TL_TRY(tl_registry_new(&r));
 *     TL_TRY(tl_registry_add(r, &mine_module));
 *     const tl_class *c;
 *     TL_TRY(tl_registry_find(&c, r, &tl_kind_task, "mine"));
 *
 * A module is const data and enters through one of three doors: the list of built-in modules, an
 * application's main, or `--plugin=libmine.so`, which exports it as `tl_module_main`.
 * Names may be nested with "/": "bert/pretraining". A name is either a leaf or a folder.
 *
 * Thread word: one thread at a time while modules are added, immutable afterwards. */
#ifndef TILTH_DESC_REGISTRY_H
#define TILTH_DESC_REGISTRY_H

#include <tilth/desc/class.h>

TL_BEGIN

typedef struct tl_entry {
    const tl_kind *kind;
    const tl_class *cls;
} tl_entry;

typedef struct tl_module {
    uint32_t abi;  /* TL_ABI */
    uint32_t size; /* of this struct, as compiled */
    const char *name;
    const tl_entry *entries;
    int64_t count;
} tl_module;
#define TL_MODULE_HEAD(module_name) TL_ABI, sizeof(tl_module), (module_name)

/* What a plug-in defines: `const tl_module tl_module_main = {TL_MODULE_HEAD("mine"), ...};` */
TL_EXPORT extern const tl_module tl_module_main;

typedef struct tl_registry tl_registry;

TL_API TL_NODISCARD tl_status tl_registry_new(tl_registry **out);
TL_API void tl_registry_free(tl_registry **registry);

/* Adds all entries of a module, or none: every entry is verified first. `module` must outlive the
 * registry. Adding the same module again does nothing. */
TL_API TL_NODISCARD tl_status tl_registry_add(tl_registry *r, const tl_module *module);
/* Loads a shared object and adds its `tl_module_main`. Refuses files that others may have written
 * or put there: file and folders, up to the root, must belong to the user or to root, and nobody
 * else may write to them. Nothing of the object runs before that is known. It stays loaded until
 * the registry is freed. */
TL_API TL_NODISCARD tl_status tl_registry_load(tl_registry *r, const char *path);
/* True when a module of that name was added. */
TL_API bool tl_registry_has_module(const tl_registry *r, const char *name);

/* The class of that name. Failures suggest the nearest name, or list what a folder holds. */
TL_API TL_NODISCARD tl_status tl_registry_find(const tl_class **out, const tl_registry *r,
                                               const tl_kind *kind, const char *name);
/* The class of a kind `by_config` whose config is exactly this description. */
TL_API TL_NODISCARD tl_status tl_registry_find_by_config(const tl_class **out, const tl_registry *r,
                                                         const tl_kind *kind,
                                                         const tl_desc *config);
/* The same without a failure: NULL when there is none. */
TL_API const tl_class *tl_registry_peek(const tl_registry *r, const tl_kind *kind,
                                        const char *name);

/* Entries of a kind, sorted by name. */
TL_API int64_t tl_registry_count(const tl_registry *r, const tl_kind *kind);
TL_API const tl_class *tl_registry_at(const tl_registry *r, const tl_kind *kind, int64_t index);
/* Name of the module that an entry came from. */
TL_API const char *tl_registry_origin(const tl_registry *r, const tl_kind *kind, const char *name);
/* Kinds that have entries, in the order in which they came. */
TL_API int64_t tl_registry_kind_count(const tl_registry *r);
TL_API const tl_kind *tl_registry_kind_at(const tl_registry *r, int64_t index);
/* By name or plural; the failure suggests. */
TL_API TL_NODISCARD tl_status tl_registry_find_kind(const tl_kind **out, const tl_registry *r,
                                                    const char *name);

TL_END

#endif
