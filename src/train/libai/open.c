/* LiBai's files: YAML, and Python as LiBai has it. Models of LiBai's are translated here. */
#include <string.h>

#include <tilth/base/log.h>
#include <tilth/train/libai/libai.h>
#include <tilth/train/task.h>

#include "train/libai/libai.h"

static const tl_method methods[] = {TL_METHOD(tl_libai_model_class, translate, true),
                                    {NULL, 0, false}};
const tl_kind tl_kind_libai_model = {
    .name = "libai_model",
    .plural = "libai_models",
    .help = "LiBai's models, and what they are here",
    .class_size = sizeof(tl_libai_model_class),
    .methods = methods,
};

/* A configuration on its way from a file to a tl_config. */
typedef struct opening {
    tl_arena *arena;
    const tl_registry *registry;
    const tl_value *tree;
    bool python;
} opening;

/* --- failures at places ----------------------------------------------------------------------- */

static tl_status fail_at(tl_status failed, const tl_value *at)
{
    tl_str place = TL_STR_INIT;
    tl_place_write(&place, at->place);
    tl_status st = tl_error_note(failed, "%s", tl_str_text(&place));
    tl_str_deinit(&place);
    return st;
}

/* --- sections --------------------------------------------------------------------------------- */

/* A file of Python also binds what its sections are made of. */
static tl_status keep_sections(opening *o)
{
    static const char *const sections[] = {"task",  "model", "dataloader",   "train",
                                           "optim", "graph", "tokenization", "tilth"};
    tl_value_pair *pairs = tl_arena_array(o->arena, o->tree->count + 1, sizeof *pairs);
    tl_str others = TL_STR_INIT;
    int64_t count = 0;
    if (!pairs) return TL_ENOMEM;
    for (int64_t i = 0; i < o->tree->count; i++) {
        const tl_value_pair *p = &o->tree->pairs[i];
        int64_t k = 0;
        while (k < TL_COUNT(sections) && strcmp(sections[k], p->key) != 0) k++;
        if (k < TL_COUNT(sections)) pairs[count++] = *p;
        else tl_str_addf(&others, "%s%s", others.length ? ", " : "", p->key);
    }
    if (others.length)
        TL_LOG_INFO("%s: these names are no sections, and are read only where others use them: %s",
                    o->tree->place.source, tl_str_text(&others));
    tl_str_deinit(&others);
    o->tree = tl_value_new_map(o->arena, o->tree->place, pairs, count);
    return o->tree ? TL_OK : TL_ENOMEM;
}

static tl_status refuse_tokenizers(const opening *o)
{
    const tl_value *section = tl_value_get(o->tree, "tokenization");
    if (!section || !section->count) return TL_OK;
    const tl_value *target = tl_value_get(tl_value_get(section, "tokenizer"), "_target_");
    const char *name = target && target->kind == TL_VALUE_SCALAR ? target->text : "tokenization";
    return fail_at(TL_FAIL(TL_EUNSUPPORTED,
                           "tokenization: there is no '%.100s' here: data of texts is configured "
                           "with its task (the command `describe` shows its keys)",
                           name),
                   section);
}

/* Nobody has written any of it. */
static bool is_shipped(const tl_value *v)
{
    static const char folder[] = "shipped/";
    if (!v->place.source || strncmp(v->place.source, folder, sizeof folder - 1) != 0) return false;
    for (int64_t i = 0; i < v->count; i++)
        if (!is_shipped(v->kind == TL_VALUE_MAP ? v->pairs[i].value : v->items[i])) return false;
    return true;
}

