/* Which task a step has, as Model Garden draws it. */
#include <tilth/train/multitask/multitask.h>

#include <math.h>
#include <string.h>

#include <tilth/base/rng.h>

/* Weights to a power, as shares that are summed up. In float32, as there: what lies at an edge
 * falls to the same side. */
static void by_power(float *cumulative, const double *weights, int64_t count, float power)
{
    float sum = 0, below = 0;
    for (int64_t i = 0; i < count; i++) {
        cumulative[i] = powf((float)weights[i], power);
        sum += cumulative[i];
    }
    for (int64_t i = 0; i < count; i++) {
        below += cumulative[i] / sum;
        cumulative[i] = below;
    }
}

/* Above 1 in the first epoch, 0.2 behind the last. */
static float annealed(const tl_annealing_sample_config *a, int64_t step)
{
    float per_epoch = (float)a->steps_per_epoch, epochs = (float)a->total_steps / per_epoch;
    float epoch = floorf((float)step / per_epoch);
    return 1.0F - 0.8F * (epoch - 1) / (epochs - 1 + 1e-10F);
}

tl_status tl_task_distribution(float *cumulative, const tl_oneof *sampler, const double *weights,
                               int64_t count, int64_t step)
{
    const char *type = sampler->type ? sampler->type : "";
    float power = 1;
    if (strcmp(type, "uniform") == 0) power = 0;
    else if (strcmp(type, "annealing") == 0) power = annealed(sampler->value, step);
    else if (strcmp(type, "proportional") == 0)
        power = (float)((const tl_proportional_sample_config *)sampler->value)->alpha;
    else
        return TL_FAIL(TL_EINVAL,
                       "trainer.task_sampler.type is '%s', and must be uniform, "
                       "proportional or annealing",
                       type);
    by_power(cumulative, weights, count, power);
    if (count && isfinite(cumulative[count - 1])) return TL_OK;
    return TL_FAIL(TL_EINVAL,
                   "the weights of the tasks give no chances to draw them by: at least "
                   "one task_weight must be above 0, and none so large that its power "
                   "%g is not finite, which trainer.task_sampler.%s asks for%s",
                   (double)power, type,
                   strcmp(type, "annealing") == 0
                       ? " (total_steps must be several times steps_per_epoch)"
                       : "");
}

float tl_task_draw(int64_t step)
{
    // TensorFlow mixes seeds with a key of its own, and takes the result for key and counter.
    static const uint32_t scramble[2] = {0x3ec8f720, 0x02461e29};
    const uint32_t seed[4] = {0, 0, (uint32_t)step, (uint32_t)((uint64_t)step >> 32)};
    uint32_t mixed[4], words[4];
    tl_philox4x32(mixed, seed, scramble);
    const uint32_t counter[4] = {0, 0, mixed[2], mixed[3]}, key[2] = {mixed[0], mixed[1]};
    tl_philox4x32(words, counter, key);
    const uint32_t fraction = (1u << 23) - 1; // the lower bits, as those of a float between 1 and 2
    return (float)(words[0] & fraction) / (float)(1u << 23);
}

int64_t tl_task_drawn(const float *cumulative, int64_t count, float draw)
{
    for (int64_t i = 0; i < count; i++)
        if (draw < cumulative[i]) return i;
    // Rounding may leave the last one below 1; there, no task would be trained then.
    int64_t last = count - 1;
    while (last > 0 && cumulative[last - 1] == cumulative[last]) last--;
    return last;
}
