/* Every key of every experiment, emptied or put back to the default of its table, comes back from
 * params.yaml. */
#include "zoo/zoo_lab.h"

enum { MOST_EMPTY = 5, MOST_BYTES = 64 };

static tl_config *config; /* of the experiment that is looked at */
static const char *experiment;
static tl_str path;
static int64_t tried;

/* What params.yaml says is read on top of the same experiment, as eval does it. */
static void check_read_back(const char *what)
{
    if (!test_takes(tried++, 5)) return;
    const tl_parse_options options = {.experiment = experiment, .strict_override = true};
    tl_str text = TL_STR_INIT;
    tl_config *again;
    assert_ok(tl_config_write(&text, config, false));
    assert_ok(tl_experiment_begin(&again, lab_registry, &options));
    assert_ok(tl_config_yaml(again, tl_str_text(&text), "params.yaml"));
    if (!tl_desc_equal(tl_config_desc(config), tl_config_value(config), tl_config_value(again)))
        fail_msg("%s: %s, %s, does not survive params.yaml", experiment, tl_str_text(&path), what);
    tl_config_free(&again);
    tl_str_deinit(&text);
}

/* --- what is empty ---------------------------------------------------------------------------- */

static int add_value(const tl_value **out, int count, const tl_field *f)
{
    static const tl_place nowhere = {"test", 0, 0};
    tl_arena *a = lab_arena;
    if (f->flags & TL_FIELD_NULLABLE) out[count++] = NULL;
    if (f->accept & TL_ACCEPT_MAP) out[count++] = tl_value_new_map(a, nowhere, NULL, 0);
    if (f->accept & TL_ACCEPT_LIST) out[count++] = tl_value_new_list(a, nowhere, NULL, 0);
    if (f->accept & TL_ACCEPT_STRING) out[count++] = tl_value_new_scalar(a, nowhere, "", true);
    return count;
}

static int add_list(char (*out)[MOST_BYTES], int count, const tl_field *f)
{
    memcpy(out[count++], &(tl_structs){"", 0}, sizeof(tl_structs));
    if (f->flags & TL_FIELD_NULLABLE)
        memcpy(out[count++], &(tl_structs){NULL, 0}, sizeof(tl_structs));
    return count;
}

static int add_string(char (*out)[MOST_BYTES], int count, const tl_field *f)
{
    const char *empty = "", *null = NULL;
    if (!f->pattern) memcpy(out[count++], &empty, sizeof empty);
    if (f->flags & TL_FIELD_NULLABLE) memcpy(out[count++], &null, sizeof null);
    return count;
}

/* The values that are nothing to a row, one behind the other; its default first. */
static int empty_values(char (*out)[MOST_BYTES], const tl_desc *desc, const tl_field *f)
{
    int count = 0;
    void *fresh;
    assert_true(f->size <= MOST_BYTES);
    assert_ok(tl_desc_new(&fresh, lab_arena, desc));
    memset(out, 0, MOST_EMPTY * MOST_BYTES);
    memcpy(out[count++], tl_field_at(f, fresh), f->size);
    if (f->arity == TL_LIST) return add_list(out, count, f);
    bool zero = !(f->ranged && (f->min > 0 || f->max < 0));
    if (f->flags & TL_FIELD_FILLED) {
        out[count][0] = true; // `set` is the first member of each optional
        return count + zero;
    }
    if (f->arity == TL_OPTIONAL) return count + 1; // zeros are null
    switch (f->type) {
    case TL_TYPE_BOOL:
    case TL_TYPE_ENUM: return count + 1;
    case TL_TYPE_INT:
    case TL_TYPE_DOUBLE: return count + zero;
    case TL_TYPE_STRING: return add_string(out, count, f);
    case TL_TYPE_ONEOF: return count + 1; // none is chosen
    case TL_TYPE_VALUE: {
        const tl_value *values[MOST_EMPTY] = {NULL};
        int more = add_value(values, 0, f);
        for (int i = 0; i < more; i++) memcpy(out[count++], &values[i], sizeof values[i]);
        return count;
    }
    default: return count;
    }
}

