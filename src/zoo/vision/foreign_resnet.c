/* ResNets of torchvision, timm and Hugging Face. */
#include <inttypes.h>
#include <string.h>

#include "zoo/vision/foreign.h"
#include "zoo/vision/residual.h"

enum { LONGEST = 128, STEM_FILTERS = 64, STEM_KERNEL = 7, GROWTH = 4, MOST_BLOCKS = 1024 };
static const int64_t ids[] = {10, 18, 26, 34, 50, 101, 152, 200, 270, 350, 420};

/* --- names ------------------------------------------------------------------------------------ */

/* A convolution and its batch norm. */
typedef struct unit {
    char conv[LONGEST], norm[LONGEST];
} unit;

static unit stem_of(const tli_vision_model *m)
{
    unit u;
    if (m->form == TLI_VISION_HF) {
        snprintf(u.conv, LONGEST, "%sembedder.embedder.convolution", m->prefix);
        snprintf(u.norm, LONGEST, "%sembedder.embedder.normalization", m->prefix);
    } else {
        snprintf(u.conv, LONGEST, "%sconv1", m->prefix);
        snprintf(u.norm, LONGEST, "%sbn1", m->prefix);
    }
    return u;
}

/* Of a block, from 0 on; unit 0 is the shortcut, the others are counted from 1. */
static unit unit_of(const tli_vision_model *m, int stage, int64_t block, int number)
{
    unit u;
    char at[LONGEST / 2];
    if (m->form == TLI_VISION_HF) {
        snprintf(at, sizeof at, "encoder.stages.%d.layers.%" PRId64, stage, block);
        if (number == 0) {
            snprintf(u.conv, LONGEST, "%s%s.shortcut.convolution", m->prefix, at);
            snprintf(u.norm, LONGEST, "%s%s.shortcut.normalization", m->prefix, at);
        } else {
            snprintf(u.conv, LONGEST, "%s%s.layer.%d.convolution", m->prefix, at, number - 1);
            snprintf(u.norm, LONGEST, "%s%s.layer.%d.normalization", m->prefix, at, number - 1);
        }
        return u;
    }
    snprintf(at, sizeof at, "layer%d.%" PRId64, stage + 1, block);
    if (number == 0) {
        snprintf(u.conv, LONGEST, "%s%s.downsample.0", m->prefix, at);
        snprintf(u.norm, LONGEST, "%s%s.downsample.1", m->prefix, at);
    } else {
        snprintf(u.conv, LONGEST, "%s%s.conv%d", m->prefix, at, number);
        snprintf(u.norm, LONGEST, "%s%s.bn%d", m->prefix, at, number);
    }
    return u;
}

static const tli_foreign_entry *kernel_of(const tli_foreign_files *f, const unit *u)
{
    char name[LONGEST + 8];
    snprintf(name, sizeof name, "%s.weight", u->conv);
    return tl_map_get(&f->by_name, name);
}

static bool has_unit(const tli_foreign_files *f, const tli_vision_model *m, int stage,
                     int64_t block, int number)
{
    unit u = unit_of(m, stage, block, number);
    return kernel_of(f, &u) != NULL;
}

/* --- which one it is -------------------------------------------------------------------------- */

static int64_t find_id(const int64_t blocks[TLI_RESNET_STAGES], bool bottleneck)
{
    for (int64_t i = 0; i < TL_COUNT(ids); i++) {
        const tli_resnet_variant *v = tli_resnet_find(ids[i]);
        if (v->bottleneck == bottleneck && memcmp(v->blocks, blocks, sizeof v->blocks) == 0)
            return v->id;
    }
    return 0;
}

static tl_status recognise(tli_vision_model *m, const tli_foreign_files *f, tl_arena *arena)
{
    unit stem = stem_of(m);
    const tli_foreign_entry *first = kernel_of(f, &stem);
    int64_t blocks[TLI_RESNET_STAGES] = {0};
    void *made;
    bool bottleneck = has_unit(f, m, 0, 0, 3);
    for (int stage = 0; stage < TLI_RESNET_STAGES; stage++)
        while (blocks[stage] < MOST_BLOCKS && has_unit(f, m, stage, blocks[stage], 1))
            blocks[stage]++;
    int64_t id = find_id(blocks, bottleneck);
    if (!id)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s': there is no ResNet with stages of %" PRId64 ", %" PRId64 ", %" PRId64
                       " and %" PRId64 " blocks%s here",
                       f->path, blocks[0], blocks[1], blocks[2], blocks[3],
                       bottleneck ? " that are bottlenecks" : "");
    if (!first || first->rank != 4 || first->dims[2] != STEM_KERNEL || first->dims[0] < 1)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s': '%s.weight' is no convolution of %d x %d", f->path,
                       stem.conv, STEM_KERNEL, STEM_KERNEL);
    TL_TRY(tl_desc_new(&made, arena, tl_backbone_resnet.cls.config));
    tl_resnet_config *c = made;
    c->model_id = id;
    c->depth_multiplier = (double)first->dims[0] / STEM_FILTERS;
    c->symmetric_padding = true;
    c->identity_shortcuts = bottleneck || !has_unit(f, m, 0, 0, 0);
    m->backbone = c;
    m->channels = first->dims[1];
    return TL_OK;
}

