/* Private to nest: printing C, in two files. print_c_terms.c has the words, the terms and the
 * stores, print_c.c the loops around them.
 *
 * What is printed follows interpret.c step by step. Names: a0 .. are indices of axes, i is that of
 * the row; b0 .. buffers; t0 .. terms; s0 .. deferred sums.
 *
 * Thread word: one thread at a time. */
#ifndef TLI_NEST_PRINT_C_H
#define TLI_NEST_PRINT_C_H

#include "nest/inner/schedule.h"
#include "nest/inner/words.h"

typedef struct tli_printer {
    tl_str *out;
    const tli_schedule *s;
    int64_t pieces; /* of the row, in the phase at hand */
    bool own_sums;  /* wide sums are a thread's own, by the numbers of its elements */
    bool quick;     /* what is rounded to half precision may be estimated (quick.h) */
    bool vectors;   /* elements j of v0 .. (terms) and w0 .. (stores) stand for those of memory */
    bool ahead;     /* what is loaded for an element was, into r0[j] .. */
    int indent;
} tli_printer;

static inline const tl_term *tli_print_term_of(const tli_printer *p, int term)
{
    TL_ASSERT(term >= 0 && term < p->s->nest.term_count);
    return &p->s->nest.terms[term];
}

static inline const tli_term_info *tli_print_info_of(const tli_printer *p, int term)
{
    return &p->s->terms[term];
}

/* --- words ------------------------------------------------------------------------------------ */

extern const char *const tli_print_kind_types[]; /* of C, by kind */

/* Whether a buffer is loaded or stored, and of which type it is then. */
bool tli_print_uses_buffer(const tl_nest *n, int buffer, tl_dtype *dtype);
/* "as_bf16" where results have to be brought back to their type, else NULL. */
const char *tli_print_rounding(tl_dtype dtype);
/* What joins two values of a reduction, without the letter of its kind, */
const char *tli_print_join_function(tl_op op);
/* which is this one for a term. */
char tli_print_letter(const tli_printer *p, int term);
/* The value that a reduction begins with. */
void tli_print_start(const tli_printer *p, int term);
/* "b0[a0 * 64 + i + 3]"; the element of the row is called `element`, NULL: the first. */
void tli_print_access(const tli_printer *p, const tl_access *a, const char *element, bool address);
/* Whether TLI_VECTOR elements of the row lie side by side there, at a multiple of so many, where
 * the row begins at one. */
enum { TLI_VECTOR = 8 };
bool tli_print_is_vector(const tl_nest *n, const tl_access *a);
/* A character of a comment, the text of which may come from anywhere: nothing in it ends the
 * comment, or goes on with it on the next line, not even as a trigraph. */
void tli_print_comment(tl_str *out, char before, char c, char after);
/* The nest as a comment. */
void tli_print_description(tl_str *out, const tl_nest *nest);

/* --- terms and stores ------------------------------------------------------------------------- */

/* What a reduction is given: any and all want truth values. */
void tli_print_reduce_input(const tli_printer *p, int term);
/* "const float t3 = ...;" for a term at a point (element: NULL) or an element of the row. */
void tli_print_term(tli_printer *p, int term, const char *element);
void tli_print_store(tli_printer *p, int store, const char *element);

#endif
