/* What LeakSanitizer is not to tell, part of every program of the AddressSanitizer build where it
 * looks for leaks: libraries of NVIDIA leave some bytes behind where there is no GPU. leaks.c says
 * the same where that one looks. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_options(void);

__attribute__((used)) const char *__lsan_default_suppressions(void)
{
    return "leak:/libcublas\nleak:/libcudnn\nleak:/libnvrtc\n";
}

__attribute__((used)) const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}
