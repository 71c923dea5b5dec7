/* gin: arguments of configurables bound from text, as gin-config does it for Python.
 *
 * A configurable is a class (class.h) with a described struct of parameters and one method, `call`,
 * which makes an object from them:
 *
 *     typedef struct dense_args { int64_t units; const char *activation; tl_ref init; } dense_args;
 *     static tl_status dense_call(void **out, tl_gin *gin, const void *args);
 *     static const tl_configurable_class dense = {
 *         .cls = TL_CONFIGURABLE("layers.Dense", &dense_desc, .help = "a fully connected layer"),
 *         .call = dense_call,
 *     };
 *     static const tl_entry entries[] = {{&tl_kind_configurable, &dense.cls}};
 *
 * Text binds its parameters, and a call takes them from there:
 *
 *     tl_gin *gin;
 *     TL_TRY(tl_gin_new(&gin, registry));
 *     TL_TRY_DONE(st, tl_gin_parse(gin, "Dense.units = 256\n"
 *                                       "head/Dense.units = %classes\n"
 *                                       "classes = 10\n", "example"));
 *     TL_TRY_DONE(st, tl_gin_finalize(gin));                     // all that is wrong, at once
 *     TL_TRY_DONE(st, tl_gin_call_name(&layer, gin, "head/Dense"));    // units = 10
 *     TL_TRY_DONE(st, tl_gin_operative(&text, gin));             // what the calls really used
 * done:
 *     tl_gin_free(&gin);
 *
 * What a parameter gets: what the caller gave, else what gin binds in the innermost scope, else the
 * default of its row. Names may leave out leading modules (`Dense`) as long as they are unique. A
 * row with TL_FIELD_REQUIRED must be given or bound, one with TL_FIELD_DENIED cannot be bound.
 *
 * The language: `[scope/]name.param = value`, `name:` with indented `param = value` lines below it,
 * `macro = value`, `include 'file'` (also `include 'file' in scope`, which puts all that the file
 * binds into that scope), `import module`, `from package import module`. Values are literals of
 * Python, `@[scope/]name` (the configurable itself, to be called later), `@[scope/]name()` (what it
 * gives, called anew for each consumer), and `%macro` (or `%CONSTANT`), looked up when it is used.
 * A later binding wins. `@key/gin.singleton()` is made once for each key, by what is bound to its
 * parameter `constructor`.
 *
 * Besides configurables, gin names every class that YAML can choose in a one-of (kinds whose
 * `names_are_keys`): layers, initialisers, optimizers and so on. Their parameters are their
 * configuration; a call gives the {class, configuration} that YAML gives, as a tl_oneof:
 *
 *     Dense.units = 32                                # layers.Dense is the layer `dense`
 *     encoder/Dense.kernel_initializer = @HeNormal()  # a one-of takes choices of its kind, or None
 *     Sequential.layers = [@encoder/Dense(), @Dropout()]
 *     my_model.head = @Dense()                        # a one-of, or a tl_ref with its tl_oneof
 *
 * The name is the plural of the kind and the class's name as Python writes it; capitals and '_' do
 * not count when nothing has just that name (`Conv2D`, `conv2d`). A reference in place of a struct
 * goes to the one-of in it, if there is one alone (the items of `layers`).
 *
 * Not all is made by a call. What a run builds from a class and its configuration takes the
 * bindings of that class too: tl_gin_configure puts them into the choices of a configuration,
 * tl_gin_fill into what a program gives to a layer, a loss or a metric and leaves open. The scope
 * of a layer is its path: `head/Dense.kernel_initializer = @HeNormal()`.
 *
 * Objects: what your own calls give is yours, but choices live as long as gin. Objects that were
 * made for `@name()` arguments, and singletons, are gin's, and are freed with it (last ones first,
 * through their class's `free`).
 *
 * Thread word: one thread at a time. */
#ifndef TILTH_DESC_GIN_H
#define TILTH_DESC_GIN_H

#include <tilth/desc/config.h>

TL_BEGIN

