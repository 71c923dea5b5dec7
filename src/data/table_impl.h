/* Private to data: tables. */
#ifndef TLI_DATA_TABLE_IMPL_H
#define TLI_DATA_TABLE_IMPL_H

#include <stdbool.h>

/* log(1 + x), and x itself below 0. */
double tli_table_bend(double value);
/* Whether a target, less the mean and by the deviation, is a number of 32 bits. */
bool tli_table_target_fits(double target);

#endif
