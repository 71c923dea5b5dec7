/* The rules of optimizers, element by element: what the sweeps of kernels are made of
 * (cpu/ref/update.c says them in full). Kernels of the CPU include it with vectors; kernels for
 * GPUs have it in their text, with one lane and an argument struct in place of all attributes. So
 * it includes nothing, and takes from whoever includes it:
 *
 *     block                       has w, slot[3] and scale
 *     get, put, put_weight        n elements of a slot or of the weights from i on
 *     load_grad                   the gradient, scaled
 *     power_of_step               of a number, by the number of a step
 *     WAYS, UNROLLED(...)         vectors that are done beside each other, loops over them
 *
 * Behind number.h and the vector functions. No include guard: included once in a file.
 * Thread word: free-threaded. */

/* m / (sqrt(v) * factor + epsilon). Estimates refined by hand would be a longer chain, and slower,
 * than the units for roots and quotients. */
TLI_INLINE vf over_root(vf m, vf v, vf factor, vf epsilon)
{
    return vf_div(m, vf_fma(vf_sqrt(v), factor, epsilon));
}

TLI_INLINE vf spread(double number)
{
    return vf_set1((float)number);
}

TLI_INLINE void sgd_step(const block *b, const tl_sgd_attr *a, float decay, i64 i, i64 n)
{
    const vf rate = vf_set1((float)b->rate), momentum = vf_set1((float)a->momentum);
    vf w = get(b->w, i, n), g = vf_fma(w, vf_set1(decay), load_grad(b, i, n));
    if (a->momentum == 0) {
        w = vf_fnma(rate, g, w);
    } else if (a->form == TL_FORM_KERAS) {
        const vf v = vf_fnma(rate, g, vf_mul(momentum, get(b->slot[0], i, n)));
        put(b->slot[0], i, v, n);
        w = vf_add(w, a->nesterov ? vf_fnma(rate, g, vf_mul(momentum, v)) : v);
    } else {
        const vf v = vf_fma(momentum, get(b->slot[0], i, n), g);
        put(b->slot[0], i, v, n);
        w = vf_fnma(rate, a->nesterov ? vf_fma(momentum, v, g) : v, w);
    }
    put_weight(b, i, w, n);
}

typedef struct adam {
    vf rate, factor, epsilon, beta_1, rest_1, beta_2, rest_2, kept;
    bool amsgrad;
} adam;

/* 4 moments, 4 roots and 8 numbers are 16 registers; of 32 registers 8 of each take 24. */
TLI_INLINE void adam_steps(const block *b, const adam *a, const int ways, i64 i, i64 n)
{
    vf m[WAYS], root[WAYS];
    UNROLLED(int j = 0; j < ways; j++) {
        const i64 at = i + j * VF;
        const vf g = load_grad(b, at, n);
        m[j] = vf_fma(a->beta_1, get(b->slot[0], at, n), vf_mul(a->rest_1, g));
        vf v = vf_fma(a->beta_2, get(b->slot[1], at, n), vf_mul(vf_mul(a->rest_2, g), g));
        put(b->slot[0], at, m[j], n);
        put(b->slot[1], at, v, n);
        if (a->amsgrad) {
            v = vf_max(get(b->slot[2], at, n), v);
            put(b->slot[2], at, v, n);
        }
        root[j] = vf_sqrt(v);
    }
    UNROLLED(int j = 0; j < ways; j++) root[j] = vf_fma(root[j], a->factor, a->epsilon);
    UNROLLED(int j = 0; j < ways; j++) m[j] = vf_div(m[j], root[j]);
    UNROLLED(int j = 0; j < ways; j++) {
        const i64 at = i + j * VF;
        put_weight(b, at, vf_fnma(a->rate, m[j], vf_mul(a->kept, get(b->w, at, n))), n);
    }
}

