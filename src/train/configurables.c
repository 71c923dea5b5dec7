/* Model Garden's configurables of a run: gin files that name them work here. */
#include "train/configurables.h"

#include <string.h>

#include <tilth/train/distill/distillation.h>
#include <tilth/train/libai/default_trainer.h>
#include <tilth/train/multitask/multitask.h>
#include <tilth/train/progressive/progressive.h>
#include <tilth/train/run/launch.h>

/* --- create_trainer --------------------------------------------------------------------------- */

typedef struct create_trainer_args {
    tl_ref trainer_cls;
} create_trainer_args;
static const tl_field create_trainer_fields[] = {
    TL_F(create_trainer_args, trainer_cls, .kind = &tl_kind_trainer,
         .help = "class of the trainer; none is Trainer"),
    TL_F_END,
};
static const tl_desc create_trainer_desc = {
    .name = "create_trainer",
    .help = "what a run's trainer is made of",
    .size = sizeof(create_trainer_args),
    .fields = create_trainer_fields,
};

static tl_status create_trainer_call(void **out, tl_gin *gin, const void *value)
{
    const create_trainer_args *given = value;
    const tl_runner *r = tl_gin_payload(gin);
    const tl_run_args *a = r->args;
    const tl_trainer_class *cls = a->trainer_cls;
    if (given->trainer_cls.target) cls = (const tl_trainer_class *)given->trainer_cls.target;
    return tl_create_trainer((tl_trainer **)out, a->params, a->task, a->strategy, r->trains,
                             r->evaluates, r->exporter, cls, a->seed);
}
static const tl_configurable_class create_trainer = {
    .cls = TL_CONFIGURABLE("train_utils.create_trainer", &create_trainer_desc,
                           .help = "builds model, optimizer and trainer of a run"),
    .call = create_trainer_call,
};

/* --- build_optimizer -------------------------------------------------------------------------- */

/* Its other arguments are functions of Python; here a class of optimizers, or a task's
 * create_optimizer, does what they would. */
typedef struct build_optimizer_args {
    bool use_legacy_optimizer;
} build_optimizer_args;
static const tl_field build_optimizer_fields[] = {
    TL_F(build_optimizer_args, use_legacy_optimizer, .b = true,
         .help = "false demands one of Keras's newer optimizers, and refuses the older ones"),
    TL_F_END,
};
static const tl_desc build_optimizer_desc = {
    .name = "build_optimizer",
    .help = "which optimizers a run may have",
    .size = sizeof(build_optimizer_args),
    .fields = build_optimizer_fields,
};

/* Types that mean another rule with use_legacy_optimizer = False, and what that is called here. */
static const struct {
    const char *older, *newer;
} forms[] = {{"sgd", "sgd_experimental"},
             {"adam", "adam_experimental"},
             {"rmsprop", NULL},
             {"adagrad", NULL}};

static tl_status refuse_older(const char *type)
{
    for (int64_t i = 0; i < TL_COUNT(forms); i++) {
        if (strcmp(type, forms[i].older) != 0) continue;
        const char *newer = forms[i].newer;
        return TL_FAIL(TL_EINVAL,
                       "build_optimizer.use_legacy_optimizer is False, and '%s' is Keras's older "
                       "one; %s%s",
                       type,
                       newer ? "set trainer.optimizer_config.optimizer.type to " : "leave it True",
                       newer ? newer : "");
    }
    return TL_OK;
}

static tl_status build_optimizer_call(void **out, tl_gin *gin, const void *value)
{
    const build_optimizer_args *given = value;
    tl_runner *r = tl_gin_payload(gin);
    const char *type = r->params->optimizer_config.optimizer.type;
    *out = r;
    return given->use_legacy_optimizer || !type ? TL_OK : refuse_older(type);
}
static const tl_configurable_class build_optimizer = {
    .cls = TL_CONFIGURABLE("optimizer_factory.build_optimizer", &build_optimizer_desc,
                           .help = "asked before the optimizer of a run is made"),
    .call = build_optimizer_call,
};

/* --- actions ---------------------------------------------------------------------------------- */

static tl_status get_train_actions_call(void **out, tl_gin *gin, const void *value)
{
    tl_runner *r = tl_gin_payload(gin);
    (void)value;
    *out = r;
    return r->trains ? tl_get_train_actions(&r->hooks, r->args->params, r->trainer) : TL_OK;
}
static const tl_configurable_class get_train_actions = {
    .cls =
        TL_CONFIGURABLE("actions.get_train_actions", NULL, .help = "what follows training loops"),
    .call = get_train_actions_call,
};

static tl_status get_eval_actions_call(void **out, tl_gin *gin, const void *value)
{
    tl_runner *r = tl_gin_payload(gin);
    (void)value;
    *out = r;
    if (r->args->keep_nothing) return TL_OK; // they write
    return tl_get_eval_actions(&r->hooks, r->args->params, r->trainer, r->args->model_dir);
}
static const tl_configurable_class get_eval_actions = {
    .cls = TL_CONFIGURABLE("actions.get_eval_actions", NULL, .help = "what follows evaluations"),
    .call = get_eval_actions_call,
};

static const tl_entry entries[] = {
    {&tl_kind_configurable, &build_optimizer.cls},
    {&tl_kind_configurable, &create_trainer.cls},
    {&tl_kind_configurable, &get_train_actions.cls},
    {&tl_kind_configurable, &get_eval_actions.cls},
    {&tl_kind_trainer, &tl_base_trainer.cls},
    {&tl_kind_trainer, &tl_eager_trainer.cls},
    {&tl_kind_trainer, &tl_graph_trainer.cls},
    {&tl_kind_trainer, &tl_multi_task_trainer.cls},
    {&tl_kind_trainer, &tl_progressive_trainer.cls},
    {&tl_kind_trainer, &tl_interleaving_trainer.cls},
    {&tl_kind_trainer, &tl_multi_eval_trainer.cls},
    {&tl_kind_task, &tl_distillation_task.cls},
    {&tl_kind_experiment, &tl_distillation_experiment.cls},
};
const tl_module tl_train_module = {TL_MODULE_HEAD("train"), entries, TL_COUNT(entries)};

/* --- for the runner --------------------------------------------------------------------------- */

/* People who use no gin have never heard of the configurables that a run is made of. */
static tl_status call(void **out, tl_gin *gin, const char *name)
{
    tl_gin_call *begun;
    *out = NULL;
    TL_TRY(tl_gin_call_begin(&begun, gin, name));
    tl_gin_call_own(begun);
    return tl_gin_call_run(out, &begun);
}

tl_status tli_gin_create_trainer(tl_runner *r, tl_trainer **out)
{
    void *asked, *made = NULL;
    tl_gin_set_payload(r->args->gin, r);
    if (r->trains) TL_TRY(call(&asked, r->args->gin, "optimizer_factory.build_optimizer"));
    tl_status st = call(&made, r->args->gin, "train_utils.create_trainer");
    *out = made;
    return st;
}

tl_status tli_gin_get_actions(tl_runner *r)
{
    void *none;
    tl_gin_set_payload(r->args->gin, r);
    TL_TRY(call(&none, r->args->gin, "actions.get_train_actions"));
    return call(&none, r->args->gin, "actions.get_eval_actions");
}
