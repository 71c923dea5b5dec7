/* The example of docs/adding.md: with its row and its formula, all that reads rows compiles and
 * knows the op; without the formula nothing that computes it does. needs: no sanitizer */
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROOT TEST_DATA "/.."
#define ROWS "include/tilth/core/elementwise.def"
#define FORMULAS "src/nest/inner/formula.h"

static char folder[TEMPORARY_PATH];

static char *read_text(const char *path)
{
    FILE *from = fopen(path, "r");
    if (!from) fail_msg("%s cannot be read", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, from) > 0);
    fclose(from);
    return text;
}

/* A copy of a file of the project in the folder, with `more` before the line that begins with
 * `line`; NULL: at its end. */
static void write_with(const char *name, const char *line, const char *more)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", ROOT, name);
    char *text = read_text(path);
    const char *at = line ? strstr(text, line) : text + strlen(text);
    assert_non_null(at);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fwrite(text, 1, (size_t)(at - text), to);
    fputs(more, to);
    fputs(at, to);
    assert_int_equal(fclose(to), 0);
    free(text);
}

static void write_scratch(bool with_formula)
{
    char *row = read_text(TEST_DATA "/ops/adding/softsign.def");
    char *formula = read_text(TEST_DATA "/ops/adding/softsign.h");
    write_with(ROWS, "#undef TL_ELEMENTWISE\n", row);
    write_with(FORMULAS, NULL, with_formula ? formula : "");
    free(row), free(formula);
}

/* gcc with the folder's files before the project's. */
static int run_gcc(const char *arguments)
{
    char command[8192];
    snprintf(command, sizeof command,
             "cd '%s' && gcc -std=gnu17 -Wall -Wextra -Werror -DTLI_ISA=generic -DTLI_ISA_generic "
             "-I'%s/include' -I'%s/src' -Iinclude -Isrc %s",
             ROOT, folder, folder, arguments);
    return system(command);
}

static bool compiles(const char *source)
{
    char arguments[4096];
    snprintf(arguments, sizeof arguments, "-fsyntax-only %s >'%s/messages' 2>&1", source, folder);
    return run_gcc(arguments) == 0;
}

static const char *const readers[] = {
    "src/ops/apply.c",
    "src/ops/elementwise_rows.c",
    "src/cpu/ref/elementwise.c",
    "src/cpu/simd/unary.c",
    "src/cpu/simd/numbers.c",
    "src/nest/kind.c",
    "src/cpu/simd/elementwise.c",
    "src/nest/simd/tile.c",
};

static void a_row_and_a_formula_are_enough(void **state)
{
    (void)state;
    write_scratch(true);
    for (int64_t i = 0; i < TL_COUNT(readers); i++)
        if (!compiles(readers[i])) fail_msg("%s does not compile with the row", readers[i]);
}

/* A program of what loop nests and the reference are made of. */
static void the_formula_is_what_the_row_means(void **state)
{
    (void)state;
    char path[4096];
    write_scratch(true);
    snprintf(path, sizeof path, "%s/try.c", folder);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    fputs("#include \"cpu/ref/meaning.h\"\n#include \"nest/inner/number.h\"\n"
          "#include \"nest/inner/lane.h\"\n#include \"nest/inner/formula.h\"\n"
          "int main(void)\n{\n"
          "    const float x[] = {0, -1, 0.25f, 3, -100, 1e30f, INFINITY, -INFINITY};\n"
          "    for (int i = 0; i < 8; i++)\n"
          "        if (!(fabs((double)softsign_f(x[i]) - ref_softsign((double)x[i])) < 1e-7)) "
          "return 1;\n"
          "    return 0;\n}\n",
          to);
    assert_int_equal(fclose(to), 0);
    snprintf(path, sizeof path, "-o '%s/try' '%s/try.c' -lm && '%s/try'", folder, folder, folder);
    assert_int_equal(run_gcc(path), 0);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    static const char *const computing[] = {"src/cpu/simd/unary.c", "src/nest/simd/tile.c"};
    char path[4096];
    write_scratch(false);
    snprintf(path, sizeof path, "%s/messages", folder);
    for (int64_t i = 0; i < TL_COUNT(computing); i++) {
        assert_false(compiles(computing[i]));
        char *messages = read_text(path);
        assert_non_null(strstr(messages, "softsign"));
        free(messages);
    }
}

static int make_folder(void **state)
{
    (void)state;
    char command[4096];
    assert_non_null(mkdtemp(temporary(folder, "tilth-adding")));
    snprintf(command, sizeof command, "mkdir -p '%s/include/tilth/core' '%s/src/nest/inner'",
             folder, folder);
    return system(command);
}

static int remove_folder(void **state)
{
    (void)state;
    char command[4096];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    if (system("command -v gcc >/dev/null 2>&1") != 0)
        return 0; // compiled nests are tried elsewhere
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_and_a_formula_are_enough),
        cmocka_unit_test(the_formula_is_what_the_row_means),
        cmocka_unit_test(what_is_missing_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
