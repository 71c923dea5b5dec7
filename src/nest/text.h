/* scalar.h as text, which the build makes of it. Thread word: immutable. */
#ifndef TLI_NEST_TEXT_H
#define TLI_NEST_TEXT_H

extern const char tli_nest_scalar_text[];

#endif
