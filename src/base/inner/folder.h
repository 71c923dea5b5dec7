/* Folders whose content may be somebody else's: that of a run above all.
 *
 *     tli_folder_hold *hold;
 *     TL_TRY(tli_folder_hold_new(&hold, "runs/one"));
 *     ...                               // "runs/one/train/x" is written, runs/one/train is no link
 *     tli_folder_hold_free(&hold);
 *
 * While a folder is held, nothing that this process writes, makes, renames or removes below it goes
 * through a symbolic link: a folder on the way that is one is refused, with its name. The held
 * folder itself may be a link, and so may those above it. How the way to it is written does not
 * matter: "./runs/one/train", "/home/me/runs/one/train", and a link to it all lead into runs/one.
 * Paths below no held folder are taken as they are. Reading follows links as ever.
 *
 * As soon as the folder is there its descriptor is kept: "runs/one/x" is written to that folder,
 * also after a chdir, or when something else has got its name. One that was removed is looked for,
 * or made, by its name again.
 *
 * Every function that changes the file system begins with tli_folder_open_of, and goes on from the
 * descriptor that it hands out.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_BASE_FOLDER_H
#define TILTH_SRC_BASE_FOLDER_H

#include <tilth/base/status.h>

#include <dirent.h>
#include <sys/stat.h>

typedef struct tli_folder_hold tli_folder_hold;
/* The folder need not be there yet. Held twice, it is held until both are gone. The root is not
 * held (*out is NULL then): everything lies in it. */
TL_NODISCARD tl_status tli_folder_hold_new(tli_folder_hold **out, const char *path);
/* NULL is fine. */
void tli_folder_hold_free(tli_folder_hold **hold);

/* Opens the folder that `path` lies in; `*name`, the last part of it, points into `path` ("" when
 * it ends with a slash). The caller closes *fd, which is -1 after a failure. */
TL_NODISCARD tl_status tli_folder_open_of(int *fd, const char **name, const char *path);
/* Opens the folder itself. */
TL_NODISCARD tl_status tli_folder_open(int *fd, const char *path);
/* The same, to read the names in it: *out is NULL when there is no such folder. The caller closes
 * it (closedir). */
TL_NODISCARD tl_status tli_folder_list(DIR **out, const char *path);
/* The same, for names in it alone (openat and the like): it need not be readable. */
TL_NODISCARD tl_status tli_folder_reach(int *fd, const char *path);

/* Opens a file to append to or, with `read_back`, to write at any place and to read as well (with
 * `append`, at its end again); it is made when it is not there, and with `fresh` it must not be
 * there (TL_EEXISTS). A symbolic link of that name is replaced by a file of our own, and so is, by
 * a copy, a file that has other names elsewhere: what they lead to stays as it is. What is no
 * regular file is refused. */
typedef struct tli_open_args {
    bool fresh, read_back, append;
    bool keep_names; /* a file with other names is handed out as it is */
    bool *denied;    /* NULL, or told whether it failed because we may not write there */
} tli_open_args;
TL_NODISCARD tl_status tli_open_own(int *fd, struct stat *info, const char *path,
                                    const tli_open_args *args);

/* Gives what is at `path` another name in the same folder; a link is renamed itself. */
TL_NODISCARD tl_status tli_rename_beside(const char *path, const char *name);

/* "a pipe", "a socket", "a device", ...: what is no regular file. */
const char *tli_kind_of_file(mode_t mode);

#endif
