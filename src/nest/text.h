/* What printed C begins with, in this order: headers as text, which the build makes of them.
 * Thread word: immutable. */
#ifndef TLI_NEST_TEXT_H
#define TLI_NEST_TEXT_H

extern const char tli_text_of_number[], tli_text_of_lane[], tli_text_of_formula[],
    tli_text_of_scalar[];
/* and before and behind them, those of a GPU */
extern const char tli_text_of_kernel[], tli_text_of_quick[];

#endif
