/* Mixtures of the images of a batch. */
#include <math.h>
#include <string.h>

#include <tilth/base/pool.h>
#include <tilth/core/ctx.h>

#include "data/augment_impl.h"

/* --- draws ------------------------------------------------------------------------------------ */

/* Marsaglia and Tsang's method; shapes below 1 are taken from one more, times a power of a uniform
 * number. */
static double draw_gamma(tl_rng *rng, double shape)
{
    double d = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = tl_rng_normal_f64(rng), u = 1 - tl_rng_uniform_f64(rng), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(u) >= 0.5 * x * x + d - d * v + d * log(v)) continue;
        return shape < 1 ? d * v * pow(1 - tl_rng_uniform_f64(rng), 1 / shape) : d * v;
    }
}

static double draw_beta(tl_rng *rng, double alpha)
{
    double a = draw_gamma(rng, alpha), b = draw_gamma(rng, alpha);
    return a + b > 0 ? a / (a + b) : 0.5; // both vanish for tiny alphas alone
}

static tl_mixture draw_cut(tl_rng *rng, double alpha, int64_t height, int64_t width)
{
    double ratio = sqrt(1 - draw_beta(rng, alpha));
    int64_t cut_height = (int64_t)(ratio * (double)height),
            cut_width = (int64_t)(ratio * (double)width);
    int64_t y = tl_rng_below(rng, height), x = tl_rng_below(rng, width);
    double part = (double)(cut_height * cut_width) / (double)(height * width);
    return (tl_mixture){.share = (float)(1 - part),
                        .window =
                            tli_window_around(x, y, cut_width / 2, cut_height / 2, width, height)};
}

tl_mixture_kind tl_mixtures_draw(tl_mixture *out, int64_t count, const tl_mixup_and_cutmix *m,
                                 int64_t height, int64_t width, tl_rng *rng)
{
    bool mixed = tl_rng_uniform_f32(rng) < m->prob, cut = tl_rng_uniform_f32(rng) < m->switch_prob;
    if (m->mixup_alpha <= 0 || m->cutmix_alpha <= 0) cut = m->cutmix_alpha > 0;
    tl_mixture_kind kind = cut ? TL_MIXTURE_CUTMIX : TL_MIXTURE_MIXUP;
    if (!mixed || (m->mixup_alpha <= 0 && m->cutmix_alpha <= 0)) kind = TL_MIXTURE_NONE;
    for (int64_t i = 0; i < count; i++) {
        out[i] = (tl_mixture){.share = 1};
        if (kind == TL_MIXTURE_CUTMIX) out[i] = draw_cut(rng, m->cutmix_alpha, height, width);
        if (kind == TL_MIXTURE_MIXUP) out[i].share = (float)draw_beta(rng, m->mixup_alpha);
    }
    return kind;
}

/* --- images and labels ------------------------------------------------------------------------ */

static void add_shares(float *restrict out, const float *restrict a, const float *restrict b,
                       float share, int64_t n)
{
    float rest = 1 - share;
    for (int64_t i = 0; i < n; i++) out[i] = share * a[i] + rest * b[i];
}

/* One of the two. */
static void mix(float *out, const float *in, const float *other, tl_mixture_kind kind,
                const tl_mixture *m, int64_t height, int64_t width, int64_t channels)
{
    int64_t n = height * width * channels;
    if (kind == TL_MIXTURE_MIXUP) {
        add_shares(out, in, other, m->share, n);
        return;
    }
    memcpy(out, in, (size_t)n * sizeof *out);
    for (int64_t y = 0; kind == TL_MIXTURE_CUTMIX && y < m->window.height; y++) {
        int64_t at = ((m->window.y + y) * width + m->window.x) * channels;
        memcpy(out + at, other + at, (size_t)(m->window.width * channels) * sizeof *out);
    }
}

void tl_mixtures_images(float *out, const float *in, int64_t i, int64_t count, tl_mixture_kind kind,
                        const tl_mixture *mixtures, int64_t height, int64_t width, int64_t channels)
{
    int64_t n = height * width * channels, other = count - 1 - i;
    mix(out + i * n, in + i * n, in + other * n, kind, &mixtures[i], height, width, channels);
    if (other != i)
        mix(out + other * n, in + other * n, in + i * n, kind, &mixtures[other], height, width,
            channels);
}

