#include <tilth/sys/nest/nest.h>

#include <inttypes.h>
#include <string.h>
#include <tilth/core/attrs.h>
#include <tilth/desc/yaml.h>

#include "nest/kind.h"

/* --- types ------------------------------------------------------------------------------------ */

_Static_assert(TL_MAX_RANK <= 32, "sets of axes are the bits of a word");
static int takes_of(tl_dtype dtype)
{
    switch (tl_dtype_classify(dtype)) {
    case TL_CLASS_BOOL: return TLI_TAKES_B;
    case TL_CLASS_INT: return TLI_TAKES_N;
    default: return dtype == TL_F64 ? TLI_TAKES_D : TLI_TAKES_F;
    }
}

bool tl_nest_has_op(tl_op op, tl_dtype out, tl_dtype in)
{
    const tli_nest_op *o = tli_nest_op_of(op);
    if (!o || !(o->takes & takes_of(in))) return false;
    return o->result == TLI_CAST || out == (o->result == TLI_TRUTH ? TL_BOOL : in);
}

/* --- variance --------------------------------------------------------------------------------- */

static uint32_t access_varies(const tl_nest *n, const tl_access *a)
{
    TL_ASSERT(n->rank >= 0 && n->rank <= TL_MAX_RANK);
    uint32_t varies = 0;
    for (int i = 0; i < n->rank; i++)
        if (a->strides[i] != 0 && n->dims[i] != 1) varies |= UINT32_C(1) << i;
    return varies;
}

void tl_nest_variance(const tl_nest *n, uint32_t *varies)
{
    for (int64_t i = 0; i < n->term_count; i++) {
        const tl_term *t = &n->terms[i];
        varies[i] = 0;
        if (t->kind == TL_TERM_LOAD) varies[i] = access_varies(n, &t->from);
        if (t->kind == TL_TERM_INDEX && t->scale != 0 && n->dims[t->axis] != 1)
            varies[i] = UINT32_C(1) << t->axis;
        if (t->kind != TL_TERM_OP && t->kind != TL_TERM_REDUCE) continue;
        for (int k = 0; k < t->inputs; k++) varies[i] |= varies[t->in[k]];
        // Made of terms before it.
        TL_ASSERT(t->inputs <= TL_TERM_INPUTS && (!t->inputs || t->in[t->inputs - 1] < i));
        if (t->kind == TL_TERM_REDUCE) varies[i] &= ~t->axes;
    }
}

/* --- verification ----------------------------------------------------------------------------- */

static tl_status verify_space(const tl_nest *n)
{
    int64_t count = 1;
    if (n->rank < 0 || n->rank > TL_MAX_RANK)
        return TL_FAIL(TL_EINVAL, "%d axes; there are 0 to %d", n->rank, TL_MAX_RANK);
    for (int i = 0; i < n->rank; i++) {
        if (n->dims[i] < 0)
            return TL_FAIL(TL_EINVAL, "a%d: %" PRId64 " is negative", i, n->dims[i]);
        if (n->dims[i] > 0 && __builtin_mul_overflow(count, n->dims[i], &count))
            return TL_FAIL(TL_ELIMIT, "more points than can be counted");
    }
    return TL_OK;
}

static tl_status verify_access(const tl_nest *n, const tl_access *a, tl_dtype dtype)
{
    if (a->buffer < 0 || a->buffer >= n->buffer_count)
        return TL_FAIL(TL_EINVAL, "buffer %d; there are %d", a->buffer, n->buffer_count);
    if (a->dtype != dtype)
        return TL_FAIL(TL_EINVAL, "the value is %s and buffer %d holds %s; cast it",
                       tl_dtype_name(dtype), a->buffer, tl_dtype_name(a->dtype));
    return TL_OK;
}

