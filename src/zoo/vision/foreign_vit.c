/* Vision transformers of Hugging Face, timm, torchvision and LiBai. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tilth/base/integer.h>
#include <tilth/base/vec.h>

#include "zoo/vision/foreign.h"
#include "zoo/vision/vit_parts.h"

enum { LONGEST = 128, MOST_BLOCKS = 1024, HEAD_SIZE = 64, LARGEST_PATCH = 1024 };

/* --- names ------------------------------------------------------------------------------------ */

/* What layers are called, those of a block behind its own name and number. */
typedef struct names {
    const char *patch, *token, *position, *norm;
    const char *block, *norm_1, *norm_2, *gather, *dense_1, *dense_2;
    const char *queries[3];            /* query, key and value; or all in one: */
    const char *fused, *weight, *bias; /* its layer, and what its weights are called */
    bool by_head;                      /* query, key and value of each head lie together */
} names;
static const names all_names[TLI_VISION_FORMS] = {
    [TLI_VISION_TORCHVISION] = {.patch = "conv_proj",
                                .token = "class_token",
                                .position = "encoder.pos_embedding",
                                .norm = "encoder.ln",
                                .block = "encoder.layers.encoder_layer_",
                                .norm_1 = "ln_1",
                                .norm_2 = "ln_2",
                                .gather = "self_attention.out_proj",
                                .dense_1 = "mlp.0",
                                .dense_2 = "mlp.3",
                                .fused = "self_attention",
                                .weight = "in_proj_weight",
                                .bias = "in_proj_bias"},
    [TLI_VISION_HF] = {.patch = "embeddings.patch_embeddings.projection",
                       .token = "embeddings.cls_token",
                       .position = "embeddings.position_embeddings",
                       .norm = "layernorm",
                       .block = "encoder.layer.",
                       .norm_1 = "layernorm_before",
                       .norm_2 = "layernorm_after",
                       .gather = "attention.output.dense",
                       .dense_1 = "intermediate.dense",
                       .dense_2 = "output.dense",
                       .queries = {"attention.attention.query", "attention.attention.key",
                                   "attention.attention.value"}},
    [TLI_VISION_TIMM] = {.patch = "patch_embed.proj",
                         .token = "cls_token",
                         .position = "pos_embed",
                         .norm = "norm",
                         .block = "blocks.",
                         .norm_1 = "norm1",
                         .norm_2 = "norm2",
                         .gather = "attn.proj",
                         .dense_1 = "mlp.fc1",
                         .dense_2 = "mlp.fc2",
                         .fused = "attn.qkv",
                         .weight = "weight",
                         .bias = "bias"},
    [TLI_VISION_LIBAI] = {.patch = "patch_embed.proj",
                          .token = "cls_token",
                          .position = "pos_embed",
                          .norm = "norm",
                          .block = "blocks.",
                          .norm_1 = "input_layernorm",
                          .norm_2 = "post_attention_layernorm",
                          .gather = "self_attention.dense",
                          .dense_1 = "mlp.dense_h_to_4h",
                          .dense_2 = "mlp.dense_4h_to_h",
                          .fused = "self_attention.query_key_value",
                          .weight = "weight",
                          .bias = "bias",
                          .by_head = true},
};

static void name_block(char out[LONGEST], const tli_vision_model *m, int64_t i, const char *part)
{
    snprintf(out, LONGEST, "%s%s%" PRId64 "%s%s", m->prefix, all_names[m->form].block, i,
             *part ? "." : "", part);
}

