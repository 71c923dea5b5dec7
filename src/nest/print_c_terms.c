#include "nest/print_c.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/inner/number.h"
#include "nest/inner/words.h"

/* --- words ------------------------------------------------------------------------------------ */

const char *const tli_print_kind_types[] = {"float", "double", "i32", "i64"};
static const char kind_letters[] = "fdil";
_Static_assert(sizeof tli_print_kind_types / sizeof *tli_print_kind_types == TLI_KIND_COUNT
                   && sizeof kind_letters == TLI_KIND_COUNT + 1,
               "every kind has its words");

const char *tli_print_memory_type(tl_dtype dtype)
{
    static const char *const names[TL_DTYPE_COUNT] = {
        [TL_F32] = "float", [TL_BF16] = "u16", [TL_F16] = "u16", [TL_F64] = "double",
        [TL_I8] = "i8",     [TL_I16] = "i16",  [TL_I32] = "i32", [TL_I64] = "i64",
        [TL_U8] = "u8",     [TL_BOOL] = "u8",
    };
    TL_ASSERT(dtype < TL_DTYPE_COUNT && names[dtype]);
    return names[dtype];
}

const char *tli_kernel_words(tl_dtype dtype, const char **load, const char **store)
{
    TL_ASSERT(dtype == TL_F32 || dtype == TL_BF16 || dtype == TL_F16);
    *load = dtype == TL_BF16 ? "from_bf16" : dtype == TL_F16 ? "from_f16" : "f32_of_f";
    *store = dtype == TL_BF16 ? "bf16_bits_of_f" : dtype == TL_F16 ? "f16_bits_of_f" : "f32_of_f";
    return tli_print_memory_type(dtype);
}

// As scalar.h calls it: f32_of_i and so on.
static const char *type_word(tl_dtype dtype)
{
    static const char *const names[TL_DTYPE_COUNT] = {
        [TL_F32] = "f32", [TL_BF16] = "bf16",  [TL_F16] = "f16", [TL_F64] = "f64",
        [TL_I8] = "i8",   [TL_I16] = "i16",    [TL_I32] = "i32", [TL_I64] = "i64",
        [TL_U8] = "u8",   [TL_BOOL] = "truth",
    };
    TL_ASSERT(dtype < TL_DTYPE_COUNT && names[dtype]);
    return names[dtype];
}

const char *tli_print_rounding(tl_dtype dtype)
{
    switch (dtype) {
    case TL_BF16: return "as_bf16";
    case TL_F16: return "as_f16";
    case TL_I8: return "as_i8";
    case TL_I16: return "as_i16";
    case TL_U8: return "as_u8";
    default: return NULL;
    }
}

static void add_double(tl_str *out, double x, const char *suffix)
{
    if (isnan(x)) {
        tl_str_add(out, "NAN_F");
    } else if (isinf(x)) {
        tl_str_add(out, x > 0 ? "INF_F" : "-INF_F");
    } else if (x == rint(x) && fabs(x) < 1e6) {
        tl_str_addf(out, "%.0f.0%s", x, suffix);
    } else {
        char text[64];
        tli_number_text(text, sizeof text, "%.*a", -1, x); // as many digits as it has
        tl_str_addf(out, "%s%s", text, suffix);
    }
}

static void add_value(tl_str *out, tli_kind kind, tli_value v)
{
    switch (kind) {
    case TLI_KIND_F: add_double(out, (double)v.f, "f"); break;
    case TLI_KIND_D: add_double(out, v.d, ""); break;
    case TLI_KIND_I:
        if (v.i == INT32_MIN) tl_str_add(out, "(-2147483647 - 1)");
        else tl_str_addf(out, "%" PRId32, v.i);
        break;
    default:
        if (v.l == INT64_MIN) tl_str_add(out, "(-9223372036854775807 - 1)");
        else tl_str_addf(out, "(i64)%" PRId64, v.l);
        break;
    }
}

bool tli_print_uses_buffer(const tl_nest *n, int buffer, tl_dtype *dtype)
{
    for (int64_t i = 0; i < n->term_count; i++)
        if (n->terms[i].kind == TL_TERM_LOAD && n->terms[i].from.buffer == buffer) {
            *dtype = n->terms[i].from.dtype;
            return true;
        }
    for (int64_t i = 0; i < n->store_count; i++)
        if (n->stores[i].to.buffer == buffer) {
            *dtype = n->stores[i].to.dtype;
            return true;
        }
    return false;
}

const char *tli_print_join_function(tl_op op)
{
    switch (op) {
    case TL_OP_sum: return "add";
    case TL_OP_prod: return "mul";
    case TL_OP_max: return "maximum";
    case TL_OP_min: return "minimum";
    case TL_OP_any: return "logical_or";
    default: return "logical_and";
    }
}

char tli_print_letter(const tli_printer *p, int term)
{
    return kind_letters[tli_print_info_of(p, term)->kind];
}