static tl_status verify_op(const tl_nest *n, const tl_term *t)
{
    const tl_op_class *c = tl_op_class_of(t->op);
    const tli_nest_op *o = tli_nest_op_of(t->op);
    if (!c || !o || o->reduces)
        return TL_FAIL(TL_EUNSUPPORTED, "the op %s is not elementwise, or not for nests",
                       c ? c->name : "of no name");
    if (t->inputs != c->inputs_min)
        return TL_FAIL(TL_EINVAL, "%s of %d terms; it takes %d", c->name, t->inputs, c->inputs_min);
    if (c->attr && !t->attr) return TL_FAIL(TL_EINVAL, "%s without its attributes", c->name);
    const tl_dtype in = n->terms[t->in[c->by]].dtype;
    if (!tl_nest_has_op(t->op, t->dtype, in))
        return TL_FAIL(TL_EUNSUPPORTED, "%s cannot make %s of %s in a nest", c->name,
                       tl_dtype_name(t->dtype), tl_dtype_name(in));
    if (t->op == TL_OP_cast && ((const tl_cast_attr *)t->attr)->dtype != t->dtype)
        return TL_FAIL(TL_EINVAL, "a cast to %s that gives %s",
                       tl_dtype_name(((const tl_cast_attr *)t->attr)->dtype),
                       tl_dtype_name(t->dtype));
    for (int i = 0; i < t->inputs; i++) {
        const tl_dtype is = n->terms[t->in[i]].dtype;
        const tl_dtype wanted = t->op == TL_OP_where && i == 0 ? TL_BOOL : in;
        if (is != wanted)
            return TL_FAIL(TL_EINVAL, "input %d of %s is %s and must be %s", i, c->name,
                           tl_dtype_name(is), tl_dtype_name(wanted));
    }
    return TL_OK;
}

static tl_status verify_reduce(const tl_nest *n, const tl_term *t)
{
    const tl_op_class *c = tl_op_class_of(t->op);
    const tli_nest_op *o = tli_nest_op_of(t->op);
    if (!c || !o || !o->reduces)
        return TL_FAIL(TL_EUNSUPPORTED,
                       "a reduction by %s; there are sum, prod, max, min, any and "
                       "all",
                       c ? c->name : "no op");
    if (t->inputs != 1)
        return TL_FAIL(TL_EINVAL, "%s of %d terms; it takes one", c->name, t->inputs);
    if (!t->axes || t->axes >> n->rank)
        return TL_FAIL(TL_EINVAL, "%s over the axes 0x%x; there are %d axes, and one at least",
                       c->name, (unsigned)t->axes, n->rank);
    const tl_dtype in = n->terms[t->in[0]].dtype;
    if (!tl_nest_has_op(t->op, t->dtype, in))
        return TL_FAIL(TL_EUNSUPPORTED, "%s cannot make %s of %s", c->name, tl_dtype_name(t->dtype),
                       tl_dtype_name(in));
    for (int i = 0; i < n->rank; i++)
        if ((t->op == TL_OP_max || t->op == TL_OP_min) && t->axes >> i & 1 && n->dims[i] == 0)
            return TL_FAIL(TL_EINVAL, "%s over a%d, which holds nothing", c->name, i);
    return TL_OK;
}

static tl_status verify_term(const tl_nest *n, int64_t number)
{
    const tl_term *t = &n->terms[number];
    if (t->dtype < 0 || t->dtype >= TL_DTYPE_COUNT) return TL_FAIL(TL_EINVAL, "no type");
    if (t->inputs < 0 || t->inputs > TL_TERM_INPUTS)
        return TL_FAIL(TL_EINVAL, "%d inputs; there are up to %d", t->inputs, TL_TERM_INPUTS);
    if (t->kind == TL_TERM_OP || t->kind == TL_TERM_REDUCE)
        for (int i = 0; i < t->inputs; i++)
            if (t->in[i] < 0 || t->in[i] >= number)
                return TL_FAIL(TL_EINVAL, "made of t%d, which does not stand before it", t->in[i]);
    switch (t->kind) {
    case TL_TERM_LOAD: return verify_access(n, &t->from, t->dtype);
    case TL_TERM_NUMBER: return TL_OK;
    case TL_TERM_INDEX:
        if (t->axis < 0 || t->axis >= n->rank)
            return TL_FAIL(TL_EINVAL, "the index of a%d; there are %d axes", t->axis, n->rank);
        return TL_OK;
    case TL_TERM_OP: return verify_op(n, t);
    case TL_TERM_REDUCE: return verify_reduce(n, t);
    }
    return TL_FAIL(TL_EINVAL, "of no kind (%d)", (int)t->kind);
}

static tl_status verify_store(const tl_nest *n, const tl_nest_store *s, const uint32_t *varies)
{
    if (s->term < 0 || s->term >= n->term_count)
        return TL_FAIL(TL_EINVAL, "stores t%d; there are %" PRId64 " terms", s->term,
                       n->term_count);
    TL_TRY(verify_access(n, &s->to, n->terms[s->term].dtype));
    for (int i = 0; i < n->rank; i++) {
        const bool moves = s->to.strides[i] != 0, changes = varies[s->term] >> i & 1;
        if (n->dims[i] > 1 && moves != changes)
            return TL_FAIL(TL_EINVAL, "t%d %s over a%d, and where it is stored %s", s->term,
                           changes ? "varies" : "does not vary", i,
                           moves ? "moves along it; give it the stride 0"
                                 : "does not move along it");
    }
    return TL_OK;
}