static const tli_foreign_entry *find(const tli_foreign_files *f, const char *layer,
                                     const char *weight)
{
    char name[LONGEST + 8];
    snprintf(name, sizeof name, "%s.%s", layer, weight);
    return tl_map_get(&f->by_name, name);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void add_layer_norm(tli_vision_table *t, const char *ours, const char *theirs)
{
    const tli_vision_weight vector = {.layout = TLI_VISION_VECTOR};
    tli_vision_add_weight(t, vector, ours, "gamma", theirs, "weight");
    tli_vision_add_weight(t, vector, ours, "beta", theirs, "bias");
}

/* Query, key and value, each for itself or as parts of one. */
static void add_queries(tli_vision_table *t, const tli_vision_model *m, int64_t i)
{
    static const char *const ours[] = {"query", "key", "value"};
    const names *n = &all_names[m->form];
    char path[LONGEST], theirs[LONGEST];
    for (int k = 0; k < TL_COUNT(ours); k++) {
        tli_vision_weight row = {.layout = TLI_VISION_QUERY};
        if (n->fused) row.part = k, row.parts = TL_COUNT(ours), row.by_head = n->by_head;
        snprintf(path, sizeof path, "backbone/layer_%" PRId64 "/self_attention/%s", i, ours[k]);
        name_block(theirs, m, i, n->fused ? n->fused : n->queries[k]);
        tli_vision_add_weight(t, row, path, "kernel", theirs, n->fused ? n->weight : "weight");
        row.layout = TLI_VISION_HEADS;
        tli_vision_add_weight(t, row, path, "bias", theirs, n->fused ? n->bias : "bias");
    }
}

static void add_block(tli_vision_table *t, const tli_vision_model *m, int64_t i)
{
    const names *n = &all_names[m->form];
    const struct {
        const char *ours, *theirs;
    } norms[] = {{"self_attention_layer_norm", n->norm_1}, {"output_layer_norm", n->norm_2}},
      dense[] = {{"intermediate", n->dense_1}, {"output", n->dense_2}};
    char ours[LONGEST], theirs[LONGEST];
    for (int k = 0; k < TL_COUNT(norms); k++) {
        snprintf(ours, sizeof ours, "backbone/layer_%" PRId64 "/%s", i, norms[k].ours);
        name_block(theirs, m, i, norms[k].theirs);
        add_layer_norm(t, ours, theirs);
        snprintf(ours, sizeof ours, "backbone/layer_%" PRId64 "/%s", i, dense[k].ours);
        name_block(theirs, m, i, dense[k].theirs);
        tli_vision_add_dense(t, ours, theirs);
    }
    add_queries(t, m, i);
    snprintf(ours, sizeof ours, "backbone/layer_%" PRId64 "/self_attention/attention_output", i);
    name_block(theirs, m, i, n->gather);
    tli_vision_add_weight(t, (tli_vision_weight){.layout = TLI_VISION_GATHER}, ours, "kernel",
                          theirs, "weight");
    tli_vision_add_weight(t, (tli_vision_weight){.layout = TLI_VISION_VECTOR}, ours, "bias", theirs,
                          "bias");
}

static tli_vit_sizes sizes_of(const tli_vision_family *family, const void *config)
{
    return family->backbone == &tl_backbone_vit ? tli_vit_sizes_of(config)
                                                : tli_vision_transformer_sizes(config);
}

/* A name that is no layer and weight but one word: "vit.embeddings" and "cls_token". */
static void add_table(tli_vision_table *t, const char *ours, const tli_vision_model *m,
                      const char *name)
{
    const tli_vision_weight w = {
        .ours = ours,
        .theirs = tl_arena_printf(t->arena, "%s%s", m->prefix, name),
        .layout = TLI_VISION_TABLE,
    };
    if (t->status == TL_OK && (!w.theirs || !TL_VEC_PUSH(t, w))) t->status = TL_ENOMEM;
}

static void add_rows(tli_vision_table *t, const tli_vision_model *m)
{
    const names *n = &all_names[m->form];
    const tli_vit_sizes z = sizes_of(m->family, m->backbone);
    char theirs[LONGEST];
    snprintf(theirs, sizeof theirs, "%s%s", m->prefix, n->patch);
    tli_vision_add_kernel(t, TLI_VISION_FILTERS, "backbone/patch", theirs);
    tli_vision_add_weight(t, (tli_vision_weight){.layout = TLI_VISION_VECTOR}, "backbone/patch",
                          "bias", theirs, "bias");
    add_table(t, "backbone/token/cls", m, n->token);
    add_table(t, "backbone/position/pos_embedding", m, n->position);
    for (int64_t i = 0; i < z.layers; i++) add_block(t, m, i);
    snprintf(theirs, sizeof theirs, "%s%s", m->prefix, n->norm);
    add_layer_norm(t, "backbone/norm", theirs);
}

/* --- which one it is -------------------------------------------------------------------------- */

/* Shapes do not say how many heads there are; models of usual sizes have usual ones. 0: not
 * known. */
static int64_t guess_heads(const tli_vit_sizes *z)
{
    for (const tli_vit_sizes *m = tli_vit_models; m->name; m++)
        if (m->hidden == z->hidden && m->layers == z->layers) return m->heads;
    return z->hidden % HEAD_SIZE ? 0 : z->hidden / HEAD_SIZE;
}

/* What ours has no place for would be left out without changing names: scales behind each part,
 * norms of queries. */
static tl_status refuse_others(const tli_vision_model *m, const tli_foreign_files *f,
                               tl_arena *arena)
{
    tli_vision_table rows = {.arena = arena};
    const char *odd = NULL;
    char start[LONGEST];
    name_block(start, m, 0, "");
    const size_t length = strlen(start);
    add_block(&rows, m, 0);
    for (int64_t i = 0; i < f->count && rows.status == TL_OK && !odd; i++) {
        const char *name = f->items[i].name;
        if (strncmp(name, start, length) != 0 || name[length] != '.') continue;
        bool known = false;
        for (int64_t k = 0; k < rows.count; k++)
            if (strcmp(rows.items[k].theirs, name) == 0) known = true;
        if (!known) odd = name;
    }
    tl_status st = rows.status;
    TL_VEC_FREE(&rows);
    if (st != TL_OK || !odd) return st;
    return TL_FAIL(TL_EUNSUPPORTED,
                   "'%s': '%s' has no place in the blocks of a vision transformer here", f->path,
                   odd);
}

static tl_status measure(tli_vit_sizes *out, tli_vision_model *m, const tli_foreign_files *f)
{
    const names *n = &all_names[m->form];
    char layer[LONGEST], token[LONGEST], position[LONGEST];
    snprintf(layer, sizeof layer, "%s%s", m->prefix, n->patch);
    const tli_foreign_entry *patch = find(f, layer, "weight");
    snprintf(token, sizeof token, "%s%s", m->prefix, n->token);
    snprintf(position, sizeof position, "%s%s", m->prefix, n->position);
    const tli_foreign_entry *places = tl_map_get(&f->by_name, position);
    if (!patch || patch->rank != 4 || patch->dims[2] != patch->dims[3] || patch->dims[0] < 1
        || patch->dims[2] < 1 || patch->dims[2] > LARGEST_PATCH)
        return TL_FAIL(TL_EUNSUPPORTED, "'%s': '%s.weight' is no convolution of square patches",
                       f->path, layer);
    if (!tl_map_has(&f->by_name, token) || !places || places->rank != 3)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s' has no '%s' and '%s': vision transformers without a class token, or "
                       "with other positions, are not read",
                       f->path, token, position);
    *out = (tli_vit_sizes){.patch = patch->dims[2], .hidden = patch->dims[0]};
    name_block(layer, m, 0, n->dense_1);
    const tli_foreign_entry *inner = find(f, layer, "weight");
    if (inner && inner->rank == 2) out->mlp = inner->dims[0];
    do name_block(layer, m, ++out->layers, n->norm_1);
    while (out->layers < MOST_BLOCKS && find(f, layer, "weight"));
    m->channels = patch->dims[1];
    int64_t side = llround(sqrt((double)tl_max_i64(places->dims[1] - 1, 0)));
    if (side * side == places->dims[1] - 1) m->side = side * out->patch;
    if (out->mlp > 0) return TL_OK;
    return TL_FAIL(TL_EUNSUPPORTED, "'%s': there is no dense layer '%s'", f->path, layer);
}

