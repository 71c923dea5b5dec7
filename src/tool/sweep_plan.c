#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>
#include <tilth/base/rng.h>
#include <tilth/base/vec.h>
#include <tilth/desc/config.h>
#include <tilth/desc/yaml.h>

#include "io/inner/json_text.h"
#include "tool/sweep.h"

enum { MOST_RUNS = 10000, LONGEST_NAME = 120, LONGEST_FILE = 1 << 26 };

/* --- what is varied --------------------------------------------------------------------------- */

typedef enum drawing { GRID, LOG, UNIFORM, WHOLE, CHOICE } drawing;
static const char *const drawing_names[] = {
    [LOG] = "log",
    [UNIFORM] = "uniform",
    [WHOLE] = "int",
    [CHOICE] = "choice",
};

typedef struct axis {
    const char *key, *label; /* the label is the end of the key, which stands in names */
    drawing kind;
    double low, high;
    tl_strings values; /* of a grid, or a choice */
} axis;
typedef struct axes {
    axis *items;
    int64_t count, capacity;
} axes;

/* "a,[1,2],'x,y'" at its outer commas. */
static tl_status split(tl_strings *out, tl_arena *arena, const char *text)
{
    int64_t count = 1, depth = 0;
    for (const char *p = text; *p; p++) count += *p == ',';
    const char **items = tl_arena_array(arena, count, sizeof *items);
    if (!items) return TL_ENOMEM;
    count = 0;
    char quote = 0;
    for (const char *begin = text, *p = text;; p++) {
        if (*p && quote) quote = *p == quote ? 0 : quote;
        else if (*p == '\'' || *p == '"') quote = *p;
        else depth += (*p && strchr("([{", *p) != NULL) - (*p && strchr(")]}", *p) != NULL);
        if (*p && (*p != ',' || depth > 0 || quote)) continue;
        items[count] = tl_arena_strndup(arena, begin, (size_t)(p - begin));
        if (!items[count++]) return TL_ENOMEM;
        if (!*p) break;
        begin = p + 1;
    }
    *out = (tl_strings){items, count};
    return TL_OK;
}

static tl_status begin_axis(axis *a, const char **rest, tl_arena *arena, const char *text,
                            const char *flag)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return TL_FAIL(TL_EINVAL, "%s '%.80s': KEY=%s was expected, such as %s", flag, text,
                       strcmp(flag, "--grid") == 0 ? "V1,V2" : "log(A,B)",
                       strcmp(flag, "--grid") == 0 ? "task.train_data.global_batch_size=16,32"
                                                   : "'tilth.seed=int(1,1000)'");
    a->key = tl_arena_strndup(arena, text, (size_t)(equals - text));
    *rest = equals + 1;
    return a->key ? TL_OK : TL_ENOMEM;
}

static tl_status read_grid(axis *a, tl_arena *arena, const char *text)
{
    const char *rest;
    TL_TRY(begin_axis(a, &rest, arena, text, "--grid"));
    a->kind = GRID;
    TL_TRY(split(&a->values, arena, rest));
    for (int64_t i = 0; i < a->values.count; i++)
        if (!*a->values.items[i])
            return TL_FAIL(TL_EINVAL, "--grid '%.80s': a value is empty", text);
    return TL_OK;
}

static bool read_number(double *out, const char *text)
{
    char *end;
    while (*text == ' ') text++;
    *out = tl_strtod(text, &end);
    while (*end == ' ') end++;
    return end != text && !*end && isfinite(*out);
}

static tl_status check_range(const axis *a, const char *text)
{
    if (a->kind == LOG && !(a->low > 0 && a->low < a->high))
        return TL_FAIL(TL_EINVAL, "--random '%.80s': log(A,B) needs 0 < A < B", text);
    if (a->kind == UNIFORM && !(a->low < a->high))
        return TL_FAIL(TL_EINVAL, "--random '%.80s': uniform(A,B) needs A < B", text);
    bool whole = a->low == floor(a->low) && a->high == floor(a->high) && fabs(a->low) < 1e15
                 && fabs(a->high) < 1e15;
    if (a->kind == WHOLE && !(whole && a->low <= a->high))
        return TL_FAIL(TL_EINVAL, "--random '%.80s': int(A,B) needs whole numbers, A <= B", text);
    return TL_OK;
}

