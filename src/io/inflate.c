#include "io/inflate.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <tilth/base/alloc.h>
#include <tilth/base/integer.h>
#include <tilth/base/log.h>

/* Bytes that zlib is given and gives at a time: it counts in 32 bits. */
enum { MOST_AT_ONCE = 1 << 30 };
enum { SMALLEST_BUFFER = 1 << 12, WRITE_BUFFER = 1 << 16 };
/* No stream of deflate gets smaller than this. */
enum { BEST_RATIO = 1032 };
/* What a packed file may become when nobody says more: a multiple of its size that texts, tables
 * and images keep well below, and never less than a few images. A file that was made to fill the
 * memory goes beyond it. */
enum { USUAL_RATIO = 100 };
#define ALWAYS_ACCEPTED ((size_t)64 << 20)
enum { GZIP_OR_ZLIB = 15 + 32, GZIP = 15 + 16, DEFAULT_LEVEL = 6 };

bool tli_is_gzip(const void *data, size_t size)
{
    const uint8_t *p = data;
    return size >= 3 && p[0] == 0x1f && p[1] == 0x8b && p[2] == 8;
}

bool tli_is_packed(const void *data, size_t size)
{
    const uint8_t *p = data;
    if (tli_is_gzip(data, size)) return true;
    return size >= 2 && (p[0] & 15) == 8 && p[0] >> 4 <= 7 && (p[0] * 256 + p[1]) % 31 == 0;
}

static voidpf zlib_alloc(voidpf payload, uInt count, uInt size)
{
    (void)payload;
    return tl_alloc((size_t)count * size);
}