TLI_INLINE adam adam_of(const tl_adam_attr *k, double rate, double step, float decay)
{
    const double c1 = 1 - power_of_step(k->beta_1, step), c2 = 1 - power_of_step(k->beta_2, step);
    const bool keras = k->form == TL_FORM_KERAS;
    adam a;
    a.rate = spread(keras ? rate * __builtin_sqrt(c2) / c1 : rate / c1);
    a.factor = spread(keras ? 1 : 1 / __builtin_sqrt(c2));
    a.epsilon = spread(k->epsilon);
    a.beta_1 = spread(k->beta_1);
    a.rest_1 = spread(1 - k->beta_1);
    a.beta_2 = spread(k->beta_2);
    a.rest_2 = spread(1 - k->beta_2);
    a.kept = spread(1 - rate * decay);
    a.amsgrad = k->amsgrad;
    return a;
}

TLI_INLINE void rmsprop_step(const block *b, const tl_rmsprop_attr *a, i64 i, i64 n)
{
    const vf rate = vf_set1((float)b->rate), momentum = vf_set1((float)a->momentum);
    const vf rho = vf_set1((float)a->rho), rest = vf_set1((float)(1 - a->rho));
    const vf epsilon = vf_set1((float)a->epsilon), g = load_grad(b, i, n);
    vf s = vf_fma(rho, get(b->slot[0], i, n), vf_mul(vf_mul(rest, g), g)), w = get(b->w, i, n);
    put(b->slot[0], i, s, n);
    if (a->centered) {
        const vf mean = vf_fma(rho, get(b->slot[1], i, n), vf_mul(rest, g));
        put(b->slot[1], i, mean, n);
        s = vf_fnma(mean, mean, s);
    }
    const bool inside = a->momentum != 0 && a->form == TL_FORM_KERAS; // where the epsilon stands
    const vf under = inside ? vf_sqrt(vf_add(s, epsilon)) : vf_add(vf_sqrt(s), epsilon);
    vf by = vf_div(inside ? vf_mul(rate, g) : g, under);
    if (a->momentum != 0) {
        // no slot is named by a number that is known late: a GPU would keep all in memory
        by = vf_fma(momentum, a->centered ? get(b->slot[2], i, n) : get(b->slot[1], i, n), by);
        if (a->centered) put(b->slot[2], i, by, n);
        else put(b->slot[1], i, by, n);
    }
    w = vf_fnma(inside ? vf_set1(1) : rate, by, w);
    put_weight(b, i, w, n);
}

TLI_INLINE void adagrad_step(const block *b, const tl_adagrad_attr *a, i64 i, i64 n)
{
    const vf g = load_grad(b, i, n), s = vf_fma(g, g, get(b->slot[0], i, n));
    const vf by = over_root(g, s, vf_set1(1), vf_set1((float)a->epsilon));
    put(b->slot[0], i, s, n);
    put_weight(b, i, vf_fnma(vf_set1((float)b->rate), by, get(b->w, i, n)), n);
}

/* Where lamb goes: m and v are those of this step. */
typedef struct lamb_line {
    vf by, factor, epsilon, decay;
} lamb_line;

TLI_INLINE lamb_line lamb_line_of(const tl_lamb_attr *a, double step, float decay)
{
    const double c1 = 1 - power_of_step(a->beta_1, step), c2 = 1 - power_of_step(a->beta_2, step);
    lamb_line l;
    l.by = spread(1 / c1);
    l.factor = spread(1 / __builtin_sqrt(c2));
    l.epsilon = spread(a->epsilon);
    l.decay = vf_set1(decay);
    return l;
}

TLI_INLINE vf lamb_direction(const lamb_line *l, vf w, vf m, vf v)
{
    return vf_fma(l->decay, w, vf_mul(l->by, over_root(m, v, l->factor, l->epsilon)));
}

/* --- those that Keras has beside them --------------------------------------------------------- */