/* Nothing here reads these; to say so of defaults that nobody wrote would help nobody. */
static tl_status drop_unread(opening *o, bool translated)
{
    static const struct {
        const char *section, *part, *key, *word;
    } unread[] = {
        {"optim", "params", "_target_", "~optim.params._target_"},
        {"graph", NULL, "train_graph", "~graph.train_graph"},
        {"graph", NULL, "eval_graph", "~graph.eval_graph"},
        {"train", "evaluation", "evaluator", "~train.evaluation.evaluator"},
    };
    for (int64_t i = 0; i < TL_COUNT(unread); i++) {
        const tl_value *v = tl_value_get(o->tree, unread[i].section);
        if (v && unread[i].part) v = tl_value_get(v, unread[i].part);
        if (v) v = tl_value_get(v, unread[i].key);
        // A model of LiBai's has LiBai's evaluator, whoever wrote it.
        bool kept = translated && strcmp(unread[i].key, "evaluator") == 0;
        if (v && is_shipped(v) && !kept)
            TL_TRY(tli_libai_word_into(&o->tree, o->arena, &(tl_word){unread[i].word, "LiBai"}));
    }
    return TL_OK;
}

/* Without both settings LiBai does not clip. */
static tl_status settle_clip(opening *o)
{
    const tl_value *params = tl_value_get(tl_value_get(o->tree, "optim"), "params");
    const tl_value *norm = params ? tl_value_get(params, "clip_grad_norm_type") : NULL;
    if (!norm || !tl_value_is_null(norm)) return TL_OK;
    static const char *const words[] = {"~optim.params.clip_grad_norm_type",
                                        "optim.params.clip_grad_max_norm=null"};
    for (int64_t i = 0; i < TL_COUNT(words); i++)
        TL_TRY(tli_libai_word_into(&o->tree, o->arena,
                                   &(tl_word){words[i], "clip_grad_norm_type of None"}));
    return TL_OK;
}

/* --- models ----------------------------------------------------------------------------------- */

/* `_target_` of the model; NULL: there is none. */
static const tl_value *target_of(const tl_value *tree)
{
    const tl_value *model = tree ? tl_value_get(tree, "model") : NULL;
    const tl_value *target = model ? tl_value_get(model, "_target_") : NULL;
    return target && target->kind == TL_VALUE_SCALAR ? target : NULL;
}

static const tl_libai_model_class *class_of(const opening *o)
{
    const tl_value *target = target_of(o->tree);
    if (!target || !o->registry) return NULL;
    return (const tl_libai_model_class *)tl_registry_peek(o->registry, &tl_kind_libai_model,
                                                          tli_last_part(target->text));
}

/* A model that is neither one of LiBai's that are known here nor a task of ours. */
static tl_status check_known(const opening *o)
{
    const tl_value *target = target_of(o->tree);
    tl_str known = TL_STR_INIT;
    if (!target || !o->registry) return TL_OK;
    bool dotted = strncmp(target->text, "libai.", 6) == 0;
    if (tl_registry_peek(o->registry, &tl_kind_task, tli_last_part(target->text))
        || !(dotted || o->python))
        return TL_OK;
    for (int64_t i = 0; i < tl_registry_count(o->registry, &tl_kind_libai_model); i++)
        tl_str_addf(&known, "%s%s", i ? ", " : "",
                    tl_registry_at(o->registry, &tl_kind_libai_model, i)->name);
    tl_status st = TL_FAIL(TL_ENOTFOUND,
                           "model: there is no '%.100s' here; of LiBai's models there are: %s; and "
                           "all tasks, by their names (the command `list tasks` shows them)",
                           target->text, known.length ? tl_str_text(&known) : "none");
    tl_str_deinit(&known);
    return fail_at(st, target);
}

/* The loader, if it is in LiBai's words; of a list the first item. */
static void libai_loader(const tl_value **out, const tl_value *loaders, const char *name)
{
    const tl_value *loader = loaders ? tl_value_get(loaders, name) : NULL;
    *out = NULL;
    if (loader && loader->kind == TL_VALUE_LIST) loader = loader->count ? loader->items[0] : NULL;
    if (loader && tl_value_get(loader, "dataset")) *out = loader;
}

