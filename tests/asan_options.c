/* Part of the program in AddressSanitizer builds on AArch64, where looking for leaks takes seconds at
 * the end of each process: tests run the program many times, and look for leaks in themselves. */
const char *__asan_default_options(void);

__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
