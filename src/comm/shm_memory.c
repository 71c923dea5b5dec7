#include "comm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tilth/base/alloc.h>

#include "base/inner/reserve.h"

/* --- files ------------------------------------------------------------------------------------ */

static tl_status new_file(int *out, size_t bytes)
{
    *out = memfd_create("tilth", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*out < 0)
        return TL_FAIL(TL_EIO, "memory that processes share: memfd_create: %s", strerror(errno));
    // Peers look into it: it must not become shorter under their eyes.
    if (ftruncate(*out, (off_t)bytes) < 0 || fcntl(*out, F_ADD_SEALS, F_SEAL_SHRINK) < 0) {
        int why = errno;
        close(*out);
        *out = -1;
        return TL_FAIL(TL_EIO, "memory that processes share: %s", strerror(why));
    }
    return TL_OK;
}

tl_status tl_comm_files_new(int *files, int32_t size)
{
    for (int32_t i = 0; i <= size; i++) files[i] = -1;
    if (size < 1 || size > TL_COMM_SHM_RANKS)
        return TL_FAIL(TL_EINVAL, "shared memory joins 1 to %d processes, not %" PRId32,
                       TL_COMM_SHM_RANKS, size);
    for (int32_t i = 0; i <= size; i++) {
        tl_status st = new_file(&files[i], i ? 0 : tli_shm_page_bytes(size));
        if (st == TL_OK) continue;
        tl_comm_files_close(files, size);
        return st;
    }
    tli_shm_head *head = mmap(NULL, sizeof *head, PROT_READ | PROT_WRITE, MAP_SHARED, files[0], 0);
    if (head == MAP_FAILED) {
        int why = errno;
        tl_comm_files_close(files, size);
        return TL_FAIL(TL_EIO, "memory that processes share: mmap: %s", strerror(why));
    }
    tli_shm_page_init(head, size);
    munmap(head, sizeof *head);
    return TL_OK;
}

void tl_comm_files_close(int *files, int32_t size)
{
    for (int32_t i = 0; i <= size; i++) {
        if (files[i] >= 0) close(files[i]);
        files[i] = -1;
    }
}

/* --- our own memory --------------------------------------------------------------------------- */

static tl_status place_alloc(void **out, tl_comm_place *place, size_t bytes)
{
    pthread_mutex_lock(&place->lock);
    void **memory = tl_realloc(place->memory, (size_t)(place->count + 1) * sizeof *memory);
    if (memory) place->memory = memory;
    *out = memory ? tl_alloc_aligned(TLI_SHM_PAGE, bytes ? bytes : 1) : NULL;
    if (*out) memory[place->count++] = *out;
    pthread_mutex_unlock(&place->lock);
    if (!*out) return TL_FAIL_NOMEM(bytes);
    memset(*out, 0, bytes);
    return TL_OK;
}

static tl_status new_piece(tl_comm *c, int64_t *out, size_t bytes, tli_shm_use use)
{
    tli_shm *s = c->inner;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (bytes + page - 1) / page * page;
    tli_shm_piece *pieces = tl_realloc(s->pieces, (size_t)(s->piece_count + 1) * sizeof *pieces);
    if (!pieces) return TL_FAIL_NOMEM((size_t)(s->piece_count + 1) * sizeof *pieces);
    s->pieces = pieces;
    if (!room) room = page;
    // All of it now: later there would be no way to say that there is none.
    int file = s->files[c->rank], why;
    do why = posix_fallocate(file, (off_t)s->used, (off_t)room);
    while (why == EINTR);
    void *base = MAP_FAILED;
    if (!why) base = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, file, (off_t)s->used);
    if (base == MAP_FAILED)
        return TL_FAIL(TL_ENOMEM, "%zu bytes of memory that processes share: %s", bytes,
                       strerror(why ? why : errno));
    pieces[s->piece_count] = (tli_shm_piece){base, s->used, room, use, use == TLI_SHM_STAGE};
    s->used += room;
    *out = s->piece_count++;
    return TL_OK;
}

