/* PyTorch's values. tests/golden/ops.py evaluates what oc_golden_write writes and keeps, of each
 * output and gradient, the norm, a sum with fixed signs, and some elements; a hash of all that went
 * in tells when an entry is stale. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op_cases_impl.h"

enum { MOST_STORED = 16 }; /* elements; ops.py says the same */

/* --- what goes in ----------------------------------------------------------------------------- */

static void write_text(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') putc('\\', to);
        putc(*text, to);
    }
    putc('"', to);
}

static void write_shape(FILE *to, const tl_shape *shape)
{
    char text[TL_SHAPE_TEXT];
    fprintf(to, "%s", tl_shape_text(text, shape));
}

// Hexadecimal: exact, and the same text everywhere.
static void write_numbers(FILE *to, const double *v, int64_t count)
{
    putc('[', to);
    for (int64_t i = 0; i < count; i++) fprintf(to, "%s\"%a\"", i ? "," : "", v[i]);
    putc(']', to);
}

static void write_input(FILE *to, const oc_plan *p, int i)
{
    const oc_input *in = &p->in[i];
    fprintf(to, "%s{\"type\": \"%s\", \"gradient\": %s, \"shape\": ", i ? ", " : "",
            in->is_float           ? "float64"
            : in->dtype == TL_BOOL ? "bool"
                                   : "int64",
            oc_differentiates(p, i) ? "true" : "false");
    write_shape(to, &in->shape);
    fprintf(to, ", \"values\": ");
    write_numbers(to, in->v, in->count);
    putc('}', to);
}

static void write_row(FILE *to, const oc_plan *p)
{
    fprintf(to, "{\"name\": ");
    write_text(to, p->k->name);
    fprintf(to, ", \"torch\": ");
    write_text(to, p->k->torch);
    fprintf(to, ", \"p\": [");
    for (size_t i = 0; i < TL_COUNT(p->k->p); i++)
        fprintf(to, "%s%" PRId64, i ? ", " : "", p->k->p[i]);
    fprintf(to, "], \"q\": ");
    write_numbers(to, p->k->q, TL_COUNT(p->k->q));
    fprintf(to, ", \"inputs\": [");
    for (int i = 0; i < p->inputs; i++) write_input(to, p, i);
    fprintf(to, "], \"outputs\": [");
    for (int i = 0; i < p->outputs; i++) {
        fprintf(to, "%s{\"shape\": ", i ? ", " : "");
        write_shape(to, &p->want.out[i].shape);
        fprintf(to, ", \"weights\": ");
        if (p->weights[i]) write_numbers(to, p->weights[i], p->want.out[i].count);
        else fprintf(to, "null");
        putc('}', to);
    }
    fprintf(to, "]}");
}

// The row as text, and its hash (FNV-1a).
static char *row_text(const oc_plan *p, uint64_t *hash)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    if (!to) exit(2);
    write_row(to, p);
    if (fclose(to) != 0 || !text) exit(2);
    *hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < length; i++)
        *hash = (*hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    return text;
}

void oc_golden_write(FILE *to, const oc_plan *p)
{
    uint64_t hash;
    char *text = row_text(p, &hash);
    fprintf(to, "%016" PRIx64 " %s\n", hash, text);
    free(text);
}

/* --- what came out: little-endian, see ops.py ------------------------------------------------- */

typedef struct golden_value {
    bool there, is_float;
    tl_shape shape;
    double norm, signed_sum; /* over finite elements */
    int stored;
    double v[MOST_STORED];
} golden_value;

typedef struct golden_row {
    char name[128];
    uint64_t hash;
    int outputs, gradients;
    golden_value out[OP_CASE_MAX], gradient[OP_CASE_MAX];
    int input[OP_CASE_MAX]; /* whose gradient it is */
} golden_row;

struct oc_golden {
    golden_row *rows;
    int64_t count;
};

typedef struct reader {
    const unsigned char *at, *end;
    bool bad;
} reader;

static uint64_t read_number(reader *r, int bytes)
{
    uint64_t x = 0;
    if (r->end - r->at < bytes) {
        r->bad = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++) x |= (uint64_t)r->at[i] << (8 * i);
    r->at += bytes;
    return x;
}