/* The numbers of a step, of which each rule has its own meanings; made once for a sweep. */
typedef struct numbers {
    vf rate, kept; /* kept: what a decay leaves of a weight */
    vf epsilon, beta_1, rest_1, beta_2, rest_2;
    vf momentum, gradient, factor;    /* nadam */
    vf one_over, power, pull, l1, l2; /* ftrl */
} numbers;

TLI_INLINE void move_weight(const block *b, const numbers *k, i64 i, vf by, i64 n)
{
    put_weight(b, i, vf_fnma(k->rate, by, vf_mul(k->kept, get(b->w, i, n))), n);
}

/* x moved by `rest` of the way to y. */
TLI_INLINE vf moved(vf x, vf y, vf rest)
{
    return vf_fma(vf_sub(y, x), rest, x);
}

/* One quotient and one root: sqrt(d + epsilon) / sqrt(s + epsilon) would be a root more. */
TLI_INLINE void adadelta_steps(const block *b, const numbers *k, const int ways, i64 i, i64 n)
{
    vf g[WAYS], d[WAYS], ratio[WAYS];
    UNROLLED(int j = 0; j < ways; j++) {
        const i64 at = i + j * VF;
        g[j] = load_grad(b, at, n);
        d[j] = get(b->slot[1], at, n);
        const vf s =
            vf_fma(k->beta_1, get(b->slot[0], at, n), vf_mul(k->rest_1, vf_mul(g[j], g[j])));
        put(b->slot[0], at, s, n);
        ratio[j] = vf_div(vf_add(d[j], k->epsilon), vf_add(s, k->epsilon));
    }
    UNROLLED(int j = 0; j < ways; j++) g[j] = vf_mul(g[j], vf_sqrt(ratio[j]));
    UNROLLED(int j = 0; j < ways; j++) {
        const i64 at = i + j * VF;
        const vf square = vf_mul(g[j], g[j]);
        put(b->slot[1], at, vf_fma(k->beta_1, d[j], vf_mul(k->rest_1, square)), n);
        move_weight(b, k, at, g[j], n);
    }
}

TLI_INLINE void adamax_step(const block *b, const numbers *k, i64 i, i64 n)
{
    const vf g = load_grad(b, i, n), m = moved(get(b->slot[0], i, n), g, k->rest_1);
    const vf u = vf_max(vf_mul(k->beta_2, get(b->slot[1], i, n)), vf_abs(g));
    put(b->slot[0], i, m, n);
    put(b->slot[1], i, u, n);
    move_weight(b, k, i, vf_div(m, vf_add(u, k->epsilon)), n);
}

TLI_INLINE void nadam_steps(const block *b, const numbers *k, const int ways, i64 i, i64 n)
{
    vf direction[WAYS], root[WAYS];
    UNROLLED(int j = 0; j < ways; j++) {
        const i64 at = i + j * VF;
        const vf g = load_grad(b, at, n), m = moved(get(b->slot[0], at, n), g, k->rest_1);
        const vf v = moved(get(b->slot[1], at, n), vf_mul(g, g), k->rest_2);
        direction[j] = vf_fma(k->momentum, m, vf_mul(k->gradient, g));
        put(b->slot[0], at, m, n);
        put(b->slot[1], at, v, n);
        root[j] = vf_sqrt(v);
    }
    UNROLLED(int j = 0; j < ways; j++) root[j] = vf_fma(root[j], k->factor, k->epsilon);
    UNROLLED(int j = 0; j < ways; j++) direction[j] = vf_div(direction[j], root[j]);
    UNROLLED(int j = 0; j < ways; j++) move_weight(b, k, i + j * VF, direction[j], n);
}

TLI_INLINE vf ftrl_power(vf x, vf power, bool root)
{
    return root ? vf_sqrt(x) : vf_pow(x, power);
}