static tl_status read_random(axis *a, tl_arena *arena, const char *text)
{
    const char *rest;
    TL_TRY(begin_axis(a, &rest, arena, text, "--random"));
    size_t length = strcspn(rest, "("), all = strlen(rest);
    for (a->kind = LOG; a->kind <= CHOICE; a->kind++)
        if (strlen(drawing_names[a->kind]) == length
            && strncmp(rest, drawing_names[a->kind], length) == 0)
            break;
    if (a->kind > CHOICE || length == all || rest[all - 1] != ')')
        return TL_FAIL(TL_EINVAL,
                       "--random '%.80s': KEY=log(A,B), uniform(A,B), int(A,B) or "
                       "choice(V1,V2,...) was expected",
                       text);
    const char *inner = tl_arena_strndup(arena, rest + length + 1, all - length - 2);
    if (!inner) return TL_ENOMEM;
    TL_TRY(split(&a->values, arena, inner));
    if (a->kind == CHOICE) return TL_OK;
    if (a->values.count != 2 || !read_number(&a->low, a->values.items[0])
        || !read_number(&a->high, a->values.items[1]))
        return TL_FAIL(TL_EINVAL, "--random '%.80s': %s takes two numbers", text,
                       drawing_names[a->kind]);
    return check_range(a, text);
}

/* The last part of a key, or all of it when another one ends so. */
static void label_axes(axes *all)
{
    for (int64_t i = 0; i < all->count; i++) {
        axis *a = &all->items[i];
        const char *dot = strrchr(a->key, '.');
        a->label = dot && dot[1] ? dot + 1 : a->key;
        for (int64_t k = 0; k < all->count; k++) {
            const char *other = all->items[k].key, *behind = strrchr(other, '.');
            if (k != i && strcmp(behind && behind[1] ? behind + 1 : other, a->label) == 0)
                a->label = a->key;
        }
    }
}

static tl_status read_axes(axes *out, tl_arena *arena, const tli_sweep_flags *flags)
{
    for (int64_t i = 0; i < flags->grid.count + flags->random.count; i++) {
        axis a = {0};
        if (i < flags->grid.count) TL_TRY(read_grid(&a, arena, flags->grid.items[i]));
        else TL_TRY(read_random(&a, arena, flags->random.items[i - flags->grid.count]));
        if (strstr(a.key, "notify"))
            return TL_FAIL(TL_EINVAL,
                           "'%s' is a command, which cannot be varied: give it as a word", a.key);
        for (int64_t k = 0; k < out->count; k++)
            if (strcmp(out->items[k].key, a.key) == 0)
                return TL_FAIL(TL_EINVAL, "the key '%s' is varied twice", a.key);
        if (!TL_VEC_PUSH(out, a)) return TL_ENOMEM;
    }
    label_axes(out);
    return TL_OK;
}

/* --- the runs --------------------------------------------------------------------------------- */

/* About four digits of the range are enough to vary something, and can be read. Rounding leads to
 * nowhere outside of it. */
static const char *number_text(const axis *a, tl_arena *arena, double value)
{
    char text[40];
    double narrow = fmax(fabs(a->low), fabs(a->high)) / (a->high - a->low);
    int digits = 4 + (int)fmax(0, ceil(log10(narrow) - 0.5));
    snprintf(text, sizeof text, "%.*g", digits < 17 ? digits : 17, value);
    double rounded = tl_strtod(text, NULL);
    if (rounded < a->low) tl_double_text(text, a->low);
    else if (rounded > a->high) tl_double_text(text, a->high);
    return tl_arena_strdup(arena, text);
}

static const char *draw(const axis *a, tl_arena *arena, tl_rng *rng)
{
    double u;
    switch (a->kind) {
    case LOG:
        u = tl_rng_uniform_f64(rng);
        return number_text(a, arena, exp(log(a->low) + u * (log(a->high) - log(a->low))));
    case UNIFORM:
        u = tl_rng_uniform_f64(rng);
        return number_text(a, arena, a->low + u * (a->high - a->low));
    case WHOLE: {
        int64_t count = (int64_t)(a->high - a->low) + 1;
        return tl_arena_printf(arena, "%" PRId64, (int64_t)a->low + tl_rng_below(rng, count));
    }
    default: return a->values.items[tl_rng_below(rng, a->values.count)];
    }
}

