/* MobileNetV2 of torchvision and Hugging Face. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "zoo/vision/foreign.h"
#include "zoo/vision/mobilenet_tables.h"

#define ID "MobileNetV2"

enum { LONGEST = 128, LAST_FILTERS = 320, LAST_BLOCK = 17 };

/* --- names ------------------------------------------------------------------------------------ */

/* Convolutions of a block: the one to more channels, the one by channel, the one to fewer. */
typedef enum unit { EXPAND, DEPTHWISE, PROJECT, UNITS } unit;

/* Of the first and the last layer. */
static void name_end(char conv[LONGEST], char norm[LONGEST], const tli_vision_model *m, int64_t i)
{
    const char *there = i ? "conv_1x1" : "conv_stem.first_conv";
    if (m->form == TLI_VISION_HF) {
        snprintf(conv, LONGEST, "%s%s.convolution", m->prefix, there);
        snprintf(norm, LONGEST, "%s%s.normalization", m->prefix, there);
    } else {
        snprintf(conv, LONGEST, "features.%" PRId64 ".0", i);
        snprintf(norm, LONGEST, "features.%" PRId64 ".1", i);
    }
}

/* The first block has nothing to expand; torchvision counts what there is, with the norm of the
 * last convolution for itself. */
static void name_unit(char conv[LONGEST], char norm[LONGEST], const tli_vision_model *m, int64_t i,
                      unit u)
{
    static const char *const names[UNITS] = {"expand_1x1", "conv_3x3", "reduce_1x1"};
    int number = i == 1 ? (int)u - 1 : (int)u;
    char at[LONGEST / 2];
    if (m->form == TLI_VISION_HF) {
        if (i == 1) snprintf(at, sizeof at, "conv_stem.%s", names[u]);
        else snprintf(at, sizeof at, "layer.%" PRId64 ".%s", i - 2, names[u]);
        snprintf(conv, LONGEST, "%s%s.convolution", m->prefix, at);
        snprintf(norm, LONGEST, "%s%s.normalization", m->prefix, at);
    } else if (u == PROJECT) {
        snprintf(conv, LONGEST, "features.%" PRId64 ".conv.%d", i, number);
        snprintf(norm, LONGEST, "features.%" PRId64 ".conv.%d", i, number + 1);
    } else {
        snprintf(conv, LONGEST, "features.%" PRId64 ".conv.%d.0", i, number);
        snprintf(norm, LONGEST, "features.%" PRId64 ".conv.%d.1", i, number);
    }
}

static void add_rows(tli_vision_table *t, const tli_vision_model *m)
{
    static const char *const ours[UNITS] = {"expand", "depthwise", "project"};
    const tli_mobilenet *network = tli_mobilenet_find(ID);
    char conv[LONGEST], norm[LONGEST], path[LONGEST / 2];
    for (int64_t i = 0; i < network->count; i++) {
        if (network->blocks[i].kind == TLI_MOBILE_CONV) {
            name_end(conv, norm, m, i);
            snprintf(path, sizeof path, "backbone/block_%" PRId64, i);
            tli_vision_add_unit(t, TLI_VISION_FILTERS, path, conv, norm);
            continue;
        }
        for (int u = i == 1 ? DEPTHWISE : EXPAND; u < UNITS; u++) {
            name_unit(conv, norm, m, i, (unit)u);
            snprintf(path, sizeof path, "backbone/block_%" PRId64 "/%s", i, ours[u]);
            tli_vision_add_unit(t, u == DEPTHWISE ? TLI_VISION_DEPTHWISE : TLI_VISION_FILTERS, path,
                                conv, norm);
        }
    }
}

/* --- which one it is -------------------------------------------------------------------------- */

