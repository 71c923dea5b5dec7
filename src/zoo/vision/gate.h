/* Private to vision: squeeze and excitation, a factor for each channel, found from the means of
 * all. Layers "reduce" and "expand".
 *
 *     tl_layer *gate = tli_gate(s, "gate", &(tli_gate_config){
 *         .parts = *parts, .reduced = 16, .filters = 64});
 */
#ifndef TILTH_SRC_ZOO_VISION_GATE_H
#define TILTH_SRC_ZOO_VISION_GATE_H

#include <tilth/zoo/backbone.h>

typedef struct tli_gate_config {
    tl_backbone_parts parts;
    int64_t reduced; /* channels between the two layers */
    int64_t filters; /* channels of the input */
    bool hard;       /* Model Garden's hard sigmoid, and not the sigmoid */
} tli_gate_config;
/* NULL when the scope failed. */
tl_layer *tli_gate(tl_scope *s, const char *name, const tli_gate_config *config);

#endif