static void *alloc(tl_comm *c, size_t bytes, tli_shm_use use)
{
    tli_shm *s = c->inner;
    int64_t piece;
    void *out;
    if (s->place) return place_alloc(&out, s->place, bytes) == TL_OK ? out : NULL;
    if (bytes > SIZE_MAX / 4) {
        (void)TL_FAIL_NOMEM(bytes);
        return NULL;
    }
    return new_piece(c, &piece, bytes, use) == TL_OK ? s->pieces[piece].base : NULL;
}

void *tli_shm_alloc(tl_comm *c, size_t bytes)
{
    return alloc(c, bytes, TLI_SHM_OWN);
}

static const tli_shm_piece *piece_with(const tli_shm *s, const char *data, size_t bytes)
{
    for (int64_t i = 0; i < s->piece_count; i++) {
        const tli_shm_piece *p = &s->pieces[i];
        if (data >= p->base && data < p->base + p->bytes)
            return bytes <= p->bytes - (size_t)(data - p->base) ? p : NULL;
    }
    return NULL;
}

/* Of threads nobody else's memory is meant by an address. */
size_t tli_shm_release(tl_comm *c, void *data, size_t bytes)
{
    const tli_shm *s = c->inner;
    if (s->place) return tli_reserve_drop(data, 0, bytes);
    const tli_shm_piece *p = piece_with(s, data, bytes);
    if (!p || p->use != TLI_SHM_OWN) return 0;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t at = p->offset + (uint64_t)((const char *)data - p->base);
    const uint64_t first = (at + page - 1) / page * page, end = (at + bytes) / page * page;
    if (first >= end) return 0;
    return fallocate(s->files[c->rank], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
                     (off_t)(end - first))
                   == 0
               ? (size_t)(end - first)
               : 0;
}

/* One that is free and not far too large, else a new one, for the next ones too. */
static tl_status take_stage(tl_comm *c, int64_t *out, size_t bytes)
{
    tli_shm *s = c->inner;
    size_t room = TLI_SHM_PAGE;
    while (room < bytes) room *= 2;
    for (int64_t i = 0; i < s->piece_count; i++) {
        tli_shm_piece *p = &s->pieces[i];
        if (p->use != TLI_SHM_STAGE || p->busy || p->bytes < bytes || p->bytes > 2 * room) continue;
        p->busy = true;
        *out = i;
        return TL_OK;
    }
    return new_piece(c, out, room, TLI_SHM_STAGE);
}

tl_status tli_shm_show(tl_comm *c, tli_shm_where *out, int64_t *piece, const void *data,
                       size_t bytes, bool copy)
{
    tli_shm *s = c->inner;
    *piece = -1;
    *out = (tli_shm_where){0, bytes};
    if (!bytes) return TL_OK;
    if (s->place) {
        out->at = (uintptr_t)data;
        return TL_OK;
    }
    const tli_shm_piece *p = piece_with(s, data, bytes);
    if (p) {
        out->at = p->offset + (uint64_t)((const char *)data - p->base);
        return TL_OK;
    }
    TL_TRY(take_stage(c, piece, bytes));
    out->at = s->pieces[*piece].offset;
    if (copy) memcpy(s->pieces[*piece].base, data, bytes);
    return TL_OK;
}

/* --- peers' memory ---------------------------------------------------------------------------- */

static tl_status see_more(tl_comm *c, int32_t rank, uint64_t bytes)
{
    tli_shm *s = c->inner;
    struct stat st;
    if (fstat(s->files[rank], &st) < 0 || (uint64_t)st.st_size < bytes)
        return TL_FAIL(TL_EPEER, "rank %" PRId32 " shows memory that it does not have", rank);
    void *base =
        mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, s->files[rank], 0);
    if (base == MAP_FAILED)
        return TL_FAIL(TL_ENOMEM, "%zu bytes of rank %" PRId32 " cannot be seen: %s",
                       (size_t)st.st_size, rank, strerror(errno));
    if (s->peers[rank].base) munmap(s->peers[rank].base, s->peers[rank].bytes);
    s->peers[rank].base = base;
    s->peers[rank].bytes = (size_t)st.st_size;
    return TL_OK;
}

