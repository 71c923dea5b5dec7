/* What normalisations share. Thread word: immutable. */
#ifndef TLI_OPS_NORM_H
#define TLI_OPS_NORM_H

#include <tilth/core/attrs.h>
#include <tilth/sys/core/op.h>

extern const tl_desc tli_norm_desc;

/* gamma, beta or a statistic of x: of this shape, and of a type that goes with x. */
TL_NODISCARD tl_status tli_norm_param(const tl_tensor *p, const tl_tensor *x, const tl_shape *shape,
                                      const char *what);
/* gamma and beta from input `first` on, as the attributes name them; and epsilon. */
TL_NODISCARD tl_status tli_norm_params(const tl_node *call, int first, const tl_tensor *x,
                                       const tl_shape *shape);

#endif
