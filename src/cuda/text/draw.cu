/* Random numbers: functions of a stream and a position (base/rng.h says which), and dropout.
 *
 * Thread word: free-threaded. */

typedef struct words {
    u32 at[4];
} words;

FN words philox(u32 c0, u32 c1, u32 c2, u32 c3, u64 key)
{
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    UNROLL for (int round = 0; round < 10; round++) {
        const u64 a = (u64)c0 * 0xd2511f53u, b = (u64)c2 * 0xcd9e8d57u;
        const u32 n0 = (u32)(b >> 32) ^ c1 ^ k0, n2 = (u32)(a >> 32) ^ c3 ^ k1;
        c1 = (u32)b;
        c3 = (u32)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    const words w = {{c0, c1, c2, c3}};
    return w;
}

/* The name of a stream. */
typedef struct stream {
    u64 key, high;
} stream;

FN words block_of(stream s, u64 block)
{
    return philox((u32)block, (u32)(block >> 32), (u32)s.high, (u32)(s.high >> 32), s.key);
}

FN stream derive(stream from, u64 domain, u64 number)
{
    const stream under = {from.key ^ domain, from.high};
    const words w = block_of(under, number);
    const stream s = {(u64)w.at[1] << 32 | w.at[0], (u64)w.at[3] << 32 | w.at[2]};
    return s;
}

FN stream fold(stream from, u64 number)
{
    return derive(from, 0xbb67ae8584caa73bull, number);
}

/* As tl_draw_stream. */
FN stream stream_of(const tli_step_args *step, u64 key)
{
    const stream none = {0, 0};
    stream s = fold(derive(none, 0x6a09e667f3bcc908ull, step->seed), key);
    s = fold(s, step->step);
    s = fold(s, step->microbatch);
    return fold(s, step->replica);
}

/* Of words with numbers that are known late one is chosen: as places of an array they would make
 * all of them lie in memory. */
FN u64 pair_of(words w, u64 at)
{
    const u32 low = at & 1 ? w.at[2] : w.at[0], high = at & 1 ? w.at[3] : w.at[1];
    return (u64)high << 32 | low;
}

FN u32 word_of(stream s, u64 at)
{
    const u64 pair = pair_of(block_of(s, at / 4), at / 2);
    return (u32)(at & 1 ? pair >> 32 : pair);
}

KERNEL(32) set_step(const tli_step_args a GROUP_PARAM)
{
    GROUP_BEGIN(32, 1)
    ONE_THREAD(32) { *a.to = a; }
}

/* The stream is derived once for a group. */
#define GROUP_STREAM                                                                               \
    SHARED(stream, own, );                                                                         \
    ONE_THREAD(256) { own = stream_of(a.step, a.key); }                                            \
    BARRIER(256)                                                                                   \
    const stream s = own;

#if defined(DROPOUT)
VECTORS(X)
KERNEL(256) drop_elements(const tli_draw_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    GROUP_STREAM
    EACH_THREAD(256)
    {
        UNROLL for (int j = 0; j < 4; j++) {
            const i64 i = ((group * 4 + j) * 256 + t) * VEC;
            if (i >= a.count) continue;
            float v[VEC];
            X_read(v, a.x, i);
#if VEC > 1
            UNROLL for (int b = 0; b < VEC; b += 4) {
                const words w = block_of(s, (u64)(i + b) / 4);
                UNROLL for (int e = 0; e < 4; e++)
                    v[b + e] = (i32)(w.at[e] >> 8) >= a.least ? v[b + e] * a.scale : 0;
            }
#else
            v[0] = (i32)(word_of(s, (u64)i) >> 8) >= a.least ? v[0] * a.scale : 0;
#endif
            X_write(a.y, i, v);
        }
    }
}

/* A draw for each example. */
KERNEL(256) drop_examples(const tli_draw_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    GROUP_STREAM
    EACH_THREAD(256)
    {
        const i64 i = (group * 256 + t) * VEC;
        if (i < a.count) {
            float v[VEC];
            X_read(v, a.x, i);
            UNROLL for (int e = 0; e < VEC; e++)
                v[e] = (i32)(word_of(s, (u64)((i + e) / a.each)) >> 8) >= a.least ? v[e] * a.scale
                                                                                  : 0;
            X_write(a.y, i, v);
        }
    }
}
#endif

#if defined(RANDOM)
/* The formulas of base/rng.c, operation by operation. */
FN float log_of_word(u32 a)
{
    u32 bits = bits_f((float)a + 0.5f);
    const i32 k = (i32)(bits - 0x3f3504f3u) >> 23;
    const float near = ((float)~a + 0.5f) * -0x1p-32f;
    const float far = from_bits_f(bits - ((u32)k << 23)) - 1.0f;
    const float f = k == 32 ? near : far;
    const float s = f / (2.0f + f), z = s * s;
    const float series = z * (1.0f / 3 + z * (1.0f / 5 + z * (1.0f / 7 + z * (1.0f / 9))));
    return (float)(k - 32) * 0x1.62e430p-1f + (2.0f * s + 2.0f * s * series);
}

FN float normal_of(u32 a, u32 b, int second)
{
    const float radius = __builtin_sqrtf(-2.0f * log_of_word(a));
    const u32 quarter = (b + 0x20000000u) >> 30;
    const float x = (float)(i32)(b - (quarter << 30)) * 0x1.921fb6p-30f, y = x * x;
    const float s =
        x + x * y * (-1.0f / 6 + y * (1.0f / 120 + y * (-1.0f / 5040 + y * (1.0f / 362880))));
    const float c = 1.0f + y * (-0.5f + y * (1.0f / 24 + y * (-1.0f / 720 + y * (1.0f / 40320))));
    const float cosine = quarter & 1 ? s : c, sine = quarter & 1 ? c : s;
    if (second) return radius * from_bits_f(bits_f(sine) ^ (quarter & 2) << 30);
    return radius * from_bits_f(bits_f(cosine) ^ ((quarter + 1) & 2) << 30);
}

FN float normal_at(stream s, u64 at)
{
    const u64 pair = pair_of(block_of(s, at / 4), at / 2);
    return normal_of((u32)pair, (u32)(pair >> 32), (int)(at & 1));
}

/* The upper half of a product. */
FN u64 high_of(u64 a, u64 b)
{
#ifdef __CUDACC__
    return __umul64hi(a, b);
#else
    __extension__ typedef unsigned __int128 u128;
    return (u64)((u128)a * b >> 64);
#endif
}

KERNEL(256) draw(const tli_draw_args a GROUP_PARAM)
{
    GROUP_BEGIN(256, a.groups)
    GROUP_STREAM
    EACH_THREAD(256)
    {
        const i64 i = group * 256 + t;
        if (i < a.count) {
#if RANDOM == 0 /* uniform */
            const float u = (float)(word_of(s, (u64)i) >> 8) * 0x1p-24f;
            const double value = a.a + (double)u * (a.b - a.a);
            ((Y_T *)a.y)[i] = (Y_T)Y_OF_D(value < a.top ? value : a.top);
#elif RANDOM == 1 || RANDOM == 2 /* normal, and not far from 0 */
            float z = normal_at(s, (u64)i);
#if RANDOM == 2
            for (u64 again = 0; !(abs_f(z) <= 2); again++) z = normal_at(fold(s, again), (u64)i);
#endif
            ((Y_T *)a.y)[i] = (Y_T)Y_OF_D(a.a + a.b * (double)z);
#elif RANDOM == 3 /* bernoulli */
            ((Y_T *)a.y)[i] = (Y_T)((u64)word_of(s, (u64)i) < a.ones ? Y_OF_D(1.0) : Y_OF_D(0.0));
#else /* integers */
            u64 word = pair_of(block_of(s, (u64)i / 2), (u64)i);
            u64 low = word * a.range;
            for (u64 again = 0; low < a.uneven; again++) {
                word = pair_of(block_of(fold(s, again), (u64)i / 2), (u64)i);
                low = word * a.range;
            }
            ((Y_T *)a.y)[i] = (Y_T)(i64)((u64)a.low + high_of(word, a.range));
#endif
        }
    }
}
#endif