/* --- all keys --------------------------------------------------------------------------------- */

static void walk(const tl_desc *desc, void *value);

static void walk_member(const tl_field *f, void *member)
{
    if (f->arity == TL_LIST) return; // whose items are told as a whole
    if (f->type == TL_TYPE_STRUCT) {
        void *inner = f->arity == TL_OPTIONAL ? *(void **)member : member;
        if (inner) walk(f->desc, inner);
    } else if (f->type == TL_TYPE_OBJECT) {
        tl_object *o = member;
        if (o->value) walk(o->desc, o->value);
    } else if (f->type == TL_TYPE_ONEOF) {
        tl_oneof *o = member;
        if (o->value) walk(o->desc, o->value);
    }
}

static void walk(const tl_desc *desc, void *value)
{
    int64_t count;
    const tl_field **fields = tl_desc_sorted(lab_arena, desc, &count);
    char kept[MOST_BYTES],
        (*empty)[MOST_BYTES] = tl_arena_alloc(lab_arena, MOST_EMPTY * MOST_BYTES);
    size_t length = path.length;
    for (int64_t i = 0; i < count; i++) {
        const tl_field *f = fields[i];
        void *member = tl_field_at(f, value);
        tl_str_addf(&path, "%s%s", length ? "." : "", f->name);
        walk_member(f, member);
        bool section =
            f->type == TL_TYPE_OBJECT || (f->type == TL_TYPE_STRUCT && f->arity == TL_ONE);
        int choices = section ? 0 : empty_values(empty, desc, f);
        for (int j = 0; j < choices; j++) {
            if (memcmp(member, empty[j], f->size) == 0) continue;
            memcpy(kept, member, f->size);
            memcpy(member, empty[j], f->size);
            check_read_back(j ? "emptied" : "at its table's default");
            memcpy(member, kept, f->size);
        }
        tl_str_cut(&path, length);
    }
}

static void test_what_is_empty_survives(void **state)
{
    (void)state;
    for (int64_t i = 0; i < tl_registry_count(lab_registry, &tl_kind_experiment); i++) {
        const tl_class *cls = tl_registry_at(lab_registry, &tl_kind_experiment, i);
        if (TL_CLASS_HAS(tl_experiment_class, cls, lacks)) continue; // it is a name alone
        experiment = cls->name;
        const tl_parse_options options = {.experiment = experiment, .strict_override = true};
        assert_ok(tl_experiment_begin(&config, lab_registry, &options));
        tried = 0;
        walk(tl_config_desc(config), tl_config_edit(config));
        assert_true(tried > 20);
        tl_config_free(&config);
    }
    tl_str_deinit(&path);
}

static void test_names_of_classes_can_be_taken_away(void **state)
{
    (void)state;
    const tl_parse_options options = {.experiment = "fashion_mnist/mlp", .strict_override = true};
    tl_str text = TL_STR_INIT;
    tl_config *c;
    assert_ok(lab_parse(&c, options.experiment, NULL));
    assert_ok(tl_config_write(&text, c, false));
    // nothing changes for who keeps them
    assert_non_null(strstr(tl_str_text(&text), "class_names: ["));
    tl_config_free(&c);
    tl_str_cut(&text, 0);
    assert_ok(tl_experiment_begin(&c, lab_registry, &options));
    assert_ok(tl_config_word(c, "task.class_names=[]", "command line"));
    assert_ok(tl_config_finish(c));
    assert_ok(tl_config_write(&text, c, false));
    assert_non_null(strstr(tl_str_text(&text), "class_names: []"));
    tl_config_free(&c);
    tl_str_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_empty_survives, lab_open, lab_close),
        cmocka_unit_test_setup_teardown(test_names_of_classes_can_be_taken_away, lab_open,
                                        lab_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
