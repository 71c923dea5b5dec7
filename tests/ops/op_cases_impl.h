/* What the files of the op-case harness share. A row becomes a plan (its inputs' values, the
 * reference's results, weights); runs of the plan on engines give results; comparisons report. */
#ifndef TILTH_TESTS_OP_CASES_IMPL_H
#define TILTH_TESTS_OP_CASES_IMPL_H

#include <stdio.h>
#include <tilth/ops/gradient.h>
#include <tilth/sys/core/op.h>

#include "op_cases.h"

/* --- memory: not the library's, whose allocations are made to fail ---------------------------- */

typedef struct oc_block oc_block;
typedef struct oc_memory {
    oc_block *last;
} oc_memory;
void *oc_take(oc_memory *m, size_t bytes); /* zeroed */
double *oc_doubles(oc_memory *m, int64_t count);
void oc_give_back(oc_memory *m);

/* --- inputs ----------------------------------------------------------------------------------- */

typedef enum oc_values {
    OC_NORMAL,
    OC_POSITIVE,
    OC_UNIT,
    OC_DISTINCT,
    OC_IN,
    OC_BELOW,
    OC_LISTED
} oc_values;

typedef struct oc_input {
    tl_shape shape;
    int64_t count;
    tl_dtype dtype; /* TL_DTYPE_COUNT: a float of the type that is checked */
    bool is_float, is_const;
    char layout; /* 0, 'T', 'S', 'B' */
    oc_values values;
    double low, high;   /* of OC_IN; OC_BELOW: high */
    const char *listed; /* of OC_LISTED: the numbers as text */
    double *v;          /* row-major */
} oc_input;

/* Reads the text of an input; `error` says what is wrong with it. */
bool oc_input_parse(oc_input *in, const char *text, char error[256]);
/* Its values: a function of the row's name and the input's position. */
void oc_input_fill(oc_input *in, oc_memory *memory, const char *row, int position);
/* Numbers that every float type holds, normal: weights and directions. */
void oc_weights(double *out, int64_t count, const char *row, const char *purpose, int position);
/* A tensor of the context with these elements (in->v when NULL). `plain`: row-major, whatever the
 * row says. NULL: the context failed. */
tl_tensor *oc_input_tensor(tl_ctx *c, const oc_input *in, tl_dtype dtype, const double *elements,
                           bool plain);

/* --- results ---------------------------------------------------------------------------------- */

typedef struct oc_value {
    tl_dtype dtype;
    tl_shape shape;
    int64_t count;
    double *v;
    void *bits; /* the elements as they are */
    size_t bytes;
} oc_value;

typedef struct oc_results {
    oc_value out[OP_CASE_MAX];
    oc_value gradient[OP_CASE_MAX]; /* by input; count is -1 where there is none */
} oc_results;

/* --- plans ------------------------------------------------------------------------------------ */

typedef struct oc_plan {
    const op_case *k;
    oc_memory memory;
    int inputs, outputs;
    oc_input in[OP_CASE_MAX];
    bool gradients;  /* something is differentiated */
    tl_dtype base;   /* the type of the reference: TL_F64, or TL_F32 when the row has no F64 */
    oc_results want; /* the reference's */
    double *weights[OP_CASE_MAX]; /* of each float output; NULL for others */
    oc_results second;            /* by input; `out` has the differentiable gradients */
    bool has_second;              /* it was computed, on the reference */
    int complaints;               /* reported so far */
} oc_plan;

typedef struct oc_place {
    tl_engine *engine;
    tl_ctx *c;
    const char *backend;
    int threads;
} oc_place;

enum { OC_MAX_BACKENDS = 8, OC_THREAD_COUNTS = 5 };
typedef struct oc_places {
    oc_place at[OC_MAX_BACKENDS][OC_THREAD_COUNTS]; /* 0 is the reference, with one thread only */
    int backends;
    oc_place check; /* the checking backend, over the best one */
    struct tl_check *watch;
} oc_places;
/* The last backend is the best one. */
static inline const oc_place *oc_best(const oc_places *p)
{
    return &p->at[p->backends - 1][0];
}

/* --- runs ------------------------------------------------------------------------------------- */

enum { OC_ALL_OUTPUTS = 0xff };

/* One run of a plan. The caller sets fields, then: oc_begin, oc_call, oc_differentiate, oc_end. */
typedef struct oc_run {
    const oc_plan *plan;
    const oc_place *place;
    tl_dtype dtype;
    bool plain; /* inputs without their layout */
    bool capturing;
    bool differentiable;           /* gradients are to be differentiated again */
    unsigned in_loss;              /* outputs that make the loss, one bit each */
    const double *const *elements; /* of the inputs; NULL: the plan's */
    tl_mark mark;
    tl_tensor *in[OP_CASE_MAX], *out[OP_CASE_MAX];
    tl_tensor *by[OP_CASE_MAX], *gradient[OP_CASE_MAX];
    int by_input[OP_CASE_MAX], by_count; /* by[i] is input by_input[i] */
    const tl_node *loss;                 /* what follows it in the list belongs to gradients */
} oc_run;

