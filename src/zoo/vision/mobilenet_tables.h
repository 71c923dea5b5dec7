/* Private to vision: the blocks that MobileNets are made of. */
#ifndef TILTH_SRC_ZOO_VISION_MOBILENET_TABLES_H
#define TILTH_SRC_ZOO_VISION_MOBILENET_TABLES_H

#include <tilth/zoo/backbone.h>

typedef enum tli_mobile_kind {
    TLI_MOBILE_CONV,      /* a convolution */
    TLI_MOBILE_SEPARABLE, /* one for each channel, then one of 1x1 */
    TLI_MOBILE_INVERTED,  /* to more channels, one for each of them, to fewer again */
    TLI_MOBILE_POOL       /* the mean of the map, as a map of 1x1 */
} tli_mobile_kind;

typedef struct tli_mobile_block {
    tli_mobile_kind kind;
    int64_t kernel, stride, filters;
    tl_activation activation;
    double expand;  /* TLI_MOBILE_INVERTED: so many times the channels; up to 1: as they are */
    double squeeze; /* of its gate; 0: none */
    bool is_level;  /* its map is an endpoint */
    bool fused;     /* the first convolution of an inverted block is that of all channels */
    bool no_residual;
    bool plain; /* a convolution with a bias, and without a norm */
} tli_mobile_block;

typedef struct tli_mobilenet {
    const char *id;
    const tli_mobile_block *blocks;
    int64_t count;
    /* Numbers of filters are multiples of it. */
    int64_t divisor;
} tli_mobilenet;
/* NULL: there is none of that name. */
const tli_mobilenet *tli_mobilenet_find(const char *id);
/* The names of all, for messages. */
extern const char *const tli_mobilenet_names;

#endif