void tli_print_start(const tli_printer *p, int term)
{
    const tli_kind kind = tli_print_info_of(p, term)->kind;
    add_value(p->out, kind, tli_reduce_start(tli_print_term_of(p, term)->op, kind));
}

void tli_print_access(const tli_printer *p, const tl_access *a, const char *element, bool address)
{
    TL_ASSERT(a->buffer >= 0 && a->buffer < p->s->nest.buffer_count);
    bool first = true;
    const int row = p->s->nest.rank - 1;
    tl_str_addf(p->out, address ? "b%d + (" : "b%d[", a->buffer);
    for (int i = 0; i <= row; i++) {
        char name[16];
        if (a->strides[i] == 0 || p->s->nest.dims[i] == 1 || (i == row && !element)) continue;
        snprintf(name, sizeof name, "a%d", i);
        tl_str_addf(p->out, "%s%s", first ? "" : " + ", i == row ? element : name);
        if (a->strides[i] != 1) tl_str_addf(p->out, " * %" PRId64, a->strides[i]);
        first = false;
    }
    if (a->offset || first) tl_str_addf(p->out, "%s%" PRId64, first ? "" : " + ", a->offset);
    tl_str_addc(p->out, address ? ')' : ']');
}

bool tli_print_is_vector(const tl_nest *n, const tl_access *a)
{
    const int row = n->rank - 1;
    if (row < 0 || a->strides[row] != 1 || a->offset % TLI_VECTOR) return false;
    for (int i = 0; i < row; i++)
        if (n->dims[i] != 1 && a->strides[i] % TLI_VECTOR) return false;
    return a->dtype == TL_F32 || a->dtype == TL_BF16 || a->dtype == TL_F16;
}

/* --- terms ------------------------------------------------------------------------------------ */

void tli_print_reduce_input(const tli_printer *p, int term)
{
    const tl_term *t = tli_print_term_of(p, term);
    if (t->op == TL_OP_any || t->op == TL_OP_all)
        tl_str_addf(p->out, "truth_of_%c(t%d)", tli_print_letter(p, t->in[0]), t->in[0]);
    else tl_str_addf(p->out, "t%d", t->in[0]);
}

static void add_load(const tli_printer *p, int term, const char *element)
{
    const tl_term *t = tli_print_term_of(p, term);
    if (t->dtype == TL_BF16) tl_str_add(p->out, "from_bf16(");
    if (t->dtype == TL_F16) tl_str_add(p->out, "from_f16(");
    if (element && p->vectors && tli_print_is_vector(&p->s->nest, &t->from))
        tl_str_addf(p->out, "v%d.x[j]", term);
    else if (element && p->ahead) tl_str_addf(p->out, "r%d[j]", term);
    else tli_print_access(p, &t->from, element, false);
    if (t->dtype == TL_BF16 || t->dtype == TL_F16) tl_str_addc(p->out, ')');
    if (t->dtype == TL_BOOL) tl_str_add(p->out, " != 0");
}

static bool fits_int32(int64_t x)
{
    return x >= INT32_MIN && x <= INT32_MAX;
}

static void add_index(const tli_printer *p, const tl_term *t, const char *element)
{
    TL_ASSERT(t->axis < p->s->nest.rank);
    const int64_t last = t->axis < 0 ? 0 : p->s->nest.dims[t->axis] - 1;
    int64_t span, end;
    const bool narrow = !__builtin_mul_overflow(t->scale, last, &span)
                        && !__builtin_add_overflow(span, t->shift, &end) && fits_int32(t->shift)
                        && fits_int32(t->scale) && fits_int32(span) && fits_int32(end);
    const char *type = narrow ? "i32" : "u64";
    tl_str_addf(p->out, "%s_of_%c((%s)", type_word(t->dtype), narrow ? 'i' : 'l',
                narrow ? "i32" : "i64");
    tl_str_addf(p->out, "((%s)%" PRId64, type, t->shift);
    if (t->axis >= 0) {
        tl_str_addf(p->out, " + (%s)%" PRId64 " * (%s)", type, t->scale, type);
        if (t->axis == p->s->nest.rank - 1) tl_str_add(p->out, element ? element : "0");
        else tl_str_addf(p->out, "a%d", t->axis);
    }
    tl_str_add(p->out, "))");
}

/* Whether quick.h has it, and the type does not need more. */
static bool is_quick(const tli_printer *p, const tl_term *t, const char *function)
{
    static const char *const names[] = {"exp",       "sigmoid",    "tanh",      "silu",
                                        "silu_grad", "reciprocal", "gelu_tanh", "gelu_tanh_grad"};
    if (!p->quick || (t->dtype != TL_BF16 && t->dtype != TL_F16)) return false;
    for (int i = 0; i < (int)TL_COUNT(names); i++)
        if (strcmp(function, names[i]) == 0) return true;
    return false;
}

