#include <tilth/base/rng.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tilth/base/integer.h>

#include "base/rng_impl.h"

__extension__ typedef unsigned __int128 u128;

/* A loop becomes vectors only when what it calls is inside it. */
#define INLINE inline __attribute__((always_inline))

/* --- streams ---------------------------------------------------------------------------------- */

/* Names are made by the block function too, under keys set apart from those that make words. They
 * are the first fractional digits of the square roots of 2, 3, 5, 7 and 11. */
enum { DOMAIN_SEED, DOMAIN_NUMBER, DOMAIN_LABEL, DOMAIN_LABEL_END, DOMAIN_CHECK, DOMAIN_COUNT };
static const uint64_t domain_key[DOMAIN_COUNT] = {
    [DOMAIN_SEED] = UINT64_C(0x6a09e667f3bcc908),
    [DOMAIN_NUMBER] = UINT64_C(0xbb67ae8584caa73b),
    [DOMAIN_LABEL] = UINT64_C(0x3c6ef372fe94f82b),
    [DOMAIN_LABEL_END] = UINT64_C(0xa54ff53a5f1d36f1),
    [DOMAIN_CHECK] = UINT64_C(0x510e527fade682d1),
};

typedef struct name {
    uint64_t key, stream;
} name;

/* For one name and domain this is a bijection of (number, stream), so different numbers cannot
 * meet. */
static name name_derive(name from, int domain, uint64_t number)
{
    uint64_t key = from.key ^ domain_key[domain];
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    const uint32_t ctr[4] = {(uint32_t)number, (uint32_t)(number >> 32), (uint32_t)from.stream,
                             (uint32_t)(from.stream >> 32)};
    uint32_t out[4];
    tl_philox4x32(out, ctr, k);
    return (name){(uint64_t)out[1] << 32 | out[0], (uint64_t)out[3] << 32 | out[2]};
}

static name name_of(const tl_rng *rng)
{
    return (name){rng->key, rng->stream};
}

static void begin(tl_rng *rng, name n)
{
    *rng = (tl_rng){.key = n.key, .stream = n.stream};
}

void tl_rng_init(tl_rng *rng, uint64_t seed)
{
    begin(rng, name_derive((name){0, 0}, DOMAIN_SEED, seed));
}

void tl_rng_fold(tl_rng *child, const tl_rng *parent, uint64_t number)
{
    begin(child, name_derive(name_of(parent), DOMAIN_NUMBER, number));
}

void tl_rng_split(tl_rng *child, const tl_rng *parent, const char *label)
{
    name n = name_of(parent);
    size_t length = strlen(label);
    for (size_t at = 0; at < length; at += 8) {
        uint64_t piece = 0; // least byte first on every machine
        for (size_t i = 0; i < 8 && at + i < length; i++)
            piece |= (uint64_t)(unsigned char)label[at + i] << (8 * i);
        n = name_derive(n, DOMAIN_LABEL, piece);
    }
    begin(child, name_derive(n, DOMAIN_LABEL_END, length));
}

static void make_block(tl_rng *rng)
{
    tli_philox_words(rng->block, rng->key, rng->stream, rng->position / 4, 1);
}

void tl_rng_seek(tl_rng *rng, int64_t position)
{
    TL_ASSERT(position >= 0);
    rng->position = (uint64_t)position;
    if (rng->position % 4) make_block(rng);
}

int64_t tl_rng_position(const tl_rng *rng)
{
    return (int64_t)rng->position;
}

static uint64_t check_word(const uint64_t *words)
{
    return name_derive((name){words[0], words[1]}, DOMAIN_CHECK, words[2]).key;
}

void tl_rng_save(uint64_t out[TL_RNG_WORDS], const tl_rng *rng)
{
    out[0] = rng->key;
    out[1] = rng->stream;
    out[2] = rng->position;
    out[3] = check_word(out);
}

