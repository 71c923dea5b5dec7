/* Private to desc: what flags.c (definitions, help) and flags_parse.c (the command line) share. */
#ifndef TILTH_SRC_DESC_FLAGS_IMPL_H
#define TILTH_SRC_DESC_FLAGS_IMPL_H

#include <tilth/base/map.h>
#include <tilth/desc/flags.h>

/* One member that a flag sets. */
typedef struct tli_flag_target {
    const char *title; /* of the group that defined it */
    const tl_desc *desc;
    const tl_field *field;
    void *value; /* the struct that holds the member */
    struct tli_flag_target *next;
} tli_flag_target;

typedef struct tli_flag {
    const char *name, *alias;
    tli_flag_target target; /* further ones are chained behind it */
    bool given;
    bool suggested; /* a misspelling of it was reported */
    struct {
        const tl_value **items;
        int64_t count, capacity;
    } items; /* what a list was given so far */
} tli_flag;

typedef struct tli_flag_group {
    const char *title;
    const tl_desc *desc;
    const void *value;
    const tl_field **fields; /* sorted by name */
    int64_t count;
} tli_flag_group;

struct tl_flags {
    tl_arena *arena;
    const char *program, *usage;
    tl_map flags;   /* name -> tli_flag *, owned by the arena */
    tl_map aliases; /* the same flags by their second names */
    tl_map absent;  /* name -> what to do instead */
    struct {
        tli_flag_group *items;
        int64_t count, capacity;
    } groups;
    struct {
        tl_flag_word *items;
        int64_t count, capacity;
    } words;
    tl_help_asked help;
    bool parsed;
};

/* By name or alias; NULL when there is none. */
tli_flag *tli_flags_find(const tl_flags *flags, const char *name);

/* True when the flag can stand alone: --x and --nox. */
static inline bool tli_flag_is_switch(const tli_flag *flag)
{
    return flag->target.field->type == TL_TYPE_BOOL && flag->target.field->arity != TL_LIST;
}

#endif