/* "07-learning_rate=0.01-units=32", of what every shell takes. */
static const char *name_of(tl_arena *arena, const axes *all, const char *const *values,
                           int64_t index, int64_t count)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
    int digits = 1;
    for (int64_t n = count; n >= 10; n /= 10) digits++;
    tl_str name = TL_STR_INIT;
    tl_str_addf(&name, "%0*" PRId64, digits, index + 1);
    for (int64_t i = 0; i < all->count; i++) {
        tl_str_addf(&name, "-%s=", all->items[i].label);
        for (const char *p = values[i]; *p; p++) tl_str_addc(&name, strchr(plain, *p) ? *p : '_');
    }
    if (name.length > LONGEST_NAME) tl_str_cut(&name, LONGEST_NAME);
    const char *copy = tl_str_copy(&name, arena);
    tl_str_deinit(&name);
    return copy;
}

static tl_status make_run(tli_sweep_run *out, tl_arena *arena, const axes *all, int64_t index,
                          int64_t count, int64_t point, tl_rng *rng)
{
    const char **values = tl_arena_array(arena, all->count, sizeof *values);
    const char **words = tl_arena_array(arena, all->count, sizeof *words);
    if (!values || !words) return TL_ENOMEM;
    for (int64_t i = all->count - 1; i >= 0; i--) { // the last key of the grid changes first
        const axis *a = &all->items[i];
        if (a->kind != GRID) continue;
        values[i] = a->values.items[point % a->values.count];
        point /= a->values.count;
    }
    for (int64_t i = 0; i < all->count; i++) {
        if (all->items[i].kind != GRID) values[i] = draw(&all->items[i], arena, rng);
        words[i] = values[i] ? tl_arena_printf(arena, "%s=%s", all->items[i].key, values[i]) : NULL;
        if (!words[i]) return TL_ENOMEM;
    }
    out->words = (tl_strings){words, all->count};
    out->name = name_of(arena, all, values, index, count);
    return out->name ? TL_OK : TL_ENOMEM;
}

static tl_status count_runs(int64_t *out, const axes *all, const tli_sweep_flags *flags)
{
    if (!all->count)
        return TL_FAIL(TL_EINVAL,
                       "nothing is varied: say --grid KEY=V1,V2 or --random 'KEY=log(A,B)'");
    if (flags->runs && !flags->random.count)
        return TL_FAIL(
            TL_EINVAL,
            "--runs is the number of draws, and nothing is drawn: add --random 'KEY=log(A,B)'");
    if (!flags->runs && flags->random.count)
        return TL_FAIL(TL_EINVAL, "--random needs --runs=N, the number of draws");
    *out = flags->random.count ? flags->runs : 1;
    for (int64_t i = 0; i < all->count && *out <= MOST_RUNS; i++)
        if (all->items[i].kind == GRID) *out *= all->items[i].values.count;
    if (*out > MOST_RUNS) return TL_FAIL(TL_ELIMIT, "these are more than %d runs", MOST_RUNS);
    return TL_OK;
}

tl_status tli_sweep_plan(tli_sweep *out, tl_arena *arena, const tli_sweep_flags *flags)
{
    axes all = {0};
    tl_rng rng;
    tl_status st;
    int64_t each = flags->random.count ? flags->runs : 1;
    *out = (tli_sweep){0};
    tl_rng_init(&rng, (uint64_t)flags->seed);
    TL_TRY_DONE(st, read_axes(&all, arena, flags));
    TL_TRY_DONE(st, count_runs(&out->count, &all, flags));
    out->items = tl_arena_array(arena, out->count, sizeof *out->items);
    st = out->items ? TL_OK : TL_ENOMEM;
    for (int64_t i = 0; i < out->count && st == TL_OK; i++)
        st = make_run(&out->items[i], arena, &all, i, out->count, i / each, &rng);
done:
    TL_VEC_FREE(&all);
    return st;
}

/* --- what others may read --------------------------------------------------------------------- */

/* The map without a key; `v` itself when it has none of that name, NULL without memory. */
static const tl_value *without(tl_arena *arena, const tl_value *v, const char *key)
{
    if (v->kind != TL_VALUE_MAP || !tl_value_get(v, key)) return v;
    tl_value_pair *kept = tl_arena_array(arena, v->count, sizeof *kept);
    int64_t count = 0;
    if (!kept) return NULL;
    for (int64_t i = 0; i < v->count; i++)
        if (strcmp(v->pairs[i].key, key) != 0) kept[count++] = v->pairs[i];
    return tl_value_new_map(arena, v->place, kept, count);
}

