#include "text/tokenizer.h"

#include <string.h>

#include <tilth/base/vec.h>

tl_status tli_tokenizer_alloc(tl_tokenizer **out, const tli_tokenizer_class *cls, size_t size,
                              const char *name)
{
    TL_ASSERT(size >= sizeof **out);
    *out = tl_alloc_zero(size);
    if (!*out) return TL_FAIL_NOMEM(size);
    (*out)->cls = cls;
    (*out)->name = tl_strdup(name);
    if ((*out)->name) return TL_OK;
    tl_tokenizer_free(out);
    return TL_FAIL_NOMEM(strlen(name) + 1);
}

void tl_tokenizer_free(tl_tokenizer **t)
{
    if (!*t) return;
    (*t)->cls->deinit(*t);
    tli_vocabulary_deinit(&(*t)->vocabulary);
    tl_free((*t)->name);
    tl_free(*t);
    *t = NULL;
}

void tl_ids_deinit(tl_ids *ids)
{
    TL_VEC_FREE(ids);
}

tl_status tl_tokenize(const tl_tokenizer *t, tl_ids *out, const char *text, size_t size)
{
    int64_t before = out->count;
    tl_status st = t->cls->tokenize(t, out, size ? text : "", size);
    if (st != TL_OK) out->count = before;
    return st;
}

int64_t tl_tokenizer_count(const tl_tokenizer *t)
{
    return t->vocabulary.count;
}

const char *tl_tokenizer_piece(const tl_tokenizer *t, int64_t id)
{
    return tli_vocabulary_piece(&t->vocabulary, id);
}

int64_t tl_tokenizer_find(const tl_tokenizer *t, const char *piece)
{
    const tli_piece *p = tli_vocabulary_find(&t->vocabulary, piece, strlen(piece));
    return p ? p->id : -1;
}

tl_status tl_tokenizer_need(const tl_tokenizer *t, const char *piece, int32_t *id)
{
    const tli_piece *p = tli_vocabulary_find(&t->vocabulary, piece, strlen(piece));
    *id = p ? p->id : -1;
    if (p) return TL_OK;
    return TL_FAIL(TL_ENOTFOUND, "'%s' has no piece '%s': is it the vocabulary of this model?",
                   t->name, piece);
}

const char *tl_tokenizer_file(const tl_tokenizer *t)
{
    return t->name;
}

bool tl_tokenizer_lowers(const tl_tokenizer *t)
{
    return t->lowers;
}