static void add_op(const tli_printer *p, int term)
{
    const tl_term *t = tli_print_term_of(p, term);
    const tli_term_info *info = tli_print_info_of(p, term);
    const char *round = info->exact ? NULL : tli_print_rounding(t->dtype);
    if (t->op == TL_OP_cast) {
        tl_str_addf(p->out, "%s_of_%c(t%d)", type_word(t->dtype), kind_letters[info->in_kind],
                    t->in[0]);
        return;
    }
    if (round) tl_str_addf(p->out, "%s(", round);
    const char *function = tli_op_function(t->op, t->attr);
    tl_str_addf(p->out, "%s%s_%c(", is_quick(p, t, function) ? "quick_" : "", function,
                kind_letters[info->in_kind]);
    for (int i = 0; i < t->inputs; i++) tl_str_addf(p->out, "%st%d", i ? ", " : "", t->in[i]);
    for (int i = 0; i < tli_nest_op_of(t->op)->params; i++) {
        tl_str_add(p->out, ", ");
        add_value(p->out, info->in_kind, info->params[i]);
    }
    tl_str_add(p->out, round ? "))" : ")");
}

// A reduction over axes of size 1.
static void add_reduce_one(const tli_printer *p, int term)
{
    const tl_term *t = tli_print_term_of(p, term);
    TL_ASSERT(t->kind == TL_TERM_REDUCE && !t->axes);
    const char *round = tli_print_rounding(t->dtype);
    if (round) tl_str_addf(p->out, "%s(", round);
    tl_str_addf(p->out, "%s_%c(", tli_print_join_function(t->op), tli_print_letter(p, term));
    tli_print_start(p, term);
    tl_str_add(p->out, ", ");
    tli_print_reduce_input(p, term);
    tl_str_add(p->out, round ? "))" : ")");
}

void tli_print_comment(tl_str *out, char before, char c, char after)
{
    if ((unsigned char)c < ' ' || c == 0x7f || c == '\\' || (c == '?' && before == '?')) c = ' ';
    if (c == '/' && (before == '*' || after == '*')) c = '|';
    tl_str_addc(out, c);
}

static void add_note(const tli_printer *p, const tl_term *t)
{
    if (!t->note) return;
    tl_str_add(p->out, " // ");
    for (const char *c = t->note; *c; c++)
        tli_print_comment(p->out, c == t->note ? ' ' : c[-1], *c, c[1]);
}

void tli_print_term(tli_printer *p, int term, const char *element)
{
    const tl_term *t = tli_print_term_of(p, term);
    const tli_term_info *info = tli_print_info_of(p, term);
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
    tl_str_addf(p->out, "const %s t%d = ", tli_print_kind_types[info->kind], term);
    TL_ASSERT((element != NULL) == info->row); // at a point, or along the row
    if (info->deferred >= 0) {
        const char *round = tli_print_rounding(t->dtype);
        if (round) tl_str_addf(p->out, "%s(", round);
        if (element && p->own_sums) tl_str_addf(p->out, "MY(s%d_total)[j]", info->deferred);
        else tl_str_addf(p->out, "s%d_total", info->deferred);
        if (element && !p->own_sums) tl_str_addf(p->out, "[%s - origin]", element);
        if (round) tl_str_addc(p->out, ')');
    } else if (t->kind == TL_TERM_LOAD) {
        add_load(p, term, element);
    } else if (t->kind == TL_TERM_NUMBER) {
        add_value(p->out, info->kind, info->number);
    } else if (t->kind == TL_TERM_INDEX) {
        add_index(p, t, element);
    } else if (t->kind == TL_TERM_REDUCE) {
        add_reduce_one(p, term);
    } else {
        add_op(p, term);
    }
    tl_str_addc(p->out, ';');
    add_note(p, t);
    tl_str_addc(p->out, '\n');
}

/* --- stores ----------------------------------------------------------------------------------- */

void tli_print_store(tli_printer *p, int store, const char *element)
{
    TL_ASSERT(store >= 0 && store < p->s->nest.store_count);
    const tl_nest_store *t = &p->s->nest.stores[store];
    bool guarded = false;
    tl_str_pad(p->out, ' ', 4 * (int64_t)p->indent);
    for (int i = 0; i < p->s->nest.rank - 1; i++)
        if (p->s->guards[store] >> i & 1) {
            tl_str_addf(p->out, "%sa%d == 0", guarded ? " && " : "if (", i);
            guarded = true;
        }
    if (!element && p->pieces > 1) { // one of the pieces of a row
        tl_str_add(p->out, guarded ? " && begin == 0" : "if (begin == 0");
        guarded = true;
    }
    if (guarded) tl_str_add(p->out, ") ");
    if (element && p->vectors && !guarded && tli_print_is_vector(&p->s->nest, &t->to))
        tl_str_addf(p->out, "w%d.x[j]", store);
    else tli_print_access(p, &t->to, element, false);
    switch (t->to.dtype) {
    case TL_BF16: tl_str_addf(p->out, " = to_bf16(t%d);\n", t->term); break;
    case TL_F16: tl_str_addf(p->out, " = to_f16(t%d);\n", t->term); break;
    default:
        tl_str_addf(p->out, " = (%s)t%d;\n", tli_print_memory_type(t->to.dtype), t->term);
        break;
    }
}