static void zlib_free(voidpf payload, voidpf memory)
{
    (void)payload;
    tl_free(memory);
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A stream while it is inflated. */
typedef struct inflating {
    const char *name;
    z_stream z;
    const uint8_t *start, *end; /* of what is packed */
    char *out;
    size_t used, capacity, limit;
    bool usual; /* the limit is nobody's choice */
} inflating;

// Zero where the variable is not set, or holds no number of bytes, which is told once.
static size_t limit_of_environment(void)
{
    static atomic_bool told;
    const char *text = getenv("TILTH_UNPACK_LIMIT");
    char *end = NULL;
    if (!text || !*text) return 0;
    errno = 0;
    unsigned long long bytes = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (end && !*end && !errno && bytes) return (size_t)bytes;
    if (!atomic_exchange(&told, true))
        TL_LOG_WARNING("TILTH_UNPACK_LIMIT='%.40s' is no number of bytes, and counts as absent",
                       text);
    return 0;
}

bool tli_unpack_told(void)
{
    return limit_of_environment() != 0;
}

size_t tli_unpack_limit(size_t packed)
{
    size_t told = limit_of_environment();
    if (told) return told < SIZE_MAX / 4 ? told : SIZE_MAX / 4;
    size_t most = packed > SIZE_MAX / 4 / USUAL_RATIO ? SIZE_MAX / 4 : packed * USUAL_RATIO;
    return most > ALWAYS_ACCEPTED ? most : ALWAYS_ACCEPTED;
}

// A gzip file tells at its end how much it holds, modulo 2^32: mostly right, so that memory is
// taken once.
static size_t first_capacity(const inflating *f)
{
    size_t size = (size_t)(f->end - f->start), told = 0;
    if (tli_is_gzip(f->start, size) && size >= 4)
        for (int i = 0; i < 4; i++) told |= (size_t)f->end[i - 4] << 8 * i;
    size_t most = size > f->limit / BEST_RATIO ? f->limit : size * BEST_RATIO;
    size_t guess = told ? told + 1 : size * 4; // one more byte, to see the end come
    guess = tl_min_size(guess, tl_min_size(most, f->limit));
    return guess < SMALLEST_BUFFER ? SMALLEST_BUFFER : guess;
}

static tl_status grow(inflating *f)
{
    // One byte more than the limit shows that there are more.
    size_t capacity = f->out ? tl_min_size(f->capacity * 2, f->limit + 1) : first_capacity(f);
    if (f->used > f->limit)
        return TL_FAIL(
            TL_ELIMIT,
            "'%s' holds more than the %zu bytes that are accepted when its %zu are unpacked%s",
            f->name, f->limit, (size_t)(f->end - f->start),
            f->usual ? "; if it is to be trusted, raise the limit: TILTH_UNPACK_LIMIT=BYTES" : "");
    char *grown = tl_realloc(f->out, capacity);
    if (!grown) return TL_FAIL_NOMEM(capacity);
    f->out = grown;
    f->capacity = capacity;
    return TL_OK;
}

static tl_status fail_stream(const inflating *f, int code)
{
    size_t at = (size_t)(f->z.next_in - f->start);
    if (code == Z_MEM_ERROR)
        return TL_FAIL(TL_ENOMEM, "out of memory while '%s' is unpacked", f->name);
    if (code == Z_BUF_ERROR || code == Z_OK)
        return TL_FAIL(
            TL_EINVAL,
            "'%s' is cut short: its compressed data goes on after byte %zu, its last one", f->name,
            at);
    return TL_FAIL(TL_EINVAL,
                   "'%s' is damaged: its compressed data near byte %zu cannot be unpacked (%s)",
                   f->name, at, f->z.msg ? f->z.msg : "not gzip");
}

// One member, to its end.
static tl_status inflate_member(inflating *f)
{
    for (;;) {
        if (f->used >= f->capacity || f->used > f->limit) TL_TRY(grow(f));
        size_t in = tl_min_size((size_t)(f->end - f->z.next_in), MOST_AT_ONCE);
        size_t room = tl_min_size(f->capacity - f->used, MOST_AT_ONCE);
        f->z.avail_in = (uInt)in;
        f->z.avail_out = (uInt)room;
        f->z.next_out = (Bytef *)f->out + f->used;
        int code = inflate(&f->z, Z_NO_FLUSH);
        f->used += room - f->z.avail_out;
        if (f->used > f->limit) TL_TRY(grow(f)); // says so
        if (code == Z_STREAM_END) return TL_OK;
        bool stuck = f->z.avail_out > 0 && f->z.next_in == f->end;
        if ((code != Z_OK && code != Z_BUF_ERROR) || stuck) return fail_stream(f, code);
    }
}

// Tapes and some programs fill files up; gzip takes no notice either.
static bool is_filling(const uint8_t *at, const uint8_t *end)
{
    while (at < end && *at == 0) at++;
    return at == end;
}

static tl_status inflate_all(inflating *f)
{
    do {
        TL_TRY(inflate_member(f));
        if (is_filling(f->z.next_in, f->end)) return TL_OK;
        if (!tli_is_gzip(f->z.next_in, (size_t)(f->end - f->z.next_in)))
            return TL_FAIL(
                TL_EINVAL,
                "'%s' is damaged: what follows its compressed data at byte %zu is not gzip",
                f->name, (size_t)(f->z.next_in - f->start));
    } while (inflateReset2(&f->z, GZIP_OR_ZLIB) == Z_OK);
    return TL_FAIL(TL_EINTERNAL, "zlib cannot begin again");
}

tl_status tli_inflate(char **out, size_t *out_size, const char *name, const void *data, size_t size,
                      size_t limit)
{
    inflating f = {.name = name,
                   .start = data,
                   .end = (const uint8_t *)data + size,
                   .usual = !limit,
                   .limit = tl_min_size(limit ? limit : tli_unpack_limit(size), SIZE_MAX / 4)};
    *out = NULL;
    *out_size = 0;
    f.z = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free, .next_in = (Bytef *)(uintptr_t)data};
    if (inflateInit2(&f.z, GZIP_OR_ZLIB) != Z_OK)
        return TL_FAIL(TL_ENOMEM, "out of memory while '%s' is unpacked", name);
    tl_status st = inflate_all(&f);
    inflateEnd(&f.z);
    if (st != TL_OK) {
        tl_free(f.out);
        return st;
    }
    *out = f.out;
    *out_size = f.used;
    return TL_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct tli_gzip_stream {
    z_stream z;
    uint8_t buffer[WRITE_BUFFER];
};

tl_status tli_gzip_begin(tli_gzip_stream **out, int level)
{
    *out = NULL;
    if (level < 0 || level > 9)
        return TL_FAIL(TL_EINVAL, "gzip has the levels 1 (fast) to 9 (small), not %d", level);
    tli_gzip_stream *s = tl_alloc_zero(sizeof *s);
    if (!s) return TL_FAIL_NOMEM(sizeof *s);
    s->z = (z_stream){.zalloc = zlib_alloc, .zfree = zlib_free};
    if (deflateInit2(&s->z, level ? level : DEFAULT_LEVEL, Z_DEFLATED, GZIP, 8, Z_DEFAULT_STRATEGY)
        != Z_OK) {
        tl_free(s);
        return TL_FAIL(TL_ENOMEM, "out of memory for gzip");
    }
    *out = s;
    return TL_OK;
}

tl_status tli_gzip_add(tli_gzip_stream *s, tl_str *to, const void *data, size_t size, bool last)
{
    const uint8_t *at = data, *end = at + size;
    do {
        size_t in = tl_min_size((size_t)(end - at), MOST_AT_ONCE);
        s->z.next_in = (Bytef *)(uintptr_t)at;
        s->z.avail_in = (uInt)in;
        at += in;
        int flush = last && at == end ? Z_FINISH : Z_NO_FLUSH;
        do {
            s->z.next_out = s->buffer;
            s->z.avail_out = WRITE_BUFFER;
            (void)deflate(&s->z, flush); // fails only when it was called wrongly
            tl_str_addn(to, (const char *)s->buffer, WRITE_BUFFER - s->z.avail_out);
        } while (s->z.avail_out == 0);
    } while (at < end);
    return tl_str_status(to);
}

void tli_gzip_end(tli_gzip_stream **s)
{
    if (!*s) return;
    deflateEnd(&(*s)->z);
    tl_free(*s);
    *s = NULL;
}

tl_status tli_gzip(tl_str *out, const void *data, size_t size, int level)
{
    tli_gzip_stream *s;
    TL_TRY(tli_gzip_begin(&s, level));
    tl_status st = tli_gzip_add(s, out, data, size, true);
    tli_gzip_end(&s);
    return st;
}
