/* What Model Garden marks @gin.configurable in its training library is there under its name, and
 * does in a run what gin binds. */
#include "train/mock.h"

#include <tilth/desc/gin.h>
#include <tilth/nn/schedule.h>
#include <tilth/train/run/run.h>

#include "nn/optimizer.h"
#include "nn/rate.h"

static tl_gin *gin_of(const char *text)
{
    tl_gin *gin;
    assert_ok(tl_gin_new(&gin, all));
    assert_ok(tl_gin_parse(gin, text, "test.gin"));
    return gin;
}

/* --- a run ------------------------------------------------------------------------------------ */

static int loops;

static tl_status loop_end(tl_trainer *t, tl_logs *logs)
{
    loops++;
    return tl_base_trainer.train_loop_end(t, logs);
}
static const tl_trainer_class my_trainer = {
    .cls = TL_CLASS(tl_trainer_class, "MyTrainer", &tl_base_trainer.cls, tl_trainer, NULL),
    .train_loop_end = loop_end,
};
static const tl_entry my_entries[] = {{&tl_kind_trainer, &my_trainer.cls}};
static const tl_module my_module = {TL_MODULE_HEAD("mine"), my_entries, TL_COUNT(my_entries)};

/* Two steps of the mock task with an optimizer and what gin binds. */
static tl_status run_mock(tl_gin *gin, const char *type)
{
    char override[512];
    tl_config *config;
    tl_strategy *strategy;
    tl_task *task;
    snprintf(override, sizeof override,
             "trainer.train_steps=2,trainer.validation_steps=1,trainer.steps_per_loop=1,tilth.jit="
             "false,trainer.optimizer_config.learning_rate.type=constant,trainer.optimizer_config."
             "optimizer.type=%s",
             type);
    assert_ok(tl_experiment_parse(
        &config, all, &(tl_parse_options){.experiment = "mock", .params_override = override}));
    const tl_experiment_config *e = tl_config_value(config);
    assert_ok(tl_get_distribution_strategy(
        &strategy, &(tl_strategy_args){.registry = all, .distribution_strategy = "one_device"}));
    assert_ok(tl_get_task(&task, &(tl_task_args){.registry = all,
                                                 .config = &e->task,
                                                 .engine = tl_strategy_engine(strategy)}));
    tl_status st = tl_run_experiment(NULL, &(tl_run_args){.strategy = strategy,
                                                          .task = task,
                                                          .mode = "train",
                                                          .params = e,
                                                          .model_dir = "run",
                                                          .gin = gin,
                                                          .seed = 1,
                                                          .quiet = true});
    tl_task_free(&task);
    tl_strategy_free(&strategy);
    tl_config_free(&config);
    return st;
}

static void operative(tl_gin *gin, const char *wanted)
{
    tl_str text = TL_STR_INIT;
    assert_ok(tl_gin_operative(&text, gin));
    if (!strstr(tl_str_text(&text), wanted))
        fail_msg("no '%s' in:\n%s", wanted, tl_str_text(&text));
    tl_str_deinit(&text);
}

static void the_trainer_is_what_gin_says(void **state)
{
    (void)state;
    assert_ok(tl_registry_add(all, &my_module));
    tl_gin *gin = gin_of("create_trainer.trainer_cls = @MyTrainer\n");
    assert_ok(run_mock(gin, "sgd"));
    assert_int_equal(loops, 2);
    operative(gin, "create_trainer.trainer_cls = @MyTrainer");
    operative(gin, "build_optimizer.use_legacy_optimizer = True");
    tl_gin_free(&gin);
}

static void older_optimizers_can_be_refused(void **state)
{
    (void)state;
    static const struct {
        const char *type, *message; /* NULL: it is taken */
    } cases[] = {
        {"sgd", "'sgd' is Keras's older one; set trainer.optimizer_config.optimizer.type to "
                "sgd_experimental"},
        {"adam", "type to adam_experimental"},
        {"rmsprop", "'rmsprop' is Keras's older one; leave it True"},
        {"adagrad", "leave it True"},
        {"sgd_experimental", NULL},
        {"adamw", NULL},
    };
    for (size_t i = 0; i < TL_COUNT(cases); i++) {
        tl_gin *gin = gin_of("build_optimizer.use_legacy_optimizer = False\n");
        if (cases[i].message) {
            assert_fails(run_mock(gin, cases[i].type), TL_EINVAL, cases[i].message);
        } else {
            assert_ok(run_mock(gin, cases[i].type));
            assert_int_equal(nftw("run", toy_remove, 8, FTW_DEPTH | FTW_PHYS), 0);
        }
        tl_gin_free(&gin);
    }
}