static tl_status recognise(tli_vision_model *m, const tli_foreign_files *f, tl_arena *arena)
{
    tli_vit_sizes z;
    void *made;
    TL_TRY(measure(&z, m, f));
    TL_TRY(refuse_others(m, f, arena));
    TL_TRY(tl_desc_new(&made, arena, tl_backbone_vit.cls.config));
    tl_vit_config *c = made;
    c->model_name = NULL;
    c->hidden_size = z.hidden;
    c->patch_size = z.patch;
    c->transformer = (tl_vit_transformer){
        .mlp_dim = z.mlp, .num_heads = guess_heads(&z), .num_layers = z.layers};
    m->backbone = c;
    // Hugging Face's processor of ViT images, where nobody says another thing.
    for (int i = 0; i < 3 && m->form == TLI_VISION_HF; i++) m->mean[i] = m->stddev[i] = 127.5;
    return TL_OK;
}

static tl_status read_config(tli_vision_model *m, const json_t *config, const char *path)
{
    tl_vit_config *c = m->backbone;
    const json_t *heads = json_object_get(config, "num_attention_heads");
    const json_t *layers = json_object_get(config, "num_hidden_layers");
    if (json_is_false(json_object_get(config, "qkv_bias")))
        return TL_FAIL(TL_EUNSUPPORTED,
                       "%s: \"qkv_bias\" is false; there is no such vision transformer here", path);
    if (layers && json_integer_value(layers) != c->transformer.num_layers)
        return TL_FAIL(TL_EINVAL, "%s: \"num_hidden_layers\" is not %" PRId64 ", as in the weights",
                       path, c->transformer.num_layers);
    if (!heads) return TL_OK;
    int64_t count = json_integer_value(heads);
    if (count < 1 || c->hidden_size % count)
        return TL_FAIL(TL_EINVAL,
                       "%s: \"num_attention_heads\" does not divide the %" PRId64
                       " numbers of a token",
                       path, c->hidden_size);
    c->transformer.num_heads = count;
    return TL_OK;
}