tl_status tli_shm_see(tl_comm *c, void **out, int32_t rank, tli_shm_where where)
{
    tli_shm *s = c->inner;
    *out = NULL;
    if (!where.bytes) return TL_OK;
    if (s->place) {
        *out = (void *)(uintptr_t)where.at;
        return TL_OK;
    }
    if (where.at > INT64_MAX || where.bytes > INT64_MAX - where.at)
        return TL_FAIL(TL_EPEER, "rank %" PRId32 " shows memory that it does not have", rank);
    if (where.at + where.bytes > s->peers[rank].bytes)
        TL_TRY(see_more(c, rank, where.at + where.bytes));
    *out = s->peers[rank].base + where.at;
    return TL_OK;
}

/* --- memory in common ------------------------------------------------------------------------- */

/* tli_shm_see maps a peer's memory anew when it has grown; this one stays where it is. */
static tl_status map_common(tl_comm *c, void **out, tli_shm_where where)
{
    tli_shm *s = c->inner;
    struct stat st;
    void *common = tl_realloc(s->common, (size_t)(s->common_count + 1) * sizeof *s->common);
    if (!common) return TL_FAIL_NOMEM((size_t)(s->common_count + 1) * sizeof *s->common);
    s->common = common;
    if (fstat(s->files[0], &st) < 0 || (uint64_t)st.st_size < where.bytes
        || where.at > (uint64_t)st.st_size - where.bytes)
        return TL_FAIL(TL_EPEER, "rank 0 shares memory that it does not have");
    void *base =
        mmap(NULL, where.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, s->files[0], (off_t)where.at);
    if (base == MAP_FAILED)
        return TL_FAIL(TL_ENOMEM, "%" PRIu64 " bytes that all processes share: %s", where.bytes,
                       strerror(errno));
    s->common[s->common_count].base = base;
    s->common[s->common_count++].bytes = where.bytes;
    *out = base;
    return TL_OK;
}

tl_status tli_shm_share(tl_comm *c, void **out, size_t bytes)
{
    const tli_shm *s = c->inner;
    tli_shm_where where = {0, 0}; // rank 0 has none
    int64_t piece;
    tl_error error;
    tl_status st = TL_OK;
    if (c->rank == 0) {
        *out = alloc(c, bytes, TLI_SHM_COMMON);
        st = *out ? tli_shm_show(c, &where, &piece, *out, bytes, false) : tl_error_code();
        if (st != TL_OK) tl_error_save(&error);
    }
    TL_TRY(tl_comm_broadcast(c->world, &where, sizeof where, 0));
    if (st != TL_OK) tl_error_restore(&error);
    if (c->rank == 0) return st;
    if (where.bytes != bytes)
        return TL_FAIL(TL_EPEER, "rank 0 has no %zu bytes for all processes", bytes);
    if (!s->place) return map_common(c, out, where);
    *out = (void *)(uintptr_t)where.at;
    return TL_OK;
}

static void unmap_common(tli_shm *s)
{
    for (int64_t i = 0; i < s->common_count; i++) munmap(s->common[i].base, s->common[i].bytes);
    s->common_count = 0;
}

/* Of threads it stays: the place has it. Pieces keep their numbers. */
void tli_shm_unshare(tl_comm *c)
{
    tli_shm *s = c->inner;
    if (s->place) return;
    unmap_common(s);
    for (int64_t i = 0; i < s->piece_count; i++) {
        tli_shm_piece *p = &s->pieces[i];
        if (p->use != TLI_SHM_COMMON || !p->bytes) continue;
        munmap(p->base, p->bytes);
        (void)!fallocate(s->files[c->rank], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         (off_t)p->offset, (off_t)p->bytes);
        p->bytes = 0;
    }
}

void tli_shm_memory_close(tl_comm *c)
{
    tli_shm *s = c->inner;
    unmap_common(s);
    tl_free(s->common);
    for (int64_t i = 0; i < s->piece_count; i++)
        if (s->pieces[i].bytes) munmap(s->pieces[i].base, s->pieces[i].bytes);
    for (int32_t r = 0; s->peers && r < c->size; r++)
        if (s->peers[r].base) munmap(s->peers[r].base, s->peers[r].bytes);
    for (int32_t r = 0; s->files && r < c->size; r++)
        if (s->files[r] >= 0) close(s->files[r]);
    tl_free(s->pieces);
    tl_free(s->peers);
    tl_free(s->files);
}
