/* Private to desc: what the files of the reader of Python share. Text is cut into tokens by gin's
 * lexer, which follows Python's rules.
 *
 *     source.c      files, imports, shipped files      statement.c   statements
 *     expression.c  expressions                        call.c        calls
 *     value.c       values, copies, what is given      number.c      arithmetic */
#ifndef TILTH_SRC_DESC_PYTHON_IMPL_H
#define TILTH_SRC_DESC_PYTHON_IMPL_H

#include <tilth/desc/python.h>

#include "desc/gin/impl.h"

typedef enum tli_py_kind {
    TLI_PY_NONE,
    TLI_PY_BOOL,
    TLI_PY_INT,
    TLI_PY_FLOAT,
    TLI_PY_TEXT,
    TLI_PY_LIST,
    TLI_PY_MAP,
    TLI_PY_SYMBOL, /* something of a library, by its dotted name */
    TLI_PY_LAZY,   /* LazyCall(target) that is not called yet; `text` is the target */
    TLI_PY_OBJECT  /* what a call of a symbol gives: `text` is the symbol, `pairs` its arguments */
} tli_py_kind;

typedef struct tli_py tli_py;

typedef struct tli_py_pair {
    const char *key; /* NULL in lists */
    tl_place place;  /* of the key */
    tli_py *value;
} tli_py_pair;

/* Lists and maps are shared and may change; all others never do. */
struct tli_py {
    tli_py_kind kind;
    bool tuple;  /* list */
    bool config; /* list or map of OmegaConf: holds copies */
    tl_place place;
    int64_t i; /* also of a bool */
    double d;
    const char *text;
    tli_py_pair *pairs;
    int64_t count, capacity;
};

/* A file being read, and the ones that import it. */
typedef struct tli_py_file {
    const char *source; /* in messages */
    const char *id;     /* real path, or path among the shipped files */
    const char *folder; /* of `id`; NULL: a text, which has none */
    bool shipped;
    const struct tli_py_file *outer;
    int depth;
} tli_py_file;

typedef struct tli_py_reader {
    tl_arena *arena;
    const tl_python_options *options;
    const char *root; /* real path; NULL: there is none */
    int64_t nodes, looks, files;
    size_t bytes;
} tli_py_reader;

/* One file while it is read. */
typedef struct tli_py_module {
    tli_py_reader *reader;
    const tli_py_file *file;
    tli_gin_lexer lexer;
    tli_gin_token token; /* the current one */
    tli_py *names;       /* a plain map */
    int nesting;
} tli_py_module;

/* "a.py:7:3: ..." */
#define TLI_PY_FAIL(place, code, ...) tli_gin_at(TL_FAIL(code, __VA_ARGS__), place)
/* What is refused because it would be a program. */
#define TLI_PY_REFUSE(place, ...)                                                                  \
    tli_gin_at(tl_error_note(TL_FAIL(TL_EUNSUPPORTED, "%s", tli_py_understood), __VA_ARGS__), place)
extern const char tli_py_understood[];

/* --- tokens ----------------------------------------------------------------------------------- */

/* Operators of several characters are one mark. */
tl_status tli_py_advance(tli_py_module *m);
bool tli_py_at_mark(const tli_py_module *m, const char *mark);
bool tli_py_at_word(const tli_py_module *m, const char *word);
/* Passes over the mark; fails when something else is there. */
tl_status tli_py_expect(tli_py_module *m, const char *mark, const char *where);
/* Passes over a name that is no keyword. */
tl_status tli_py_name(tli_py_module *m, const char **out, const char *what);
bool tli_py_is_keyword(const char *text, size_t length);
/* "'x'", "the end of the line", for messages. */
const char *tli_py_found(const tli_py_module *m, char *buffer, size_t size);

/* --- values ----------------------------------------------------------------------------------- */

/* NULL, with the error set, when there is no memory or there are too many. */
tli_py *tli_py_new(tli_py_reader *r, tli_py_kind kind, tl_place place);
tli_py *tli_py_new_int(tli_py_reader *r, int64_t i, tl_place place);
tli_py *tli_py_new_float(tli_py_reader *r, double d, tl_place place);
tli_py *tli_py_new_text(tli_py_reader *r, tli_py_kind kind, const char *text, tl_place place);

/* "a list", "the number 5", for messages. */
const char *tli_py_noun(const tli_py *v);
/* NULL in *out when there is no such key. */
tl_status tli_py_get(tli_py_pair **out, tli_py_reader *r, const tli_py *map, const char *key);
/* Sets or adds, without a copy and without a look at what it holds. */
tl_status tli_py_put(tli_py_reader *r, tli_py *map, const char *key, tl_place place, tli_py *value);
tl_status tli_py_append(tli_py_reader *r, tli_py *list, tli_py *value);
void tli_py_remove(tli_py *container, int64_t index);
/* What a container holds when it is given `value`: a copy if it is a configuration. Fails when the
 * container would hold itself. */
tl_status tli_py_held(tli_py **out, tli_py_reader *r, const tli_py *container, tli_py *value);
/* A copy; as configurations when `config`, otherwise as they are. */
tl_status tli_py_copy(tli_py **out, tli_py_reader *r, const tli_py *v, bool config);
tl_status tli_py_export(const tl_value **out, tli_py_reader *r, const tli_py *names);
/* The nearest key: ", did you mean 'x'?", or "". */
const char *tli_py_suggest(char *buffer, size_t size, tli_py_reader *r, const tli_py *map,
                           const char *key);
/* All names that LiBai takes from a file, as a configuration. */
tl_status tli_py_taken(tli_py **out, tli_py_reader *r, const tli_py *names, tl_place place);

/* --- expressions, calls, statements ----------------------------------------------------------- */

/* `operator` is that of Python, without '='. */
tl_status tli_py_operate(tli_py **out, tli_py_reader *r, const tli_py *a, const char *operator,
                         const tli_py * b, tl_place place);
tl_status tli_py_negate(tli_py **out, tli_py_reader *r, const tli_py *v, tl_place place);

tl_status tli_py_expression(tli_py_module *m, tli_py **out);
/* One, or several with commas: a tuple. */
tl_status tli_py_expressions(tli_py_module *m, tli_py **out);
/* What a name stands for. */
tl_status tli_py_look_up(tli_py_module *m, tli_py **out, const char *name, tl_place place);
/* `.name` of a value, and `[index]`: the value there. */
tl_status tli_py_attribute(tli_py_module *m, tli_py **out, tli_py *of, const char *name,
                           tl_place place);
tl_status tli_py_item(tli_py_module *m, tli_py **out, tli_py *of, const tli_py *index);
/* Where a list's item is; negative indexes count from the end. */
tl_status tli_py_index(int64_t *out, const tli_py *list, const tli_py *index);

/* The arguments from '(' to ')'. */
tl_status tli_py_call(tli_py_module *m, tli_py **out, tli_py *callee, tl_place place);
tl_status tli_py_method(tli_py_module *m, tli_py **out, tli_py *of, const char *name,
                        tl_place place);

tl_status tli_py_statements(tli_py_module *m);

/* --- files ------------------------------------------------------------------------------------ */

/* The names of the file that an import names; `level` is the number of dots. */
tl_status tli_py_import(tli_py **names, tli_py_module *m, int level, const char *dotted,
                        tl_place place);
/* What get_config gives. */
tl_status tli_py_get_config(tli_py **out, tli_py_module *m, const char *path, tl_place place);

#endif
