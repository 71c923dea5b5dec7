#include <tilth/desc/help.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <tilth/desc/yaml.h>

#include "desc/config/apply.h"
#include "desc/yaml/out.h"

/* --- layout ----------------------------------------------------------------------------------- */

int tl_help_width(int fd)
{
    enum { NARROWEST = 40, UNKNOWN = 100 };
    struct winsize size;
    if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return UNKNOWN;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

/* Columns that the bytes take, one for each character of UTF-8. */
static int columns(const char *text, size_t length)
{
    int count = 0;
    for (size_t i = 0; i < length; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static int current_column(const tl_str *out)
{
    if (out->length == 0) return 0;
    size_t start = out->length;
    while (start > 0 && out->data[start - 1] != '\n') start--;
    return columns(out->data + start, out->length - start);
}

/* One line of the text, without its line break. */
static void wrap_line(tl_str *out, const char *line, size_t length, int indent, int width)
{
    int column = current_column(out);
    bool first = true;
    for (size_t at = 0; at < length;) {
        size_t end = at;
        while (end < length && line[end] != ' ') end++;
        int word = columns(line + at, end - at);
        if (!first && word && column + 1 + word > width) {
            tl_str_addc(out, '\n');
            tl_str_pad(out, ' ', indent);
            column = indent;
        } else if (!first && word) {
            tl_str_addc(out, ' ');
            column++;
        }
        tl_str_addn(out, line + at, end - at);
        column += word;
        first = first && !word;
        at = end + 1;
    }
}

void tl_help_wrap(tl_str *out, const char *text, int indent, int width)
{
    for (bool first = true; *text || first; first = false) {
        size_t length = strcspn(text, "\n");
        if (!first && length) tl_str_pad(out, ' ', indent);
        if (*text == ' ') tl_str_addn(out, text, length);
        else wrap_line(out, text, length, indent, width);
        tl_str_addc(out, '\n');
        text += length + (text[length] == '\n');
    }
}

void tl_help_row(tl_str *out, int indent, const char *left, int column, const char *text, int width)
{
    tl_str_pad(out, ' ', indent);
    tl_str_add(out, left);
    int used = indent + columns(left, strlen(left));
    if (!*text) {
        tl_str_addc(out, '\n');
        return;
    }
    if (used + 2 > column) {
        tl_str_addc(out, '\n');
        used = 0;
    }
    tl_str_pad(out, ' ', column - used);
    tl_help_wrap(out, text, column, width);
}

static void add_number(tl_str *out, const tl_field *f, double number)
{
    char text[32];
    tl_double_text(text, number);
    // "1000000" for a whole range, also when the field is a float: ".0" only disturbs.
    size_t length = strlen(text);
    if (length > 2 && strcmp(text + length - 2, ".0") == 0) text[length - 2] = '\0';
    if (f->type == TL_TYPE_INT && fabs(number) < 1e18) tl_str_addf(out, "%.0f", number);
    else tl_str_add(out, text);
}

void tl_help_range(tl_str *out, const tl_field *f)
{
    if (!f->ranged) return;
    bool low = f->min > -HUGE_VAL, high = f->max < HUGE_VAL;
    if (low) {
        tl_str_add(out, high ? "from " : "at least ");
        add_number(out, f, f->min);
    }
    if (high) {
        tl_str_add(out, low ? " to " : "at most ");
        add_number(out, f, f->max);
    }
}

/* --- fields ----------------------------------------------------------------------------------- */

typedef struct writer {
    tl_str *out;
    tl_str path;
    tl_arena *scratch; /* defaults of parts that are not there */
    const tl_help_options *options;
} writer;

static tl_status write_struct(writer *w, const tl_desc *desc, const void *value);

static void add_branches(tl_str *out, const tl_field *f, const tl_registry *registry)
{
    tl_str_add(out, "one of ");
    const char *comma = "";
    for (const tl_branch *b = f->branches; b && b->name; b++, comma = ", ")
        tl_str_addf(out, "%s%s", comma, b->name);
    int64_t open = f->kind && registry ? tl_registry_count(registry, f->kind) : 0;
    for (int64_t i = 0; i < open; i++, comma = ", ")
        tl_str_addf(out, "%s%s", comma, tl_registry_at(registry, f->kind, i)->name);
    if (!*comma) tl_str_add(out, f->kind ? f->kind->plural : "nothing");
}

/* "section", "section or null", "one of a, b", or what the table says. */
static void add_type(writer *w, tl_str *out, const tl_field *f)
{
    bool section = (f->type == TL_TYPE_STRUCT || f->type == TL_TYPE_OBJECT) && f->arity != TL_LIST;
    if (f->type == TL_TYPE_ONEOF) add_branches(out, f, w->options->registry);
    else if (section) {
        tl_str_add(out, tli_is_nullable(f) ? "section or null" : "section");
    } else tl_field_type_text(out, f);
}

static void help_text(tl_str *text, const tl_field *f)
{
    tl_str_add(text, f->help ? f->help : "");
    if (f->ranged) {
        tl_str_add(text, " (");
        tl_help_range(text, f);
        tl_str_addc(text, ')');
    }
    if (f->pattern) tl_str_addf(text, " (matches %s)", f->pattern);
    if (f->flags & TL_FIELD_LATER)
        tl_str_add(text, " [not available yet: only the default is accepted]");
    if (f->flags & TL_FIELD_UNREAD) tl_str_add(text, " [has no effect]");
}

static void add_help(writer *w, const tl_field *f)
{
    tl_str text = TL_STR_INIT;
    help_text(&text, f);
    if (text.failed) w->out->failed = true;
    if (text.length) {
        tl_str_pad(w->out, ' ', 4);
        tl_help_wrap(w->out, tl_str_text(&text), 4, w->options->width);
    }
    tl_str_deinit(&text);
}

/* Nobody has given what must be given. */
static bool is_missing(const tl_field *f, const void *member)
{
    if (!(f->flags & TL_FIELD_REQUIRED)) return false;
    if (f->arity == TL_ONE && f->type == TL_TYPE_INT) return *(const int64_t *)member == f->i;
    if (f->arity == TL_ONE && f->type == TL_TYPE_DOUBLE) return *(const double *)member == f->d;
    if (f->arity == TL_ONE && f->type == TL_TYPE_STRING) {
        const char *text = *(const char *const *)member;
        return !text || !*text;
    }
    return true;
}

static tl_status hand_on(writer *w, const tl_field *f, const char *text)
{
    tl_str type = TL_STR_INIT, help = TL_STR_INIT;
    add_type(w, &type, f);
    help_text(&help, f);
    tl_status st = tl_str_status(&type);
    if (st == TL_OK) st = tl_str_status(&help);
    if (st == TL_OK) st = tl_str_status(&w->path);
    tl_help_entry entry = {.key = tl_str_text(&w->path),
                           .type = tl_str_text(&type),
                           .help = tl_str_text(&help),
                           .text = text && *text ? text : NULL,
                           .required = text && !*text,
                           .field = f};
    if (st == TL_OK) st = w->options->entry(&entry, w->options->payload);
    tl_str_deinit(&type);
    tl_str_deinit(&help);
    return st;
}

/* "key: type, default x" and the help below it. `text` is the default, "" when it must be given (an
 * empty string is ''), NULL for none. */
static tl_status write_entry(writer *w, const tl_field *f, const char *text)
{
    if (w->options->entry) return hand_on(w, f, text);
    tl_str_add(w->out, tl_str_text(&w->path));
    if (w->options->names_only) {
        tl_str_addc(w->out, '\n');
        return TL_OK;
    }
    tl_str head = TL_STR_INIT;
    tl_str_add(&head, ": ");
    add_type(w, &head, f);
    if (text) tl_str_addf(&head, *text ? ", default %s" : ", required%s", text);
    if (head.failed) w->out->failed = true;
    tl_help_wrap(w->out, tl_str_text(&head), 8, w->options->width);
    tl_str_deinit(&head);
    add_help(w, f);
    return tl_str_status(w->out);
}

/* A section: a line for itself, then what is in it. */
static tl_status write_section(writer *w, const tl_field *f, const tl_desc *desc, const void *value)
{
    if (!value) return write_entry(w, f, "null");
    if (!w->options->names_only) TL_TRY(write_entry(w, f, NULL));
    return write_struct(w, desc, value);
}

static tl_status write_oneof(writer *w, const tl_field *f, const tl_oneof *o)
{
    size_t length = w->path.length;
    tli_path_name(&w->path, "type");
    tl_status st = write_entry(w, f, o->type ? o->type : "null");
    tl_str_cut(&w->path, length);
    if (st != TL_OK || !o->type || !o->desc) return st;
    tli_path_name(&w->path, o->type);
    st = write_struct(w, o->desc, o->value);
    tl_str_cut(&w->path, length);
    return st;
}

/* The field whose path is the current one. */
static tl_status write_field(writer *w, const tl_field *f, const void *value)
{
    const void *member = tl_field_at(f, value);
    if (f->arity != TL_LIST && f->type == TL_TYPE_STRUCT)
        return write_section(w, f, f->desc,
                             f->arity == TL_OPTIONAL ? *(void *const *)member : member);
    if (f->type == TL_TYPE_OBJECT)
        return write_section(w, f, ((const tl_object *)member)->desc,
                             ((const tl_object *)member)->value);
    if (f->type == TL_TYPE_ONEOF) return write_oneof(w, f, member);
    if (is_missing(f, member)) return write_entry(w, f, "");
    tl_str text = TL_STR_INIT;
    tl_status st = w->options->names_only ? TL_OK : tli_field_text(&text, f, value);
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK) st = write_entry(w, f, tl_str_text(&text));
    tl_str_deinit(&text);
    return st;
}

static tl_status write_struct(writer *w, const tl_desc *desc, const void *value)
{
    int64_t count;
    const tl_field **fields = tl_desc_sorted(w->scratch, desc, &count);
    if (!fields) return TL_ENOMEM;
    size_t length = w->path.length;
    for (int64_t i = 0; i < count; i++) {
        tli_path_name(&w->path, fields[i]->name);
        tl_status st = write_field(w, fields[i], value);
        tl_str_cut(&w->path, length);
        TL_TRY(st);
    }
    return TL_OK;
}

/* --- one part --------------------------------------------------------------------------------- */

static tl_status write_part(writer *w, const tl_desc *desc, const void *value, char *path);

static tl_status unknown_part(writer *w, const char *name, const char *const *names, int64_t count)
{
    char suggestion[128];
    tli_suggest(suggestion, sizeof suggestion, name, names, count);
    if (!w->path.length) return TL_FAIL(TL_ENOTFOUND, "there is no key '%s'%s", name, suggestion);
    return TL_FAIL(TL_ENOTFOUND, "there is no key '%s' in '%s'%s", name, tl_str_text(&w->path),
                   suggestion);
}

/* The branch of a one-of: as it is set, or with its defaults. */
static tl_status find_branch(const tl_desc **desc, const void **value, writer *w, const tl_field *f,
                             const tl_oneof *o, const char *name)
{
    const tl_registry *r = w->options->registry;
    for (const tl_oneof_part *p = o->parts; p; p = p->next) {
        if (strcmp(p->name, name) != 0) continue;
        *desc = p->desc;
        *value = p->value;
        return TL_OK;
    }
    *value = NULL;
    if (tli_oneof_branch(desc, f, name, r)) return TL_OK;
    int64_t count;
    const char **names = tli_oneof_names(w->scratch, f, r, &count);
    return names ? unknown_part(w, name, names, count + 1) : TL_ENOMEM; // with "type"
}

static tl_status write_oneof_part(writer *w, const tl_field *f, const tl_oneof *o, char *path)
{
    char *rest = path + strcspn(path, ".");
    if (*rest) *rest++ = '\0';
    size_t length = w->path.length;
    tl_status st;
    if (strcmp(path, "type") == 0 && !*rest) {
        tli_path_name(&w->path, "type");
        st = write_entry(w, f, o->type ? o->type : "null");
    } else {
        const tl_desc *desc = NULL;
        const void *value = NULL;
        TL_TRY(find_branch(&desc, &value, w, f, o, path));
        tli_path_name(&w->path, path);
        if (!desc) return TL_FAIL(TL_ENOTFOUND, "'%s' has no fields", tl_str_text(&w->path));
        st = write_part(w, desc, value, rest);
    }
    tl_str_cut(&w->path, length);
    return st;
}

/* What lies at `path` below the struct; NULL for `value` means its defaults. */
static tl_status write_part(writer *w, const tl_desc *desc, const void *value, char *path)
{
    if (!value) {
        void *fresh;
        TL_TRY(tl_desc_new(&fresh, w->scratch, desc));
        value = fresh;
    }
    if (!*path) return write_struct(w, desc, value);
    char *rest = path + strcspn(path, ".");
    if (*rest) *rest++ = '\0';
    const tl_field *f = tl_desc_field(desc, path);
    if (!f) {
        int64_t count = 0;
        const char **names = tli_field_names(w->scratch, desc, &count);
        return names ? unknown_part(w, path, names, count) : TL_ENOMEM;
    }
    tli_path_name(&w->path, f->name);
    const void *member = tl_field_at(f, value);
    const tl_desc *inner = f->arity == TL_LIST ? NULL : tli_field_desc(f, value);
    bool pointer = f->arity == TL_OPTIONAL && f->type == TL_TYPE_STRUCT;
    bool object = f->type == TL_TYPE_OBJECT;
    const void *part = pointer  ? *(void *const *)member
                       : object ? ((const tl_object *)member)->value
                                : member;
    if (f->type == TL_TYPE_ONEOF && *rest) return write_oneof_part(w, f, member, rest);
    if (f->type == TL_TYPE_ONEOF || !inner || (!*rest && part)) {
        if (!*rest) return write_field(w, f, value);
        return TL_FAIL(TL_ENOTFOUND, "'%s' has no keys, so '%s' is not in it",
                       tl_str_text(&w->path), rest);
    }
    if (!part && !*rest) TL_TRY(write_entry(w, f, "null"));
    return write_part(w, inner, part, rest);
}

tl_status tl_help_config(tl_str *out, const tl_desc *desc, const void *value, const char *path,
                         const tl_help_options *options)
{
    writer w = {.out = out, .path = TL_STR_INIT, .options = options};
    TL_TRY(tl_arena_new(&w.scratch));
    char *parts = tl_arena_strdup(w.scratch, path ? path : "");
    tl_status st = parts ? write_part(&w, desc, value, parts) : TL_ENOMEM;
    if (st == TL_OK) st = tl_str_status(&w.path);
    tl_str_deinit(&w.path);
    tl_arena_free(&w.scratch);
    return st;
}

/* --- kinds ------------------------------------------------------------------------------------ */

tl_status tl_help_kind(tl_str *out, const tl_registry *registry, const tl_kind *kind,
                       const tl_help_options *options)
{
    enum { WIDEST = 32 };
    int64_t count = tl_registry_count(registry, kind);
    int column = 0;
    for (int64_t i = 0; i < count; i++) {
        const char *name = tl_registry_at(registry, kind, i)->name;
        int wide = columns(name, strlen(name));
        if (wide > column && wide <= WIDEST) column = wide;
    }
    for (int64_t i = 0; i < count; i++) {
        const tl_class *cls = tl_registry_at(registry, kind, i);
        const char *help = cls->help ? cls->help : cls->config ? cls->config->help : NULL;
        if (options->names_only) tl_str_addf(out, "%s\n", cls->name);
        else tl_help_row(out, 2, cls->name, column + 4, help ? help : "", options->width);
    }
    return tl_str_status(out);
}
