/* A command line made anew, for a command that another one starts or tells. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tilth/base/vec.h>

#include "tool/flag_words.h"

static tl_status add_word(tli_word_list *out, tl_arena *arena, const tl_field *f, const char *text)
{
    const char *word = tl_arena_printf(arena, "--%s=%s", f->name, text);
    return word && TL_VEC_PUSH(out, word) ? TL_OK : TL_ENOMEM;
}

static tl_status add_flag(tli_word_list *out, tl_arena *arena, const tl_field *f,
                          const void *member)
{
    char number[40];
    if (f->arity == TL_LIST && f->type == TL_TYPE_STRING) {
        const tl_strings *all = member;
        for (int64_t i = 0; i < all->count; i++) TL_TRY(add_word(out, arena, f, all->items[i]));
        return TL_OK;
    }
    if (f->arity != TL_ONE) return TL_OK;
    switch (f->type) {
    case TL_TYPE_STRING: return add_word(out, arena, f, *(const char *const *)member);
    case TL_TYPE_BOOL: return add_word(out, arena, f, *(const bool *)member ? "true" : "false");
    case TL_TYPE_ENUM: return add_word(out, arena, f, f->names[*(const int *)member]);
    case TL_TYPE_INT: snprintf(number, sizeof number, "%" PRId64, *(const int64_t *)member); break;
    case TL_TYPE_DOUBLE: tl_double_text(number, *(const double *)member); break;
    default: return TL_OK;
    }
    return add_word(out, arena, f, number);
}

tl_status tli_flag_words(tli_word_list *out, tl_arena *arena, const tl_desc *desc,
                         const void *value, const char *but)
{
    int64_t count;
    const tl_field **fields = tl_desc_sorted(arena, desc, &count);
    if (!fields) return TL_ENOMEM;
    for (int64_t i = 0; i < count; i++) {
        bool same;
        TL_TRY(tl_field_is_default(&same, desc, fields[i], value));
        if (same || (but && strcmp(fields[i]->name, but) == 0)) continue;
        TL_TRY(add_flag(out, arena, fields[i], tl_field_at(fields[i], value)));
    }
    return TL_OK;
}

tl_status tli_train_words(tli_word_list *out, const tli_run *run, const tl_train_flags *flags,
                          const tl_parse_options *parse)
{
    const tl_main_options *o = run->tool->options;
    TL_TRY(tli_flag_words(out, run->arena, &tl_train_flags_desc, flags, "model_dir"));
    TL_TRY(tli_flag_words(out, run->arena, &tl_parse_options_desc, parse, NULL));
    if (o->flags) TL_TRY(tli_flag_words(out, run->arena, o->flags, o->flags_value, NULL));
    for (int64_t i = 0; i < run->plugins.count; i++) {
        const char *word = tl_arena_printf(run->arena, "--plugin=%s", run->plugins.items[i]);
        if (!word || !TL_VEC_PUSH(out, word)) return TL_ENOMEM;
    }
    return TL_OK;
}
