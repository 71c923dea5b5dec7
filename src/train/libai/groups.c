#include <tilth/train/libai/libai.h>

#include <ctype.h>
#include <inttypes.h>
#include <regex.h>
#include <string.h>

#include <tilth/base/vec.h>

#include "train/libai/libai.h"

/* --- merging ---------------------------------------------------------------------------------- */

static void take(tl_opt_double *into, tl_opt_double from)
{
    if (from.set) *into = from;
}

static bool same_number(tl_opt_double a, tl_opt_double b)
{
    return a.set == b.set && (!a.set || a.value == b.value);
}

static bool same_settings(const tl_group_config *a, const tl_group_config *b)
{
    return same_number(a->rate, b->rate) && same_number(a->weight_decay, b->weight_decay)
           && same_number(a->clip_norm, b->clip_norm) && same_number(a->norm_type, b->norm_type)
           && a->frozen_steps == b->frozen_steps && a->from_step == b->from_step;
}

static tl_status apply_rule(tl_group_config *settings, bool *touched, const char *const *paths,
                            int64_t count, const tl_group_config *rule)
{
    regex_t pattern;
    if (regcomp(&pattern, rule->pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return TL_FAIL(TL_EINVAL, "'%.200s' is not an extended regular expression", rule->pattern);
    for (int64_t i = 0; i < count; i++) {
        if (regexec(&pattern, paths[i], 0, NULL, 0) != 0) continue;
        touched[i] = true;
        take(&settings[i].rate, rule->rate);
        take(&settings[i].weight_decay, rule->weight_decay);
        take(&settings[i].clip_norm, rule->clip_norm);
        take(&settings[i].norm_type, rule->norm_type);
        if (rule->frozen_steps) settings[i].frozen_steps = rule->frozen_steps;
    }
    regfree(&pattern);
    return TL_OK;
}

/* A regular expression that nothing but these paths matches; NULL when there is no memory. */
static const char *pattern_of(tl_arena *arena, const char *const *paths, const int64_t *of,
                              int64_t count, int64_t group)
{
    tl_str text = TL_STR_INIT;
    const char *separator = "^(";
    for (int64_t i = 0; i < count; i++) {
        if (of[i] != group) continue;
        tl_str_add(&text, separator);
        separator = "|";
        for (const char *p = paths[i]; *p; p++) {
            if (strchr("\\^$.|?*+()[]{}", *p)) tl_str_addc(&text, '\\');
            tl_str_addc(&text, *p);
        }
    }
    tl_str_add(&text, ")$");
    const char *copy = tl_str_copy(&text, arena);
    tl_str_deinit(&text);
    return copy;
}

tl_status tl_param_groups_of(tl_param_groups *out, tl_arena *arena, const char *const *paths,
                             int64_t count, const tl_group_config *rules, int64_t rule_count)
{
    tli_param_settings s = {.paths = paths, .count = count};
    TL_TRY(tli_param_settings_of(&s, arena, rules, rule_count));
    return tli_param_groups_gather(out, arena, &s);
}

tl_status tli_param_settings_of(tli_param_settings *s, tl_arena *arena,
                                const tl_group_config *rules, int64_t rule_count)
{
    const int64_t room = s->count ? s->count : 1;
    s->settings = tl_arena_array(arena, room, sizeof *s->settings);
    s->touched = tl_arena_array(arena, room, sizeof *s->touched);
    if (!s->settings || !s->touched) return TL_ENOMEM;
    for (int64_t r = 0; r < rule_count; r++)
        TL_TRY(apply_rule(s->settings, s->touched, s->paths, s->count, &rules[r]));
    return TL_OK;
}

tl_status tli_param_groups_gather(tl_param_groups *out, tl_arena *arena,
                                  const tli_param_settings *s)
{
    const int64_t count = s->count;
    const tl_group_config *settings = s->settings;
    tl_group_config *groups = tl_arena_array(arena, count ? count : 1, sizeof *groups);
    int64_t *of = tl_arena_array(arena, count ? count : 1, sizeof *of);
    if (!groups || !of) return TL_ENOMEM;
    *out = (tl_param_groups){.groups = groups, .of = of};
    for (int64_t i = 0; i < count; i++) {
        int64_t g = 0;
        of[i] = -1;
        if (!s->touched[i]) continue;
        while (g < out->count && !same_settings(&groups[g], &settings[i])) g++;
        if (g == out->count) groups[out->count++] = settings[i];
        of[i] = g;
    }
    for (int64_t g = 0; g < out->count; g++) {
        groups[g].group = tl_arena_printf(arena, "group_%" PRId64, g);
        groups[g].pattern = pattern_of(arena, s->paths, of, count, g);
        if (!groups[g].group || !groups[g].pattern) return TL_ENOMEM;
    }
    return TL_OK;
}

/* --- the rules of a configuration ------------------------------------------------------------- */

static bool normalizes(const tl_layer *l)
{
    static const char *const names[] = {"batch_norm", "group_norm", "layer_norm", "rms_norm"};
    for (int64_t i = 0; l && i < TL_COUNT(names); i++)
        for (const tl_class *c = &l->cls->cls; c; c = c->base)
            if (strcmp(c->name, names[i]) == 0) return true;
    return false;
}

/* One pattern for all parameters of layers that normalize; *pattern is NULL when there are none. */
static tl_status norm_pattern(const char **pattern, tl_arena *arena, const tl_model *m)
{
    int64_t count = tl_model_param_count(m), found = 0;
    const char **paths = tl_arena_array(arena, count ? count : 1, sizeof *paths);
    int64_t *of = tl_arena_array(arena, count ? count : 1, sizeof *of);
    if (!paths || !of) return TL_ENOMEM;
    *pattern = NULL;
    for (int64_t i = 0; i < count; i++) {
        const tl_param *p = tl_model_param(m, i);
        paths[i] = p->path;
        of[i] = p->trainable && normalizes(p->layer) ? 0 : -1;
        found += of[i] == 0;
    }
    if (!found) return TL_OK;
    *pattern = pattern_of(arena, paths, of, count, 0);
    return *pattern ? TL_OK : TL_ENOMEM;
}

static bool read_number(tl_opt_double *out, const tl_value *map, const char *key)
{
    const tl_value *v = tl_value_get(map, key);
    if (!v) return true;
    out->set = true;
    return tl_value_double(v, &out->value) && out->value >= 0;
}

/* {name: {lr: x, weight_decay: y}} */
static tl_status read_override(tl_group_config *into, const tl_value_pair *pair, double base_lr)
{
    tl_opt_double lr = {false, 0};
    const tl_value *v = pair->value;
    for (const char *c = pair->key; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("_-", *c))
            return TL_FAIL(TL_EINVAL, "overrides.%s: is the last part of a path, such as bias",
                           pair->key);
    if (v->kind != TL_VALUE_MAP)
        return TL_FAIL(TL_EINVAL, "overrides.%s: expected a map with lr, weight_decay or both",
                       pair->key);
    for (int64_t i = 0; i < v->count; i++)
        if (strcmp(v->pairs[i].key, "lr") != 0 && strcmp(v->pairs[i].key, "weight_decay") != 0)
            return TL_FAIL(TL_EINVAL, "overrides.%s.%s: unknown key (known: lr, weight_decay)",
                           pair->key, v->pairs[i].key);
    if (!read_number(&lr, v, "lr") || !read_number(&into->weight_decay, v, "weight_decay"))
        return TL_FAIL(TL_EINVAL, "overrides.%s: lr and weight_decay are numbers, 0 or more",
                       pair->key);
    if (lr.set) into->rate = (tl_opt_double){true, base_lr > 0 ? lr.value / base_lr : 0};
    return TL_OK;
}

tl_status tli_libai_check_params(const void *value)
{
    const tl_libai_params_config *p = value;
    if (p->clip_grad_max_norm.set && !(p->clip_grad_max_norm.value > 0))
        return TL_FAIL(TL_EINVAL,
                       "clip_grad_max_norm: must be more than 0, found %g (null clips nothing)",
                       p->clip_grad_max_norm.value);
    for (int64_t i = 0; p->overrides && i < p->overrides->count; i++) {
        tl_group_config read = {0};
        const tl_value_pair *pair = &p->overrides->pairs[i];
        TL_TRY(read_override(&read, pair, 1));
        if (strcmp(pair->key, "bias") == 0 && p->weight_decay_bias.set && read.weight_decay.set)
            return TL_FAIL(
                TL_EINVAL,
                "overrides.bias: sets weight_decay, and so does weight_decay_bias: make that "
                "null");
    }
    if (p->clip_grad_norm_type != 2 && p->clip_grad_mode != TL_LIBAI_CLIP_GROUP
        && p->clip_grad_max_norm.set)
        return TL_FAIL(TL_EINVAL,
                       "clip_grad_norm_type: must be 2 unless clip_grad_mode is group, found %g",
                       p->clip_grad_norm_type);
    return TL_OK;
}

tl_status tl_libai_param_rules(tl_group_config **out, int64_t *count, tl_arena *arena,
                               const tl_libai_optim_config *optim, const tl_model *m)
{
    enum { FIXED = 3 }; // clipping, norms, biases
    const tl_libai_params_config *p = &optim->params;
    int64_t overrides = p->overrides ? p->overrides->count : 0, n = 0;
    const char *norms;
    tl_group_config *rules = tl_arena_array(arena, FIXED + overrides, sizeof *rules);
    if (!rules) return TL_ENOMEM;
    TL_TRY(norm_pattern(&norms, arena, m));
    if (p->clip_grad_mode == TL_LIBAI_CLIP_GROUP && p->clip_grad_max_norm.set)
        rules[n++] = (tl_group_config){.pattern = "",
                                       .clip_norm = p->clip_grad_max_norm,
                                       .norm_type = {true, p->clip_grad_norm_type}};
    if (norms && p->weight_decay_norm.set)
        rules[n++] = (tl_group_config){.pattern = norms, .weight_decay = p->weight_decay_norm};
    if (p->weight_decay_bias.set)
        rules[n++] =
            (tl_group_config){.pattern = "(^|/)bias$", .weight_decay = p->weight_decay_bias};
    for (int64_t i = 0; i < overrides; i++) {
        const tl_value_pair *pair = &p->overrides->pairs[i];
        rules[n].pattern = tl_arena_printf(arena, "(^|/)%s$", pair->key);
        if (!rules[n].pattern) return TL_ENOMEM;
        TL_TRY(read_override(&rules[n++], pair, optim->lr));
    }
    *out = rules;
    *count = n;
    return TL_OK;
}
