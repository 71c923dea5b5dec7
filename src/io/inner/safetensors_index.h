/* Several files of safetensors that an index names, opened as one, from wherever they come. Thread
 * word: one thread at a time. */
#ifndef TLI_IO_SAFETENSORS_INDEX_H
#define TLI_IO_SAFETENSORS_INDEX_H

#include <tilth/base/file.h>
#include <tilth/io/safetensors.h>

/* Whether it is the name of an index. */
bool tli_safetensors_is_index(const char *path);
/* Maps a file that an index names, by its name. */
typedef tl_status tli_st_map_fn(tl_file_mapping *out, const char *name, void *payload);
typedef struct tli_st_index_args {
    tli_st_map_fn *map; /* NULL: from beside the index */
    void *payload;
    bool verify;   /* files are held against the checksums of the index */
    bool *damaged; /* (optional) set when a file is not the one that the index tells of */
} tli_st_index_args;
/* The text of an index, and what it names. `args` may be NULL. */
TL_NODISCARD tl_status tli_safetensors_open_index(tl_safetensors **out, const char *path,
                                                  const char *text, size_t size,
                                                  const tli_st_index_args *args);

#endif
