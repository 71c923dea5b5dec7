/* What the linker puts before a target's function (tests/fuzz/CMakeLists.txt). */
#ifndef TILTH_TESTS_FUZZ_GUARDED_MEMORY_H
#define TILTH_TESTS_FUZZ_GUARDED_MEMORY_H

#include <stddef.h>
#include <stdint.h>

int __real_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