TLI_INLINE void ftrl_step(const block *b, const numbers *k, const bool root, i64 i, i64 n)
{
    const vf g = load_grad(b, i, n), w = vf_mul(k->kept, get(b->w, i, n));
    const vf before = get(b->slot[0], i, n), s = vf_fma(g, g, before);
    const vf power = ftrl_power(s, k->power, root);
    const vf moves = vf_mul(vf_sub(power, ftrl_power(before, k->power, root)), k->one_over);
    const vf z = vf_add(get(b->slot[1], i, n), vf_fnma(moves, w, vf_fma(k->pull, w, g)));
    const vf beyond = vf_sub(vf_min_c(vf_max_c(z, vf_sub(vf_zero(), k->l1)), k->l1), z);
    // Nothing that pulls gives 0, also over nothing.
    const vf to = vf_div(beyond, vf_fma(power, k->one_over, k->l2));
    put(b->slot[0], i, s, n);
    put(b->slot[1], i, z, n);
    put_weight(b, i, vf_select(vf_eq(beyond, vf_zero()), vf_zero(), to), n);
}

TLI_INLINE void lion_step(const block *b, const numbers *k, i64 i, i64 n)
{
    const vf g = load_grad(b, i, n), m = get(b->slot[0], i, n);
    const vf direction = vf_fma(m, k->beta_1, vf_mul(g, k->rest_1));
    put(b->slot[0], i, vf_fma(m, k->beta_2, vf_mul(g, k->rest_2)), n);
    move_weight(b, k, i, vf_sign(direction), n);
}

/* A rule's own rate may not be that which its decay follows. */
TLI_INLINE numbers numbers_of(double own, double rate, float decay)
{
    numbers k;
    k.rate = spread(own);
    k.kept = spread(1 - rate * decay);
    return k;
}

TLI_INLINE void set_betas(numbers *k, double beta_1, double beta_2, double epsilon)
{
    k->beta_1 = spread(beta_1);
    k->rest_1 = spread(1 - beta_1);
    k->beta_2 = spread(beta_2);
    k->rest_2 = spread(1 - beta_2);
    k->epsilon = spread(epsilon);
}

TLI_INLINE numbers adadelta_of(const tl_adadelta_attr *a, double rate, double step, float decay)
{
    numbers k = numbers_of(rate, rate, decay);
    (void)step;
    set_betas(&k, a->rho, a->rho, a->epsilon);
    return k;
}

TLI_INLINE numbers adamax_of(const tl_adamax_attr *a, double rate, double step, float decay)
{
    numbers k = numbers_of(rate / (1 - power_of_step(a->beta_1, step)), rate, decay);
    set_betas(&k, a->beta_1, a->beta_2, a->epsilon);
    return k;
}

TLI_INLINE numbers nadam_of(const tl_nadam_attr *a, double rate, double step, float decay)
{
    const tli_nadam s = tli_nadam_at(a->beta_1, a->beta_2, step);
    numbers k = numbers_of(rate, rate, decay);
    set_betas(&k, a->beta_1, a->beta_2, a->epsilon);
    k.momentum = spread(s.momentum);
    k.gradient = spread(s.gradient);
    k.factor = spread(1 / __builtin_sqrt(s.squares));
    return k;
}

TLI_INLINE numbers ftrl_of(const tl_ftrl_attr *a, double rate, double step, float decay)
{
    numbers k = numbers_of(rate, rate, decay);
    (void)step;
    k.one_over = spread(1 / rate);
    k.power = spread(-a->learning_rate_power);
    k.pull = spread(2 * a->l2_shrinkage);
    k.l1 = spread(a->l1);
    k.l2 = spread(2 * a->l2 + a->beta / rate);
    return k;
}

TLI_INLINE numbers lion_of(const tl_lion_attr *a, double rate, double step, float decay)
{
    numbers k = numbers_of(rate, rate, decay);
    (void)step;
    set_betas(&k, a->beta_1, a->beta_2, 0);
    return k;
}
