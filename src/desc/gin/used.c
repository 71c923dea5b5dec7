/* Bindings that nothing has used: most often a name that was meant to be another. */
#include <string.h>

#include <tilth/base/log.h>

#include "desc/gin/impl.h"

static const tl_kind *kind_of(const tl_gin *gin, const tl_class *cls)
{
    const tli_gin_name *name = tli_gin_name_of(gin, cls);
    return name ? name->choice : NULL;
}

static const tli_gin_info *info_of(const tl_gin *gin, const tl_class *cls)
{
    for (int64_t i = 0; i < tl_map_count(&gin->infos); i++) {
        const tli_gin_info *info = tl_map_at(&gin->infos, i);
        if (info->cls == cls) return info;
    }
    return NULL;
}

/* "; it makes Adam, Sgd": what else of the kind there was. */
static void add_others(tl_str *out, const tl_gin *gin, const tl_kind *kind)
{
    bool any = false;
    for (int64_t i = 0; kind && i < tl_map_count(&gin->infos); i++) {
        const tli_gin_info *info = tl_map_at(&gin->infos, i);
        if (!info->made || kind_of(gin, info->cls) != kind) continue;
        tl_str_addf(out, "%s%s", any ? ", " : "; it makes ", tli_gin_minimal(gin, info->cls));
        any = true;
    }
}

static void add_reason(tl_str *out, const tl_gin *gin, const tl_class *cls,
                       const tli_gin_binding *b)
{
    const tli_gin_info *info = info_of(gin, cls);
    const char *name = tli_gin_minimal(gin, cls);
    if (cls == &tli_gin_macro.cls) {
        tl_str_addf(out, "nothing uses the macro '%%%s'", b->scope);
    } else if (info && info->made && *b->scope) {
        tl_str_addf(out, "nothing in the scope '%s' uses it", b->scope);
    } else if (info && info->made) {
        tl_str_addf(out, "this run gives '%s' to every %s itself", b->param, name);
    } else {
        tl_str_addf(out, "this run makes no %s", name);
        add_others(out, gin, kind_of(gin, cls));
    }
}

static void write_key(tl_str *out, const tl_gin *gin, const tl_class *cls, const tli_gin_binding *b)
{
    if (cls == &tli_gin_macro.cls) tl_str_add(out, b->scope);
    else
        tl_str_addf(out, "%s%s%s.%s", b->scope, *b->scope ? "/" : "", tli_gin_minimal(gin, cls),
                    b->param);
}

static void tell(tli_diags *diags, const tl_gin *gin, const tl_class *cls, const tli_gin_binding *b,
                 bool strict)
{
    tl_str key = TL_STR_INIT, reason = TL_STR_INIT, place = TL_STR_INIT;
    bool wrong = strict || strncmp(b->place.source ? b->place.source : "", "--gin_params", 12) == 0;
    write_key(&key, gin, cls, b);
    add_reason(&reason, gin, cls, b);
    if (wrong) {
        tli_diag(diags, TL_EINVAL, b->place, tl_str_text(&key), "the binding has no effect: %s",
                 tl_str_text(&reason));
    } else {
        tl_place_write(&place, b->place);
        TL_LOG_WARNING("%s: %s: the binding has no effect: %s", tl_str_text(&place),
                       tl_str_text(&key), tl_str_text(&reason));
    }
    tl_str_deinit(&key);
    tl_str_deinit(&reason);
    tl_str_deinit(&place);
}

tl_status tl_gin_check_used(tl_gin *gin, bool strict)
{
    tli_diags diags = TLI_DIAGS_INIT;
    TL_TRY(tli_gin_settle(gin));
    for (int64_t i = 0; i < tl_map_count(&gin->config); i++) {
        const tli_gin_section *s = tl_map_at(&gin->config, i);
        for (int64_t k = 0; k < tl_map_count(&s->params); k++) {
            const tli_gin_binding *b = tl_map_at(&s->params, k);
            if (!b->used) tell(&diags, gin, s->cls, b, strict);
        }
    }
    tl_status st = tli_diags_status(&diags);
    tli_diags_deinit(&diags);
    return st;
}