typedef struct tl_gin tl_gin;

/* --- configurables ---------------------------------------------------------------------------- */

/* cls.name is the whole dotted selector, cls.config its parameters (NULL: it has none). */
typedef struct tl_configurable_class {
    tl_class cls;
    /* Makes the object. `args` (a struct of cls.config, or NULL) lives until the call returns; its
     * tl_refs may be kept as long as `gin`. */
    tl_status (*call)(void **out, tl_gin *gin, const void *args);
    /* (optional) Frees an object that belongs to gin. NULL: it lives in an arena of somebody's. */
    void (*free)(void *object);
    /* (optional) cls.name is another selector of this class, of any kind that gin names; there is
     * nothing to call then: TL_GIN_ALIAS. */
    const tl_class *stands_for;
} tl_configurable_class;

extern TL_API const tl_kind tl_kind_configurable;

#define TL_CONFIGURABLE(selector, arguments, ...)                                                  \
    TL_TABLE_(tl_class, .class_size = sizeof(tl_configurable_class), .name = (selector),           \
              .config = (arguments), __VA_ARGS__)

/* static const tl_configurable_class long_name = TL_GIN_ALIAS("my.package.Dense", &dense.cls); */
#define TL_GIN_ALIAS(selector, class_)                                                             \
    {                                                                                              \
        .cls = TL_CONFIGURABLE(selector, NULL, .help = "another name"), .stands_for = (class_)     \
    }

/* --- texts ------------------------------------------------------------------------------------ */

/* what is accepted at most */
enum {
    TL_GIN_MAX_BYTES = 16 << 20, /* of one file or text */
    TL_GIN_MAX_TOTAL = 64 << 20, /* of all of them together */
    TL_GIN_MAX_FILES = 1024,     /* opened in all */
    TL_GIN_MAX_INCLUDES = 32,    /* inside each other */
    TL_GIN_MAX_DEPTH = 64,       /* brackets inside each other */
    TL_GIN_MAX_NODES = 1 << 20,  /* items that macros may add when they are put in */
    TL_GIN_MAX_CALLS = 1 << 16,  /* `@name()` arguments evaluated for one call */
    TL_GIN_MAX_NESTING = 256     /* calls, macros and brackets inside each other at run time */
};

/* `registry` must outlive gin; `import` may add modules to it. */
TL_API TL_NODISCARD tl_status tl_gin_new(tl_gin **out, tl_registry *registry);
TL_API void tl_gin_free(tl_gin **gin);
/* The one that it was made with. */
TL_API tl_registry *tl_gin_registry(const tl_gin *gin);

/* A folder in which files that are not found from the working directory are looked for. */
TL_API TL_NODISCARD tl_status tl_gin_add_path(tl_gin *gin, const char *folder);
/* Lets `import a.b.c` load `libtilth-c.so` when no module of that name is there, from the folders
 * in `path` (separated by ':'); NULL takes them from the environment variable TILTH_PLUGIN_PATH. */
TL_API TL_NODISCARD tl_status tl_gin_allow_plugins(tl_gin *gin, const char *path);
/* From here on, `include` is an error, or is not: a text that may be a stranger's has no say in
 * which files are read. */
TL_API void tl_gin_refuse_includes(tl_gin *gin, bool refuse);
/* From here on, bindings of unknown configurables are left out instead of being errors: all of
 * them, or those of the given names. Unknown imports are left out with either. */
TL_API void tl_gin_skip_unknown(tl_gin *gin, bool skip);
TL_API TL_NODISCARD tl_status tl_gin_skip_names(tl_gin *gin, tl_strings names);

/* Reads bindings. What is wrong with the text itself is reported here, at its first place; wrong
 * names and types are reported when it is finalised, all together. */
