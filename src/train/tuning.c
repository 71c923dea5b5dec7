#include "train/tuning.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/base/log.h>

#include "train/libai/libai.h"

/* --- when ------------------------------------------------------------------------------------- */

static tl_status compile(regex_t *out, const char *pattern)
{
    if (regcomp(out, pattern, REG_EXTENDED | REG_NOSUB) == 0) return TL_OK;
    return TL_FAIL(TL_EINVAL, "tilth.unfreeze: '%.200s' is not an extended regular expression",
                   pattern);
}

/* Those that nothing has named yet begin with this step. */
static tl_status name_step(tli_param_settings *s, bool *named, const char *pattern, int64_t step)
{
    regex_t compiled;
    int64_t found = 0;
    TL_TRY(compile(&compiled, pattern));
    for (int64_t i = 0; i < s->count; i++) {
        if (regexec(&compiled, s->paths[i], 0, NULL, 0) != 0) continue;
        found++;
        if (named[i]) continue;
        named[i] = true;
        s->settings[i].from_step = step;
    }
    regfree(&compiled);
    if (found) return TL_OK;
    return TL_FAIL(TL_ENOTFOUND,
                   "tilth.unfreeze: '%.200s' matches no weight that can be trained; the first is "
                   "'%s'",
                   pattern, s->count ? s->paths[0] : "");
}

static tl_status add_steps(tli_param_settings *s, tl_arena *arena, const tl_own_config *own)
{
    const tl_unfreeze_config *all = own->unfreeze.items;
    bool *named = tl_arena_array(arena, s->count ? s->count : 1, sizeof *named);
    int64_t never = 0, last = 0;
    if (!named) return TL_ENOMEM;
    for (int64_t i = 0; i < own->unfreeze.count; i++)
        for (int64_t k = 0; k < all[i].patterns.count; k++)
            TL_TRY(name_step(s, named, all[i].patterns.items[k], all[i].step));
    for (int64_t i = 0; i < s->count; i++) {
        s->touched[i] = true;
        if (named[i]) continue;
        s->settings[i].from_step = INT64_MAX;
        never++;
        last = i;
    }
    if (never)
        TL_LOG_INFO("tilth.unfreeze: %" PRId64 " of %" PRId64
                    " weights match no pattern and are not trained, '%s' is one",
                    never, s->count, s->paths[last]);
    return TL_OK;
}

/* --- at what rate ----------------------------------------------------------------------------- */

/* The number of the layer whose weight this is; -1: of none. */
static int64_t layer_of(const char *path)
{
    static const char word[] = "layer_";
    for (const char *at = path; (at = strstr(at, word)); at++) {
        char *end;
        if (at > path && at[-1] != '/') continue;
        if (!isdigit((unsigned char)at[sizeof word - 1])) continue;
        int64_t number = strtoll(at + sizeof word - 1, &end, 10);
        if (*end == '/' && number < INT32_MAX) return number;
    }
    return -1;
}

/* A rate falls with the distance from what stands behind the last layer; embeddings are below the
 * first. */
static tl_status add_rates(tli_param_settings *s, double decay)
{
    int64_t first = -1, top = -1;
    for (int64_t i = 0; i < s->count; i++) {
        int64_t layer = layer_of(s->paths[i]);
        if (layer >= 0 && first < 0) first = i;
        if (layer > top) top = layer;
    }
    if (first < 0)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "tilth.layer_decay: the model has no layers called layer_0, layer_1, ..., "
                       "as transformers do");
    for (int64_t i = 0; i < s->count; i++) {
        int64_t layer = layer_of(s->paths[i]), depth = layer + 1; // of embeddings: 0
        if (layer < 0 && i > first) depth = top + 2;
        double rate = pow(decay, (double)(top + 2 - depth));
        tl_opt_double *set = &s->settings[i].rate;
        *set = (tl_opt_double){true, set->set ? set->value * rate : rate};
        s->touched[i] = true;
    }
    return TL_OK;
}

/* --- both ------------------------------------------------------------------------------------- */

tl_status tli_tuning_groups(const tl_group_config **groups, int64_t *count, tl_task *t,
                            const tl_model *m)
{
    const tl_own_config *own = t->own;
    const int64_t all = tl_model_param_count(m);
    tl_param_groups gathered;
    if (!own || (!own->unfreeze.count && own->layer_decay == 1)) return TL_OK;
    const char **paths = tl_arena_array(t->arena, all ? all : 1, sizeof *paths);
    tli_param_settings s = {.paths = paths};
    if (!paths) return TL_ENOMEM;
    for (int64_t i = 0; i < all; i++)
        if (tl_model_param(m, i)->trainable) paths[s.count++] = tl_model_param(m, i)->path;
    TL_TRY(tli_param_settings_of(&s, t->arena, *groups, *count));
    if (own->unfreeze.count) TL_TRY(add_steps(&s, t->arena, own));
    if (own->layer_decay != 1) TL_TRY(add_rates(&s, own->layer_decay));
    TL_TRY(tli_param_groups_gather(&gathered, t->arena, &s));
    *groups = gathered.groups;
    *count = gathered.count;
    return TL_OK;
}

void tli_tuning_tell(const tl_model *m, int64_t step)
{
    int64_t trained = 0, all = 0;
    for (int64_t i = 0; i < tl_model_param_count(m); i++) {
        const tl_param *p = tl_model_param(m, i);
        const int64_t size = tl_tensor_count(p->tensor);
        if (p->state) continue;
        all += size;
        if (p->trainable && !tl_model_block(m, p->block)->asleep) trained += size;
    }
    TL_LOG_INFO("from step %" PRId64 " on, %" PRId64 " of %" PRId64 " parameters are trained", step,
                trained, all);
}
