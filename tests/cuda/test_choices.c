/* Choices among ways to compute: the table, its text, and what later runs find. */
#include "cpu/jit_test.h"

#include "cuda/api.h"
#include "cuda/choices.h"

static void check_found(tli_choices *c, const char *key, const char *expected)
{
    char choice[TLI_CHOICE];
    assert_ok(tli_choice_find(c, key, choice));
    assert_string_equal(choice, expected);
}

static void test_table(void **state)
{
    tli_choices one, two;
    tl_str text = TL_STR_INIT, again = TL_STR_INIT;
    (void)state;
    tli_choices_init(&one, "a GPU", NULL);
    tli_choices_init(&two, "a GPU", NULL);
    check_found(&one, "conv 1", "");
    assert_ok(tli_choice_note(&one, "product 2", "plan 7"));
    assert_ok(tli_choice_note(&one, "conv 1", "plan 3"));
    assert_ok(tli_choice_note(&one, "conv 1", "plan 4")); // the last one counts
    check_found(&one, "conv 1", "plan 4");
    assert_ok(tli_choices_export(&one, &text));
    assert_non_null(strstr(tl_str_text(&text), "\nconv 1\tplan 4\nproduct 2\tplan 7\n"));
    assert_ok(tli_choice_note(&two, "conv 1", "plan 9"));
    assert_ok(tli_choices_import(&two, tl_str_text(&text)));
    check_found(&two, "conv 1", "plan 4");
    check_found(&two, "product 2", "plan 7");
    assert_ok(tli_choices_export(&two, &again));
    assert_string_equal(tl_str_text(&again), tl_str_text(&text));
    tli_choices_deinit(&two);
    // of another GPU nothing is taken
    tli_choices_init(&two, "another GPU", NULL);
    assert_ok(tli_choices_import(&two, tl_str_text(&text)));
    check_found(&two, "conv 1", "");
    tli_choices_deinit(&two);
    tli_choices_deinit(&one);
    tl_str_deinit(&text);
    tl_str_deinit(&again);
}

static void test_bad_texts(void **state)
{
    static const char *const rest[] = {"conv 1",
                                       "conv 1\n",
                                       "\tplan\n",
                                       "conv 1\t\n",
                                       "conv 1\tplan\tplan\n",
                                       "conv 1\tplan\nconv 2"};
    tli_choices c;
    tl_str text = TL_STR_INIT;
    (void)state;
    tli_choices_init(&c, "a GPU", NULL);
    assert_fails(tli_choices_import(&c, ""), TL_EDATA, "begin with");
    assert_fails(tli_choices_import(&c, "conv 1\tplan 3\n"), TL_EDATA, "begin with");
    assert_ok(tli_choices_export(&c, &text));
    const size_t head = text.length;
    for (int i = 0; i < (int)TL_COUNT(rest); i++) {
        tl_str_cut(&text, head);
        tl_str_add(&text, rest[i]);
        assert_fails(tli_choices_import(&c, tl_str_text(&text)), TL_EDATA, "line");
    }
    tl_str_cut(&text, head);
    tl_str_add(&text, "conv 1\t");
    tl_str_pad(&text, 'x', TLI_CHOICE);
    tl_str_addc(&text, '\n');
    assert_fails(tli_choices_import(&c, tl_str_text(&text)), TL_EDATA, "line");
    tl_str_deinit(&text);
    tli_choices_deinit(&c);
}

static void test_kept(void **state)
{
    const tli_cuda_api *api;
    tli_cuda_codes *codes;
    tli_choices c;
    (void)state;
    if (tli_cuda_compiler(&api) != TL_OK) skip();
    assert_ok(tli_cuda_codes_open(&codes, 9, 0));
    tli_choices_init(&c, "a GPU", codes);
    check_found(&c, "conv 1", "");
    assert_ok(tli_choice_note(&c, "conv 1", "plan 3"));
    tli_choices_deinit(&c);
    tli_choices_init(&c, "a GPU", codes); // as the next run does
    check_found(&c, "conv 1", "plan 3");
    check_found(&c, "conv 2", "");
    tli_choices_deinit(&c);
    tli_choices_init(&c, "another GPU", codes);
    check_found(&c, "conv 1", "");
    tli_choices_deinit(&c);
    tli_cuda_codes_close(&codes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test_setup_teardown(test_kept, enter_folder, leave_folder),
    };
    keep_path();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