extern const tl_draws oc_draws;

TL_NODISCARD tl_status oc_begin(oc_run *r);
/* Part of oc_begin: gradients flow to the inputs of r->in. */
TL_NODISCARD tl_status oc_watch_inputs(oc_run *r);
TL_NODISCARD tl_status oc_call(oc_run *r);
/* Gradients of the weighted sum of outputs, into r->gradient. */
TL_NODISCARD tl_status oc_differentiate(oc_run *r);
void oc_end(oc_run *r);
/* All of it; the results are taken from `memory`. Ends the run whatever happens. */
TL_NODISCARD tl_status oc_run_all(oc_run *r, oc_memory *memory, oc_results *out);
TL_NODISCARD tl_status oc_read(oc_value *out, const tl_tensor *t, oc_memory *memory);
/* Whether the row is run in this float type. */
bool oc_has_type(const oc_plan *p, tl_dtype dtype);
/* Whether its inputs follow that type; else all types are the same run. */
bool oc_is_generic(const oc_plan *p);
/* Whether gradients flow to an input of the row. */
bool oc_differentiates(const oc_plan *p, int input);

/* --- reports ---------------------------------------------------------------------------------- */

extern int64_t oc_checks, oc_failures;

/* "FAIL row | ..."; after a few of a row the rest is only counted. */
void oc_complain(oc_plan *p, const char *format, ...) TL_PRINTF(2, 3);
/* The status must be TL_OK: tells the message when it is not. */
bool oc_expect_ok(oc_plan *p, tl_status st, const char *where);

typedef struct oc_limits {
    double relative; /* of the norm; 0: equal bits */
    double floor;    /* norms count as at least this times the root of the number of elements */
} oc_limits;
/* Compares and reports. Integers and bools must be equal. */
bool oc_compare(oc_plan *p, const char *where, const char *what, const oc_value *got,
                const oc_value *want, oc_limits limits);
bool oc_compare_results(oc_plan *p, const char *where, const oc_results *got,
                        const oc_results *want, oc_limits outputs, oc_limits gradients);
/* Tolerances of a type, the row's scale included. */
oc_limits oc_output_limits(const oc_plan *p, tl_dtype dtype);
oc_limits oc_gradient_limits(const oc_plan *p, tl_dtype dtype);
/* "neon float32, 7 threads" */
enum { OC_WHERE = 128 };
const char *oc_where(char out[OC_WHERE], const oc_place *place, tl_dtype dtype, const char *more);

/* --- the checks ------------------------------------------------------------------------------- */

void oc_check_derivatives(oc_plan *p, const oc_place *reference);
/* The second ones that it has found, against those of a place: in float32, and in one more type,
 * which follows from the row's number. */
void oc_check_second(oc_plan *p, int64_t number, const oc_place *place, const oc_place *reference);
void oc_check_backends(oc_plan *p, const oc_places *places);
void oc_check_capture(oc_plan *p, const oc_place *place);
void oc_check_threads(oc_plan *p, const oc_places *places);
void oc_check_checked(oc_plan *p, const oc_places *places);
void oc_check_allocations(oc_plan *p, const oc_place *place);
/* In float32, and in one more type, which follows from the row's number. */
void oc_check_function(oc_plan *p, int64_t number, const oc_place *place);
/* All of these rows in one function, compiled. */
void oc_check_compiled(oc_plan *plans, int64_t count, const oc_place *place);

/* What the rows of a table do to an op. */
enum {
    OC_CALLED = 1,         /* by a row */
    OC_IN_GRADIENT = 2,    /* by a gradient that is compared with differences */
    OC_DIFFERENTIATED = 4, /* its own gradient is compared with differences, or with PyTorch's */
    OC_GIVES_FLOAT = 8,
    OC_PYTORCH = 16 /* its result goes into something that PyTorch's is compared with */
};
void oc_note_coverage(oc_plan *p, const oc_place *reference, unsigned seen[TL_OP_COUNT]);
/* A line for each op that the rows run. */
void oc_print_coverage(const unsigned seen[TL_OP_COUNT]);

typedef struct oc_golden oc_golden;
/* Reads tests/golden/ops_<family>.bin; a file that is not there has no entries. NULL: it is
 * damaged, which was told. */
oc_golden *oc_golden_read(const char *family);
void oc_golden_free(oc_golden *g);
void oc_check_golden(oc_plan *p, const oc_golden *g, const oc_places *places);
/* One line of JSON for ops.py. */
void oc_golden_write(FILE *to, const oc_plan *p);

#endif
