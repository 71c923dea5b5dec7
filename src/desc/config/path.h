/* Private to desc: dotted paths such as `a.b[2].c`, and what they lead to in a described struct. */
#ifndef TILTH_SRC_DESC_PATH_H
#define TILTH_SRC_DESC_PATH_H

#include "desc/config/apply.h"

typedef struct tli_step {
    const char *name; /* NULL: an index */
    int64_t index;
} tli_step;

typedef struct tli_path {
    tli_step steps[64];
    int64_t count;
} tli_path;

/* Splits a path; names are copied into the arena. */
tl_status tli_path_parse(tli_path *out, tl_arena *arena, const char *text);

/* Where a path ends. */
typedef struct tli_spot {
    const tl_desc *desc;  /* of the struct that holds the member; NULL inside a list of scalars */
    tl_field field;       /* the row; for an element of a list the row of one element */
    void *value;          /* struct (or list item) that `field` lies in */
    const char *oneof;    /* "type" when the path ends at the type of a one-of, which `field` is */
    const tl_value *free; /* inside a free-form value: what stands there, `field` being its owner */
} tli_spot;

/* Follows a path from a struct. Names that do not exist, nulls on the way and bad indexes fail,
 * with a suggestion or the bounds. Lists on the way are copied into the arena when it is not NULL,
 * so that what was found may be changed (tables share their lists). */
tl_status tli_path_find(tli_spot *out, tl_arena *arena, const tl_desc *desc, void *value,
                        const tli_path *path);

#endif