static tl_status read_config(tli_vision_model *m, const json_t *config, const char *path)
{
    static const char *const without[] = {"downsample_in_first_stage", "downsample_in_bottleneck"};
    (void)m;
    for (int64_t i = 0; i < TL_COUNT(without); i++)
        if (json_is_true(json_object_get(config, without[i])))
            return TL_FAIL(TL_EUNSUPPORTED, "%s: \"%s\" is true; there is no such ResNet here",
                           path, without[i]);
    return TL_OK;
}

/* --- rows ------------------------------------------------------------------------------------- */

static void add_rows(tli_vision_table *t, const tli_vision_model *m)
{
    const tl_resnet_config *c = m->backbone;
    const tli_resnet_variant *v = tli_resnet_find(c->model_id);
    unit u = stem_of(m);
    char path[LONGEST / 2];
    tli_vision_add_unit(t, TLI_VISION_FILTERS, "backbone/stem", u.conv, u.norm);
    for (int stage = 0; stage < TLI_RESNET_STAGES; stage++)
        for (int64_t i = 0; i < v->blocks[stage]; i++)
            for (int number = 0; number < (v->bottleneck ? 4 : 3); number++) {
                bool projects = i == 0 && (stage || v->bottleneck || !c->identity_shortcuts);
                if (number == 0 && !projects) continue;
                static const char *const units[] = {"shortcut", "conv_1", "conv_2", "conv_3"};
                snprintf(path, sizeof path, "backbone/stage_%d_block_%" PRId64 "/%s", stage + 1,
                         i + 1, units[number]);
                u = unit_of(m, stage, i, number);
                tli_vision_add_unit(t, TLI_VISION_FILTERS, path, u.conv, u.norm);
            }
}

/* --- beside a model of ours ------------------------------------------------------------------- */

static void want(tl_str *words, bool same, const char *key, const char *value)
{
    tli_vision_want(words, same, "resnet", key, value);
}

static void compare(tl_str *needed, tl_str *advised, const tli_vision_model *theirs,
                    const void *ours)
{
    const tl_resnet_config *o = ours;
    tl_resnet_config t = theirs->backbone ? *(const tl_resnet_config *)theirs->backbone : *o;
    char number[32];
    if (!theirs->backbone) t.identity_shortcuts = true;
    bool bottleneck = tli_resnet_find(t.model_id)->bottleneck;
    snprintf(number, sizeof number, "%" PRId64, t.model_id);
    want(needed, t.model_id == o->model_id, "model_id", number);
    tl_double_text(number, t.depth_multiplier);
    want(needed, t.depth_multiplier == o->depth_multiplier, "depth_multiplier", number);
    want(needed, o->stem_type == TL_STEM_V0, "stem_type", "v0");
    want(needed, o->se_ratio == 0, "se_ratio", "0");
    want(needed, o->scale_stem || t.depth_multiplier == 1, "scale_stem", "true");
    want(needed, !o->replace_stem_max_pool, "replace_stem_max_pool", "false");
    want(needed, bottleneck || t.identity_shortcuts == o->identity_shortcuts, "identity_shortcuts",
         t.identity_shortcuts ? "true" : "false");
    want(advised, o->symmetric_padding, "symmetric_padding", "true");
    want(advised, !o->resnetd_shortcut || !bottleneck, "resnetd_shortcut", "false");
}

static void describe(tli_json *j, const tli_vision_model *m)
{
    const tl_resnet_config *c = m->backbone;
    const tli_resnet_variant *v = tli_resnet_find(c->model_id);
    int64_t filters = (int64_t)(STEM_FILTERS * c->depth_multiplier);
    tli_json_int(j, "num_channels", m->channels);
    tli_json_int(j, "embedding_size", filters);
    tli_json_begin(j, "hidden_sizes", '[');
    for (int i = 0; i < TLI_RESNET_STAGES; i++)
        tli_json_int(j, NULL, (filters << i) * (v->bottleneck ? GROWTH : 1));
    tli_json_end(j, ']');
    tli_json_begin(j, "depths", '[');
    for (int i = 0; i < TLI_RESNET_STAGES; i++) tli_json_int(j, NULL, v->blocks[i]);
    tli_json_end(j, ']');
    tli_json_text(j, "layer_type", v->bottleneck ? "bottleneck" : "basic");
    tli_json_bool(j, "downsample_in_first_stage", false);
    tli_json_bool(j, "downsample_in_bottleneck", false);
}

const tli_vision_family tli_vision_resnet = {
    .backbone = &tl_backbone_resnet,
    .model_type = "resnet",
    .architecture = "ResNetForImageClassification",
    .marker = {"layer1.0.conv1.weight", "encoder.stages.0.layers.0.layer.0.convolution.weight"},
    .head = {"fc", "classifier.1"},
    .epsilon = {1e-5, 1e-5},
    .activation = TL_ACT_RELU,
    .recognise = recognise,
    .read = read_config,
    .rows = add_rows,
    .compare = compare,
    .describe = describe,
};