/* tilth: {notify: ...} as well as tilth.notify: ... */
static const tl_value *without_notify(tl_arena *arena, const tl_value *all)
{
    const tl_value *v = without(arena, all, "tilth.notify");
    const tl_value *own = v ? tl_value_get(v, "tilth") : NULL;
    if (!own) return v;
    const tl_value *kept = without(arena, own, "notify");
    if (kept == own || !kept || !(v = without(arena, v, "tilth"))) return kept ? v : NULL;
    if (!kept->count) return v;
    tl_value_pair *pairs = tl_arena_array(arena, v->count + 1, sizeof *pairs);
    if (!pairs) return NULL;
    for (int64_t i = 0; i < v->count; i++) pairs[i] = v->pairs[i];
    pairs[v->count] = (tl_value_pair){.key = "tilth", .place = v->place, .value = kept};
    return tl_value_new_map(arena, v->place, pairs, v->count + 1);
}

/* The word up to `length`, and the value. */
static tl_status word_of(const char **out, tl_arena *arena, const char *word, size_t length,
                         const tl_value *v)
{
    tl_str text = TL_STR_INIT;
    tl_str_addn(&text, word, length);
    tl_status st = v ? tl_yaml_write_value(&text, v) : TL_ENOMEM;
    if (st == TL_OK) st = tl_str_status(&text);
    if (st == TL_OK && !(*out = tl_str_copy(&text, arena))) st = TL_ENOMEM;
    tl_str_deinit(&text);
    return st;
}

tl_status tli_sweep_public(const char **out, tl_arena *arena, const char *word)
{
    static const char flag[] = "--params_override=";
    const tl_value *v;
    *out = word;
    if (!strstr(word, "notify")) return TL_OK;
    const char *key = word + strspn(word, "+"), *equals = strchr(word, '=');
    if (strncmp(key, "tilth.notify=", 13) == 0) {
        *out = NULL;
        return TL_OK;
    }
    bool pairs = strncmp(word, flag, sizeof flag - 1) == 0, own = strncmp(key, "tilth=", 6) == 0;
    if (!pairs && !own) return TL_OK;
    tl_status st = pairs ? tl_csv_parse(&v, arena, equals + 1, flag) : TL_EINVAL;
    if (st == TL_EINVAL) st = tl_yaml_parse(&v, arena, equals + 1, strlen(equals + 1), flag);
    if (st == TL_ENOMEM) return st;
    tl_error_clear(); // the name of a file, then
    if (st != TL_OK || v->kind != TL_VALUE_MAP) return TL_OK;
    v = own ? without(arena, v, "notify") : without_notify(arena, v);
    *out = NULL;
    return v && !v->count ? TL_OK : word_of(out, arena, word, (size_t)(equals + 1 - word), v);
}

/* --- sweep.json ------------------------------------------------------------------------------- */

static void add_words(tli_json *j, const char *key, tl_strings words)
{
    tli_json_begin(j, key, '[');
    for (int64_t i = 0; i < words.count; i++) tli_json_text(j, NULL, words.items[i]);
    tli_json_end(j, ']');
}

static tl_status write_plan(const tli_sweep *s, const char *path, tl_strings arguments)
{
    tl_str text = TL_STR_INIT;
    tli_json j = {.out = &text, .indent = 2};
    tli_json_begin(&j, NULL, '{');
    add_words(&j, "arguments", arguments);
    tli_json_begin(&j, "runs", '[');
    for (int64_t i = 0; i < s->count; i++) {
        tli_json row = tli_json_row(&j);
        tli_json_begin(&row, NULL, '{');
        tli_json_text(&row, "name", s->items[i].name);
        add_words(&row, "words", s->items[i].words);
        tli_json_end(&row, '}');
    }
    tli_json_end(&j, ']');
    tli_json_end(&j, '}');
    tl_str_addc(&text, '\n');
    tl_status st = tl_str_status(&text);
    if (st == TL_OK) st = tl_file_write_atomic(path, tl_str_text(&text), text.length);
    tl_str_deinit(&text);
    return st;
}