/* The keys of the task's data that a model's class makes of a test loader. */
static tl_status translate_test(const tl_value **out, const opening *o,
                                const tl_libai_model_class *cls, const tl_libai_sections *given,
                                const tl_value *loader)
{
    tl_libai_sections one = *given;
    tl_str yaml = TL_STR_INIT;
    const tl_value *tree = NULL;
    one.test_loader = loader;
    tl_status st = cls->translate(&yaml, &one);
    if (st == TL_OK) st = tl_str_status(&yaml);
    if (st == TL_OK)
        st = tl_yaml_parse(&tree, o->arena, tl_str_text(&yaml), yaml.length, cls->cls.name);
    tl_str_deinit(&yaml);
    TL_TRY(st);
    const tl_value *task = tl_value_get(tree, "task");
    const tl_value *type = task ? tl_value_get(task, "type") : NULL;
    task = type && type->kind == TL_VALUE_SCALAR ? tl_value_get(task, type->text) : NULL;
    *out = task ? tl_value_get(task, "validation_data") : NULL;
    if (*out) return TL_OK;
    return fail_at(TL_FAIL(TL_EUNSUPPORTED, "dataloader.test: '%s' makes no data of this loader",
                           cls->cls.name),
                   loader);
}

/* Those behind the first, which are the task's own. */
static tl_status apply_tests(tl_config *c, const opening *o, const tl_libai_model_class *cls,
                             const tl_libai_sections *given)
{
    const tl_value *loaders = tl_value_get(o->tree, "dataloader");
    const tl_value *list = loaders ? tl_value_get(loaders, "test") : NULL;
    if (!given->test_loader || !list || list->kind != TL_VALUE_LIST || list->count < 2)
        return TL_OK;
    const tl_value **items = tl_arena_array(o->arena, list->count, sizeof *items);
    if (!items) return TL_ENOMEM;
    for (int64_t i = 0; i < list->count; i++) {
        tl_value_pair pairs[2] = {{.key = "dataset"}, {.key = "translated"}};
        items[i] = list->items[i];
        if (i == 0 || !(pairs[0].value = tl_value_get(list->items[i], "dataset"))) continue;
        TL_TRY(translate_test(&pairs[1].value, o, cls, given, list->items[i]));
        items[i] = tl_value_new_map(o->arena, list->items[i]->place, pairs, 2);
        if (!items[i]) return TL_ENOMEM;
    }
    list = tl_value_new_list(o->arena, list->place, items, list->count);
    return list ? tli_libai_more_tests(c, list) : TL_ENOMEM;
}

/* What is left of `dataloader` when those that were translated are taken away. */
static tl_status without_loaders(const tl_value **out, const opening *o,
                                 const tl_libai_sections *given)
{
    const tl_value *loaders = tl_value_get(o->tree, "dataloader");
    *out = NULL;
    if (!loaders) return TL_OK;
    *out = tli_libai_without(o->arena, loaders, given->train_loader ? "train" : "",
                             given->test_loader ? "test" : "");
    return *out ? TL_OK : TL_ENOMEM;
}