/* --- beside a model of ours ------------------------------------------------------------------- */

static const char *unknown_of(const tli_vision_model *m)
{
    return ((const tl_vit_config *)m->backbone)->transformer.num_heads ? NULL
                                                                       : "transformer.num_heads";
}

static void want(tl_str *words, bool same, const char *key, const char *value)
{
    tli_vision_want(words, same, "vit", key, value);
}

static void want_number(tl_str *words, const char *section, bool same, const char *key,
                        double value)
{
    char number[32];
    tl_double_text(number, value);
    if (value == floor(value)) snprintf(number, sizeof number, "%" PRId64, (int64_t)value);
    tli_vision_want(words, same, section, key, number);
}

/* Where files do not say how many heads there are, any number will do. */
static bool same_sizes(const tli_vit_sizes *a, const tli_vit_sizes *b)
{
    return a->patch == b->patch && a->hidden == b->hidden && a->mlp == b->mlp
           && a->layers == b->layers && (!a->heads || a->heads == b->heads);
}

static void want_sizes(tl_str *needed, const tli_vit_sizes *t, const tli_vit_sizes *ours)
{
    const struct {
        const char *key;
        int64_t value;
    } all[] = {
        {"hidden_size", t->hidden},          {"patch_size", t->patch},
        {"transformer.mlp_dim", t->mlp},     {"transformer.num_layers", t->layers},
        {"transformer.num_heads", t->heads},
    };
    if (same_sizes(t, ours)) return;
    for (const tli_vit_sizes *m = tli_vit_models; m->name; m++)
        if (same_sizes(t, m)) {
            want(needed, false, "model_name", m->name);
            return;
        }
    want(needed, !ours->name, "model_name", "null");
    for (int64_t i = 0; i < TL_COUNT(all); i++)
        want_number(needed, "vit", !all[i].value, all[i].key, (double)all[i].value);
}

static void compare(tl_str *needed, tl_str *advised, const tli_vision_model *theirs,
                    const void *ours)
{
    const tl_vit_config *o = ours;
    const tli_vit_sizes mine = tli_vit_sizes_of(o);
    const tli_vit_sizes t = theirs->backbone ? tli_vit_sizes_of(theirs->backbone) : mine;
    want_sizes(needed, &t, &mine);
    want(needed, o->pooler == TL_VIT_TOKEN, "pooler", "token");
    want(needed, !o->representation_size, "representation_size", "0");
    want(needed, o->layer_scale_init_value == 0, "layer_scale_init_value", "0");
    want_number(advised, "vit", o->norm_epsilon == theirs->epsilon, "norm_epsilon",
                theirs->epsilon);
    want(advised, o->activation == theirs->activation, "activation",
         tl_activation_names[theirs->activation]);
}

