/* Files: read whole, written so that a reader sees the old or the new one and never a half, mapped,
 * found by pattern.
 *
 *     char *text;
 *     size_t size;
 *     TL_TRY(tl_file_read(&text, &size, "params.yaml", 1 << 20));
 *     ...
 *     tl_free(text);
 *     TL_TRY(tl_mkdirs("out/run1"));
 *     TL_TRY(tl_file_write_atomic("out/run1/params.yaml", tl_str_text(&s), s.length));
 *
 * Messages name the path and the reason. A path that does not exist is TL_ENOTFOUND, one of the
 * wrong kind (a directory where a file is wanted) TL_EINVAL, everything else the system refuses
 * TL_EIO. What is read belongs to the caller; paths made here belong to the arena.
 *
 * Thread word: free-threaded; a tl_file_writer one thread at a time. */
#ifndef TILTH_BASE_FILE_H
#define TILTH_BASE_FILE_H

#include <tilth/base/arena.h>
#include <tilth/base/status.h>

TL_BEGIN

/* --- reading ---------------------------------------------------------------------------------- */

/* The whole file, with a NUL after its last byte that `size` does not count. `size` may be NULL. A
 * file of more than `limit` bytes is TL_ELIMIT. Files of the kernel, whose size is not known before
 * their end, are read as well. A pipe, a socket or a device is TL_EINVAL, and never waited for,
 * unless the path is /dev/stdin, /dev/null or /dev/fd/N, as a shell hands streams over. Freed with
 * tl_free; *data is NULL after a failure. */
TL_API TL_NODISCARD tl_status tl_file_read(char **data, size_t *size, const char *path,
                                           size_t limit);

/* A file in memory, read-only, brought in as it is touched. */
typedef struct tl_file_mapping {
    const char *data; /* never NULL while mapped, also for an empty file; not NUL-terminated */
    size_t size;
    uint64_t device, inode; /* which file it is, whatever has its name now */
    struct tli_mapping_guard *guard;
} tl_file_mapping;
#define TL_FILE_MAPPING_INIT TL_INIT(NULL, 0, 0, 0, NULL)

/* Only regular files can be mapped. Where somebody cuts the file short while it is mapped, zeros
 * are read behind its new end, and tl_file_mapping_check tells; files written through
 * tl_file_writer are replaced. Mapping sets a handler of SIGBUS for that, which hands on what is no
 * concern of a mapping. */
TL_API TL_NODISCARD tl_status tl_file_map(tl_file_mapping *out, const char *path);
/* An unmapped one is fine. */
TL_API void tl_file_unmap(tl_file_mapping *mapping);
/* Fails when the file that was mapped from `path` has become shorter since then: to be asked after
 * what was read is believed. One system call. Files that were replaced or removed are fine. */
TL_API TL_NODISCARD tl_status tl_file_mapping_check(const tl_file_mapping *mapping,
                                                    const char *path);

/* --- writing ---------------------------------------------------------------------------------- */

/* Puts a file in place in one step: `path` holds either what it held before or all of `data`, also
 * when the process or the machine stops half-way. When it returns TL_OK the bytes are on the disk.
 *
 * The bytes go to `.NAME.<16 hex digits>.tmp` in the same directory, which is synced, renamed, and
 * removed if anything fails; only a process killed in the middle leaves one behind. A new file gets
 * mode 0666 less the umask, one that is replaced hands its mode on. A symbolic link is replaced,
 * and the file it leads to stays as it is. Devices and pipes cannot be replaced and are refused. */
TL_API TL_NODISCARD tl_status tl_file_write_atomic(const char *path, const void *data, size_t size);

/* The same in pieces, for what does not fit in memory twice:
 *
 *     TL_TRY(tl_file_writer_begin(&w, path));
 *     TL_TRY_DONE(st, tl_file_writer_write(w, header, header_size));
 *     TL_TRY_DONE(st, tl_file_writer_write(w, body, body_size));
 *     st = tl_file_writer_commit(&w);
 * done:
 *     tl_file_writer_abort(&w);                  // does nothing after a commit
 */
typedef struct tl_file_writer tl_file_writer;
TL_API TL_NODISCARD tl_status tl_file_writer_begin(tl_file_writer **out, const char *path);
/* Small pieces are gathered. Once a write has failed, later ones and the commit fail too. */
TL_API TL_NODISCARD tl_status tl_file_writer_write(tl_file_writer *writer, const void *data,
                                                   size_t size);
/* Puts the file in place and frees the writer; also frees it, leaving nothing, on failure. */
TL_API TL_NODISCARD tl_status tl_file_writer_commit(tl_file_writer **writer);
/* Drops what was written and frees the writer. NULL is fine. */
TL_API void tl_file_writer_abort(tl_file_writer **writer);

/* Removes a file or a symbolic link; directories are refused. */
TL_API TL_NODISCARD tl_status tl_file_remove(const char *path);
/* Makes the directory and those above it; fine when they exist. */
TL_API TL_NODISCARD tl_status tl_mkdirs(const char *path);

/* --- asking ----------------------------------------------------------------------------------- */

typedef struct tl_file_info {
    bool exists, is_dir, is_regular;
    size_t size; /* of a regular file */
} tl_file_info;
/* Symbolic links are followed. A path that does not exist is no failure: `exists` is false. */
TL_API TL_NODISCARD tl_status tl_file_stat(tl_file_info *out, const char *path);
/* The same in one word; false also when the system does not let us look. */
TL_API bool tl_file_exists(const char *path);
TL_API bool tl_dir_exists(const char *path);

/* --- paths ------------------------------------------------------------------------------------ */

/* `folder/name`, with one slash between them; `name` alone when it is absolute or the folder is "".
 * NULL, with the error set, when there is no memory. */
TL_API char *tl_path_join(tl_arena *arena, const char *folder, const char *name);
/* False for an absolute path and for one with `..` in it: what `folder/path` leads out of the
 * folder. */
TL_API bool tl_path_stays_inside(const char *path);
/* What stands before the last slash: "a/b.c" gives "a", "b.c" gives ".", "/b.c" gives "/". */
TL_API char *tl_path_dirname(tl_arena *arena, const char *path);
/* What stands after the last slash; points into `path`. */
TL_API const char *tl_path_basename(const char *path);

typedef struct tl_path_list {
    const char **items;
    int64_t count;
} tl_path_list;
/* The paths that match, sorted by bytes whatever the locale. `*` and `?` do not cross a slash and
 * do not match a leading dot; `[abc]`, `[a-z]`, `[!a]` match one character; `\` takes the next one
 * as it is. No match gives a count of 0; a directory that must be searched and cannot be is a
 * failure. */
TL_API TL_NODISCARD tl_status tl_glob(tl_path_list *out, tl_arena *arena, const char *pattern);
/* The paths of what lies in a folder, sorted by bytes; names with a leading dot are left out. */
TL_API TL_NODISCARD tl_status tl_dir_list(tl_path_list *out, tl_arena *arena, const char *folder);

TL_END

#endif