/* Applies the file, whose model is translated. */
static tl_status apply_translated(tl_config *c, const opening *o, const tl_libai_model_class *cls)
{
    tl_libai_sections given = {.model = tl_value_get(o->tree, "model"),
                               .train = tl_value_get(o->tree, "train")};
    const tl_value *loaders = tl_value_get(o->tree, "dataloader"), *translated;
    tl_str yaml = TL_STR_INIT, place = TL_STR_INIT;
    tl_status st;
    if (loaders) TL_TRY(tli_libai_check_loaders(loaders));
    libai_loader(&given.train_loader, loaders, "train");
    libai_loader(&given.test_loader, loaders, "test");
    TL_TRY(without_loaders(&loaders, o, &given));
    opening left = *o;
    TL_TRY(drop_unread(&left, true));
    const tl_value *rest = tli_libai_without(o->arena, left.tree, "model", "dataloader");
    if (!rest) return TL_ENOMEM;
    TL_TRY_DONE(st, cls->translate(&yaml, &given));
    TL_TRY_DONE(st, tl_str_status(&yaml));
    tl_place_write(&place, given.model->place);
    const char *source = tl_arena_printf(o->arena, "%s of %s", cls->cls.name, tl_str_text(&place));
    TL_TRY_DONE(st, source ? TL_OK : TL_ENOMEM);
    TL_TRY_DONE(st, tl_yaml_parse(&translated, o->arena, tl_str_text(&yaml), yaml.length, source));
    TL_TRY_DONE(st, tl_config_apply(c, rest));
    TL_TRY_DONE(st, tl_config_apply(c, translated));
    TL_TRY_DONE(st, apply_tests(c, o, cls, &given));
    if (loaders) {
        const tl_value_pair pair = {.key = "dataloader", .place = loaders->place, .value = loaders};
        const tl_value *map = tl_value_new_map(o->arena, loaders->place, &pair, 1);
        st = map ? tli_libai_apply(c, map) : TL_ENOMEM;
    }
done:
    tl_str_deinit(&yaml);
    tl_str_deinit(&place);
    return st;
}

/* --- all of it -------------------------------------------------------------------------------- */

static bool is_python(const char *path)
{
    size_t length = strlen(path);
    return length > 3 && strcmp(path + length - 3, ".py") == 0;
}

static tl_status read_tree(opening *o, const char *path)
{
    o->python = is_python(path);
    if (!o->python) return tl_yaml_read(&o->tree, o->arena, path);
    TL_TRY(tl_python_read(&o->tree, o->arena, path, &tli_libai_shipped));
    return keep_sections(o);
}

/* Whether a word is about the file's own sections. */
static bool is_of_file(const tl_word *word)
{
    static const char *const sections[] = {"model", "dataloader", "train",
                                           "optim", "graph",      "tokenization"};
    const char *body = word->text + strspn(word->text, "+~");
    size_t length = strcspn(body, ".[=");
    for (int64_t i = 0; i < TL_COUNT(sections); i++)
        if (strlen(sections[i]) == length && memcmp(sections[i], body, length) == 0) return true;
    return false;
}

static tl_status apply_tree(tl_config *c, opening *o)
{
    bool map = o->tree && o->tree->kind == TL_VALUE_MAP;
    const tl_libai_model_class *cls = map ? class_of(o) : NULL;
    if (map && (cls || o->python)) {
        TL_TRY(refuse_tokenizers(o));
        TL_TRY(settle_clip(o));
    }
    if (cls) return apply_translated(c, o, cls);
    if (map) TL_TRY(check_known(o));
    if (map && o->python) TL_TRY(drop_unread(o, false));
    return tli_libai_apply(c, o->tree);
}

static tl_status fill(tl_config *c, const tl_registry *registry, const char *path,
                      const tl_word *words, int64_t count)
{
    opening o = {.arena = tl_config_arena(c), .registry = registry};
    if (!path || !*path) return tl_libai_words(c, words, count);
    TL_TRY(read_tree(&o, path));
    bool into_tree = o.tree && (o.python || class_of(&o));
    tl_word *later = tl_arena_array(o.arena, count + 1, sizeof *later);
    int64_t left = 0;
    if (!later) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        if (into_tree && is_of_file(&words[i]))
            TL_TRY(tli_libai_word_into(&o.tree, o.arena, &words[i]));
        else later[left++] = words[i];
    }
    TL_TRY(apply_tree(c, &o));
    return tl_libai_words(c, later, left);
}

tl_status tl_libai_open(tl_config **out, const tl_registry *registry, const char *path,
                        const tl_word *words, int64_t count)
{
    TL_TRY(tl_config_new(out, registry, &tl_libai_config_desc));
    tl_status st = fill(*out, registry, path, words, count);
    if (st != TL_OK) tl_config_free(out);
    return st;
}

tl_status tl_libai_begin(tl_config **out, const tl_registry *registry, const char *path)
{
    return tl_libai_open(out, registry, path, NULL, 0);
}
