/* Every op has rows: one that calls it, one that compares its gradient with differences or with
 * PyTorch's, one that compares it with PyTorch. The union over all programs with a table of cases
 * is looked at. needs: no sanitizer */
#include "op_cases_impl.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <tilth/sys/core/op.h>

static unsigned seen[TL_OP_COUNT];

static int op_of(const char *name)
{
    for (int op = 0; op < TL_OP_COUNT; op++)
        if (strcmp(tl_op_class_of(op)->name, name) == 0) return op;
    fail_msg("there is no op '%s'", name);
    return -1;
}

static void ask(const char *family)
{
    char command[4096], name[64];
    unsigned bits;
    snprintf(command, sizeof command, "'%s/ops_%s' --coverage", TEST_PROGRAMS, family);
    FILE *from = popen(command, "r");
    assert_non_null(from);
    while (fscanf(from, "%63s %u", name, &bits) == 2) seen[op_of(name)] |= bits;
    bool whole = feof(from);
    if (pclose(from) != 0 || !whole) fail_msg("this failed: %s", command);
}

static int ask_all(void **state)
{
    (void)state;
    char families[] = OP_FAMILIES;
    for (char *family = strtok(families, " "); family; family = strtok(NULL, " ")) ask(family);
    return 0;
}

/* --- exceptions, each with its reason --------------------------------------------------------- */

typedef struct exception {
    const char *op, *reason;
} exception;

static const exception without_pytorch[] = {
    {"random_uniform", "draws are not PyTorch's; test_random.c looks at their distribution"},
    {"random_normal", "the same"},
    {"random_truncated_normal", "the same"},
    {"random_bernoulli", "the same"},
    {"max_pool2d_pick", "second derivatives alone run it; they are compared with differences"},
    {"all_gather", "a copy in one lane; graph/test_collectives.c has several"},
    {"all_reduce", "the same"},
    {"reduce_scatter", "the same"},
    {"lane", "the same"},
    {NULL, NULL},
};

/* Ops that gradients alone call: their rows are those of what they are the gradient of. */
static const char *const called_by_gradients[] = {
    "layer_normalize_grad",
    "rms_normalize_grad",
    "group_normalize_grad",
    "batch_normalize_grad",
    "batch_norm_apply_grad",
    "softmax_grad",
    "log_softmax_grad",
    "sparse_cross_entropy_grad",
    "cross_entropy_grad",
    "attend_grad",
    NULL,
};

static bool is_excepted(const exception *list, const char *name)
{
    for (; list->op; list++)
        if (strcmp(list->op, name) == 0) return true;
    return false;
}

static bool is_called_by_gradients(const char *name)
{
    for (const char *const *op = called_by_gradients; *op; op++)
        if (strcmp(*op, name) == 0) return true;
    return false;
}

/* Fails with the names of all ops of which `lacks` is true. */
static void expect_none(bool (*lacks)(const tl_op_class *op, unsigned bits), const char *what)
{
    tl_str names = TL_STR_INIT;
    for (int op = 0; op < TL_OP_COUNT; op++)
        if (lacks(tl_op_class_of(op), seen[op]))
            tl_str_addf(&names, "%s%s", names.length ? ", " : "", tl_op_class_of(op)->name);
    assert_ok(tl_str_status(&names));
    if (names.length) fail_msg("%s: %s", what, tl_str_text(&names));
}

static bool has_no_row(const tl_op_class *op, unsigned bits)
{
    return !(bits & (is_called_by_gradients(op->name) ? OC_IN_GRADIENT : OC_CALLED));
}

static void every_op_has_a_row(void **state)
{
    (void)state;
    expect_none(has_no_row, "no row of tests/ops calls");
}

static bool has_unchecked_gradient(const tl_op_class *op, unsigned bits)
{
    return op->gradient && !(op->flags & TL_OP_CONSTANT) && !(bits & OC_DIFFERENTIATED);
}

static void every_gradient_has_a_row(void **state)
{
    (void)state;
    expect_none(has_unchecked_gradient,
                "no row of tests/ops compares with anything the gradient of");
}

static bool has_no_golden_value(const tl_op_class *op, unsigned bits)
{
    bool wanted = !bits || bits & OC_GIVES_FLOAT;
    return wanted && !(bits & OC_PYTORCH) && !is_excepted(without_pytorch, op->name);
}

static void every_float_is_compared_with_pytorch(void **state)
{
    (void)state;
    expect_none(has_no_golden_value, "no row with an expression for PyTorch runs");
}

/* A reason that does not hold any more is to go. */
static void exceptions_are_needed(void **state)
{
    (void)state;
    for (const exception *e = without_pytorch; e->op; e++)
        if (seen[op_of(e->op)] & OC_PYTORCH) fail_msg("%s is compared with PyTorch", e->op);
    for (const char *const *op = called_by_gradients; *op; op++)
        if (seen[op_of(*op)] & OC_CALLED) fail_msg("%s is called by a row", *op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_row),
        cmocka_unit_test(every_gradient_has_a_row),
        cmocka_unit_test(every_float_is_compared_with_pytorch),
        cmocka_unit_test(exceptions_are_needed),
    };
    return cmocka_run_group_tests(tests, ask_all, NULL);
}