/* --- names ------------------------------------------------------------------------------------ */

/* official/core, official/modeling/optimization and official/nlp/optimization.py; what ends a name
 * means it too. */
static void every_name_is_known(void **state)
{
    (void)state;
    static const char *const bindings[] = {
        "create_trainer.trainer_cls = @Trainer",
        "train_utils.create_trainer.trainer_cls = @Trainer",
        "build_optimizer.use_legacy_optimizer = True",
        "optimizer_factory.build_optimizer.use_legacy_optimizer = True",
        "create_optimizer.init_lr = 0.1",
        "optimization.create_optimizer.optimizer_type = 'lamb'",
        "x = @get_train_actions",
        "x = @actions.get_eval_actions",
    };
    for (size_t i = 0; i < TL_COUNT(bindings); i++) {
        tl_gin *gin = gin_of(bindings[i]);
        tl_status st = tl_gin_finalize(gin);
        if (st != TL_OK) fail_msg("%s: %s", bindings[i], tl_error_message());
        tl_gin_free(&gin);
    }
}

/* Whatever YAML can choose has a name in gin, and a call gives it with what is bound. */
static void every_choice_has_a_name(void **state)
{
    (void)state;
    tl_gin *gin = gin_of("optimizers.Adam.beta_1 = 0.5\n");
    int64_t names = 0;
    const tl_kind *const kinds[] = {&tl_kind_optimizer, &tl_kind_learning_rate, &tl_kind_warmup};
    for (size_t k = 0; k < TL_COUNT(kinds); k++)
        for (int64_t i = 0; i < tl_registry_count(all, kinds[k]); i++, names++) {
            char name[96];
            void *choice;
            snprintf(name, sizeof name, "%s.%s", kinds[k]->plural,
                     tl_registry_at(all, kinds[k], i)->name);
            if (strcmp(name, "optimizers.adafactor") == 0
                || strcmp(name, "optimizers.slide") == 0) {
                assert_fails(tl_gin_call_name(&choice, gin, name), TL_EUNSUPPORTED,
                             "no published implementation");
                continue;
            }
            if (tl_gin_call_name(&choice, gin, name) != TL_OK)
                fail_msg("%s: %s", name, tl_error_message());
            assert_string_equal(((tl_oneof *)choice)->type, tl_registry_at(all, kinds[k], i)->name);
            if (strcmp(name, "optimizers.adam") == 0)
                assert_near(((tl_adam_config *)((tl_oneof *)choice)->value)->beta_1.value, 0.5, 0);
        }
    assert_true(names >= 32);
    tl_gin_free(&gin);
}

/* --- create_optimizer ------------------------------------------------------------------------- */

/* Rates that tf-models-official 2.20.0 gives at these steps, in float32. */
enum { POINTS = 7 };
static const int64_t steps[POINTS] = {0, 1, 3, 9, 10, 11, 60};
static const struct {
    const char *bindings, *optimizer;
    double rates[POINTS], beta_1;
} recipes[] = {
    {"create_optimizer.init_lr = 5e-5\ncreate_optimizer.num_train_steps = 100\n"
     "create_optimizer.num_warmup_steps = 10\n",
     "adamw",
     {0, 4.999999873689376e-06, 1.500000053056283e-05, 4.499999704421498e-05, 4.499999704421498e-05,
      4.44999968749471e-05, 1.99999976757681e-05},
     0.9},
    {"create_optimizer:\n  init_lr = 1e-3\n  num_train_steps = 50\n  num_warmup_steps = 4\n  "
     "end_lr = 1e-4\n"
     "  optimizer_type = 'lamb'\n  poly_power = 2.0\n  beta_1 = 0.8\n",
     "lamb",
     {0, 0.0002500000118743628, 0.000750000006519258, 0.000705160025972873, 0.0006760000833310187,
      0.0006475599366240203, 9.999999747378752e-05},
     0.8},
    {"create_optimizer:\n  init_lr = 0.5\n  num_train_steps = 8\n  num_warmup_steps = 0\n",
     "adamw",
     {0.5, 0.4375, 0.3125, 0, 0, 0, 0},
     0.9},
};

