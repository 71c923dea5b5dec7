/* What code of kernels says of itself, as the compiler for GPUs has made it for compute capability
 * 9.0: an ELF file. */
#ifndef TILTH_TESTS_CUBIN_H
#define TILTH_TESTS_CUBIN_H

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct cubin_facts {
    int kernels;
    int local;         /* functions that keep something in memory of their own: registers spilled,
                          or an array that is indexed by what is known late */
    int float_atomics; /* instructions that add floats in an order which nobody knows */
    char first[128];   /* the first kernel */
} cubin_facts;

/* Attributes of functions: {4, what, length} and then pairs of a symbol and a number. */
static inline void cubin_attributes(cubin_facts *out, const char *at, size_t bytes)
{
    enum { HAS_LENGTH = 4, FRAME = 0x11, HEAD = 4, VALUE = 8 };
    while (bytes >= HEAD) {
        uint16_t length = 0;
        if (at[0] == HAS_LENGTH) memcpy(&length, at + 2, sizeof length);
        if (at[0] == HAS_LENGTH && at[1] == FRAME && length == VALUE && bytes >= HEAD + VALUE) {
            uint32_t frame;
            memcpy(&frame, at + HEAD + 4, sizeof frame);
            out->local += frame > 0;
        }
        if (bytes < HEAD + (size_t)length) return;
        at += HEAD + length;
        bytes -= HEAD + (size_t)length;
    }
}

/* Instructions have 16 bytes, of which the first 12 bits say what they do. test_compile.c has the
 * compiler make each of these. Those of memory that a group shares become exchanges. */
static inline void cubin_instructions(cubin_facts *out, const char *at, size_t bytes)
{
    enum { WIDTH = 16, WHAT = 0xfff, REDUCE = 0x9a6, ADD = 0x9a3, EXCHANGE_SHARED = 0x38d };
    for (size_t i = 0; i + WIDTH <= bytes; i += WIDTH) {
        uint16_t word;
        memcpy(&word, at + i, sizeof word);
        const int what = word & WHAT;
        out->float_atomics += what == REDUCE || what == ADD || what == EXCHANGE_SHARED;
    }
}

/* False: it is no such file. */
static inline bool cubin_read(cubin_facts *out, const char *code, size_t bytes)
{
    Elf64_Ehdr head;
    Elf64_Shdr names, s;
    *out = (cubin_facts){0};
    if (bytes < sizeof head || memcmp(code, ELFMAG, SELFMAG) != 0) return false;
    memcpy(&head, code, sizeof head);
    const char *sections = code + head.e_shoff;
    memcpy(&names, sections + (size_t)head.e_shstrndx * head.e_shentsize, sizeof names);
    for (size_t i = 0; i < head.e_shnum; i++) {
        memcpy(&s, sections + i * head.e_shentsize, sizeof s);
        const char *name = code + names.sh_offset + s.sh_name;
        if (strcmp(name, ".nv.info") == 0) cubin_attributes(out, code + s.sh_offset, s.sh_size);
        if (strncmp(name, ".text.", 6) != 0) continue;
        if (!out->kernels++) snprintf(out->first, sizeof out->first, "%s", name + 6);
        cubin_instructions(out, code + s.sh_offset, s.sh_size);
    }
    return true;
}

#endif