TL_API TL_NODISCARD tl_status tl_gin_parse_file(tl_gin *gin, const char *path);
TL_API TL_NODISCARD tl_status tl_gin_parse(tl_gin *gin, const char *text, const char *source);
/* One binding of --gin_params. Messages show the text itself instead of a place. */
TL_API TL_NODISCARD tl_status tl_gin_parse_param(tl_gin *gin, const char *text);
/* Files in order, then --gin_params in order, then tl_gin_finalize when `finalize` is true. */
TL_API TL_NODISCARD tl_status tl_gin_parse_files_and_params(tl_gin *gin, tl_strings files,
                                                            tl_strings params, bool finalize);
/* Binds "scope/name.param" (or a macro: "name") from C; the value is copied. */
TL_API TL_NODISCARD tl_status tl_gin_bind(tl_gin *gin, const char *key, const tl_value *value);

/* `%module.NAME`, or any unique end of that name. Constants win over macros of the same name and
 * are not written out. The value holds no references or macros; it is copied. */
TL_API TL_NODISCARD tl_status tl_gin_constant(tl_gin *gin, const char *name, const tl_value *value);
/* The constants "enumeration.NAME" for all names of an enum (a list that ends with NULL). */
TL_API TL_NODISCARD tl_status tl_gin_constants(tl_gin *gin, const char *enumeration,
                                               const char *const *names);

/* Checks every name, parameter, type, macro and `%gin.REQUIRED`, reports all that is wrong, and
 * locks: a binding after that is an error. Calls made before check what has been read so far in the
 * same way. */
TL_API TL_NODISCARD tl_status tl_gin_finalize(tl_gin *gin);
TL_API bool tl_gin_locked(const tl_gin *gin);
/* Allows bindings again, until the next tl_gin_finalize. */
TL_API void tl_gin_unlock(tl_gin *gin);

/* What "scope/name.param", "macro" or "CONSTANT" is bound to, exactly there: scopes are not
 * inherited, references and macros inside it are not looked up. It lives as long as gin. */
TL_API TL_NODISCARD tl_status tl_gin_query(const tl_value **out, tl_gin *gin, const char *key);

/* --- scopes and calls ------------------------------------------------------------------------- */

/* Opens a scope inside the current one: "a", or "a/b" for two at once. NULL or "" leaves all scopes
 * until its end. */
TL_API TL_NODISCARD tl_status tl_gin_scope_begin(tl_gin *gin, const char *scope);
TL_API void tl_gin_scope_end(tl_gin *gin);
/* "" at the root. */
TL_API const char *tl_gin_scope(const tl_gin *gin);

/* Calls with nothing given by the caller. The name may have scopes before it, which then stand in
 * place of the current ones, as with a reference. */
TL_API TL_NODISCARD tl_status tl_gin_call_name(void **out, tl_gin *gin, const char *name);
TL_API TL_NODISCARD tl_status tl_gin_call_ref(void **out, tl_gin *gin, const tl_ref *ref);

/* Calls with arguments:
 *
 *     tl_gin_call *call;
 *     TL_TRY(tl_gin_call_begin(&call, gin, "Dense"));
 *     dense_args *args = tl_gin_call_args(call);         // with their defaults
 *     args->units = 10;
 *     tl_gin_call_give(call, "units");                   // wins over gin
 *     tl_gin_call_require(call, "activation");           // gin must bind it
 *     TL_TRY(tl_gin_call_run(&layer, &call));            // frees the call, also when it fails
 *
 * A wrong parameter name is reported by tl_gin_call_run. */
typedef struct tl_gin_call tl_gin_call;
TL_API TL_NODISCARD tl_status tl_gin_call_begin(tl_gin_call **out, tl_gin *gin, const char *name);
TL_API TL_NODISCARD tl_status tl_gin_call_begin_ref(tl_gin_call **out, tl_gin *gin,
                                                    const tl_ref *ref);
/* NULL when the configurable has no parameters. */
TL_API void *tl_gin_call_args(tl_gin_call *call);
TL_API void tl_gin_call_give(tl_gin_call *call, const char *param);
TL_API void tl_gin_call_require(tl_gin_call *call, const char *param);
/* The program makes this call whether there is gin or not: what fails in it names the configurable
 * only when gin binds something there. */
