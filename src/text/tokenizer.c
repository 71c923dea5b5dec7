#include <tilth/text/tokenizer.h>

#include <tilth/base/vec.h>

void tl_ids_deinit(tl_ids *ids)
{
    TL_VEC_FREE(ids);
}

tl_status tl_wordpiece_new(tl_tokenizer **out, const tl_wordpiece_args *args)
{
    *out = NULL;
    return TL_FAIL(TL_EUNSUPPORTED, "'%s': no tokenizers yet", args->vocab);
}

tl_status tl_wordpiece_from_memory(tl_tokenizer **out, const char *name, const char *data,
                                   size_t size, const tl_wordpiece_args *args)
{
    (void)data, (void)size, (void)args;
    *out = NULL;
    return TL_FAIL(TL_EUNSUPPORTED, "'%s': no tokenizers yet", name);
}

tl_status tl_wordpiece_rules_find(tl_wordpiece_rules *out, const char *name)
{
    *out = TL_WORDPIECE_HF;
    return TL_FAIL(TL_ENOTFOUND, "'%s'", name);
}

void tl_tokenizer_free(tl_tokenizer **t)
{
    *t = NULL;
}

tl_status tl_tokenize(const tl_tokenizer *t, tl_ids *out, const char *text, size_t size)
{
    (void)t, (void)out, (void)text, (void)size;
    return TL_FAIL(TL_EUNSUPPORTED, "no tokenizers yet");
}

int64_t tl_tokenizer_count(const tl_tokenizer *t)
{
    return t ? 0 : 0;
}

const char *tl_tokenizer_piece(const tl_tokenizer *t, int64_t id)
{
    (void)t, (void)id;
    return NULL;
}

int64_t tl_tokenizer_find(const tl_tokenizer *t, const char *piece)
{
    (void)t, (void)piece;
    return -1;
}

tl_status tl_tokenizer_need(const tl_tokenizer *t, const char *piece, int32_t *id)
{
    (void)t;
    *id = -1;
    return TL_FAIL(TL_ENOTFOUND, "'%s'", piece);
}

bool tl_tokenizer_lowers(const tl_tokenizer *t)
{
    return t != NULL;
}