static bool same_place(const tl_nest *n, const tl_access *a, const tl_access *b)
{
    if (a->offset != b->offset) return false;
    for (int i = 0; i < n->rank; i++)
        if (n->dims[i] > 1 && a->strides[i] != b->strides[i]) return false;
    return true;
}

// A buffer is of one type, and what is stored into it is loaded from there alone.
static tl_status verify_sharing(const tl_nest *n, const tl_nest_store *s)
{
    for (int64_t i = 0; i < n->term_count; i++) {
        const tl_term *t = &n->terms[i];
        if (t->kind != TL_TERM_LOAD || t->from.buffer != s->to.buffer) continue;
        if (t->from.dtype != s->to.dtype || !same_place(n, &t->from, &s->to))
            return TL_FAIL(TL_EINVAL, "t%" PRId64 " loads buffer %d elsewhere than it is stored", i,
                           s->to.buffer);
    }
    for (const tl_nest_store *other = n->stores; other < s; other++)
        if (other->to.buffer == s->to.buffer && other->to.dtype != s->to.dtype)
            return TL_FAIL(TL_EINVAL, "buffer %d is stored as %s and as %s", s->to.buffer,
                           tl_dtype_name(other->to.dtype), tl_dtype_name(s->to.dtype));
    return TL_OK;
}

// Two loads of one buffer, as different types.
static tl_status verify_load_types(const tl_nest *n, int64_t number)
{
    const tl_term *t = &n->terms[number];
    if (t->kind != TL_TERM_LOAD) return TL_OK;
    for (int64_t i = 0; i < number; i++)
        if (n->terms[i].kind == TL_TERM_LOAD && n->terms[i].from.buffer == t->from.buffer
            && n->terms[i].from.dtype != t->from.dtype)
            return TL_FAIL(TL_EINVAL, "buffer %d is loaded as %s and as %s", t->from.buffer,
                           tl_dtype_name(n->terms[i].from.dtype), tl_dtype_name(t->from.dtype));
    return TL_OK;
}

tl_status tl_nest_verify(const tl_nest *n)
{
    tl_status st = TL_OK;
    tl_arena *arena;
    TL_TRY_NOTE(verify_space(n), "nest");
    for (int64_t i = 0; i < n->term_count; i++) {
        TL_TRY_NOTE(verify_term(n, i), "nest: t%" PRId64, i);
        TL_TRY_NOTE(verify_load_types(n, i), "nest: t%" PRId64, i);
    }
    TL_TRY(tl_arena_new(&arena));
    uint32_t *varies = tl_arena_array(arena, n->term_count, sizeof *varies);
    if (!varies) st = TL_ENOMEM;
    if (varies) tl_nest_variance(n, varies);
    for (int64_t i = 0; st == TL_OK && i < n->store_count; i++) {
        st = verify_store(n, &n->stores[i], varies);
        if (st == TL_OK) st = verify_sharing(n, &n->stores[i]);
        if (st != TL_OK) tl_error_note(st, "nest: store %" PRId64, i);
    }
    tl_arena_free(&arena);
    return st;
}

/* --- text ------------------------------------------------------------------------------------- */

enum { LABEL = 9, BODY = 46 };

static void sum_text(tl_str *out, const char *factor, int64_t by, bool *first)
{
    if (by == 0) return;
    tl_str_addf(out, "%s%s", *first ? "" : " + ", factor);
    if (by != 1) tl_str_addf(out, " * %" PRId64, by);
    *first = false;
}

static void access_text(tl_str *out, const tl_nest *n, const tl_access *a)
{
    bool first = true;
    tl_str_addf(out, "buffer %d [", a->buffer);
    for (int i = 0; i < n->rank; i++) {
        char axis[16];
        snprintf(axis, sizeof axis, "a%d", i);
        sum_text(out, axis, a->strides[i], &first);
    }
    if (a->offset || first) tl_str_addf(out, "%s%" PRId64, first ? "" : " + ", a->offset);
    tl_str_addc(out, ']');
}

