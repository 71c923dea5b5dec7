/* States from inside. Thread word: one thread at a time. */
#ifndef TLI_CORE_STATE_H
#define TLI_CORE_STATE_H

#include <tilth/base/map.h>
#include <tilth/core/state.h>

typedef struct tli_state_watcher {
    tl_state_restored_fn *restored;
    void *self;
} tli_state_watcher;
struct tl_state {
    tl_map entries; /* to tli_state_entry, owned */
    struct {
        tli_state_watcher *items;
        int64_t count, capacity;
    } watchers;
    bool outside;          /* its paths come from a file */
    int64_t added, nested; /* by paths, from here: entries, and the states around them */
};

/* What is added to the state from now on has paths of a file. Each name of a path can be a state,
 * which takes far more memory than the name has letters: more of them than entries need is
 * TL_ELIMIT. */
void tli_state_distrust(tl_state *s);

typedef struct tli_state_entry {
    tl_state_kind kind;
    bool owned; /* states: not mounted; words: the entry's own */
    union {
        tl_tensor *tensor;
        tl_state *state;
        int64_t *i; /* scalars: the program's variable, or what lies in `own` */
        double *d;
        bool *b;
        tl_str *text;
        uint64_t *words;
    } at;
    int64_t count; /* of words */
    tl_rng *rng;   /* what the words are of; NULL: nothing */
    union {
        int64_t i;
        double d;
        bool b;
        tl_str text;
    } own;
} tli_state_entry;

/* An entry with a value, among all of a state. */
typedef struct tli_state_leaf {
    const char *path;
    tli_state_entry *entry;
    int64_t first; /* the first leaf with the same tensor: itself, when there is no earlier one */
    bool written;  /* by the restore that has collected it */
} tli_state_leaf;
typedef struct tli_state_leaves {
    tli_state_leaf *items;
    int64_t count, capacity;
    tl_arena *arena; /* of the paths */
} tli_state_leaves;
/* All leaves in order. Deinit is due also after a failure. */
TL_NODISCARD tl_status tli_state_collect(tli_state_leaves *out, const tl_state *s);
void tli_state_leaves_deinit(tli_state_leaves *l);
/* Tells the watchers of `s`, whose leaves these are, and of all states below it, where a leaf was
 * written. */
void tli_state_tell_restored(const tl_state *s, const tli_state_leaves *leaves);

tli_state_entry *tli_state_find(const tl_state *s, const char *path);
/* The value as it is now. */
void tli_state_read(tl_state_entry *out, const tli_state_entry *e);
/* Scalars: same kind, and as many words. */
TL_NODISCARD tl_status tli_state_write(tli_state_entry *e, const tl_state_entry *value);
/* Would tli_state_write accept it? Fails as it would, but for memory. */
TL_NODISCARD tl_status tli_state_accepts(const tli_state_entry *e, const tl_state_entry *value);
/* "float32[3, 4]", "int 12", "text 'abc'", "4 words". */
void tli_state_value_text(tl_str *out, const tli_state_entry *e);

#endif
