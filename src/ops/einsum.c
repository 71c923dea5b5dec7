#include <tilth/ops/matmul.h>

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <tilth/ops/elementwise.h>
#include <tilth/ops/reduce.h>
#include <tilth/ops/view.h>

#include "ops/ops.h"
#include "ops/window.h"

/* Labels of dims: letters are themselves, the dims behind "..." are numbered from the last one. */
enum { ELLIPSIS = 128, LABELS = ELLIPSIS + TL_MAX_RANK, MOST_OPERANDS = 16 };

typedef struct labels {
    int count;
    uint8_t at[TL_MAX_RANK];
} labels;

/* A tensor and what its dims are called. */
typedef struct term {
    tl_tensor *t;
    labels l;
} term;

typedef struct sum {
    tl_ctx *c;
    const char *equation;
    term terms[MOST_OPERANDS];
    int count;
    labels result;
    int64_t sizes[LABELS]; /* -1: not seen */
} sum;

static int find(const labels *l, uint8_t label)
{
    for (int i = 0; i < l->count; i++)
        if (l->at[i] == label) return i;
    return -1;
}

static bool has(const labels *l, uint8_t label)
{
    return find(l, label) >= 0;
}

static void append(labels *l, uint8_t label)
{
    TL_ASSERT(l->count < TL_MAX_RANK);
    l->at[l->count++] = label;
}

/* --- parsing ---------------------------------------------------------------------------------- */

// The labels of `text` up to `end`; "..." stands for `rest` dims.
static tl_status parse_labels(labels *out, const char *text, const char *end, int rest)
{
    bool dots = false;
    *out = (labels){0};
    for (; text < end; text++) {
        if (*text == ' ') continue;
        int more = *text == '.' ? rest : 1;
        if (*text == '.' && (dots || end - text < 3 || memcmp(text, "...", 3) != 0))
            return TL_FAIL(TL_EINVAL, "'.' is only allowed as one '...' for each operand");
        if (*text != '.' && !isalpha((unsigned char)*text))
            return TL_FAIL(TL_EINVAL, "'%c' is no letter from a to z or A to Z", *text);
        if (out->count + more > TL_MAX_RANK)
            return TL_FAIL(TL_EINVAL, "more than %d dims in '%.*s'", TL_MAX_RANK, (int)(end - text),
                           text);
        if (*text != '.') {
            if (has(out, (uint8_t)*text))
                return TL_FAIL(TL_EUNSUPPORTED,
                               "'%c' stands twice in one place: diagonals and traces "
                               "are not computed",
                               *text);
            append(out, (uint8_t)*text);
            continue;
        }
        for (int i = rest; i > 0; i--) append(out, (uint8_t)(ELLIPSIS + i - 1));
        dots = true;
        text += 2;
    }
    return TL_OK;
}

// How many dims of an operand its "..." stands for: those without a letter.
static tl_status count_rest(int *out, const char *text, const char *end, const tl_tensor *t,
                            int which)
{
    int letters = 0;
    bool dots = false;
    for (const char *s = text; s < end; s++) {
        letters += isalpha((unsigned char)*s) != 0;
        dots |= *s == '.';
    }
    *out = t->shape.rank - letters;
    if (*out == 0 || (*out > 0 && dots)) return TL_OK;
    char spec[TL_TENSOR_TEXT];
    return TL_FAIL(TL_EINVAL, "operand %d is %s, which '%.*s' does not fit: it names %d dims",
                   which, tl_tensor_spec(spec, t), (int)(end - text), text, letters);
}

static tl_status note_sizes(sum *s, const term *t, int which)
{
    for (int i = 0; i < t->l.count; i++) {
        uint8_t label = t->l.at[i];
        int64_t own = t->t->shape.dims[i], *size = &s->sizes[label];
        if (*size == -1 || (label >= ELLIPSIS && *size == 1)) {
            *size = own;
        } else if (*size != own && !(label >= ELLIPSIS && own == 1)) {
            if (label >= ELLIPSIS)
                return TL_FAIL(TL_EINVAL,
                               "a dim of '...' is %" PRId64 " in operand %d and %" PRId64 " before",
                               own, which, *size);
            return TL_FAIL(TL_EINVAL, "'%c' is %" PRId64 " in operand %d and %" PRId64 " before",
                           label, own, which, *size);
        }
    }
    return TL_OK;
}

static tl_status parse_operands(sum *s, const char *end, int count, tl_tensor *const *operands)
{
    const char *text = s->equation;
    for (int i = 0; i < count; i++) {
        const char *comma = memchr(text, ',', (size_t)(end - text)), *stop = comma ? comma : end;
        int rest;
        if ((comma != NULL) != (i < count - 1))
            return TL_FAIL(TL_EINVAL,
                           "%d operands are given; one is wanted for each part between commas",
                           count);
        TL_TRY(count_rest(&rest, text, stop, operands[i], i));
        TL_TRY(parse_labels(&s->terms[i].l, text, stop, rest));
        s->terms[i].t = operands[i];
        TL_TRY(note_sizes(s, &s->terms[i], i));
        text = stop + 1;
    }
    s->count = count;
    return TL_OK;
}