// "{approximate: true}": the lines of the YAML beside each other.
static void attr_text(tl_str *out, const tl_term *t)
{
    const tl_desc *desc = tl_op_class_of(t->op)->attr;
    tl_str yaml = TL_STR_INIT;
    if (t->kind != TL_TERM_OP || !desc || !t->attr) return;
    if (tl_yaml_write(&yaml, desc, t->attr) == TL_OK) {
        const char *text = tl_str_text(&yaml);
        tl_str_add(out, " {");
        for (; *text; text++) {
            if (*text != '\n') tl_str_addc(out, *text);
            else if (text[1]) tl_str_add(out, ", ");
        }
        tl_str_addc(out, '}');
    } else {
        out->failed = true; // a text without them would be that of another nest
    }
    tl_str_deinit(&yaml);
}

static void term_text(tl_str *out, const tl_nest *n, const tl_term *t)
{
    char number[32];
    switch (t->kind) {
    case TL_TERM_LOAD:
        tl_str_add(out, "load ");
        access_text(out, n, &t->from);
        return;
    case TL_TERM_NUMBER:
        tl_double_text(number, t->number);
        tl_str_addf(out, "number %s", number);
        return;
    case TL_TERM_INDEX:
        tl_str_addf(out, "index a%d", t->axis);
        if (t->scale != 1) tl_str_addf(out, " * %" PRId64, t->scale);
        if (t->shift) tl_str_addf(out, " + %" PRId64, t->shift);
        return;
    default: break;
    }
    tl_str_add(out, tl_op_class_of(t->op)->name);
    for (int i = 0; i < t->inputs; i++) tl_str_addf(out, " t%d", t->in[i]);
    attr_text(out, t);
    if (t->kind != TL_TERM_REDUCE) return;
    tl_str_add(out, " over");
    for (int i = 0; i < n->rank; i++)
        if (t->axes >> i & 1) tl_str_addf(out, " a%d", i);
}

// The type stands in its column, behind at least one space.
static void type_text(tl_str *out, size_t line, tl_dtype dtype, const char *note)
{
    const int64_t used = (int64_t)(out->length - line);
    tl_str_pad(out, ' ', used < BODY ? BODY - used : 1);
    tl_str_add(out, tl_dtype_name(dtype));
    if (note) tl_str_addf(out, "  # %s", note);
    tl_str_addc(out, '\n');
}

void tl_nest_text(const tl_nest *n, tl_str *out)
{
    tl_str_add(out, "axes");
    tl_str_pad(out, ' ', LABEL - 4);
    for (int i = 0; i < n->rank; i++)
        tl_str_addf(out, "%sa%d: %" PRId64, i ? ", " : "", i, n->dims[i]);
    if (n->rank == 0) tl_str_add(out, "none");
    tl_str_addc(out, '\n');
    for (int64_t i = 0; i < n->term_count; i++) {
        const size_t line = out->length;
        tl_str_addf(out, "t%" PRId64, i);
        const int64_t used = (int64_t)(out->length - line);
        tl_str_pad(out, ' ', used < LABEL ? LABEL - used : 1);
        term_text(out, n, &n->terms[i]);
        type_text(out, line, n->terms[i].dtype, n->terms[i].note);
    }
    for (int64_t i = 0; i < n->store_count; i++) {
        const size_t line = out->length;
        tl_str_addf(out, "store    t%d -> ", n->stores[i].term);
        access_text(out, n, &n->stores[i].to);
        type_text(out, line, n->stores[i].to.dtype, NULL);
    }
}

/* --- equality ------------------------------------------------------------------ */

static bool terms_equal(const tl_term *a, const tl_term *b)
{
    if (a->kind != b->kind || a->dtype != b->dtype || a->op != b->op || a->inputs != b->inputs
        || memcmp(a->in, b->in, sizeof a->in) != 0 || a->axes != b->axes || a->axis != b->axis
        || a->shift != b->shift || a->scale != b->scale
        || memcmp(&a->number, &b->number, sizeof a->number) != 0
        || memcmp(&a->from, &b->from, sizeof a->from) != 0)
        return false;
    if (!a->attr || !b->attr) return a->attr == b->attr;
    return tl_desc_equal(tl_op_class_of(a->op)->attr, a->attr, b->attr);
}

bool tl_nest_equal(const tl_nest *a, const tl_nest *b)
{
    if (a->rank != b->rank || a->term_count != b->term_count || a->store_count != b->store_count
        || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
        return false;
    for (int64_t i = 0; i < a->term_count; i++)
        if (!terms_equal(&a->terms[i], &b->terms[i])) return false;
    for (int64_t i = 0; i < a->store_count; i++)
        if (a->stores[i].term != b->stores[i].term
            || memcmp(&a->stores[i].to, &b->stores[i].to, sizeof a->stores[i].to) != 0)
            return false;
    return true;
}
