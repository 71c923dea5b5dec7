/* Texts of kernels, which the build makes of the files in text/. Thread word: immutable. */
#ifndef TLI_CUDA_TEXT_H
#define TLI_CUDA_TEXT_H

/* What all of them begin with, behind the text of nests */
extern const char tli_text_of_args[], tli_text_of_part[];
extern const char tli_text_of_rows[], tli_text_of_norm[], tli_text_of_channels[],
    tli_text_of_meeting[], tli_text_of_patches[], tli_text_of_draw[], tli_text_of_index[],
    tli_text_of_make[], tli_text_of_boxes[], tli_text_of_product[];
/* Updates: what the rules take from whoever includes them, the rules, sweeps over blocks */
extern const char tli_text_of_update[], tli_text_of_nadam[], tli_text_of_update_rules[],
    tli_text_of_sweep[];

#endif
