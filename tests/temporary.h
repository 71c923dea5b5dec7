/* Where tests and benchmarks put files of their own: below $TMPDIR, or below /tmp when that is not
 * set, or so long that paths below it would not fit.
 *
 *     char folder[TEMPORARY_PATH];
 *     assert_non_null(mkdtemp(temporary(folder, "tilth-test-x"))); */
#ifndef TILTH_TESTS_TEMPORARY_H
#define TILTH_TESTS_TEMPORARY_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEMPORARY_PATH = 96 };

static inline const char *temporary_place(size_t more)
{
    const char *place = getenv("TMPDIR");
    return place && *place == '/' && strlen(place) + more < TEMPORARY_PATH ? place : "/tmp";
}

/* "PLACE/NAME-XXXXXX", for mkdtemp and mkstemp. Gives `out` back. */
static inline char *temporary(char out[TEMPORARY_PATH], const char *name)
{
    static const char end[] = "-XXXXXX";
    snprintf(out, TEMPORARY_PATH, "%s/%.40s%s", temporary_place(1 + strlen(name) + sizeof end),
             name, end);
    return out;
}

static inline int remove_one(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

/* A folder with all that is in it; links are not followed. 0, or what the system says. */
static inline int remove_tree(const char *path)
{
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
