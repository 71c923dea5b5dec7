/* Records of tf.train.Example become fields. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tilth/data/pipeline.h>
#include <tilth/io/tensorflow/example.h>

#include "core/inner/element.h"

static const char *name_of(const tl_feature_spec *want)
{
    return want->as ? want->as : want->spec.name;
}

// What `count` values are laid out as.
static tl_status settle_shape(tl_shape *out, const tl_feature_spec *want, int64_t count)
{
    char text[TL_SHAPE_TEXT];
    *out = want->spec.shape;
    if (out->rank && out->dims[0] < 0) {
        tl_shape rest = tl_shape_of(out->rank - 1, out->dims + 1);
        int64_t each = tl_shape_count(&rest);
        out->dims[0] = each > 0 ? count / each : 0;
    }
    if (tl_shape_count(out) == count) return TL_OK;
    return TL_FAIL(TL_EINVAL, "feature '%s' has %" PRId64 " values; %s is expected%s%s",
                   want->spec.name, count, tl_shape_text(text, &want->spec.shape),
                   want->shape_key ? ", as says " : "", want->shape_key ? want->shape_key : "");
}

static tl_status wrong_kind(const tl_feature *f, const tl_feature_spec *want)
{
    return TL_FAIL(TL_EINVAL, "feature '%s' is a list of %s and cannot become %s", want->spec.name,
                   tl_feature_kind_name(f->kind), tl_dtype_name(want->spec.dtype));
}

static bool is_called(const tl_feature *f, const char *name)
{
    return f->name.size == strlen(name) && memcmp(f->name.data, name, f->name.size) == 0;
}

/* With what is there. */
static tl_status refuse_missing(const tl_sample *s, const tl_feature_spec *want)
{
    enum { MOST = 20 };
    tl_str list = TL_STR_INIT;
    tl_example_reader r = tl_example_read(s->record, s->record_size);
    tl_status st;
    tl_feature f;
    bool more = true, has_it = false;
    int64_t count = 0;
    for (; (st = tl_example_next(&r, &f, &more)) == TL_OK && more; count++) {
        has_it |= is_called(&f, want->spec.name);
        if (count < MOST)
            tl_str_addf(&list, "%s%.*s", count ? ", " : "",
                        f.name.size < 80 ? (int)f.name.size : 80, f.name.data);
    }
    if (st == TL_OK && has_it)
        st = TL_FAIL(TL_EINVAL, "feature '%s' has no values", want->spec.name);
    else if (st == TL_OK)
        st = TL_FAIL(TL_ENOTFOUND, "the example has no feature '%s'%s%s; it has %s%s",
                     want->spec.name, want->name_key ? ", which is named by " : "",
                     want->name_key ? want->name_key : "", count ? tl_str_text(&list) : "nothing",
                     count > MOST ? " and more" : "");
    tl_str_deinit(&list);
    return st;
}

static tl_status fill_missing(tl_sample *s, const tl_feature_spec *want)
{
    if (!want->optional) return refuse_missing(s, want);
    tl_shape shape = want->spec.shape;
    if (shape.rank && shape.dims[0] < 0) shape.dims[0] = 0;
    void *to = tl_sample_add(s, name_of(want), want->spec.dtype, shape);
    if (!to) return tl_error_code();
    for (int64_t i = 0; i < tl_shape_count(&shape); i++)
        tli_element_set(want->spec.dtype, to, i, want->missing);
    return TL_OK;
}

static tl_status read_text(tl_sample *s, const tl_feature_spec *want, const tl_feature *f)
{
    tl_bytes text;
    tl_shape shape;
    if (want->spec.dtype != TL_U8) return wrong_kind(f, want);
    TL_TRY(tl_feature_bytes(f, want->spec.name, &text, 1));
    TL_TRY(settle_shape(&shape, want, (int64_t)text.size));
    return tl_sample_show(s, name_of(want), TL_U8, shape, text.data);
}

static tl_status read_floats(tl_sample *s, const tl_feature_spec *want, const tl_feature *f)
{
    tl_shape shape;
    if (!tl_dtype_is_float(want->spec.dtype)) return wrong_kind(f, want);
    TL_TRY(settle_shape(&shape, want, f->count));
    void *to = tl_sample_add(s, name_of(want), want->spec.dtype, shape);
    if (!to) return tl_error_code();
    if (want->spec.dtype == TL_F32) return tl_feature_floats(f, want->spec.name, to, f->count);
    float *values = tl_sample_scratch(s, (size_t)f->count * sizeof *values);
    if (!values) return TL_ENOMEM;
    TL_TRY(tl_feature_floats(f, want->spec.name, values, f->count));
    for (int64_t i = 0; i < f->count; i++) tli_element_set(want->spec.dtype, to, i, values[i]);
    return TL_OK;
}

static tl_status read_ints(tl_sample *s, const tl_feature_spec *want, const tl_feature *f)
{
    tl_shape shape;
    TL_TRY(settle_shape(&shape, want, f->count));
    void *to = tl_sample_add(s, name_of(want), want->spec.dtype, shape);
    if (!to) return tl_error_code();
    if (want->spec.dtype == TL_I64) return tl_feature_ints(f, want->spec.name, to, f->count);
    if (want->spec.dtype == TL_I32) { // what nearly all features of texts become
        bool fits;
        TL_TRY(tl_feature_int32s(f, want->spec.name, to, f->count, &fits));
        if (fits) return TL_OK;
    }
    int64_t *values = tl_sample_scratch(s, (size_t)f->count * sizeof *values);
    if (!values) return TL_ENOMEM;
    TL_TRY(tl_feature_ints(f, want->spec.name, values, f->count));
    for (int64_t i = 0; i < f->count; i++) {
        tli_element_set(want->spec.dtype, to, i, (double)values[i]);
        if (tl_dtype_is_float(want->spec.dtype)) continue;
        if (tli_element_get(want->spec.dtype, to, i) != (double)values[i])
            return TL_FAIL(TL_EINVAL,
                           "feature '%s' has the value %" PRId64 ", which %s does not hold",
                           want->spec.name, values[i], tl_dtype_name(want->spec.dtype));
    }
    return TL_OK;
}

static tl_status read_feature(tl_sample *s, const tl_feature_spec *want, const tl_feature *f)
{
    // A list without values says as much as none.
    if (f->kind == TL_FEATURE_NONE || (f->count == 0 && want->optional))
        return fill_missing(s, want);
    switch (f->kind) {
    case TL_FEATURE_BYTES: return read_text(s, want, f);
    case TL_FEATURE_FLOATS: return read_floats(s, want, f);
    default: return read_ints(s, want, f);
    }
}

tl_status tl_example_decode(void *self, tl_sample *s)
{
    const tl_example_features *features = self;
    const char *names[TL_SAMPLE_FIELDS];
    tl_feature found[TL_SAMPLE_FIELDS];
    if (features->count > TL_SAMPLE_FIELDS)
        return TL_FAIL(TL_ELIMIT, "%" PRId64 " features are asked for; at most %d are possible",
                       features->count, TL_SAMPLE_FIELDS);
    if (!s->record) return TL_FAIL(TL_EINVAL, "the source gives no records to be decoded");
    for (int64_t i = 0; i < features->count; i++) names[i] = features->items[i].spec.name;
    TL_TRY(tl_example_find(found, names, features->count, s->record, s->record_size));
    for (int64_t i = 0; i < features->count; i++)
        TL_TRY(read_feature(s, &features->items[i], &found[i]));
    return TL_OK;
}
