/* What the system shows of GPUs to who asks no library.
 *
 * Thread word: one thread at a time sets it. */
#ifndef TILTH_CUDA_SEEN_H
#define TILTH_CUDA_SEEN_H

/* What the driver of WSL has brought; the loader of a container need not know the folder. */
#define TLI_CUDA_WSL_FOLDER "/usr/lib/wsl/lib"

/* "": the files of this machine; tests set a folder that has some like them. */
extern const char *tli_gpu_seen_in;

#endif
