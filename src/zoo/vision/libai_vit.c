/* LiBai's VisionTransformer: the backbone vit in the task image_classification, with LiBai's
 * arguments and defaults. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zoo/vision/libai.h"

#define FAIL_AT(at, ...) tli_libai_at(TL_FAIL(TL_EUNSUPPORTED, __VA_ARGS__), at)

typedef struct arguments {
    int64_t img_size, patch_size, in_chans, embed_dim, depth, num_heads, num_classes;
    double mlp_ratio, drop_rate, attn_drop_rate, drop_path_rate;
    const tl_value *loss_func; /* NULL: none */
} arguments;

static void add_number(tl_str *out, const char *before, double value)
{
    char text[32];
    tl_double_text(text, value);
    tl_str_addf(out, "%s%s", before, text);
}

/* --- the model -------------------------------------------------------------------------------- */

/* Arguments stand in `cfg`, or beside `_target_`. */
static tl_status read_arguments(arguments *a, const tl_value *model)
{
    static const char *const keys[] = {
        "img_size",    "patch_size", "in_chans",  "embed_dim",      "depth",
        "num_heads",   "mlp_ratio",  "drop_rate", "attn_drop_rate", "drop_path_rate",
        "num_classes", "loss_func",  NULL};
    static const char *const outer[] = {"cfg", NULL};
    const tl_value *cfg = tl_value_get(model, "cfg");
    if (cfg) TL_TRY(tli_libai_known(model, outer));
    else cfg = model;
    if (cfg->kind != TL_VALUE_MAP) return FAIL_AT(cfg, "VisionTransformer: cfg must be a dict");
    TL_TRY(tli_libai_known(cfg, keys));
    TL_TRY(tli_libai_int(&a->img_size, cfg, "img_size", 224));
    TL_TRY(tli_libai_int(&a->patch_size, cfg, "patch_size", 16));
    TL_TRY(tli_libai_int(&a->in_chans, cfg, "in_chans", 3));
    TL_TRY(tli_libai_int(&a->embed_dim, cfg, "embed_dim", 192));
    TL_TRY(tli_libai_int(&a->depth, cfg, "depth", 12));
    TL_TRY(tli_libai_int(&a->num_heads, cfg, "num_heads", 3));
    TL_TRY(tli_libai_int(&a->num_classes, cfg, "num_classes", 1000));
    TL_TRY(tli_libai_double(&a->mlp_ratio, cfg, "mlp_ratio", 4));
    TL_TRY(tli_libai_double(&a->drop_rate, cfg, "drop_rate", 0));
    TL_TRY(tli_libai_double(&a->attn_drop_rate, cfg, "attn_drop_rate", 0));
    TL_TRY(tli_libai_double(&a->drop_path_rate, cfg, "drop_path_rate", 0));
    a->loss_func = tli_libai_value(cfg, "loss_func");
    // One rate drops the attention's weights and what it gives; LiBai has drop_rate for the latter.
    if (a->drop_rate != a->attn_drop_rate)
        return FAIL_AT(cfg,
                       "VisionTransformer: drop_rate (%g) and attn_drop_rate (%g) are the "
                       "same here",
                       a->drop_rate, a->attn_drop_rate);
    double inner = (double)a->embed_dim * a->mlp_ratio;
    if (!(inner >= 1 && inner < 1 << 20))
        return FAIL_AT(cfg,
                       "VisionTransformer: embed_dim * mlp_ratio is %g, and must be from 1 to "
                       "less than 2^20",
                       inner);
    return TL_OK;
}

static void add_model(tl_str *yaml, const arguments *a)
{
    tl_str_addf(yaml,
                "    model:\n"
                "      num_classes: %" PRId64 "\n"
                "      input_size: [%" PRId64 ", %" PRId64 ", %" PRId64 "]\n"
                "      backbone:\n"
                "        type: vit\n"
                "        vit:\n"
                "          model_name: null\n"
                "          pooler: token\n"
                "          patch_size: %" PRId64 "\n"
                "          hidden_size: %" PRId64 "\n"
                "          original_init: false\n"
                "          norm_epsilon: 1.0e-05\n"
                "          stochastic_depth_from_zero: true\n",
                a->num_classes, a->img_size, a->img_size, a->in_chans, a->patch_size, a->embed_dim);
    add_number(yaml, "          init_stochastic_depth_rate: ", a->drop_path_rate);
    tl_str_addf(yaml,
                "\n          transformer: {num_layers: %" PRId64 ", num_heads: %" PRId64
                ", mlp_dim: %" PRId64,
                a->depth, a->num_heads, (int64_t)((double)a->embed_dim * a->mlp_ratio));
    add_number(yaml, ", dropout_rate: ", a->drop_rate);
    add_number(yaml, ", attention_dropout_rate: ", a->attn_drop_rate);
    tl_str_add(yaml, "}\n");
}

