/* Private to desc: what the files of gin share.
 *
 *     gin_lex.c      text -> tokens                   gin_literal.c  numbers and strings
 *     gin_parse.c    tokens -> bindings               gin_source.c   files, includes, imports
 *     gin_select.c   names -> classes, constants      gin_bind.c     bindings checked and sorted
 *     gin_expand.c   macros and references put in     gin_call.c     calls, scopes, `_target_`
 *     gin_repr.c     values -> Python text            gin_output.c   sections -> text
 *     gin_fill.c     bindings -> configurations       gin_used.c     what nothing has used
 *     gin.c          life, switches, questions */
#ifndef TILTH_SRC_DESC_GIN_IMPL_H
#define TILTH_SRC_DESC_GIN_IMPL_H

#include <tilth/base/map.h>
#include <tilth/base/vec.h>
#include <tilth/desc/gin.h>

#include "desc/config/apply.h"

/* Longest scope and longest selector: the keys of sections then fit into a buffer. */
enum { TLI_GIN_MAX_NAME = 1000 };

/* --- bindings -------------------------------------------------------------------------------- */

typedef struct tli_gin_binding {
    const char *scope;    /* "" or "a/b"; the name of a macro */
    const char *selector; /* as written; "gin.macro" for a macro */
    const char *param;
    const char *home; /* scope of its file: macros are looked up from there outwards */
    const tl_value *value;
    tl_place place; /* no source: the default of a row */
    bool skippable; /* left out when its configurable is unknown */
    bool skipped;   /* and that was told */
    bool used;      /* something was made with it */
    /* of a macro, while all are checked */
    enum { TLI_GIN_NEW, TLI_GIN_OPEN, TLI_GIN_CHECKED } state;
    int64_t weight; /* of its value with all macros put in */
} tli_gin_binding;

/* The parameters of one configurable in one scope: of the configuration, or of what was used. */
typedef struct tli_gin_section {
    const char *scope;
    const tl_class *cls;
    tl_map params; /* name -> tli_gin_binding */
} tli_gin_section;

/* What gin can name: a configurable, or a class that a one-of can choose. */
typedef struct tli_gin_name {
    const char *selector; /* whole */
    const tl_class *cls;
    const tl_kind *choice; /* what it is a choice of; NULL: a configurable */
    bool alias;            /* its own name stands elsewhere in the list */
} tli_gin_name;

/* What is asked of a configurable again and again. */
typedef struct tli_gin_info {
    const tl_class *cls;
    bool choice;             /* it has no `call`: what it gives is a tl_oneof */
    const tl_field **fields; /* sorted by name */
    int64_t count;
    tli_gin_binding **defaults; /* by field; NULL where it has none that can be written */
    bool made;                  /* something of the class was, with bindings or without */
} tli_gin_info;

typedef struct tli_gin_import {
    const char *module, *alias; /* alias may be NULL */
    bool is_from;
} tli_gin_import;

/* A file being read, and the ones that include it. */
typedef struct tli_gin_file {
    const char *path, *real_path;
    const struct tli_gin_file *outer;
    int depth;
} tli_gin_file;

/* An object that gin frees. */
typedef struct tli_gin_owned {
    void (*free)(void *object);
    void *object;
} tli_gin_owned;

struct tl_gin {
    tl_registry *registry;
    tl_arena *arena; /* all that lives as long as gin */
    void *payload;
    bool show_sources;
    /* texts */
    struct {
        const char **items;
        int64_t count, capacity;
    } paths;
    const char *plugin_path; /* NULL: imports load nothing */
    bool no_includes;
    bool skip_all;
    tl_map skip_names;
    const tli_gin_file *file; /* being read */
    int64_t file_count;
    size_t byte_count;
    struct {
        tli_gin_import *items;
        int64_t count, capacity;
    } imports;
    /* bindings */
    struct {
        tli_gin_binding **items;
        int64_t count, capacity;
    } bindings;
    tl_map config;    /* scope and class -> tli_gin_section */
    tl_map operative; /* the same, of what calls have used */
    tl_map constants; /* name -> tl_value */
    tl_map infos;     /* class -> tli_gin_info */
    struct {
        tli_gin_name *items;
        int64_t count, capacity;
    } names;          /* gin's own first */
    tl_map selectors; /* selector as written -> tl_class */
    int64_t known;    /* entries of the registry when these two were filled, and 1 */
    bool settled, locked;
    int64_t settled_known; /* `known` at that time */
    /* running */
    tl_map interned; /* scopes, so that a tl_ref can be kept */
    struct {
        const char **items;
        int64_t count, capacity;
    } scopes;
    tl_gin_call *top; /* innermost call */
    int nesting;
    int64_t argument_calls;
    int notes;         /* calls that the message of the failure under way names */
    tl_map singletons; /* scope -> object */
    struct {
        tli_gin_owned *items;
        int64_t count, capacity;
    } owned;
};