static tl_status read_words(tl_strings *out, tl_arena *arena, json_t *list)
{
    int64_t count = (int64_t)json_array_size(list);
    const char **items = tl_arena_array(arena, count ? count : 1, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, (size_t)i));
        items[i] = text ? tl_arena_strdup(arena, text) : "";
        if (!items[i]) return TL_ENOMEM;
    }
    *out = (tl_strings){items, count};
    return TL_OK;
}

/* A name goes below the folder, and is a name. */
static bool is_name(const char *name)
{
    return name && *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* What they set is in the file, which keys they may set is not: it may be of anybody. */
static bool have_same_keys(tl_strings a, tl_strings b)
{
    if (a.count != b.count) return false;
    for (int64_t i = 0; i < a.count; i++) {
        size_t key = strcspn(a.items[i], "=");
        if (strncmp(a.items[i], b.items[i], key + 1) != 0) return false;
    }
    return true;
}

static tl_status read_run(tli_sweep_run *out, tl_arena *arena, json_t *one, const char *path,
                          int64_t index)
{
    const char *name = json_string_value(json_object_get(one, "name"));
    tl_strings words;
    TL_TRY(read_words(&words, arena, json_object_get(one, "words")));
    if (!is_name(name) || !have_same_keys(out->words, words))
        return TL_FAIL(TL_EINVAL,
                       "%s: run %" PRId64 " has no name of a folder, or sets other keys than the "
                       "command says; remove the file to begin anew",
                       path, index + 1);
    out->name = tl_arena_strdup(arena, name);
    out->words = words;
    return out->name ? TL_OK : TL_ENOMEM;
}

static tl_status read_runs(tli_sweep *out, tl_arena *arena, json_t *runs, const char *path)
{
    if ((int64_t)json_array_size(runs) != out->count)
        return TL_FAIL(TL_EINVAL,
                       "%s: it has %zu runs, and the command says %" PRId64
                       "; remove the file to begin anew",
                       path, json_array_size(runs), out->count);
    for (int64_t i = 0; i < out->count; i++)
        TL_TRY(read_run(&out->items[i], arena, json_array_get(runs, (size_t)i), path, i));
    return TL_OK;
}

static tl_status compare_arguments(tl_strings there, tl_strings given, const char *path)
{
    for (int64_t i = 0; i < there.count || i < given.count; i++) {
        const char *a = i < there.count ? there.items[i] : NULL,
                   *b = i < given.count ? given.items[i] : NULL;
        if (a && b && strcmp(a, b) == 0) continue;
        return TL_FAIL(TL_EEXISTS,
                       "%s is of another command: it says %s%.200s%s where this one says "
                       "%s%.200s%s. Give the same command to go on with it, or another --model_dir",
                       path, a ? "'" : "", a ? a : "nothing", a ? "'" : "", b ? "'" : "",
                       b ? b : "nothing", b ? "'" : "");
    }
    return TL_OK;
}

static tl_status read_plan(tli_sweep *out, tl_arena *arena, const char *path, tl_strings arguments)
{
    char *text;
    size_t size;
    TL_TRY(tl_file_read(&text, &size, path, LONGEST_FILE));
    json_error_t error;
    json_t *all = json_loadb(text, size, 0, &error);
    tl_strings there;
    tl_status st;
    tl_free(text);
    if (!json_is_object(all)) {
        st = TL_FAIL(TL_EINVAL, "%s:%d: not understood (%s); remove it to begin anew", path,
                     error.line, error.text);
        goto done;
    }
    TL_TRY_DONE(st, read_words(&there, arena, json_object_get(all, "arguments")));
    TL_TRY_DONE(st, compare_arguments(there, arguments, path));
    st = read_runs(out, arena, json_object_get(all, "runs"), path);
done:
    json_decref(all);
    return st;
}

tl_status tli_sweep_keep(tli_sweep *out, tl_arena *arena, const char *folder, tl_strings arguments)
{
    const char *path = tl_path_join(arena, folder, TLI_SWEEP_FILE),
               *params = tl_path_join(arena, folder, "params.yaml");
    if (!path || !params) return TL_ENOMEM;
    if (tl_file_exists(path)) return read_plan(out, arena, path, arguments);
    if (tl_file_exists(params))
        return TL_FAIL(TL_EEXISTS,
                       "'%s' is the folder of a run: name another --model_dir for the sweep",
                       folder);
    TL_TRY(tl_mkdirs(folder));
    return write_plan(out, path, arguments);
}
