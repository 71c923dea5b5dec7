/* Private to comm: the page that ranks of one machine have in common, and their memory.
 *
 * Thread word: as each function says. */
#ifndef TILTH_SRC_COMM_SHM_H
#define TILTH_SRC_COMM_SHM_H

#include <pthread.h>
#include <stdatomic.h>

#include <tilth/comm/shm.h>

enum {
    TLI_SHM_LINE = 64,
    TLI_SHM_SLOTS = TL_COMM_UNDER_WAY,
    TLI_SHM_MAIL = 4096, /* bytes of a call that are copied instead of looked at */
    TLI_SHM_WHY = 1024,
    TLI_SHM_PAGE = 4096,
};

/* A number that only grows, and who sleeps until it does. */
typedef struct tli_shm_count {
    _Alignas(TLI_SHM_LINE) atomic_uint value;
    atomic_uint sleepers;
} tli_shm_count;

/* A call of a group, again and again: all arrive, all look, all part. */
typedef struct tli_shm_slot {
    tli_shm_count arrived, parted;
} tli_shm_slot;

/* Bytes of a rank. In its mail, in its memory (between processes), or anywhere (threads). */
typedef struct tli_shm_where {
    uint64_t at;
    uint64_t bytes;
} tli_shm_where;
#define TLI_SHM_IN_MAIL (UINT64_C(1) << 63)

/* What a rank says of its call. */
typedef struct tli_shm_face {
    int32_t kind, dtype, peer, small;
    int64_t count, lanes;
    tli_shm_where where[];
} tli_shm_face;

/* Messages of one rank to another, in order. */
typedef struct tli_shm_pair {
    tli_shm_count sent, taken;
    tli_shm_where where[TLI_SHM_SLOTS];
} tli_shm_pair;

/* What stands at the beginning of the common page. Then groups of slots, pairs, faces, mails. */
typedef struct tli_shm_head {
    uint32_t magic, version;
    int32_t size;
    atomic_int ended; /* 1: the reason is being written, 2: it stands */
    char why[TLI_SHM_WHY];
} tli_shm_head;

struct tl_comm_place {
    tli_shm_head *head;
    size_t bytes;
    int32_t size;
    /* of threads: what tl_comm_alloc gave, by all of them */
    pthread_mutex_t lock;
    void **memory;
    int64_t count;
};

typedef enum tli_shm_use {
    TLI_SHM_OWN,
    TLI_SHM_STAGE, /* copies of what lies elsewhere */
    TLI_SHM_COMMON /* all ranks have it */
} tli_shm_use;

/* A piece of our own memory. */
typedef struct tli_shm_piece {
    char *base;
    uint64_t offset;
    size_t bytes;
    tli_shm_use use;
    bool busy; /* the copy is looked at */
} tli_shm_piece;

/* A rank's end. */
typedef struct tli_shm {
    tli_shm_head *head;
    size_t head_bytes;
    tl_comm_place *place; /* between threads; else NULL */
    int *files;           /* between processes: [size], of the ranks' memories */
    struct {
        char *base;
        size_t bytes;
    } * peers; /* [size] how we see them */
    tli_shm_piece *pieces;
    int64_t piece_count;
    struct {
        void *base;
        size_t bytes;
    } * common; /* of rank 0's memory, what stays where it is */
    int64_t common_count;
    uint64_t used;  /* of our memory's file */
    int looks;      /* before who waits sleeps */
    uint32_t *next; /* [2 * size] numbers of messages: from each rank, to it */
} tli_shm;

/* --- the common page -------------------------------------------------------------------------- */

size_t tli_shm_page_bytes(int32_t size);
void tli_shm_page_init(tli_shm_head *head, int32_t size);
tli_shm_slot *tli_shm_slot_of(const tli_shm *s, int32_t group, int64_t number);
tli_shm_pair *tli_shm_pair_of(const tli_shm *s, int32_t from, int32_t to);
tli_shm_face *tli_shm_face_of(const tli_shm *s, int32_t group, int64_t number, int32_t rank);
char *tli_shm_mail_of(const tli_shm *s, int32_t group, int64_t number, int32_t rank);

/* --- waiting ---------------------------------------------------------------------------------- */

/* Until the value has reached it; TL_EPEER when the world has ended. */
TL_NODISCARD tl_status tli_shm_wait(const tli_shm *s, tli_shm_count *c, uint32_t value);
/* Whether that would return at once. */
bool tli_shm_is_over(const tli_shm *s, const tli_shm_count *c, uint32_t value);
/* One more; who makes it `value` wakes all. */
void tli_shm_add(tli_shm_count *c, uint32_t value);
TL_NODISCARD tl_status tli_shm_check(const tli_shm *s);
void tli_shm_end(const tli_shm *s, const char *why);

/* --- memory ----------------------------------------------------------------------------------- */

void *tli_shm_alloc(tl_comm *c, size_t bytes);
size_t tli_shm_release(tl_comm *c, void *data, size_t bytes);
/* Where our bytes lie for peers; where they cannot see them, in a piece that is taken, and holds a
 * copy if `copy`. `piece` is its index then, else -1. */
TL_NODISCARD tl_status tli_shm_show(tl_comm *c, tli_shm_where *out, int64_t *piece,
                                    const void *data, size_t bytes, bool copy);
/* A peer's bytes; one that lies about them is TL_EPEER. */
TL_NODISCARD tl_status tli_shm_see(tl_comm *c, void **out, int32_t rank, tli_shm_where where);
/* Memory of rank 0, for all. */
TL_NODISCARD tl_status tli_shm_share(tl_comm *c, void **out, size_t bytes);
void tli_shm_unshare(tl_comm *c);
void tli_shm_memory_close(tl_comm *c);

#endif
