#include <tilth/core/dtype.h>

#include <string.h>
#include <tilth/base/str.h>

static const struct {
    const char *name;
    tl_dtype_class class_;
} types[TL_DTYPE_COUNT] = {
#define TL_DTYPE_ROW(id, name, bytes, class_) [TL_##id] = {name, class_},
    TL_DTYPE_LIST(TL_DTYPE_ROW)
#undef TL_DTYPE_ROW
};

const char *const tl_dtype_names[] = {
#define TL_DTYPE_TEXT(id, name, bytes, class_) [TL_##id] = name,
    TL_DTYPE_LIST(TL_DTYPE_TEXT)
#undef TL_DTYPE_TEXT
        [TL_DTYPE_COUNT] = NULL};
_Static_assert(sizeof tl_dtype_names / sizeof *tl_dtype_names == TL_DTYPE_COUNT + 1,
               "every type has a name");
// Kernels choose by size between whole numbers of 1, 2, 4 and 8 bytes.
#define TL_DTYPE_SIZE(id, name, bytes, class_)                                                     \
    _Static_assert((bytes) == 1 || (bytes) == 2 || (bytes) == 4 || (bytes) == 8,                   \
                   "elements are words of the machine");
TL_DTYPE_LIST(TL_DTYPE_SIZE)
#undef TL_DTYPE_SIZE

static bool is_type(tl_dtype dtype)
{
    return (int)dtype >= 0 && dtype < TL_DTYPE_COUNT;
}

const char *tl_dtype_name(tl_dtype dtype)
{
    TL_ASSERT(is_type(dtype));
    return types[dtype].name;
}

extern inline size_t tl_dtype_size(tl_dtype dtype);

tl_dtype_class tl_dtype_classify(tl_dtype dtype)
{
    TL_ASSERT(is_type(dtype));
    return types[dtype].class_;
}

bool tl_dtype_is_float(tl_dtype dtype)
{
    TL_ASSERT(is_type(dtype));
    return types[dtype].class_ == TL_CLASS_FLOAT;
}

tl_status tl_dtype_parse(tl_dtype *out, const char *name)
{
    for (int i = 0; i < TL_DTYPE_COUNT; i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        *out = (tl_dtype)i;
        return TL_OK;
    }
    const char *near = tl_nearest(name, tl_dtype_names, TL_DTYPE_COUNT);
    return TL_FAIL(TL_EINVAL, "'%s' is not a dtype%s%s%s", name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

tl_dtype tl_dtype_meet(tl_dtype a, tl_dtype b)
{
    TL_ASSERT(is_type(a) && is_type(b));
    if (a == b) return a;
    if (types[a].class_ != types[b].class_) return types[a].class_ > types[b].class_ ? a : b;
    if (tl_dtype_size(a) != tl_dtype_size(b)) return tl_dtype_size(a) > tl_dtype_size(b) ? a : b;
    // Only bytes come with and without a sign.
    TL_ASSERT(types[a].class_ == TL_CLASS_FLOAT || tl_dtype_size(a) == 1);
    return types[a].class_ == TL_CLASS_FLOAT ? TL_F32 : TL_I16;
}
