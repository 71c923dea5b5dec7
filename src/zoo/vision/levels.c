#include "zoo/vision/levels.h"

#include <stdio.h>

const char *tli_level_name(int64_t level)
{
    static const char *const names[TLI_LEVELS] = {"0", "1", "2", "3", "4",  "5",
                                                  "6", "7", "8", "9", "10", "11"};
    return names[level];
}

const char *tli_level_text(tl_scope *s, const char *what, int64_t level)
{
    const char *text = tl_arena_printf(tl_scope_arena(s), "%s_%lld", what, (long long)level);
    return text ? text : tl_scope_fail(s, what);
}

tl_status tli_levels_check(tl_levels levels, const char *key)
{
    if (levels.min >= 0 && levels.min <= levels.max && levels.max < TLI_LEVELS) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "%s.min_level and max_level are %lld and %lld: levels rise, from 0 to %d", key,
                   (long long)levels.min, (long long)levels.max, TLI_LEVELS - 1);
}

tl_tensor *tli_level_get(tl_ctx *c, const tl_tensors *maps, int64_t level)
{
    return tl_tensors_get(c, maps, tli_level_name(level));
}

tl_status tli_name_next(tl_original_names *into, int64_t *counted, const char *ours)
{
    char theirs[64];
    snprintf(theirs, sizeof theirs, "decoder/layer_with_weights-%lld", (long long)(*counted)++);
    return tl_original_names_add(into, ours, theirs);
}

tl_status tli_name_conv(tl_original_names *into, const char *ours, const char *theirs,
                        bool separable)
{
    if (separable)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "'%s': separable convolutions of checkpoints of Model Garden are not read "
                       "or written yet",
                       ours);
    return tl_original_names_add(into, ours, theirs);
}