static tl_status add_losses(tl_str *yaml, const arguments *a, bool mixed)
{
    static const char *const keys[] = {"smoothing", NULL};
    const char *name = a->loss_func ? tli_libai_class(a->loss_func) : "";
    if (a->loss_func && a->loss_func->kind != TL_VALUE_MAP)
        return FAIL_AT(a->loss_func, "loss_func: expected a loss, such as "
                                     "LazyCall(SoftTargetCrossEntropy)()");
    bool soft = strcmp(name, "SoftTargetCrossEntropy") == 0;
    if (mixed != soft && (soft || !*name))
        return mixed ? TL_FAIL(TL_EINVAL, "dataloader.train.mixup_func: it makes labels of shares, "
                                          "which loss_func=SoftTargetCrossEntropy judges; set both")
                     : FAIL_AT(a->loss_func, "SoftTargetCrossEntropy: labels are shares when "
                                             "dataloader.train.mixup_func mixes them; set both");
    if (soft) {
        tl_str_add(yaml, "    losses: {one_hot: false, soft_labels: true}\n");
    } else if (strcmp(name, "LabelSmoothingCrossEntropy") == 0 && !mixed) {
        double smoothing;
        TL_TRY(tli_libai_known(a->loss_func, keys));
        TL_TRY(tli_libai_double(&smoothing, a->loss_func, "smoothing", 0.1));
        add_number(yaml, "    losses: {label_smoothing: ", smoothing);
        tl_str_add(yaml, "}\n");
    } else if (*name && (mixed || strcmp(name, "CrossEntropyLoss") != 0)) {
        return FAIL_AT(a->loss_func,
                       "loss_func: there is no '%.60s' here (known: CrossEntropyLoss, "
                       "LabelSmoothingCrossEntropy, and with mixup_func "
                       "SoftTargetCrossEntropy)",
                       name);
    }
    return TL_OK;
}

/* --- what is told of evaluations -------------------------------------------------------------- */

/* The greatest K of ClsEvaluator(topk=(1, K)). */
static tl_status read_top_k(int64_t *out, const tl_value *evaluator)
{
    static const char *const keys[] = {"topk", NULL};
    *out = 5;
    if (!evaluator) return TL_OK;
    if (strcmp(tli_libai_class(evaluator), "ClsEvaluator") != 0)
        return FAIL_AT(evaluator,
                       "evaluator: there is no '%.60s' here for images (known: "
                       "ClsEvaluator)",
                       tli_libai_class(evaluator));
    TL_TRY(tli_libai_known(evaluator, keys));
    const tl_value *list = tl_value_get(evaluator, "topk");
    if (!list) return TL_OK;
    *out = 0;
    for (int64_t i = 0; list->kind == TL_VALUE_LIST && i < list->count; i++) {
        int64_t k;
        if (!tl_value_int(list->items[i], &k) || k < 1)
            return FAIL_AT(list->items[i], "topk: expected integers from 1 on");
        if (k > *out) *out = k;
    }
    return *out ? TL_OK : FAIL_AT(list, "topk: expected a tuple of integers, such as (1, 5)");
}

static bool has_k(const tl_value *evaluator, int64_t wanted)
{
    const tl_value *list = evaluator ? tl_value_get(evaluator, "topk") : NULL;
    int64_t k;
    for (int64_t i = 0; list && i < list->count; i++)
        if (tl_value_int(list->items[i], &k) && k == wanted) return true;
    return !list && (wanted == 1 || wanted == 5);
}

/* "Acc@1", "Acc@5" and so on are told by the evaluator. */
static tl_status check_metric(const tl_value *train, const tl_value *evaluator)
{
    const tl_value *section = train ? tl_value_get(train, "evaluation") : NULL;
    const tl_value *metric = section ? tl_value_get(section, "eval_metric") : NULL;
    const char *name = metric && metric->kind == TL_VALUE_SCALAR ? metric->text : "Acc@1";
    if (strncmp(name, "Acc@", 4) != 0) return TL_OK;
    char *end;
    long k = strtol(name + 4, &end, 10);
    if (!*end && has_k(evaluator, k)) return TL_OK;
    return FAIL_AT(metric ? metric : evaluator,
                   "eval_metric: the evaluator tells Acc@K of each K of its topk; found '%.40s'",
                   name);
}

/* --- the whole -------------------------------------------------------------------------------- */

static tl_status translate(tl_str *yaml, const tl_libai_sections *given)
{
    arguments a;
    int64_t top_k;
    const tl_value *evaluation = given->train ? tl_value_get(given->train, "evaluation") : NULL;
    const tl_value *evaluator = evaluation ? tli_libai_value(evaluation, "evaluator") : NULL;
    bool mixed = given->train_loader && tli_libai_value(given->train_loader, "mixup_func");
    TL_TRY(read_arguments(&a, given->model));
    TL_TRY(read_top_k(&top_k, evaluator));
    tl_str_add(yaml, "task:\n  type: image_classification\n  image_classification:\n");
    add_model(yaml, &a);
    TL_TRY(add_losses(yaml, &a, mixed));
    tl_str_addf(yaml, "    evaluation: {top_k: %" PRId64 "}\n", top_k);
    if (given->train_loader) {
        tl_str_add(yaml, "    train_data: ");
        TL_TRY(tli_libai_images(yaml, given->train_loader, true, a.img_size));
        tl_str_addc(yaml, '\n');
    }
    if (given->test_loader) {
        tl_str_add(yaml, "    validation_data: ");
        TL_TRY(tli_libai_images(yaml, given->test_loader, false, a.img_size));
        tl_str_addc(yaml, '\n');
    }
    if (!evaluator)
        tl_str_add(yaml, "train: {evaluation: {evaluator: {_target_: "
                         "libai.evaluation.ClsEvaluator, topk: [1, 5]}}}\n");
    return check_metric(given->train, evaluator);
}

const tl_libai_model_class tli_libai_vision_transformer = {
    .cls = {.class_size = sizeof(tl_libai_model_class),
            .name = "VisionTransformer",
            .help = "the backbone vit, in the task image_classification"},
    .translate = translate,
};
