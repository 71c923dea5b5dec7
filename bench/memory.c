#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512 };

/* A number of kilobytes from /proc/self/status. */
static double status_mb(const char *key)
{
    char line[LINE];
    double kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) kb = strtod(line + strlen(key) + 1, NULL);
    if (f) fclose(f);
    return kb / 1024;
}

double memory_now_mb(void)
{
    return status_mb("VmRSS");
}

double memory_peak_mb(void)
{
    return status_mb("VmHWM");
}

void memory_peak_begin(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (f) fputs("5", f);
    if (f) fclose(f);
}

static double ask(const char *command)
{
    char line[LINE];
    double mb = 0;
    FILE *f = popen(command, "r");
    while (f && fgets(line, sizeof line, f)) mb = strtod(line, NULL);
    if (f) pclose(f);
    return mb;
}

void memory_compare(const char *name, const char *ours, const char *peer)
{
    double a = ask(ours), b = ask(peer);
    printf("%-42s %8.1f MB   PyTorch %8.1f MB", name, a, b);
    if (b > 0) printf("   %5.2f of it", a / b);
    printf("\n");
    fflush(stdout);
}