static void berts_optimizer(void **state)
{
    (void)state;
    for (size_t i = 0; i < TL_COUNT(recipes); i++) {
        tl_gin *gin = gin_of(recipes[i].bindings);
        void *made;
        assert_ok(tl_gin_call_name(&made, gin, "create_optimizer"));
        const tl_optimization_config *o = made;
        for (int k = 0; k < POINTS; k++) {
            double rate;
            assert_ok(schedule_rate(&rate, o, steps[k]));
            assert_near(rate, recipes[i].rates[k], 1e-6 * recipes[i].rates[k] + 1e-12);
        }
        assert_string_equal(o->optimizer.type, recipes[i].optimizer);
        assert_null(o->ema);
        bool lamb = o->optimizer.desc == &tl_lamb_config_desc;
        const tl_lamb_config *l = o->optimizer.value;
        const tl_adamw_config *a = o->optimizer.value;
        assert_near(lamb ? l->beta_1.value : a->beta_1.value, recipes[i].beta_1, 0);
        assert_near(lamb ? l->beta_2.value : a->beta_2.value, 0.999, 0);
        assert_near(lamb ? l->epsilon.value : a->epsilon.value, 1e-6, 0);
        assert_near(lamb ? l->weight_decay_rate : a->weight_decay_rate, 0.01, 0);
        tl_strings kept = lamb ? l->exclude_from_weight_decay : a->exclude_from_weight_decay;
        assert_int_equal(kept.count, 3);
        assert_string_equal(kept.items[1], "layer_norm");
        if (!lamb) assert_near(a->gradient_clip_norm.value, 1, 0);
        tl_gin_free(&gin);
        tli_create_optimizer.free(made);
    }
}

static void berts_optimizer_is_checked(void **state)
{
    (void)state;
    void *made;
    tl_gin *gin = gin_of("create_optimizer.init_lr = 0.1\n");
    assert_fails(tl_gin_call_name(&made, gin, "create_optimizer"), TL_EINVAL, "num_train_steps");
    tl_gin_free(&gin);
    gin = gin_of("create_optimizer.optimizer_type = 'sgd'");
    assert_fails(tl_gin_finalize(gin), TL_EINVAL, "adamw or lamb");
    tl_gin_free(&gin);
    tl_arena *arena;
    tl_optimization_config o;
    assert_ok(tl_arena_new(&arena));
    assert_fails(tl_create_optimizer_config(&o, arena, &(tl_create_optimizer_args){.init_lr = 1}),
                 TL_EINVAL, "num_train_steps");
    tl_arena_free(&arena);
}

static void berts_optimizer_without_memory(void **state)
{
    (void)state;
    tl_gin *gin = gin_of(recipes[1].bindings);
    for (int64_t nth = 1, through = 0; !through; nth++) {
        void *made = NULL;
        int64_t before = tl_alloc_calls();
        tl_alloc_fail_at(nth, 1);
        tl_status st = tl_gin_call_name(&made, gin, "create_optimizer");
        tl_alloc_fail_at(0, 0);
        through = tl_alloc_calls() - before < nth;
        assert_int_equal(st, through ? TL_OK : TL_ENOMEM);
        if (made) tli_create_optimizer.free(made);
    }
    tl_gin_free(&gin);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIBAI_TEST(the_trainer_is_what_gin_says),
        LIBAI_TEST(older_optimizers_can_be_refused),
        LIBAI_TEST(every_name_is_known),
        LIBAI_TEST(every_choice_has_a_name),
        LIBAI_TEST(berts_optimizer),
        LIBAI_TEST(berts_optimizer_is_checked),
        LIBAI_TEST(berts_optimizer_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