static int occurrences(const sum *s, uint8_t label)
{
    int n = 0;
    for (int i = 0; i < s->count; i++) n += has(&s->terms[i].l, label);
    return n;
}

static int longest_rest(const sum *s)
{
    int rest = 0;
    while (rest < TL_MAX_RANK && s->sizes[ELLIPSIS + rest] != -1) rest++;
    return rest;
}

// What is left without "->": the dims of "...", then the letters that occur once.
static tl_status implied_result(sum *s)
{
    int rest = longest_rest(s);
    for (int i = rest; i > 0; i--) append(&s->result, (uint8_t)(ELLIPSIS + i - 1));
    for (uint8_t letter = 'A'; letter <= 'z'; letter++) {
        if (occurrences(s, letter) != 1) continue;
        if (s->result.count == TL_MAX_RANK)
            return TL_FAIL(TL_EINVAL, "the result has more than %d dims", TL_MAX_RANK);
        append(&s->result, letter);
    }
    return TL_OK;
}

static tl_status parse_result(sum *s, const char *text)
{
    int rest = longest_rest(s);
    TL_TRY(parse_labels(&s->result, text, text + strlen(text), rest));
    for (int i = 0; i < s->result.count; i++)
        if (s->sizes[s->result.at[i]] == -1)
            return TL_FAIL(TL_EINVAL, "'%c' is in the result but in no operand", s->result.at[i]);
    if (rest && !has(&s->result, ELLIPSIS))
        return TL_FAIL(TL_EINVAL,
                       "operands have '...' and the result has none; give those dims letters "
                       "to sum over them");
    return TL_OK;
}

static tl_status parse(sum *s, int count, tl_tensor *const *operands)
{
    const char *arrow = strstr(s->equation, "->");
    if (count < 1 || count > MOST_OPERANDS)
        return TL_FAIL(TL_EINVAL, "%d operands; from 1 to %d are possible", count, MOST_OPERANDS);
    for (int i = 0; i < LABELS; i++) s->sizes[i] = -1;
    TL_TRY(parse_operands(s, arrow ? arrow : s->equation + strlen(s->equation), count, operands));
    return arrow ? parse_result(s, arrow + 2) : implied_result(s);
}

/* --- computing -------------------------------------------------------------------------------- */

// Sums over the dims of a term that nothing else needs.
static void sum_unneeded(const sum *s, term *t, const labels *other, const bool *needed)
{
    int64_t axes[TL_MAX_RANK];
    int count = 0;
    labels kept = {0};
    for (int i = 0; i < t->l.count; i++) {
        if (needed[t->l.at[i]] || (other && has(other, t->l.at[i]))) append(&kept, t->l.at[i]);
        else axes[count++] = i;
    }
    if (count && t->t) t->t = tl_sum(s->c, t->t, (tl_axes){axes, count}, false);
    t->l = kept;
}

// The dims in the order of `order`, which names each of them once.
static void arrange(const sum *s, term *t, const labels *order)
{
    int64_t perm[TL_MAX_RANK];
    bool moved = false;
    for (int i = 0; i < order->count; i++) {
        perm[i] = find(&t->l, order->at[i]);
        moved |= perm[i] != i;
    }
    if (moved && t->t) t->t = tl_transpose(s->c, t->t, perm, order->count);
    t->l = *order;
}

/* How the labels of two terms stand to each other. */
typedef struct roles {
    labels shared;      /* in both and in what is left */
    labels contracted;  /* in both and summed over */
    labels left, right; /* in one of them */
} roles;

static roles roles_of(const term *a, const term *b, const bool *needed)
{
    roles r = {0};
    for (int i = 0; i < a->l.count; i++) {
        uint8_t label = a->l.at[i];
        append(!has(&b->l, label) ? &r.left : needed[label] ? &r.shared : &r.contracted, label);
    }
    for (int i = 0; i < b->l.count; i++)
        if (!has(&a->l, b->l.at[i])) append(&r.right, b->l.at[i]);
    return r;
}

static void join(labels *to, const labels *more)
{
    for (int i = 0; i < more->count; i++) append(to, more->at[i]);
}

static int64_t size_of(const term *t, uint8_t label)
{
    return t->t->shape.dims[find(&t->l, label)];
}

static void add_dims(tl_shape *shape, const term *t, const labels *l)
{
    for (int i = 0; i < l->count; i++) shape->dims[shape->rank++] = size_of(t, l->at[i]);
}

