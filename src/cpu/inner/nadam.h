/* The numbers of one step of Nadam, whose momentum grows from step to step: that of step i is
 * beta_1 (1 - 0.96^i / 2). Also put into the text of kernels for GPUs: it includes nothing.
 * Thread word: free-threaded. */
#ifndef TLI_CPU_NADAM_H
#define TLI_CPU_NADAM_H

typedef struct tli_nadam {
    double momentum, gradient; /* their shares of the direction */
    double squares;            /* by which the average of squares is still too small */
} tli_nadam;

/* The product of 1 - q^i / 2 over all i from 1 to `step`. Its logarithm, with the series of
 * log(1 - x), is a sum of geometric series: no product need be kept from step to step. */
static inline double tli_nadam_product(double q, double step)
{
    enum { TERMS = 56 }; // 2^-56 is beyond the precision of a double
    double sum = 0, power = 1, ends = 1, half = 1;
    const double end = __builtin_pow(q, step);
    for (int k = 1; k <= TERMS; k++) {
        power *= q;  // q^k
        ends *= end; // q^(k step)
        half *= 0.5;
        sum -= half / k * power * (1 - ends) / (1 - power);
    }
    return __builtin_exp(sum);
}

static inline tli_nadam tli_nadam_at(double beta_1, double beta_2, double step)
{
    const double q = 0.96;
    const double now = beta_1 * (1 - 0.5 * __builtin_pow(q, step));
    const double next = beta_1 * (1 - 0.5 * __builtin_pow(q, step + 1));
    const double product = __builtin_pow(beta_1, step) * tli_nadam_product(q, step);
    tli_nadam n;
    n.momentum = next / (1 - product * next);
    n.gradient = (1 - now) / (1 - product);
    n.squares = 1 - __builtin_pow(beta_2, step);
    return n;
}

#endif
