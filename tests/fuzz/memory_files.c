/* The linker puts these functions before those of src/base (tests/fuzz/CMakeLists.txt). */
#include "memory_files.h"

#include "fuzz.h"

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

tl_status __real_tl_file_map(tl_file_mapping *out, const char *path);
tl_status __wrap_tl_file_map(tl_file_mapping *out, const char *path);
void __real_tl_file_unmap(tl_file_mapping *mapping);
void __wrap_tl_file_unmap(tl_file_mapping *mapping);
tl_status __real_tl_file_mapping_check(const tl_file_mapping *mapping, const char *path);
tl_status __wrap_tl_file_mapping_check(const tl_file_mapping *mapping, const char *path);
tl_status __real_tl_file_read(char **data, size_t *size, const char *path, size_t limit);
tl_status __wrap_tl_file_read(char **data, size_t *size, const char *path, size_t limit);

typedef struct file {
    const char *path;
    void *data;
    size_t size;
} file;
static file files[MEMORY_FILES];

enum { IN_MEMORY = 0xfade }; /* the inode of a mapping that is none */

void memory_file(int slot, const char *path, const void *data, size_t size)
{
    free(files[slot].data);
    files[slot] = (file){path, malloc(size + !size), size};
    must(files[slot].data, "no memory");
    if (size) memcpy(files[slot].data, data, size);
}

static const file *find(const char *path)
{
    for (int i = 0; i < MEMORY_FILES; i++)
        if (files[i].path && strcmp(files[i].path, path) == 0) return &files[i];
    return NULL;
}

static bool is_in_memory(const tl_file_mapping *m)
{
    return m->inode == IN_MEMORY && !m->guard;
}

tl_status __wrap_tl_file_map(tl_file_mapping *out, const char *path)
{
    const file *f = find(path);
    if (!f) return __real_tl_file_map(out, path);
    char *copy = malloc(f->size + !f->size); // of its own: nobody may use it when it is unmapped
    must(copy, "no memory");
    memcpy(copy, f->data, f->size);
    *out = (tl_file_mapping){.data = copy, .size = f->size, .inode = IN_MEMORY};
    return TL_OK;
}

void __wrap_tl_file_unmap(tl_file_mapping *mapping)
{
    if (!is_in_memory(mapping)) {
        __real_tl_file_unmap(mapping);
        return;
    }
    free((void *)(uintptr_t)mapping->data);
    *mapping = (tl_file_mapping)TL_FILE_MAPPING_INIT;
}

tl_status __wrap_tl_file_mapping_check(const tl_file_mapping *mapping, const char *path)
{
    return is_in_memory(mapping) ? TL_OK : __real_tl_file_mapping_check(mapping, path);
}

tl_status __wrap_tl_file_read(char **data, size_t *size, const char *path, size_t limit)
{
    const file *f = find(path);
    if (!f || f->size > limit) return __real_tl_file_read(data, size, path, limit);
    *data = tl_alloc(f->size + 1);
    must(*data, "no memory");
    memcpy(*data, f->data, f->size);
    (*data)[f->size] = '\0';
    if (size) *size = f->size;
    return TL_OK;
}
