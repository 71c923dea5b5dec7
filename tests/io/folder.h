/* What tests of files share: a folder that is gone afterwards, and files that are looked at byte by
 * byte. */
#ifndef TILTH_TESTS_IO_FOLDER_H
#define TILTH_TESTS_IO_FOLDER_H

#include "core/lab.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>
#include <tilth/base/file.h>

static char folder[TEMPORARY_PATH];

/* In memory where that is possible: thousands of files are synced. */
static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/tilth_io_XXXXXX",
             access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : temporary_place(40));
    return mkdtemp(folder) ? 0 : -1;
}

/* Paths in the folder, a few at a time. */
static inline const char *in_folder(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* Calls `fn` with each name in the folder, or counts them when it is NULL. */
static inline int each_file(void (*fn)(const char *name))
{
    int count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        count++;
        if (fn) fn(e->d_name);
    }
    closedir(d);
    return count;
}

static inline void remove_in_folder(const char *name)
{
    assert_int_equal(remove(in_folder(name)), 0);
}

static inline int remove_folder(void **state)
{
    (void)state;
    each_file(remove_in_folder);
    return rmdir(folder);
}

static inline bool is_there(const char *name)
{
    return tl_file_exists(in_folder(name));
}

/* A whole file, freed with tl_free. */
static inline char *bytes_of(const char *path, size_t *size)
{
    char *data;
    assert_ok(tl_file_read(&data, size, path, SIZE_MAX / 2));
    return data;
}

static inline void put_bytes(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

#endif