/* Puts "a.gin:7:3: " before the message of a failure. */
tl_status tli_gin_at(tl_status failed, tl_place place);

/* --- text ------------------------------------------------------------------------------------ */

typedef enum tli_gin_token_kind {
    TLI_GIN_END,
    TLI_GIN_NEWLINE,
    TLI_GIN_INDENT,
    TLI_GIN_DEDENT,
    TLI_GIN_NAME,
    TLI_GIN_NUMBER,
    TLI_GIN_STRING, /* with prefix and quotes */
    TLI_GIN_MARK    /* one character */
} tli_gin_token_kind;

typedef struct tli_gin_token {
    tli_gin_token_kind kind;
    const char *text;
    size_t length;
    tl_place place;
    bool spaced; /* blanks stand before it */
} tli_gin_token;

enum { TLI_GIN_MAX_INDENTS = 64 };

typedef struct tli_gin_lexer {
    const char *at, *end;
    tl_place place; /* of `at` */
    bool line_start;
    int indents[TLI_GIN_MAX_INDENTS]; /* columns of the blocks that are open; the first is 0 */
    int indent_count;
    int wanted_indents; /* fewer than indent_count: dedents are still to come */
    tl_place brackets[TL_GIN_MAX_DEPTH];
    int bracket_count;
} tli_gin_lexer;

/* Fails when the text is not UTF-8, or holds a NUL. */
tl_status tli_gin_lexer_init(tli_gin_lexer *lexer, const char *text, size_t length, tl_place start);
tl_status tli_gin_lexer_next(tli_gin_lexer *lexer, tli_gin_token *out);

/* Python's text of a number: decimal integers, or floats as Python prints them; ".inf" for those
 * that are too large. */
tl_status tli_gin_number(tl_str *out, const tli_gin_token *token, bool negative);
/* Adds what a string token stands for. */
tl_status tli_gin_string(tl_str *out, const tli_gin_token *token);

/* `home` is the scope of an `include ... in`; a `single` text has no places worth naming. */
tl_status tli_gin_parse_text(tl_gin *gin, const char *text, size_t length, const char *source,
                             const char *home, bool single);
/* Splits "a/b/name.param" (or "macro"), which must be well formed, into the parts of a binding. */
tl_status tli_gin_split_key(tl_gin *gin, tli_gin_binding *binding, const char *key);

/* `place` is that of the statement; without a source, the file was named by the caller. */
tl_status tli_gin_include(tl_gin *gin, const char *name, const char *home, tl_place place);
tl_status tli_gin_import_module(tl_gin *gin, const tli_gin_import *import);
tl_status tli_gin_add(tl_gin *gin, const tli_gin_binding *binding);

/* --- names ----------------------------------------------------------------------------------- */

/* Configurables that gin itself has: gin.macro, gin.constant, gin.singleton. */
extern const tl_configurable_class tli_gin_macro, tli_gin_constant, tli_gin_singleton;
/* What %gin.REQUIRED stands for. */
extern const tl_value tli_gin_required;

/* Letters, digits and '_', in every locale. */
bool tli_gin_is_word(char c);
/* "a", "a.b.c" with names of letters, digits and '_'. */
bool tli_gin_is_selector(const char *text);
/* Identifiers with '/' between them; `dots` allows selectors instead. */
bool tli_gin_is_scope(const char *text, bool dots);
/* True when `whole` is `end`, or ends with '.' and `end`. */
bool tli_gin_ends_with(const char *whole, const char *end);

/* Takes notice of modules that were added to the registry; cheap when there are none. */
tl_status tli_gin_learn_names(tl_gin *gin);
/* What is known of a class by its name; NULL when it is not registered. */
const tli_gin_name *tli_gin_name_of(const tl_gin *gin, const tl_class *cls);
/* Its whole selector. */
const char *tli_gin_selector(const tl_gin *gin, const tl_class *cls);
/* The configurable that a selector names; NULL when there is none. Ambiguity is a failure. */
tl_status tli_gin_find(const tl_class **out, tl_gin *gin, const char *selector);
/* ", did you mean 'x'?", or "". */
const char *tli_gin_suggest(char *buffer, size_t size, tl_gin *gin, const char *selector);
/* The shortest end of the name that no other configurable has. */
const char *tli_gin_minimal(const tl_gin *gin, const tl_class *cls);
/* "a/b/name" -> the scope "a/b", interned, and "name". */
tl_status tli_gin_split(const char **scope, const char **selector, tl_gin *gin, const char *text);
/* A copy of the scope that lives as long as gin; NULL when there is no memory. */
const char *tli_gin_intern(tl_gin *gin, const char *scope);

/* Constants, by any unique end of their names; NULL in *out when there is none. `full` (may be
 * NULL) is the whole name. */
tl_status tli_gin_find_constant(const tl_value **out, const char **full, const tl_gin *gin,
                                const char *name);
/* The macro that `%name` means in a file at home in `home`; NULL when there is none. */
tli_gin_binding *tli_gin_find_macro(const tl_gin *gin, const char *home, const char *name);

