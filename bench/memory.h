/* Memory that a process takes, as the system counts it.
 *
 * Thread word: any. */
#ifndef TILTH_BENCH_MEMORY_H
#define TILTH_BENCH_MEMORY_H

/* The resident size now, and at its peak since memory_peak_begin. */
double memory_now_mb(void);
double memory_peak_mb(void);
void memory_peak_begin(void);

/* One row: what two commands print, as numbers of megabytes; 0 for one that prints none. */
void memory_compare(const char *name, const char *ours, const char *peer);

#endif