TL_API void tl_gin_call_own(tl_gin_call *call);
TL_API TL_NODISCARD tl_status tl_gin_call_run(void **out, tl_gin_call **call);
/* For a call that will not be run. */
TL_API void tl_gin_call_free(tl_gin_call **call);

/* For a `call` method with a TL_TYPE_VALUE parameter that holds references: what a reference inside
 * of it stands for. `@name()` has been called already. */
TL_API TL_NODISCARD tl_status tl_gin_value_ref(tl_ref *out, const tl_gin *gin,
                                               const tl_value *reference);

/* Calls the configurable named by the key `_target_` of a map, with the map's other keys as
 * arguments given by the caller. A map with `_target_` under a tl_ref parameter is made first, in
 * the same way; its object is gin's. */
TL_API TL_NODISCARD tl_status tl_instantiate(void **out, tl_gin *gin, const tl_value *map);

/* --- what is made without a call -------------------------------------------------------------- */

/* Puts what is bound into the choices of a configuration that is open: where a one-of has chosen a
 * class that gin names, the bindings of the class go before what files, and an experiment's own
 * defaults, say of that choice. Where the command line has said something else (words,
 * --params_override), it is TL_EINVAL, with both places. */
TL_API TL_NODISCARD tl_status tl_gin_configure(tl_gin *gin, tl_config *config);
/* Puts what is bound for the class into its configuration, which was completed from what a caller
 * gave (a literal, or NULL): members that the literal gives are the caller's, as arguments are. A
 * literal that is complete, as parsed ones are, gives all. `scope`, "" or "a/b", is opened inside
 * the current one; gin may be NULL. What the members point at comes from the arena. */
TL_API TL_NODISCARD tl_status tl_gin_fill(tl_gin *gin, const char *scope, const tl_class *cls,
                                          void *config, const void *given, tl_arena *arena);

/* Notes that something of the class was made for a reference to it: what the caller left open, by
 * the names of fields (`given` ends with NULL), stands in the operative configuration with its
 * default, as after a call. What all classes of the kind have is left out, and so are rows with
 * TL_FIELD_QUIET. gin may be NULL. */
TL_API TL_NODISCARD tl_status tl_gin_note_made(tl_gin *gin, const tl_class *cls,
                                               const char *const *given);

/* Bindings that nothing has used so far. Those of --gin_params, or of whatever they come with when
 * `strict`, are TL_EINVAL, all together and each with a reason; others are warned of. */
TL_API TL_NODISCARD tl_status tl_gin_check_used(tl_gin *gin, bool strict);
/* True when nothing is bound at all. */
TL_API bool tl_gin_is_empty(const tl_gin *gin);

/* The bindings that are in force on this thread, NULL when there are none: what models, losses and
 * metrics are made with. Setting them gives those before, to be set again:
 *     tl_gin *outer = tl_gin_set_current(gin);
 *     ...
 *     tl_gin_set_current(outer); */
TL_API tl_gin *tl_gin_current(void);
TL_API tl_gin *tl_gin_set_current(tl_gin *gin);

/* Something that all configurables need (what they build into); NULL until it is set. */
TL_API void tl_gin_set_payload(tl_gin *gin, void *payload);
TL_API void *tl_gin_payload(const tl_gin *gin);

/* --- out -------------------------------------------------------------------------------------- */

/* What the calls so far have used, scope by scope, defaults included, in gin's own layout; values
 * that callers gave, and those that gin has no literal for (infinities, not-a-number), are left
 * out, as gin does it. Reading it back gives the other ones again. */
TL_API TL_NODISCARD tl_status tl_gin_operative(tl_str *out, tl_gin *gin);
/* All bindings, used or not. */
TL_API TL_NODISCARD tl_status tl_gin_config_str(tl_str *out, tl_gin *gin);
/* With this on, both say where each binding was written, in a comment above it. */
TL_API void tl_gin_show_sources(tl_gin *gin, bool show);

TL_END

#endif