void tl_mixtures_labels(float *out, const int32_t *labels, int64_t count, tl_mixture_kind kind,
                        const tl_mixture *mixtures, double label_smoothing, int64_t num_classes)
{
    float off = (float)(label_smoothing / (double)num_classes),
          on = (float)(1 - label_smoothing + off);
    for (int64_t i = 0; i < count; i++) {
        float share = kind == TL_MIXTURE_NONE ? 1 : mixtures[i].share, rest = 1 - share;
        int32_t here = labels[i], there = labels[count - 1 - i];
        float *row = out + i * num_classes;
        for (int64_t k = 0; k < num_classes; k++)
            row[k] = share * (k == here ? on : off) + rest * (k == there ? on : off);
    }
}

/* --- batches of a pipeline -------------------------------------------------------------------- */

typedef struct mix_job {
    float *out;
    const float *in;
    const tl_mixture *mixtures;
    tl_mixture_kind kind;
    int64_t count, height, width, channels;
} mix_job;

static tl_status mix_pairs(int64_t begin, int64_t end, void *payload)
{
    const mix_job *j = payload;
    for (int64_t i = begin; i < end; i++)
        tl_mixtures_images(j->out, j->in, i, j->count, j->kind, j->mixtures, j->height, j->width,
                           j->channels);
    return TL_OK;
}

static tl_status mix_images(tl_ctx *c, tl_tensor *out, const tl_tensor *in, tl_mixture_kind kind,
                            const tl_mixture *mixtures)
{
    tl_lease from, to;
    const int64_t *d = in->shape.dims;
    TL_TRY(tl_lease_read(&from, in));
    tl_status st = tl_lease_discard(&to, out);
    if (st == TL_OK) {
        mix_job job = {to.data, from.data, mixtures, kind, d[0], d[1], d[2], d[3]};
        st = tl_parallel_for(tl_engine_threads(tl_ctx_engine(c)), (d[0] + 1) / 2, 1, mix_pairs,
                             &job);
        if (st == TL_OK) st = tl_lease_end(&to);
        tl_lease_drop(&to);
    }
    tl_lease_drop(&from);
    return st;
}

static tl_status mix_labels(const tl_mixing *m, tl_tensor *out, const tl_tensor *in,
                            tl_mixture_kind kind, const tl_mixture *mixtures)
{
    tl_lease from, to;
    TL_TRY(tl_lease_read(&from, in));
    tl_status st = tl_lease_discard(&to, out);
    if (st == TL_OK) {
        tl_mixtures_labels(to.data, from.data, in->shape.dims[0], kind, mixtures,
                           m->config->label_smoothing, m->num_classes);
        st = tl_lease_end(&to);
    }
    tl_lease_drop(&from);
    return st;
}

tl_status tl_mixing_batch(void *self, tl_ctx *c, const tl_rng *draws, tl_tensors *batch)
{
    const tl_mixing *m = self;
    tl_tensor *images = tl_tensors_get(c, batch, m->image),
              *labels = tl_tensors_get(c, batch, m->label);
    if (!images || !labels) return tl_ctx_status(c);
    int64_t count = images->shape.dims[0];
    if (images->dtype != TL_F32 || images->shape.rank != 4 || labels->dtype != TL_I32
        || labels->shape.rank != 1 || labels->shape.dims[0] != count) {
        char image[TL_TENSOR_TEXT], label[TL_TENSOR_TEXT];
        return TL_FAIL(TL_EINVAL,
                       "'%s' is %s and '%s' %s; images float32 [batch, height, width, channels] "
                       "and labels int32 [batch] can be mixed",
                       m->image, tl_tensor_spec(image, images), m->label,
                       tl_tensor_spec(label, labels));
    }
    tl_rng rng = *draws;
    tl_mixture *mixtures = tl_arena_array(tl_ctx_arena(c), count, sizeof *mixtures);
    if (!mixtures) return TL_ENOMEM;
    tl_mixture_kind kind = tl_mixtures_draw(mixtures, count, m->config, images->shape.dims[1],
                                            images->shape.dims[2], &rng);
    tl_tensor *soft = tl_ctx_tensor(c, TL_AT_HOST, TL_F32, TL_SHAPE(count, m->num_classes));
    if (!soft) return tl_ctx_status(c);
    TL_TRY(mix_labels(m, soft, labels, kind, mixtures));
    tl_tensors_put(c, batch, m->label, soft);
    if (kind == TL_MIXTURE_NONE) return tl_ctx_status(c);
    tl_tensor *mixed = tl_ctx_tensor(c, TL_AT_HOST, TL_F32, images->shape);
    if (!mixed) return tl_ctx_status(c);
    TL_TRY(mix_images(c, mixed, images, kind, mixtures));
    tl_tensors_put(c, batch, m->image, mixed);
    return tl_ctx_status(c);
}