/* How wide it is says the last block: its filters are 320 times the scale. */
static tl_status recognise(tli_vision_model *m, const tli_foreign_files *f, tl_arena *arena)
{
    char conv[LONGEST], norm[LONGEST], name[LONGEST + 8];
    void *made;
    name_end(conv, norm, m, 0);
    snprintf(name, sizeof name, "%s.weight", conv);
    const tli_foreign_entry *first = tl_map_get(&f->by_name, name);
    name_unit(conv, norm, m, LAST_BLOCK, PROJECT);
    snprintf(name, sizeof name, "%s.weight", conv);
    const tli_foreign_entry *last = tl_map_get(&f->by_name, name);
    if (!first || first->rank != 4 || !last || last->rank != 4 || last->dims[0] < 1)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s': '%s' is no convolution: this is no " ID, f->path,
                       name);
    TL_TRY(tl_desc_new(&made, arena, tl_backbone_mobilenet.cls.config));
    tl_mobilenet_config *c = made;
    c->model_id = ID;
    c->filter_size_scale = (double)last->dims[0] / LAST_FILTERS;
    c->symmetric_padding = m->form != TLI_VISION_HF;
    m->backbone = c;
    m->channels = first->dims[1];
    return TL_OK;
}

static tl_status read_config(tli_vision_model *m, const json_t *config, const char *path)
{
    static const struct {
        const char *key;
        double value;
    } fixed[] = {{"expand_ratio", 6}, {"output_stride", 32}, {"depth_divisible_by", 8}};
    for (int64_t i = 0; i < TL_COUNT(fixed); i++) {
        const json_t *v = json_object_get(config, fixed[i].key);
        if (v && json_number_value(v) != fixed[i].value)
            return TL_FAIL(TL_EUNSUPPORTED, "%s: \"%s\" is not %g; there is no such " ID " here",
                           path, fixed[i].key, fixed[i].value);
    }
    if (json_is_false(json_object_get(config, "tf_padding")))
        ((tl_mobilenet_config *)m->backbone)->symmetric_padding = true;
    return TL_OK;
}

/* --- beside a model of ours ------------------------------------------------------------------- */

static void want(tl_str *words, bool same, const char *key, const char *value)
{
    tli_vision_want(words, same, "mobilenet", key, value);
}

static void compare(tl_str *needed, tl_str *advised, const tli_vision_model *theirs,
                    const void *ours)
{
    const tl_mobilenet_config *o = ours;
    tl_mobilenet_config t = theirs->backbone ? *(const tl_mobilenet_config *)theirs->backbone : *o;
    char number[32];
    if (theirs->form != TLI_VISION_HF) t.symmetric_padding = true;
    tl_double_text(number, t.filter_size_scale);
    want(needed, strcmp(o->model_id, ID) == 0, "model_id", ID);
    want(needed, fabs(t.filter_size_scale - o->filter_size_scale) < 1e-6, "filter_size_scale",
         number);
    want(advised, t.symmetric_padding == o->symmetric_padding, "symmetric_padding",
         t.symmetric_padding ? "true" : "false");
    want(advised, !o->output_stride.set, "output_stride", "null");
}

static void describe(tli_json *j, const tli_vision_model *m)
{
    const tl_mobilenet_config *c = m->backbone;
    tli_json_int(j, "num_channels", m->channels);
    tli_json_number(j, "depth_multiplier", c->filter_size_scale);
    tli_json_int(j, "depth_divisible_by", 8);
    tli_json_int(j, "min_depth", 8);
    tli_json_number(j, "expand_ratio", 6);
    tli_json_int(j, "output_stride", 32);
    tli_json_bool(j, "first_layer_is_expansion", true);
    tli_json_bool(j, "finegrained_output", true);
    tli_json_bool(j, "tf_padding", !c->symmetric_padding);
}

const tli_vision_family tli_vision_mobilenet = {
    .backbone = &tl_backbone_mobilenet,
    .model_type = "mobilenet_v2",
    .architecture = "MobileNetV2ForImageClassification",
    .marker = {"features.1.conv.0.0.weight", "conv_stem.first_conv.convolution.weight"},
    .head = {"classifier.1", "classifier"},
    .epsilon = {1e-5, 1e-3},
    .tells_epsilon = true,
    .activation = TL_ACT_RELU6,
    .own_activation = true,
    .recognise = recognise,
    .read = read_config,
    .rows = add_rows,
    .compare = compare,
    .describe = describe,
};
