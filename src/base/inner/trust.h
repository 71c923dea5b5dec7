/* Which places are safe to load code from: those that nobody but the user and root can change.
 *
 * A path is walked from the root, by descriptors and link by link. Every folder and every link on
 * the way, and the end of it, must belong to the user or to root, and nobody else may write to
 * them. Folders with the sticky bit are the exception (/tmp): there everybody may add names, but
 * not take away or exchange what is another's. The user's own group, the one that has his name and
 * nobody else in it, counts as the user: with a umask of 002 all that he makes is writable for it.
 *
 * What breaks the rule is TL_EUNSUPPORTED, with a message that names the place, who could change it
 * and what to do; what the system refuses has its own codes.
 *
 * Thread word: free-threaded. */
#ifndef TILTH_SRC_BASE_TRUST_H
#define TILTH_SRC_BASE_TRUST_H

#include <tilth/base/str.h>

/* An open place, at the end of a walk. */
typedef struct tli_trusted {
    int fd;      /* the folder; of a file: the file itself, for reading */
    int folder;  /* of a file: the folder it lies in; -1 of a folder */
    bool shared; /* of a file: others may add files to that folder, which is sticky */
    tl_str path; /* absolute, without links */
} tli_trusted;
#define TLI_TRUSTED_INIT TL_INIT(-1, -1, false, TL_STR_INIT)

/* A folder that belongs to the user alone: not to root (unless that is the user), and without the
 * exception of the sticky bit for itself. `make`: folders that are missing are made, for the user
 * alone (mode 0700). */
TL_NODISCARD tl_status tli_trust_own_folder(tli_trusted *out, const char *path, bool make);
/* A folder in which the user can make one of his own, as /tmp is. */
TL_NODISCARD tl_status tli_trust_folder(tli_trusted *out, const char *path);
/* A regular file. */
TL_NODISCARD tl_status tli_trust_file(tli_trusted *out, const char *path);
/* Closes what is open; what was taken out is -1. */
void tli_trusted_deinit(tli_trusted *t);

/* Whether only this user, and root, are members of the group as far as the user database tells.
 * What it cannot tell for certain is no. `passwd` and `group` are the files /etc/passwd and
 * /etc/group. */
bool tli_trust_is_own_group(unsigned user, unsigned gid, const char *passwd, const char *group);

#endif
