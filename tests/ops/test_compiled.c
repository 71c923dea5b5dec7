/* Rows of every program with a table of cases, as compiled functions: results within the limits of
 * graph mode, and the bits of the interpreted ones. With TILTH_DEVICE=shim they have the nests that
 * a GPU would have (cuda/shim.h); TILTH_OP_FAMILIES names some of the programs. */
#include "test.h"

#include <stdlib.h>
#include <tilth/sys/cpu/jit.h>

static void check_family(const char *family)
{
    char command[4096], line[1024];
    snprintf(command, sizeof command, "'%s/ops_%s' --compiled", TEST_PROGRAMS, family);
    FILE *from = popen(command, "r");
    assert_non_null(from);
    while (fgets(line, sizeof line, from)) print_message("%s: %s", family, line);
    if (pclose(from) != 0) fail_msg("this failed: %s", command);
}

// Programs that look for leaks take seconds to end.
#ifdef __SANITIZE_ADDRESS__
#undef OP_FAMILIES
#define OP_FAMILIES "activation norm reduce view"
#endif

static void rows_are_compiled_with_the_same_bits(void **state)
{
    const char *asked = getenv("TILTH_OP_FAMILIES");
    char families[512];
    tl_jit *jit;
    (void)state;
    if (tl_jit_new(&jit, NULL) == TL_EUNSUPPORTED) {
        print_message("skipped: %s\n", tl_error_message());
        skip();
    }
    tl_jit_free(&jit);
    assert_true(snprintf(families, sizeof families, "%s", asked ? asked : OP_FAMILIES)
                < (int)sizeof families);
    for (char *family = strtok(families, " "); family; family = strtok(NULL, " "))
        check_family(family);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_compiled_with_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