static double read_double(reader *r)
{
    uint64_t bits = read_number(r, 8);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void read_value(reader *r, golden_value *v)
{
    int kind = (int)read_number(r, 1);
    v->there = kind != 0;
    if (!v->there) return;
    v->is_float = kind == 1;
    v->shape.rank = (int)read_number(r, 1);
    if (v->shape.rank > TL_MAX_RANK) r->bad = true;
    for (int d = 0; d < v->shape.rank && !r->bad; d++)
        v->shape.dims[d] = (int64_t)read_number(r, 4);
    v->norm = read_double(r);
    v->signed_sum = read_double(r);
    v->stored = (int)read_number(r, 1);
    if (v->stored > MOST_STORED) r->bad = true;
    for (int i = 0; i < v->stored && !r->bad; i++) v->v[i] = read_double(r);
}

static void read_row(reader *r, golden_row *row)
{
    size_t length = (size_t)read_number(r, 2);
    if (length >= sizeof row->name || (size_t)(r->end - r->at) < length) {
        r->bad = true;
        return;
    }
    memcpy(row->name, r->at, length);
    r->at += length;
    row->hash = read_number(r, 8);
    row->outputs = (int)read_number(r, 1);
    row->gradients = (int)read_number(r, 1);
    if (row->outputs > OP_CASE_MAX || row->gradients > OP_CASE_MAX) r->bad = true;
    for (int i = 0; i < row->outputs && !r->bad; i++) read_value(r, &row->out[i]);
    for (int i = 0; i < row->gradients && !r->bad; i++) {
        row->input[i] = (int)read_number(r, 1);
        if (row->input[i] >= OP_CASE_MAX) r->bad = true;
        read_value(r, &row->gradient[i]);
    }
}

static bool read_rows(oc_golden *g, reader r)
{
    if (r.end - r.at < 12 || memcmp(r.at, "TLGOLD01", 8) != 0) return false;
    r.at += 8;
    g->count = (int64_t)read_number(&r, 4);
    if (g->count > r.end - r.at) return false;
    g->rows = calloc((size_t)g->count + 1, sizeof *g->rows);
    if (!g->rows) exit(2);
    for (int64_t i = 0; i < g->count && !r.bad; i++) read_row(&r, &g->rows[i]);
    return !r.bad && r.at == r.end;
}

static unsigned char *read_whole(const char *path, size_t *length)
{
    FILE *from = fopen(path, "rb");
    if (!from) return NULL;
    fseek(from, 0, SEEK_END);
    long size = ftell(from);
    rewind(from);
    unsigned char *bytes = malloc((size_t)(size > 0 ? size : 1));
    *length = bytes && size > 0 ? fread(bytes, 1, (size_t)size, from) : 0;
    fclose(from);
    return bytes;
}

oc_golden *oc_golden_read(const char *family)
{
    char path[512];
    size_t length;
    snprintf(path, sizeof path, TEST_DATA "/golden/ops_%s.bin", family);
    oc_golden *g = calloc(1, sizeof *g);
    if (!g) exit(2);
    unsigned char *bytes = read_whole(path, &length);
    if (bytes && !read_rows(g, (reader){bytes, bytes + length, false})) {
        printf("FAIL %s is damaged; run tests/golden/ops.py\n", path);
        oc_failures++;
        oc_golden_free(g);
        g = NULL;
    }
    free(bytes);
    return g;
}

void oc_golden_free(oc_golden *g)
{
    if (g) free(g->rows);
    free(g);
}

/* --- comparison ------------------------------------------------------------------------------- */

// A fixed sign for each position; ops.py has the same.
static double sign_at(int64_t i)
{
    return ((uint64_t)i * UINT64_C(0x9e3779b97f4a7c15)) >> 63 ? -1 : 1;
}

static int64_t stored_position(int64_t i, int64_t count)
{
    return count <= MOST_STORED ? i : i * (count - 1) / (MOST_STORED - 1);
}

static bool compare_sums(oc_plan *p, const char *where, const char *what, const oc_value *got,
                         const golden_value *want, oc_limits limits)
{
    double sum = 0, root = sqrt((double)got->count);
    for (int64_t i = 0; i < got->count; i++)
        if (isfinite(got->v[i])) sum += sign_at(i) * got->v[i];
    double most = limits.relative * root * fmax(want->norm, limits.floor * root);
    oc_checks++;
    if (fabs(sum - want->signed_sum) <= most) return true;
    oc_complain(p,
                "%s | %s, sum of all %" PRId64
                " elements with signs | expected %.17g, got %.17g | off by "
                "%.3g, at most %.3g",
                where, what, got->count, want->signed_sum, sum, fabs(sum - want->signed_sum), most);
    return false;
}

static bool compare_value(oc_plan *p, const char *where, const char *what, const oc_value *got,
                          const golden_value *want, oc_limits limits)
{
    char a[TL_SHAPE_TEXT], b[TL_SHAPE_TEXT];
    double elements[MOST_STORED] = {0};
    if (!tl_shape_equal(&got->shape, &want->shape)) {
        oc_complain(p, "%s | %s | has shape %s, expected %s", where, what,
                    tl_shape_text(a, &got->shape), tl_shape_text(b, &want->shape));
        return false;
    }
    bool sampled = got->count > MOST_STORED;
    double rms = got->count ? want->norm / sqrt((double)got->count) : 0;
    if (!tl_dtype_is_float(got->dtype)) limits = (oc_limits){1e-300, 1}; // equal
    for (int i = 0; i < want->stored; i++) elements[i] = got->v[stored_position(i, got->count)];
    oc_value some = {.dtype = TL_F64,
                     .shape = sampled ? TL_SHAPE(want->stored) : got->shape,
                     .count = want->stored,
                     .v = elements};
    oc_value wanted = some;
    wanted.v = (double *)want->v;
    char spread[96];
    if (sampled) {
        snprintf(spread, sizeof spread, "%s, %d of %" PRId64 " elements, evenly spread", what,
                 want->stored, got->count);
        what = spread;
    }
    // Of many elements those that were kept may be the least precise ones.
    oc_limits loose = {limits.relative, fmax(limits.floor, sampled ? 2 * rms : 0)};
    return oc_compare(p, where, what, &some, &wanted, loose)
           && (!sampled || compare_sums(p, where, what, got, want, limits));
}

static void compare_row(oc_plan *p, const golden_row *row, const oc_place *place, tl_dtype dtype)
{
    oc_memory memory = {0};
    oc_results got = {0};
    oc_run r = {.plan = p, .place = place, .dtype = dtype};
    char where[OC_WHERE], what[48];
    oc_where(where, place, dtype, "against PyTorch");
    for (int i = 0; i < row->outputs; i++)
        if (row->out[i].there) r.in_loss |= 1u << i;
    if (!oc_expect_ok(p, oc_run_all(&r, &memory, &got), where)) goto done;
    for (int i = 0; i < row->outputs && i < p->outputs; i++) {
        snprintf(what, sizeof what, "output %d", i);
        if (row->out[i].there
            && !compare_value(p, where, what, &got.out[i], &row->out[i],
                              oc_output_limits(p, dtype)))
            goto done;
    }
    for (int i = 0; i < row->gradients; i++) {
        int input = row->input[i];
        if (input >= p->inputs || got.gradient[input].count < 0) continue;
        snprintf(what, sizeof what, "gradient of input %d", input);
        if (!compare_value(p, where, what, &got.gradient[input], &row->gradient[i],
                           oc_gradient_limits(p, dtype)))
            goto done;
    }
done:
    oc_give_back(&memory);
}

static const golden_row *find_row(const oc_golden *g, const char *name)
{
    for (int64_t i = 0; i < g->count; i++)
        if (strcmp(g->rows[i].name, name) == 0) return &g->rows[i];
    return NULL;
}

void oc_check_golden(oc_plan *p, const oc_golden *g, const oc_places *places)
{
    uint64_t hash;
    const golden_row *row = find_row(g, p->k->name);
    free(row_text(p, &hash));
    oc_checks++;
    if (!row || row->hash != hash) {
        oc_complain(p, "PyTorch's values are %s; run tests/golden/ops.py",
                    row ? "stale" : "missing");
        return;
    }
    if (p->base == TL_F64) {
        compare_row(p, row, &places->at[0][0], TL_F64);
        compare_row(p, row, oc_best(places), TL_F64);
    }
    compare_row(p, row, oc_best(places), TL_F32);
    if (oc_has_type(p, TL_BF16)) compare_row(p, row, oc_best(places), TL_BF16);
}
