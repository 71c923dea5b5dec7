/* LiBai's words. What `model` and `dataloader` name lies in the section `task`: key by key
 * (`model.units=3`), or the whole of it (`dataloader.train={...}`), as a file may give it. */
#include <string.h>

#include <tilth/train/libai/libai.h>

#include "train/libai/libai.h"

typedef enum section { NO_SECTION, TASK, MODEL, LOADERS, TRAIN, TEST } section;

/* A word taken apart. */
typedef struct word {
    const char *text, *source;
    const char *body;      /* behind + and ~ */
    section whole;         /* what it gives as a whole, or takes away */
    const tl_value *value; /* of that section; NULL: it is taken away */
} word;

static const char *after(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static section section_named(const char *key, size_t length)
{
    static const struct {
        const char *key;
        section is;
    } sections[] = {{"task", TASK},
                    {"model", MODEL},
                    {"dataloader", LOADERS},
                    {"dataloader.train", TRAIN},
                    {"dataloader.test", TEST},
                    {"dataloader.test[0]", TEST}};
    for (int64_t i = 0; i < TL_COUNT(sections); i++)
        if (strlen(sections[i].key) == length && memcmp(sections[i].key, key, length) == 0)
            return sections[i].is;
    return NO_SECTION;
}

static tl_status read_word(word *out, tl_arena *arena, const tl_word *given)
{
    const char *body = given->text + strspn(given->text, "+~"), *equals = strchr(body, '=');
    size_t length = equals ? (size_t)(equals - body) : strlen(body);
    *out = (word){.text = given->text,
                  .source = given->source,
                  .body = body,
                  .whole = section_named(body, length)};
    if (out->whole == NO_SECTION || !equals) return TL_OK;
    TL_TRY_NOTE(tl_word_value(&out->value, arena, equals + 1, given->source), "%s: %.*s",
                given->source, (int)length, body);
    return TL_OK;
}

/* --- the task --------------------------------------------------------------------------------- */

/* The task that a word names; NULL when it names none. */
static const char *task_named_by(const word *w)
{
    const char *rest = after(w->body, "model._target_=");
    const tl_value *name = NULL;
    if (rest) return tli_last_part(rest);
    if (w->whole == MODEL && w->value) name = tl_value_get(w->value, "_target_");
    if (w->whole == TASK && w->value) name = tl_value_get(w->value, "type");
    if (name && name->kind == TL_VALUE_SCALAR) return tli_last_part(name->text);
    return after(w->body, "task.type=");
}

static tl_status check_task(const word *w, const char *task)
{
    bool needed = w->whole > TASK || after(w->body, "model.") || after(w->body, "dataloader.");
    if (task || !needed) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s: this belongs to a task, and none is named: say model._target_=NAME (the "
                   "command `list tasks` shows the names)",
                   w->text);
}

/* --- key by key ------------------------------------------------------------------------------- */

/* The word in the words of the section `task`; NULL when there is no memory. */
static const char *translate(tl_arena *arena, const word *w, const char *task)
{
    static const struct {
        const char *from, *to;
    } sections[] = {
        {"model.", "model."},
        {"dataloader.train.", "train_data."},
        {"dataloader.test[0].", "validation_data."},
        {"dataloader.test.", "validation_data."},
    };
    const char *rest = after(w->body, "model._target_=");
    int signs = (int)(w->body - w->text);
    if (rest)
        return tl_arena_printf(arena, "%.*stask.type=%s", signs, w->text, tli_last_part(rest));
    for (int64_t i = 0; i < TL_COUNT(sections); i++)
        if ((rest = after(w->body, sections[i].from)))
            return tl_arena_printf(arena, "%.*stask.%s.%s%s", signs, w->text, task, sections[i].to,
                                   rest);
    return w->text;
}

static tl_status set_key(tl_config *c, const word *w, const char *task)
{
    const char *text = translate(tl_config_arena(c), w, task);
    if (!text) return TL_ENOMEM;
    if (after(text + (w->body - w->text), "dataloader."))
        return TL_FAIL(TL_ENOTFOUND,
                       "%s: %.*s: unknown key (known: dataloader.train, dataloader.test)",
                       w->source, (int)strcspn(w->body, "="), w->body);
    return tl_config_word(c, text, w->source);
}

/* --- as a whole ------------------------------------------------------------------------------- */

/* task.NAME.KEY becomes the value, or is taken away. */
static tl_status set_section(tl_config *c, const word *w, const char *task, const char *key,
                             const tl_value *value)
{
    const char *text =
        tl_arena_printf(tl_config_arena(c), "%.*stask.%s.%s%s", (int)(w->body - w->text), w->text,
                        task, key, value ? "=" : "");
    if (!text) return TL_ENOMEM;
    return value ? tl_config_word_value(c, text, value, w->source)
                 : tl_config_word(c, text, w->source);
}

static tl_status set_model(tl_config *c, const word *w, const char *task)
{
    tl_arena *arena = tl_config_arena(c);
    const char *named = task_named_by(w);
    if (named) {
        const tl_value *name = tl_value_new_scalar(arena, w->value->place, named, true);
        if (!name) return TL_ENOMEM;
        TL_TRY(tl_config_word_value(c, "++task.type=", name, w->source));
    }
    if (!w->value || w->value->kind != TL_VALUE_MAP)
        return set_section(c, w, task, "model", w->value);
    const tl_value *rest = tli_libai_without(arena, w->value, "_target_", "_recursive_");
    if (!rest) return TL_ENOMEM;
    return rest->count ? set_section(c, w, task, "model", rest) : TL_OK;
}

static tl_status set_loader(tl_config *c, const word *w, const char *task, const char *name,
                            const tl_value *value)
{
    const char *key = strcmp(name, "train") == 0 ? "train_data" : "validation_data";
    const tl_value *given = value;
    if (value) TL_TRY(tli_libai_read_loader(&key, &value, tl_config_arena(c), name, value));
    TL_TRY(set_section(c, w, task, key, value));
    return given && strcmp(name, "test") == 0 ? tli_libai_more_tests(c, given) : TL_OK;
}

static tl_status set_loaders(tl_config *c, const word *w, const char *task)
{
    if (!w->value) {
        TL_TRY(set_loader(c, w, task, "train", NULL));
        return set_loader(c, w, task, "test", NULL);
    }
    TL_TRY(tli_libai_check_loaders(w->value));
    for (int64_t i = 0; i < w->value->count; i++)
        TL_TRY(set_loader(c, w, task, w->value->pairs[i].key, w->value->pairs[i].value));
    return TL_OK;
}

static tl_status apply_word(tl_config *c, const word *w, const char *task)
{
    TL_TRY(check_task(w, task));
    switch (w->whole) {
    case NO_SECTION:
    case TASK: break;
    case MODEL: return set_model(c, w, task);
    case LOADERS: return set_loaders(c, w, task);
    case TRAIN: return set_loader(c, w, task, "train", w->value);
    case TEST: return set_loader(c, w, task, "test", w->value);
    }
    return set_key(c, w, task);
}

/* --- all of them ------------------------------------------------------------------------------ */

/* The first failure's code, and the messages of all. */
typedef struct failures {
    tl_status code;
    tl_str text;
} failures;

static void collect(failures *f, tl_status st)
{
    if (st == TL_OK) return;
    if (f->code == TL_OK || st == TL_ENOMEM) f->code = st;
    tl_str_addf(&f->text, "%s%s", f->text.length ? "\n" : "", tl_error_message());
}

static tl_status settle(failures *f)
{
    tl_status st = tl_str_status(&f->text);
    if (st == TL_OK && f->code != TL_OK) st = TL_FAIL(f->code, "%s", tl_str_text(&f->text));
    tl_str_deinit(&f->text);
    return st;
}

tl_status tl_libai_words(tl_config *c, const tl_word *words, int64_t count)
{
    tl_arena *arena = tl_config_arena(c);
    const char *task = ((const tl_libai_config *)tl_config_value(c))->task.type;
    word *read = tl_arena_array(arena, count ? count : 1, sizeof *read);
    failures f = {.text = TL_STR_INIT};
    if (!read) return TL_ENOMEM;
    // A task may be named behind the words that belong to it.
    for (int64_t i = 0; i < count; i++) {
        TL_TRY(read_word(&read[i], arena, &words[i]));
        const char *named = task_named_by(&read[i]);
        if (named) task = named;
    }
    for (int64_t i = 0; i < count && f.code != TL_ENOMEM; i++)
        collect(&f, apply_word(c, &read[i], task));
    return settle(&f);
}