/* --- sections -------------------------------------------------------------------------------- */

tli_gin_section *tli_gin_section_peek(const tl_map *sections, const char *scope,
                                      const tl_class *cls);
tl_status tli_gin_section_get(tli_gin_section **out, tl_gin *gin, tl_map *sections,
                              const char *scope, const tl_class *cls);
tl_status tli_gin_info_get(tli_gin_info **out, tl_gin *gin, const tl_class *cls);
/* Index of the parameter, or -1. */
int64_t tli_gin_info_index(const tli_gin_info *info, const char *param);

/* Sorts new bindings into their sections and checks everything; cheap when nothing has changed. */
tl_status tli_gin_settle(tl_gin *gin);

/* --- values ---------------------------------------------------------------------------------- */

/* What a reference in an expanded value stands for. */
typedef struct tli_gin_target {
    const tl_value *node;
    tl_ref ref;
} tli_gin_target;

typedef struct tli_gin_expansion {
    tl_gin *gin;
    tl_arena *arena;
    bool live; /* call what is to be called, and record the macros used */
    struct {
        tli_gin_target *items;
        int64_t count, capacity;
    } targets;
} tli_gin_expansion;

/* Item of a list, or value of a map. */
static inline const tl_value *tli_gin_child(const tl_value *v, int64_t i)
{
    return v->kind == TL_VALUE_LIST ? v->items[i] : v->pairs[i].value;
}
/* True when a reference or a macro is in it. */
bool tli_gin_holds_names(const tl_value *v);
void tli_gin_expansion_deinit(tli_gin_expansion *e);
/* A value with its macros put in; references are fresh nodes with their entry in `targets`. */
tl_status tli_gin_expand(tli_gin_expansion *e, const tl_value **out, const tl_value *v,
                         const char *home);
/* Sets a member from an expanded value. What does not fit goes to the diags of `a`. */
void tli_gin_set_member(tli_apply *a, const tl_field *field, void *args, const tl_value *v);
/* The choice {class, a copy of its configuration}, as YAML makes it; lives as long as gin. */
tl_status tli_gin_choose(void **out, tl_gin *gin, const tl_class *cls, const void *config);
/* For tli_apply.reference; the payload is the tli_gin_expansion. */
tl_status tli_gin_reference(tl_ref *out, const tl_value *v, void *payload);

/* The macro or constant that a node means: `%x`, or `@x/gin.macro()`. Both NULL: it is neither, or
 * is not defined. */
tl_status tli_gin_meaning(tli_gin_binding **macro, const tl_value **constant, const char **full,
                          tl_gin *gin, const tl_value *v, const char *home);

/* --- calls ----------------------------------------------------------------------------------- */

typedef enum tli_gin_mark { TLI_GIN_FREE, TLI_GIN_GIVEN, TLI_GIN_REQUIRED } tli_gin_mark;
struct tl_gin_call {
    tl_gin *gin;
    tli_gin_info *info;
    const char *scope; /* it runs in; "" until it runs: the one that is current then */
    tl_arena *arena;
    void *args;
    tli_gin_mark *marks;     /* by field */
    tli_gin_binding **bound; /* by field */
    int64_t *order;          /* fields that gin binds, in the order of their bindings */
    int64_t bound_count;
    const char *unknown; /* first parameter name that the caller got wrong */
    tli_gin_expansion expansion;
    tl_gin_call *outer; /* the call that this one is made in */
    bool own;           /* the program's own, which nobody asked for */
    bool in_body;       /* arguments are done, the configurable itself is running */
};

tl_status tli_gin_scope_push(tl_gin *gin, const char *scope);
/* Adds to what was used, in the current scope. */
tl_status tli_gin_record(tl_gin *gin, const tl_class *cls, tli_gin_binding *binding);
/* What is bound for the class in the current scope and those around it, by field. */
void tli_gin_overlay(const tl_gin *gin, const tli_gin_info *info, tli_gin_binding **bound,
                     int64_t *order, int64_t *count);
/* `@scope/name()` as an argument; the object is gin's. */
tl_status tli_gin_call_argument(void **out, tl_gin *gin, const tl_class *cls, const char *scope);

/* --- out ------------------------------------------------------------------------------------- */

/* As Python's repr. */
void tli_gin_repr(tl_str *out, tl_gin *gin, const tl_value *v, const char *home);
/* As Python's pprint.pformat with this width. */
tl_status tli_gin_pretty(tl_str *out, tl_gin *gin, const tl_value *v, const char *home,
                         int64_t width);
/* False when gin could not read back what repr writes. */
bool tli_gin_is_literal(const tl_value *v);
/* Code points. */
int64_t tli_gin_width(const char *text);
/* A member as a value; NULL in *out when it cannot be written. */
tl_status tli_gin_member(const tl_value **out, tl_gin *gin, tl_arena *arena, const tl_field *field,
                         const void *args);

#endif
