/* Ids of pictures that have none: Farmhash's Fingerprint64, by its definition. */
#include <tilth/zoo/detection_inputs.h>

static const uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;

typedef struct pair {
    uint64_t a, b;
} pair;

/* Numbers lie in memory with their lowest byte first, whatever the machine does. */
static uint64_t take(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static uint64_t take_8(const uint8_t *p)
{
    return take(p, 8);
}

static uint64_t turn(uint64_t v, int by)
{
    return v >> by | v << (64 - by);
}

static uint64_t fold(uint64_t v)
{
    return v ^ v >> 47;
}

static uint64_t mix(uint64_t a, uint64_t b, uint64_t by)
{
    return fold((b ^ fold((a ^ b) * by)) * by) * by;
}

static uint64_t hash_to_16(const uint8_t *p, size_t n)
{
    uint64_t by = k2 + n * 2;
    if (n >= 8) {
        uint64_t a = take_8(p) + k2, b = take_8(p + n - 8);
        return mix(turn(b, 37) * by + a, (turn(a, 25) + b) * by, by);
    }
    if (n >= 4) return mix(n + (take(p, 4) << 3), take(p + n - 4, 4), by);
    if (n == 0) return k2;
    uint64_t a = p[0] + ((uint64_t)p[n >> 1] << 8), b = n + ((uint64_t)p[n - 1] << 2);
    return fold(a * k2 ^ b * k0) * k2;
}

static uint64_t hash_to_32(const uint8_t *p, size_t n)
{
    uint64_t by = k2 + n * 2, a = take_8(p) * k1, b = take_8(p + 8);
    uint64_t c = take_8(p + n - 8) * by, d = take_8(p + n - 16) * k2;
    return mix(turn(a + b, 43) + turn(c, 30) + d, a + turn(b + k2, 18) + c, by);
}

static uint64_t hash_to_64(const uint8_t *p, size_t n)
{
    uint64_t by = k2 + n * 2, a = take_8(p) * k2, b = take_8(p + 8);
    uint64_t c = take_8(p + n - 8) * by, d = take_8(p + n - 16) * k2;
    uint64_t y = turn(a + b, 43) + turn(c, 30) + d, z = mix(y, a + turn(b + k2, 18) + c, by);
    uint64_t e = take_8(p + 16) * by, f = take_8(p + 24);
    uint64_t g = (y + take_8(p + n - 32)) * by, h = (z + take_8(p + n - 24)) * by;
    return mix(turn(e + f, 43) + turn(g, 30) + h, e + turn(f + a, 18) + g, by);
}

static pair weak(const uint8_t *p, uint64_t a, uint64_t b)
{
    a += take_8(p);
    b = turn(b + a + take_8(p + 24), 21);
    uint64_t first = a;
    a += take_8(p + 8) + take_8(p + 16);
    b += turn(a, 44);
    return (pair){a + take_8(p + 24), b + first};
}

/* What 64 bytes change. */
typedef struct hashing {
    uint64_t x, y, z;
    pair v, w;
} hashing;

static void add_block(hashing *h, const uint8_t *p, uint64_t by, uint64_t weight)
{
    h->x = turn(h->x + h->y + h->v.a + take_8(p + 8), 37) * by;
    h->y = turn(h->y + h->v.b + take_8(p + 48), 42) * by;
    h->x ^= h->w.b * weight;
    h->y += h->v.a * weight + take_8(p + 40);
    h->z = turn(h->z + h->w.a, 33) * by;
    h->v = weak(p, h->v.b * by, h->x + h->w.a);
    h->w = weak(p + 32, h->z + h->w.b, h->y + take_8(p + 16));
    uint64_t z = h->z;
    h->z = h->x;
    h->x = z;
}

static uint64_t fingerprint(const uint8_t *p, size_t n)
{
    if (n <= 16) return hash_to_16(p, n);
    if (n <= 32) return hash_to_32(p, n);
    if (n <= 64) return hash_to_64(p, n);
    const uint64_t seed = 81;
    hashing h = {.x = seed * k2 + take_8(p), .y = seed * k1 + 113};
    h.z = fold(h.y * k2 + 113) * k2;
    const uint8_t *end = p + (n - 1) / 64 * 64, *last = p + n - 64;
    for (; p != end; p += 64) add_block(&h, p, k1, 1);
    uint64_t by = k1 + ((h.z & 0xff) << 1);
    h.w.a += (n - 1) & 63;
    h.v.a += h.w.a;
    h.w.a += h.v.a;
    add_block(&h, last, by, 9);
    return mix(mix(h.v.a, h.w.a, by) + fold(h.y) * k0 + h.z, mix(h.v.b, h.w.b, by) + h.x, by);
}

int64_t tl_source_id_of(const void *data, size_t size)
{
    return (int64_t)(fingerprint(data, size) % ((1 << 22) - 1));
}
