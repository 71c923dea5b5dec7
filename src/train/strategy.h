/* Private to train: strategies by their names.
 *
 * Thread word: free-threaded. */
#ifndef TLI_TRAIN_STRATEGY_H
#define TLI_TRAIN_STRATEGY_H

#include <tilth/train/strategy.h>

typedef enum tli_strategy_kind {
    TLI_STRATEGY_OFF,
    TLI_STRATEGY_ONE_DEVICE,
    TLI_STRATEGY_MIRRORED,
    TLI_STRATEGY_MULTI_WORKER
} tli_strategy_kind;

/* TL_EUNSUPPORTED for those that are known and not available, TL_EINVAL for others; the message
 * begins with "distribution_strategy: ". */
TL_NODISCARD tl_status tli_strategy_find(tli_strategy_kind *out, const char *name);

/* How gradients may be added: TL_EUNSUPPORTED for ways that are known and not available, TL_EINVAL
 * for others; the message begins with "all_reduce_alg: ". NULL is fine. */
TL_NODISCARD tl_status tli_check_all_reduce(const char *name);

#endif