tl_status tl_rng_load(tl_rng *rng, const uint64_t words[TL_RNG_WORDS])
{
    if (words[3] != check_word(words) || words[2] > INT64_MAX)
        return TL_FAIL(TL_EINVAL,
                       "the saved random stream is damaged: its check word is %016" PRIx64
                       " where %016" PRIx64 " belongs; restore it from an intact checkpoint",
                       words[3], check_word(words));
    begin(rng, (name){words[0], words[1]});
    tl_rng_seek(rng, (int64_t)words[2]);
    return TL_OK;
}

/* --- from words to numbers -------------------------------------------------------------------- */

static inline uint64_t join(const uint32_t *words)
{
    return (uint64_t)words[1] << 32 | words[0];
}

static inline double uniform_f64(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

/* Box and Muller: radius sqrt(-2 ln u) and angle 2 pi v give two independent normals. The functions
 * are series that converge to the last bit on the reduced ranges, without fused steps, so that
 * every compiler and vector width rounds alike. */

static INLINE uint32_t bits_f32(float number)
{
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static INLINE float from_bits_f32(uint32_t bits)
{
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* `a` where the mask is all ones, `b` where it is 0; loops with branches become no vectors. */
static INLINE float select_f32(uint32_t mask, float a, float b)
{
    return from_bits_f32((bits_f32(a) & mask) | (bits_f32(b) & ~mask));
}

/* ln of u = (a + 1/2) / 2^32, as k ln 2 + ln(1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). */
static INLINE float log_f32(uint32_t a)
{
    const uint32_t sqrt_half = 0x3f3504f3;
    uint32_t bits = bits_f32((float)a + 0.5f);
    int32_t k = (int32_t)(bits - sqrt_half) >> 23;
    // Near 1 the distance to 1 is what counts; it is taken before rounding eats it.
    float near = ((float)~a + 0.5f) * -0x1p-32f;
    float far = from_bits_f32(bits - ((uint32_t)k << 23)) - 1.0f;
    float f = select_f32(-(uint32_t)(k == 32), near, far);
    float s = f / (2.0f + f), z = s * s;
    float series = z * (1.0f / 3 + z * (1.0f / 5 + z * (1.0f / 7 + z * (1.0f / 9))));
    return (float)(k - 32) * 0x1.62e430p-1f + (2.0f * s + 2.0f * s * series);
}

static INLINE void normal_pair_f32(float *out, uint32_t a, uint32_t b)
{
    float radius = sqrtf(-2.0f * log_f32(a));
    // The nearest quarter turn, and what is left, within an eighth of a turn either way.
    uint32_t quarter = (b + 0x20000000u) >> 30;
    float x = (float)(int32_t)(b - (quarter << 30)) * 0x1.921fb6p-30f, y = x * x;
    float s = x + x * y * (-1.0f / 6 + y * (1.0f / 120 + y * (-1.0f / 5040 + y * (1.0f / 362880))));
    float c = 1.0f + y * (-0.5f + y * (1.0f / 24 + y * (-1.0f / 720 + y * (1.0f / 40320))));
    float cosine = select_f32(-(quarter & 1), s, c), sine = select_f32(-(quarter & 1), c, s);
    out[0] = radius * from_bits_f32(bits_f32(cosine) ^ ((quarter + 1) & 2) << 30);
    out[1] = radius * from_bits_f32(bits_f32(sine) ^ (quarter & 2) << 30);
}

/* ln of u = (a + 1/2) / 2^53; the 53 bits and the half are exact in a double. */
static INLINE double log_f64(uint64_t a)
{
    const uint64_t sqrt_half = UINT64_C(0x3fe6a09e667f3bcd);
    double t = (double)a + 0.5, m;
    uint64_t bits;
    memcpy(&bits, &t, sizeof bits);
    int64_t k = (int64_t)(bits - sqrt_half) >> 52;
    bits -= (uint64_t)k << 52;
    memcpy(&m, &bits, sizeof m);
    double f = k == 53 ? (0x1p53 - (double)a - 0.5) * -0x1p-53 : m - 1.0;
    double s = f / (2.0 + f), z = s * s, series = 1.0 / 23;
    for (int n = 21; n >= 3; n -= 2) series = 1.0 / n + z * series;
    return (double)(k - 53) * 0x1.62e42fefa39efp-1 + (2.0 * s + 2.0 * s * (z * series));
}

static INLINE void normal_pair_f64(double *out, uint64_t a, uint64_t b)
{
    double radius = sqrt(-2.0 * log_f64(a >> 11));
    uint64_t quarter = (b + (UINT64_C(1) << 61)) >> 62;
    double x = (double)(int64_t)(b - (quarter << 62)) * 0x1.921fb54442d18p-62, y = x * x;
    static const double sine_terms[] = {
        1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
        1.0 / 362880,          -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
    static const double cosine_terms[] = {
        1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800,
        1.0 / 40320,          -1.0 / 720,         1.0 / 24,        -0.5};
    double s = 0, c = 0;
    for (int n = 0; n < 8; n++) {
        s = sine_terms[n] + y * s;
        c = cosine_terms[n] + y * c;
    }
    s = x + x * y * s;
    c = 1.0 + y * c;
    double cosine = quarter & 1 ? s : c, sine = quarter & 1 ? c : s;
    out[0] = radius * ((quarter + 1) & 2 ? -cosine : cosine);
    out[1] = radius * (quarter & 2 ? -sine : sine);
}

void tli_normal_pair_f32(float out[2], uint32_t a, uint32_t b)
{
    normal_pair_f32(out, a, b);
}

void tli_normal_pair_f64(double out[2], uint64_t a, uint64_t b)
{
    normal_pair_f64(out, a, b);
}

/* --- draws ------------------------------------------------------------------------------------ */

/* The block with the word at the position, which moves behind it. */
static const uint32_t *take(tl_rng *rng, int words)
{
    if (words == 2 && rng->position % 2) rng->position++;
    if (rng->position % 4 == 0) make_block(rng);
    rng->position += (uint64_t)words;
    return rng->block;
}

uint32_t tl_rng_u32(tl_rng *rng)
{
    const uint32_t *block = take(rng, 1); // which moves the position
    return block[(rng->position - 1) % 4];
}

uint64_t tl_rng_u64(tl_rng *rng)
{
    const uint32_t *block = take(rng, 2);
    return join(block + (rng->position - 2) % 4);
}

float tl_rng_uniform_f32(tl_rng *rng)
{
    return tli_uniform_f32(tl_rng_u32(rng));
}

double tl_rng_uniform_f64(tl_rng *rng)
{
    return uniform_f64(tl_rng_u64(rng));
}

float tl_rng_normal_f32(tl_rng *rng)
{
    const uint32_t *block = take(rng, 1);
    uint64_t word = (rng->position - 1) % 4;
    float pair[2];
    tli_normal_pair_f32(pair, block[word & 2], block[word | 1]);
    return pair[word & 1];
}

double tl_rng_normal_f64(tl_rng *rng)
{
    const uint32_t *block = take(rng, 2);
    double pair[2];
    tli_normal_pair_f64(pair, join(block), join(block + 2));
    return pair[(rng->position - 2) / 2 % 2];
}

int64_t tl_rng_below(tl_rng *rng, int64_t n)
{
    TL_ASSERT(n >= 1);
    // The product's upper half is the answer; the few lower halves that would favour some answers
    // are thrown back (Lemire).
    uint64_t range = (uint64_t)n;
    u128 product = (u128)tl_rng_u64(rng) * range;
    if ((uint64_t)product < range) {
        uint64_t uneven = -range % range;
        while ((uint64_t)product < uneven) product = (u128)tl_rng_u64(rng) * range;
    }
    return (int64_t)(product >> 64);
}

void tl_rng_shuffle(tl_rng *rng, int64_t *items, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = tl_rng_below(rng, i + 1), item = items[i];
        items[i] = items[j];
        items[j] = item;
    }
}

void tl_rng_permutation(tl_rng *rng, int64_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = i;
    tl_rng_shuffle(rng, out, n);
}

/* --- fills ------------------------------------------------------------------------------------ */

/* Words are made and turned into numbers a piece at a time, in the first-level cache. Loops over a
 * whole piece have a constant length, which lets compilers make vectors of them without a
 * remainder. */
enum { PIECE = 384 };

/* Turns `words` words, a multiple of four, into the numbers made from them. */
typedef void convert_fn(void *out, const uint32_t *in, int words);

static void to_normal_f32(void *out, const uint32_t *in, int words)
{
    float *to = out;
    if (words == PIECE)
        for (int i = 0; i < PIECE; i += 2) normal_pair_f32(to + i, in[i], in[i + 1]);
    else
        for (int i = 0; i < words; i += 2) normal_pair_f32(to + i, in[i], in[i + 1]);
}

static void to_uniform_f64(void *out, const uint32_t *in, int words)
{
    double *to = out;
    for (int i = 0; i < words / 2; i++) to[i] = uniform_f64(join(in + 2 * i));
}

static void to_normal_f64(void *out, const uint32_t *in, int words)
{
    double *to = out;
    for (int i = 0; i < words; i += 4) normal_pair_f64(to + i / 2, join(in + i), join(in + i + 2));
}

/* `n` elements of `size` bytes, each made from as many bytes of the stream. */
static void fill(const tl_rng *rng, int64_t first, void *out, int64_t n, int size,
                 convert_fn *convert)
{
    TL_ASSERT(first >= 0 && n >= 0 && first <= INT64_MAX / size - n);
    enum { WORD = 4, BLOCK = 16 };
    uint32_t words[PIECE];
    double numbers[PIECE / 2]; // room for floats as well
    char *to = out;
    for (int64_t at = first * size, left = n * size; left > 0;) {
        int64_t skip = at % BLOCK; // not 0 only where the range starts inside a block
        int64_t bytes = PIECE * WORD - skip;
        if (bytes > left) bytes = left;
        int64_t blocks = tl_div_up(skip + bytes, BLOCK);
        bool whole = blocks * BLOCK == bytes;
        tli_philox_words(words, rng->key, rng->stream, (uint64_t)(at / BLOCK), blocks);
        convert(whole ? (void *)to : numbers, words, (int)(blocks * (BLOCK / WORD)));
        if (!whole) memcpy(to, (const char *)numbers + skip, (size_t)bytes);
        to += bytes;
        at += bytes;
        left -= bytes;
    }
}

/* `n` elements of a word each. Whole blocks of them go straight to their place. */
static void fill_straight(const tl_rng *rng, int64_t start, void *out, int64_t n,
                          tli_philox_fn *make)
{
    TL_ASSERT(start >= 0 && n >= 0 && start <= INT64_MAX - n);
    enum { WORD = 4 };
    char *to = out;
    for (int64_t end = start + n; start < end;) {
        int64_t skip = start % 4, words = end - start;
        if (skip == 0 && words >= 4) {
            words -= words % 4;
            make(to, rng->key, rng->stream, (uint64_t)start / 4, words / 4);
        } else {
            char block[4 * WORD];
            make(block, rng->key, rng->stream, (uint64_t)start / 4, 1);
            if (words > 4 - skip) words = 4 - skip;
            memcpy(to, block + skip * WORD, (size_t)(words * WORD));
        }
        to += words * WORD;
        start += words;
    }
}

void tl_rng_fill_u32(const tl_rng *rng, int64_t start, uint32_t *out, int64_t n)
{
    fill_straight(rng, start, out, n, tli_philox_words);
}

void tl_rng_fill_uniform_f32(const tl_rng *rng, int64_t start, float *out, int64_t n)
{
    fill_straight(rng, start, out, n, tli_philox_uniforms);
}

void tl_rng_fill_uniform_f64(const tl_rng *rng, int64_t start, double *out, int64_t n)
{
    fill(rng, start, out, n, sizeof *out, to_uniform_f64);
}

void tl_rng_fill_normal_f32(const tl_rng *rng, int64_t start, float *out, int64_t n)
{
    fill(rng, start, out, n, sizeof *out, to_normal_f32);
}

void tl_rng_fill_normal_f64(const tl_rng *rng, int64_t start, double *out, int64_t n)
{
    fill(rng, start, out, n, sizeof *out, to_normal_f64);
}
