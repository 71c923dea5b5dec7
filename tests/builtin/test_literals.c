/* Configurations that C programs write as literals: what is left out has its default, and zero can
 * be said wherever it means something. */
#include "test.h"

#include <string.h>

#include <tilth/builtin/builtin.h>
#include <tilth/desc/config.h>
#include <tilth/nn/initializer.h>
#include <tilth/nn/layers.h>
#include <tilth/nn/loss.h>
#include <tilth/nn/metric.h>
#include <tilth/nn/optimization.h>
#include <tilth/nn/regularizer.h>

static tl_arena *arena;

static int setup(void **state)
{
    (void)state;
    return tl_arena_new(&arena) != TL_OK;
}

static int teardown(void **state)
{
    (void)state;
    tl_arena_free(&arena);
    return 0;
}

/* A plain member whose default is not zero, though zero would be accepted, cannot be set to zero in
 * a literal. */
static void check_field(const tl_desc *desc, const tl_field *f)
{
    void *value;
    bool number = f->type == TL_TYPE_INT || f->type == TL_TYPE_DOUBLE;
    bool zero = f->type == TL_TYPE_BOOL ? !f->b : f->i == 0 && f->d == 0;
    if ((!number && f->type != TL_TYPE_BOOL) || f->arity != TL_ONE || zero) return;
    if (f->flags & TL_FIELD_UNREAD || (f->ranged && (f->min > 0 || f->max < 0))) return;
    assert_ok(tl_desc_new(&value, arena, desc));
    memset(tl_field_at(f, value), 0, f->size);
    if (tl_desc_check(desc, value) == TL_OK)
        fail_msg("%s.%s is not zero by default, and a literal cannot say zero: make it an optional "
                 "with TL_FILLED",
                 desc->name, f->name);
    tl_error_clear();
}

static void check_desc(const tl_desc *desc)
{
    for (const tl_desc *d = desc; d; d = d->base)
        for (const tl_field *f = d->fields; f && f->name; f++) check_field(desc, f);
}

static void every_zero_can_be_said(void **state)
{
    (void)state;
    const tl_kind *const kinds[] = {&tl_kind_layer,       &tl_kind_loss,          &tl_kind_metric,
                                    &tl_kind_optimizer,   &tl_kind_learning_rate, &tl_kind_warmup,
                                    &tl_kind_initializer, &tl_kind_regularizer};
    tl_registry *r;
    int64_t seen = 0;
    assert_ok(tl_registry_new_builtin(&r));
    for (int64_t k = 0; k < TL_COUNT(kinds); k++)
        for (int64_t i = 0; i < tl_registry_count(r, kinds[k]); i++) {
            const tl_desc *desc = tl_class_config(tl_registry_at(r, kinds[k], i));
            if (desc) check_desc(desc);
            seen += desc != NULL;
        }
    check_desc(&tl_ema_config_desc);
    assert_true(seen > 80);
    tl_registry_free(&r);
}

static void zero_is_zero(void **state)
{
    (void)state;
    tl_adam_config adam;
    tl_uniform_initializer uniform;
    tl_ema_config ema;
    assert_ok(tl_desc_complete(arena, &tl_adam_config_desc, &adam,
                               &(tl_adam_config){.beta_1 = TL_SET(0)}, NULL));
    assert_true(adam.beta_1.set && adam.beta_1.value == 0);
    assert_true(adam.beta_2.value == 0.999 && adam.epsilon.value == 1e-7); // left out
    assert_ok(tl_desc_complete(arena, &tl_ema_config_desc, &ema,
                               &(tl_ema_config){.dynamic_decay = TL_SET(false)}, NULL));
    assert_true(!ema.dynamic_decay.value && ema.trainable_weights_only.value
                && ema.average_decay.value == 0.99);
    tl_registry *r;
    const tl_class *cls;
    assert_ok(tl_registry_new_builtin(&r));
    assert_ok(tl_registry_find(&cls, r, &tl_kind_initializer, "random_uniform"));
    assert_ok(tl_desc_complete(arena, cls->config, &uniform,
                               &(tl_uniform_initializer){.low = TL_SET(0), .high = TL_SET(2)},
                               NULL));
    assert_true(uniform.low.value == 0 && uniform.high.value == 2);
    tl_registry_free(&r);
}

/* Everywhere else it is a plain number: written, read, described, and never null. */
static void it_is_a_plain_number_elsewhere(void **state)
{
    (void)state;
    tl_str text = TL_STR_INIT;
    tl_config *c;
    const tl_field *f = tl_desc_field(&tl_adam_config_desc, "beta_1");
    tl_field_type_text(&text, f);
    assert_string_equal(tl_str_text(&text), "float");
    assert_ok(tl_config_new(&c, NULL, &tl_adam_config_desc));
    assert_ok(tl_config_yaml(c, "beta_1: 0", "here"));
    assert_fails(tl_config_yaml(c, "beta_2: null", "here"), TL_EINVAL, "beta_2: cannot be null");
    assert_fails(tl_config_yaml(c, "beta_2: 2", "here"), TL_EINVAL, "beta_2");
    assert_fails(tl_config_word(c, "~epsilon", "here"), TL_EINVAL,
                 "cannot be deleted, because it is not optional");
    tl_config_free(&c);
    assert_ok(tl_config_new(&c, NULL, &tl_adam_config_desc));
    assert_ok(tl_config_yaml(c, "beta_1: 0", "here"));
    assert_ok(tl_config_finish(c));
    tl_str_cut(&text, 0);
    assert_ok(tl_config_write(&text, c, false));
    assert_non_null(strstr(tl_str_text(&text), "beta_1: 0.0\nbeta_2: 0.999\n"));
    tl_config_free(&c);
    tl_str_deinit(&text);
}

/* What registration refuses. */
static void it_must_have_a_default(void **state)
{
    (void)state;
    typedef struct lacking {
        tl_opt_double rate;
    } lacking;
    static const tl_field fields[] = {TL_F(lacking, rate, .flags = TL_FIELD_FILLED, .help = "h"),
                                      TL_F_END};
    static const tl_desc desc = {
        .name = "lacking",
        .help = "h",
        .size = sizeof(lacking),
        .fields = fields,
    };
    assert_fails(tl_desc_verify(&desc), TL_EINVAL, "set by default");
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(every_zero_can_be_said),
        T(zero_is_zero),
        T(it_is_a_plain_number_elsewhere),
        T(it_must_have_a_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