// A term as a stack of matrices: the shared dims, then `own` and the contracted ones, each side as
// one dim. They stay in the order that they have in the term, so that merging them seldom copies;
// says whether the contracted ones come first.
static bool as_matrices(const sum *s, term *t, const roles *r, const labels *own)
{
    bool first = own->count && find(&t->l, r->contracted.at[0]) < find(&t->l, own->at[0]);
    labels order = r->shared;
    join(&order, first ? &r->contracted : own);
    join(&order, first ? own : &r->contracted);
    arrange(s, t, &order);
    if (!t->t) return first;
    tl_shape shape = t->t->shape;
    int64_t sides[2] = {1, 1};
    for (int i = r->shared.count; i < shape.rank; i++)
        sides[has(&r->contracted, t->l.at[i]) != first] *= shape.dims[i];
    shape.rank = r->shared.count;
    shape.dims[shape.rank++] = sides[0];
    shape.dims[shape.rank++] = sides[1];
    t->t = tl_reshape(s->c, t->t, shape);
    return first;
}

static term by_matmul(const sum *s, term a, term b, const roles *r)
{
    term y = {.l = r->shared};
    tl_shape free_dims = {0};
    add_dims(&free_dims, &a, &r->left);
    add_dims(&free_dims, &b, &r->right);
    join(&y.l, &r->left);
    join(&y.l, &r->right);
    bool a_first = as_matrices(s, &a, r, &r->left), b_first = as_matrices(s, &b, r, &r->right);
    y.t = tl_matmul_with(s->c, a.t, b.t, a_first, !b_first);
    if (!y.t) return y;
    tl_shape shape = y.t->shape;
    shape.rank = r->shared.count;
    for (int i = 0; i < free_dims.rank; i++) shape.dims[shape.rank++] = free_dims.dims[i];
    y.t = tl_reshape(s->c, y.t, shape);
    return y;
}

// A term with all dims of `order`; those that it lacks are 1.
static tl_tensor *spread(const sum *s, term t, const labels *order)
{
    labels own = {0};
    tl_shape shape = {0};
    for (int i = 0; i < order->count; i++)
        if (has(&t.l, order->at[i])) append(&own, order->at[i]);
    arrange(s, &t, &own);
    if (!t.t) return NULL;
    for (int i = 0, k = 0; i < order->count; i++)
        shape.dims[shape.rank++] = has(&own, order->at[i]) ? t.t->shape.dims[k++] : 1;
    return tl_reshape(s->c, t.t, shape);
}

// For products without a sum, and for more shared dims than a stack of matrices can have.
static term by_mul(const sum *s, term a, term b, const roles *r)
{
    term y = {.l = r->shared};
    join(&y.l, &r->left);
    join(&y.l, &r->right);
    join(&y.l, &r->contracted);
    tl_tensor *left = spread(s, a, &y.l), *right = spread(s, b, &y.l);
    y.t = left && right ? tl_mul(s->c, left, right) : NULL;
    return y;
}

static tl_status contract(const sum *s, term *a, term b, const bool *needed)
{
    sum_unneeded(s, a, &b.l, needed);
    sum_unneeded(s, &b, &a->l, needed);
    TL_TRY(tl_ctx_status(s->c));
    roles r = roles_of(a, &b, needed);
    int kept = r.shared.count + r.left.count + r.right.count;
    bool matrices = r.contracted.count && r.shared.count <= TL_MAX_RANK - 2;
    if (kept + (matrices ? 0 : r.contracted.count) > TL_MAX_RANK)
        return TL_FAIL(TL_EINVAL,
                       "a product on the way has more than %d dims; try another order of "
                       "the operands",
                       TL_MAX_RANK);
    *a = matrices ? by_matmul(s, *a, b, &r) : by_mul(s, *a, b, &r);
    TL_TRY(tl_ctx_status(s->c));
    sum_unneeded(s, a, NULL, needed);
    return TL_OK;
}

static void mark(bool *needed, const labels *l)
{
    for (int i = 0; i < l->count; i++) needed[l->at[i]] = true;
}

static tl_status compute(sum *s, tl_tensor **out)
{
    term y = s->terms[0];
    for (int i = 1; i <= s->count; i++) {
        // What the result and the operands still to come need.
        bool needed[LABELS] = {false};
        mark(needed, &s->result);
        for (int k = i + 1; k < s->count; k++) mark(needed, &s->terms[k].l);
        if (i < s->count) TL_TRY(contract(s, &y, s->terms[i], needed));
        else sum_unneeded(s, &y, NULL, needed);
    }
    arrange(s, &y, &s->result);
    *out = y.t;
    return tl_ctx_status(s->c);
}

tl_tensor *tl_einsum(tl_ctx *c, const char *equation, int count, tl_tensor *const *operands)
{
    sum s = {.c = c, .equation = equation};
    tl_tensor *y = NULL;
    if (tl_ctx_failed(c)) return NULL;
    for (int i = 0; i < count; i++) {
        if (operands[i]) continue;
        (void)TL_FAIL(TL_EINVAL, "operand %d is NULL", i);
        return tli_refuse(c, "einsum");
    }
    if (parse(&s, count, operands) == TL_OK && compute(&s, &y) == TL_OK) return y;
    (void)tl_error_note(tl_error_code(), "einsum \"%s\"", equation);
    return tl_ctx_fail(c);
}