static void own_norms(tli_vision_model *m, const void *config)
{
    const tl_vit_config *c = config;
    m->epsilon = c->norm_epsilon;
    m->activation = c->activation;
}

static void describe(tli_json *j, const tli_vision_model *m)
{
    const tli_vit_sizes z = sizes_of(m->family, m->backbone);
    tli_json_int(j, "num_channels", m->channels);
    tli_json_int(j, "image_size", m->side);
    tli_json_int(j, "patch_size", z.patch);
    tli_json_int(j, "hidden_size", z.hidden);
    tli_json_int(j, "intermediate_size", z.mlp);
    tli_json_int(j, "num_attention_heads", z.heads);
    tli_json_int(j, "num_hidden_layers", z.layers);
    tli_json_bool(j, "qkv_bias", true);
}

const tli_vision_family tli_vision_vit = {
    .backbone = &tl_backbone_vit,
    .model_type = "vit",
    .architecture = "ViTForImageClassification",
    .marker = {"encoder.layers.encoder_layer_0.ln_1.weight",
               "encoder.layer.0.layernorm_before.weight", "blocks.0.attn.qkv.weight", NULL},
    .head = {"heads.head", "classifier", "head", NULL},
    .epsilon = {1e-6, 1e-12, 1e-6, 0},
    .tells_epsilon = true,
    .activation = TL_ACT_GELU,
    .own_norms = own_norms,
    .unknown = unknown_of,
    .recognise = recognise,
    .read = read_config,
    .rows = add_rows,
    .compare = compare,
    .describe = describe,
};

/* --- LiBai's ---------------------------------------------------------------------------------- */

static tl_status libai_recognise(tli_vision_model *m, const tli_foreign_files *f, tl_arena *arena)
{
    tli_vit_sizes z;
    void *made;
    TL_TRY(measure(&z, m, f));
    TL_TRY(refuse_others(m, f, arena));
    TL_TRY(tl_desc_new(&made, arena, tl_backbone_vision_transformer.cls.config));
    tl_vision_transformer_config *c = made;
    c->patch_size = z.patch;
    c->embed_dim = z.hidden;
    c->depth = z.layers;
    c->num_heads = guess_heads(&z);
    c->mlp_ratio = (double)z.mlp / (double)z.hidden;
    m->backbone = c;
    return TL_OK;
}

static const char *libai_unknown(const tli_vision_model *m)
{
    return ((const tl_vision_transformer_config *)m->backbone)->num_heads ? NULL : "num_heads";
}

static void libai_compare(tl_str *needed, tl_str *advised, const tli_vision_model *theirs,
                          const void *ours)
{
    const tl_vision_transformer_config *o = ours, *t = theirs->backbone ? theirs->backbone : o;
    (void)advised; // its norms and activation cannot be set
    const char *section = "vision_transformer";
    want_number(needed, section, t->patch_size == o->patch_size, "patch_size",
                (double)t->patch_size);
    want_number(needed, section, t->embed_dim == o->embed_dim, "embed_dim", (double)t->embed_dim);
    want_number(needed, section, t->depth == o->depth, "depth", (double)t->depth);
    want_number(needed, section, !t->num_heads || t->num_heads == o->num_heads, "num_heads",
                (double)t->num_heads);
    want_number(needed, section, t->mlp_ratio == o->mlp_ratio, "mlp_ratio", t->mlp_ratio);
}

static void libai_norms(tli_vision_model *m, const void *config)
{
    (void)config;
    m->epsilon = TLI_LIBAI_EPSILON;
    m->activation = TL_ACT_GELU;
}

const tli_vision_family tli_vision_libai_vit = {
    .backbone = &tl_backbone_vision_transformer,
    .model_type = "vit",
    .architecture = "ViTForImageClassification",
    .marker = {NULL, NULL, NULL, "blocks.0.self_attention.query_key_value.weight"},
    .head = {NULL, "classifier", NULL, "head"},
    .epsilon = {0, TLI_LIBAI_EPSILON, 0, TLI_LIBAI_EPSILON},
    .tells_epsilon = true,
    .activation = TL_ACT_GELU,
    .own_norms = libai_norms,
    .unknown = libai_unknown,
    .recognise = libai_recognise,
    .rows = add_rows,
    .compare = libai_compare,
    .describe = describe,
};
