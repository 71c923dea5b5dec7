#include "cuda/seen.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tilth/sys/cuda/cuda.h>

const char *tli_gpu_seen_in = "";

static bool is_there(const char *pattern)
{
    char path[4096];
    glob_t found;
    const int room = snprintf(path, sizeof path, "%s%s", tli_gpu_seen_in, pattern);
    if (room >= (int)sizeof path || glob(path, GLOB_NOSORT, NULL, &found) != 0) return false;
    globfree(&found);
    return true;
}

/* CUDA shows the GPUs of a list up to the first that is none: "", "-1", and what Slurm says to jobs
 * without GPUs, show none. */
static bool are_hidden(void)
{
    const char *shown = getenv("CUDA_VISIBLE_DEVICES");
    if (!shown) return false;
    shown += strspn(shown, " ");
    return !*shown || *shown == '-' || *shown == ',' || strncmp(shown, "NoDevFiles", 10) == 0;
}

/* Windows shows Linux its GPU, whoever made it, as one file; NVIDIA's driver comes with it. */
bool tl_gpu_seen(void)
{
    if (are_hidden()) return false;
    return is_there("/dev/nvidia[0-9]*")
           || (is_there("/dev/dxg") && is_there(TLI_CUDA_WSL_FOLDER "/libcuda.so.1"));
}
