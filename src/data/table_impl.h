/* Private to data: tables. */
#ifndef TLI_DATA_TABLE_IMPL_H
#define TLI_DATA_TABLE_IMPL_H

/* log(1 + x), and x itself below 0. */
double tli_table_bend(double value);

#endif
