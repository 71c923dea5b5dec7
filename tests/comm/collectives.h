/* All collectives of one rank against a plain reference, bit for bit. Every transport runs it. */
#ifndef TILTH_TESTS_COMM_COLLECTIVES_H
#define TILTH_TESTS_COMM_COLLECTIVES_H

#include <stdlib.h>

#include <tilth/base/alloc.h>

#include "core/inner/half.h"
#include "ranks.h"

/* What a transport is opened with. */
typedef struct collectives {
    const tl_comm_class *cls;
    bool ordinary; /* memory of the C library, not of tl_comm_alloc */
} collectives;

/* --- sums: the reference ---------------------------------------------------------------------- */

/* Numbers of all sizes, so that every order of adding has bits of its own. */
static inline float lane_number(int64_t lane, int64_t i)
{
    uint32_t x = (uint32_t)(lane * 7919 + i * 104729 + 12345);
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    float unit = (float)(x >> 8) * 0x1p-24f - 0.5f;
    return ldexpf(unit, (int)(x % 13));
}

static inline void put_number(void *data, tl_dtype dtype, int64_t i, float v)
{
    switch (dtype) {
    case TL_F32: ((float *)data)[i] = v; break;
    case TL_F64: ((double *)data)[i] = (double)v * 1.000000123; break;
    case TL_BF16: ((uint16_t *)data)[i] = tli_to_bf16(v); break;
    case TL_F16: ((uint16_t *)data)[i] = tli_to_f16(v); break;
    case TL_I8:
    case TL_U8: ((uint8_t *)data)[i] = (uint8_t)(int)(v * 50); break;
    case TL_I16: ((uint16_t *)data)[i] = (uint16_t)(int)(v * 5000); break;
    case TL_I32: ((uint32_t *)data)[i] = (uint32_t)(int)(v * 500000); break;
    default: ((uint64_t *)data)[i] = (uint64_t)(int64_t)((double)v * 5e13); break;
    }
}

/* One element of the block's sum, by the words of lanes.h: as a double where that is exact. */
static inline double block_float(tl_dtype dtype, int64_t lanes, int64_t first, int64_t width,
                                 int64_t i)
{
    if (width == 1) {
        union {
            float f;
            double d;
            uint16_t h;
        } u;
        put_number(&u, dtype, 0, lane_number(first, i));
        if (dtype == TL_F32) return (double)u.f;
        if (dtype == TL_F64) return u.d;
        return (double)(dtype == TL_BF16 ? tli_from_bf16(u.h) : tli_from_f16(u.h));
    }
    double left = block_float(dtype, lanes, first, width / 2, i);
    if (first + width / 2 >= lanes) return left;
    double right = block_float(dtype, lanes, first + width / 2, width / 2, i);
    if (dtype == TL_F64) return left + right;
    float sum = (float)left + (float)right;
    if (dtype == TL_F32) return (double)sum;
    return (double)(dtype == TL_BF16 ? tli_from_bf16(tli_to_bf16(sum))
                                     : tli_from_f16(tli_to_f16(sum)));
}

static inline void put_expected(void *data, tl_dtype dtype, int64_t lanes, int64_t i)
{
    int64_t width = 1;
    while (width < lanes) width *= 2;
    if (tl_dtype_is_float(dtype)) {
        double sum = block_float(dtype, lanes, 0, width, i);
        if (dtype == TL_F64) ((double *)data)[i] = sum;
        else put_number(data, dtype, i, (float)sum);
        return;
    }
    uint64_t sum = 0, one = 0;
    for (int64_t lane = 0; lane < lanes; lane++) {
        put_number(&one, dtype, 0, lane_number(lane, i));
        sum += one;
    }
    memcpy((char *)data + (size_t)i * tl_dtype_size(dtype), &sum, tl_dtype_size(dtype));
}

/* --- one rank --------------------------------------------------------------------------------- */

static inline void *rank_memory(tl_comm *c, const collectives *how, size_t bytes)
{
    return how->ordinary ? tl_alloc_zero(bytes) : tl_comm_alloc(c, bytes);
}

static inline void rank_free(const collectives *how, void *memory)
{
    if (how->ordinary) tl_free(memory);
}

/* The rank's partials, added lane by lane on a stack. */
static inline int64_t rank_partials(void **partials, const tl_lanes *l, int64_t rank,
                                    tl_dtype dtype, int64_t count)
{
    tl_lane_run run = tl_lanes_of(l, rank);
    int64_t height = 0;
    for (int64_t lane = run.first; lane < run.first + run.count; lane++) {
        for (int64_t i = 0; i < count; i++)
            put_number(partials[height], dtype, i, lane_number(lane, i));
        height++;
        for (int64_t merges = tl_lanes_merges(l, rank, lane); merges > 0; merges--) {
            height--;
            if (tl_lanes_add(dtype, partials[height - 1], partials[height - 1], partials[height],
                             count)
                != TL_OK)
                return -1;
        }
    }
    return height;
}

static inline int check_sum(const tl_comm_args *args, tl_comm *c, const collectives *how,
                            int64_t lanes, tl_dtype dtype, int64_t count)
{
    tl_lanes l = {lanes, c->size};
    tl_lane_block blocks[TL_LANE_BLOCKS];
    void *partials[TL_LANE_BLOCKS];
    const size_t size = tl_dtype_size(dtype), bytes = (size_t)count * size;
    int64_t deepest = tl_lanes_blocks(&l, c->rank, blocks) + 4;
    for (int64_t i = 0; i < deepest; i++) RANK_CHECK(partials[i] = rank_memory(c, how, bytes + 8));
    char *expected = tl_alloc_zero(bytes + 8), *piece = rank_memory(c, how, bytes + 8);
    RANK_CHECK(expected && piece);
    for (int64_t i = 0; i < count; i++) put_expected(expected, dtype, lanes, i);
    RANK_CHECK(rank_partials(partials, &l, c->rank, dtype, count)
               == tl_lanes_blocks(&l, c->rank, blocks));
    const tl_comm_sum sum = {.dtype = dtype,
                             .count = count,
                             .lanes = lanes,
                             .partials = (const void *const *)partials,
                             .out = piece};
    // The pieces first: they leave the partials alone.
    RANK_CHECK(tl_comm_reduce_scatter(c->world, &sum) == TL_OK);
    size_t from = (size_t)tl_comm_cut(count, dtype, c->rank, c->size) * size;
    size_t to = (size_t)tl_comm_cut(count, dtype, c->rank + 1, c->size) * size;
    RANK_CHECK(memcmp(piece, expected + from, to - from) == 0);
    tl_comm_sum own = sum;
    int64_t cuts[TL_COMM_SHM_RANKS + 1] = {0}; // the last rank has all but one, the others none
    for (int32_t r = 1; r <= c->size; r++) cuts[r] = r == c->size ? count : count > 0 && r > 1;
    own.cuts = cuts;
    RANK_CHECK(tl_comm_reduce_scatter(c->world, &own) == TL_OK);
    RANK_CHECK(memcmp(piece, expected + (size_t)cuts[c->rank] * size,
                      (size_t)(cuts[c->rank + 1] - cuts[c->rank]) * size)
               == 0);
    RANK_CHECK(tl_comm_all_reduce(c->world, &sum) == TL_OK);
    RANK_CHECK(memcmp(piece, expected, bytes) == 0);
    // In place, and over again with the result overwritten at once.
    own = sum;
    own.out = partials[0];
    RANK_CHECK(tl_comm_all_reduce(c->world, &own) == TL_OK);
    RANK_CHECK(memcmp(partials[0], expected, bytes) == 0);
    memset(partials[0], 0xff, bytes);
    RANK_CHECK(rank_partials(partials, &l, c->rank, dtype, count) > 0);
    RANK_CHECK(tl_comm_all_reduce(c->world, &own) == TL_OK);
    RANK_CHECK(memcmp(partials[0], expected, bytes) == 0);
    for (int64_t i = 0; i < deepest; i++) rank_free(how, partials[i]);
    rank_free(how, piece);
    tl_free(expected);
    return 0;
}

static inline int check_sums(const tl_comm_args *args, tl_comm *c, const collectives *how)
{
    static const tl_dtype others[] = {TL_F64, TL_BF16, TL_F16, TL_I8,
                                      TL_U8,  TL_I16,  TL_I32, TL_I64};
    static const int64_t counts[] = {0, 1, 3, 17, 1000, 2051, 20011};
    const int64_t lanes[] = {c->size, 8, 13};
    for (int64_t i = 0; i < TL_COUNT(lanes); i++)
        for (int64_t k = 0; k < TL_COUNT(counts); k++)
            RANK_CHECK(check_sum(args, c, how, lanes[i], TL_F32, counts[k]) == 0);
    for (int64_t i = 0; i < TL_COUNT(others); i++)
        for (int64_t k = 1; k <= 2; k++)
            RANK_CHECK(check_sum(args, c, how, 8, others[i], k * 1201) == 0);
    return 0;
}

/* --- moving bytes ----------------------------------------------------------------------------- */

/* What `from` sends `to`: of a length of its own, sometimes nothing. */
static inline size_t part_bytes(int32_t from, int32_t to, size_t unit)
{
    return (size_t)((from * 3 + to * 5) % 7) * unit;
}

static inline void fill_part(unsigned char *data, size_t bytes, int32_t from, int32_t to)
{
    for (size_t i = 0; i < bytes; i++) data[i] = (unsigned char)(from * 31 + to * 17 + (int)i * 7);
}

static inline bool is_part(const unsigned char *data, size_t bytes, int32_t from, int32_t to)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != (unsigned char)(from * 31 + to * 17 + (int)i * 7)) return false;
    return true;
}

static inline int check_moves(const tl_comm_args *args, tl_comm *c, const collectives *how,
                              size_t unit)
{
    enum { MOST = 8 };
    const size_t each = 7 * unit + 1;
    unsigned char *out = rank_memory(c, how, each * MOST), *in = rank_memory(c, how, each * MOST);
    tl_part send[MOST], recv[MOST];
    RANK_CHECK(out && in && c->size <= MOST);
    for (int32_t r = 0; r < c->size; r++) {
        send[r] = (tl_part){out + each * (size_t)r, part_bytes(c->rank, r, unit)};
        recv[r] = (tl_part){in + each * (size_t)r, part_bytes(r, c->rank, unit)};
        fill_part(send[r].data, send[r].bytes, c->rank, r);
    }
    RANK_CHECK(tl_comm_all_to_all(c->world, send, recv) == TL_OK);
    for (int32_t r = 0; r < c->size; r++)
        RANK_CHECK(is_part(recv[r].data, recv[r].bytes, r, c->rank));
    // Pieces of all, and ours is overwritten as soon as the call is done.
    for (int32_t r = 0; r < c->size; r++) recv[r].bytes = part_bytes(r, r, unit);
    send[0].bytes = part_bytes(c->rank, c->rank, unit);
    fill_part(send[0].data, send[0].bytes, c->rank, c->rank);
    RANK_CHECK(tl_comm_all_gather(c->world, send, recv) == TL_OK);
    memset(send[0].data, 0xee, send[0].bytes);
    for (int32_t r = 0; r < c->size; r++) RANK_CHECK(is_part(recv[r].data, recv[r].bytes, r, r));
    for (int32_t root = 0; root < c->size; root++) {
        memset(in, 0, 6 * unit);
        if (c->rank == root) fill_part(in, 6 * unit, root, 99);
        RANK_CHECK(tl_comm_broadcast(c->world, in, 6 * unit, root) == TL_OK);
        RANK_CHECK(is_part(in, 6 * unit, root, 99));
    }
    RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    rank_free(how, out);
    rank_free(how, in);
    return 0;
}

/* Around the ring, all sending before they receive, several messages under way. */
static inline int check_messages(const tl_comm_args *args, tl_comm *c, const collectives *how)
{
    enum { COUNT = 20000 };
    int32_t next = (c->rank + 1) % c->size, last = (c->rank + c->size - 1) % c->size;
    if (c->size == 1) return 0;
    unsigned char *out = rank_memory(c, how, 3 * COUNT), *in = rank_memory(c, how, 3 * COUNT);
    tl_comm_work sends[3], recvs[3];
    tl_part to[3], from[3];
    RANK_CHECK(out && in);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 3; i++) {
            fill_part(out + i * COUNT, COUNT, c->rank, round * 3 + i);
            to[i] = (tl_part){out + i * COUNT, COUNT};
            RANK_CHECK(
                tl_comm_begin(&sends[i], c->world,
                              &(tl_comm_call){.kind = TL_COMM_SEND, .send = &to[i], .peer = next})
                == TL_OK);
        }
        for (int i = 0; i < 3; i++) {
            from[i] = (tl_part){in + i * COUNT, COUNT};
            RANK_CHECK(
                tl_comm_begin(&recvs[i], c->world,
                              &(tl_comm_call){.kind = TL_COMM_RECV, .recv = &from[i], .peer = last})
                == TL_OK);
            RANK_CHECK(tl_comm_wait(&recvs[i]) == TL_OK);
            RANK_CHECK(is_part(from[i].data, COUNT, last, round * 3 + i));
        }
        for (int i = 0; i < 3; i++) RANK_CHECK(tl_comm_wait(&sends[i]) == TL_OK);
    }
    rank_free(how, out);
    rank_free(how, in);
    return 0;
}

/* --- groups, and several calls under way ------------------------------------------------------ */

static inline int check_groups(const tl_comm_args *args, tl_comm *c)
{
    int32_t even[8], odd[8], evens = 0, odds = 0;
    for (int32_t r = 0; r < c->size; r++) *(r % 2 ? &odd[odds++] : &even[evens++]) = r;
    tl_comm_group *a, *b = NULL;
    RANK_CHECK(tl_comm_split(&a, c, even, evens) == TL_OK);
    if (odds) RANK_CHECK(tl_comm_split(&b, c, odd, odds) == TL_OK);
    tl_comm_group *mine = c->rank % 2 ? b : a;
    RANK_CHECK(mine && (c->rank % 2 ? !a : !b || a != b));
    for (int round = 0; round < 20; round++) {
        int64_t value = c->rank + round, sum = 0, expected = 0;
        for (int32_t i = 0; i < mine->size; i++) expected += mine->ranks[i] + round;
        RANK_CHECK(
            tl_comm_all_reduce(mine, &(tl_comm_sum){.dtype = TL_I64,
                                                    .count = 1,
                                                    .lanes = mine->size,
                                                    .partials = (const void *const[]){&value},
                                                    .out = &sum})
            == TL_OK);
        RANK_CHECK(sum == expected);
    }
    return 0;
}

static inline int check_under_way(const tl_comm_args *args, tl_comm *c, const collectives *how)
{
    enum { COUNT = 20000 }; // large ones go over machines
    int32_t *data = rank_memory(c, how, sizeof *data * COUNT * TL_COMM_UNDER_WAY);
    tl_comm_work w[TL_COMM_UNDER_WAY], more;
    const void *partials[TL_COMM_UNDER_WAY];
    RANK_CHECK(data);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < TL_COMM_UNDER_WAY; i++) {
            int32_t *block = data + i * COUNT;
            for (int k = 0; k < COUNT; k++) block[k] = c->rank + i + k + round;
            partials[i] = block;
            const tl_comm_call call = {.kind = TL_COMM_ALL_REDUCE,
                                       .sum = {.dtype = TL_I32,
                                               .count = i % 3 ? COUNT : 10,
                                               .lanes = c->size,
                                               .partials = &partials[i],
                                               .out = block}};
            RANK_CHECK(tl_comm_begin(&w[i], c->world, &call) == TL_OK);
        }
        RANK_CHECK(tl_comm_begin(&more, c->world, &(tl_comm_call){.kind = TL_COMM_BARRIER})
                   == TL_ESTATE);
        for (int i = 0; i < TL_COMM_UNDER_WAY; i++) {
            RANK_CHECK(tl_comm_wait(&w[i]) == TL_OK);
            for (int k = 0; k < (i % 3 ? COUNT : 10); k++)
                RANK_CHECK(data[i * COUNT + k]
                           == c->size * (c->size - 1) / 2 + c->size * (i + k + round));
        }
    }
    rank_free(how, data);
    return 0;
}

/* Sums that are taken on in between, in any order; what is left is waited for. */
static inline int check_advance(const tl_comm_args *args, tl_comm *c, const collectives *how)
{
    enum { COUNT = 20000, ROUNDS = 4 };
    int32_t *data = rank_memory(c, how, sizeof *data * COUNT * TL_COMM_UNDER_WAY);
    tl_comm_work w[TL_COMM_UNDER_WAY];
    const void *partials[TL_COMM_UNDER_WAY];
    RANK_CHECK(data);
    for (int round = 0; round < ROUNDS; round++) {
        bool done[TL_COMM_UNDER_WAY] = {false};
        for (int i = 0; i < TL_COMM_UNDER_WAY; i++) {
            int32_t *block = data + i * COUNT;
            const int64_t count = i % 4 == 3 ? 10 : COUNT;
            const bool scatter = i % 4 == 2;
            for (int k = 0; k < COUNT; k++) block[k] = c->rank + i + k + round;
            partials[i] = block;
            if ((i + c->rank) % 3 == round % 3) tl_sleep_ns(200000); // others are ahead
            const tl_comm_call call = {
                .kind = scatter ? TL_COMM_REDUCE_SCATTER : TL_COMM_ALL_REDUCE,
                .sum = {.dtype = TL_I32,
                        .count = count,
                        .lanes = c->size,
                        .partials = &partials[i],
                        .out = scatter ? block + tl_comm_cut(count, TL_I32, c->rank, c->size)
                                       : block}};
            RANK_CHECK(tl_comm_begin(&w[i], c->world, &call) == TL_OK);
            for (int k = i; k >= 0; k--)
                if (!done[k]) RANK_CHECK(tl_comm_advance(&w[k], &done[k]) == TL_OK);
        }
        // half of the rounds end without waiting, where the transport can tell
        for (int turn = 0; turn < (round % 2 && c->cls->ready ? 1000000 : 20); turn++) {
            const int i = (turn * 5 + c->rank) % TL_COMM_UNDER_WAY;
            int left = 0;
            if (!done[i]) RANK_CHECK(tl_comm_advance(&w[i], &done[i]) == TL_OK);
            for (int k = 0; k < TL_COMM_UNDER_WAY; k++) left += !done[k];
            if (!left) break;
            if (turn % 16 == 15) tl_sleep_ns(20000);
        }
        for (int i = 0; i < TL_COMM_UNDER_WAY; i++) {
            RANK_CHECK(!(round % 2) || done[i] || !c->cls->ready);
            if (!done[i]) RANK_CHECK(tl_comm_wait(&w[i]) == TL_OK);
            const int64_t count = i % 4 == 3 ? 10 : COUNT;
            const int64_t from = i % 4 == 2 ? tl_comm_cut(count, TL_I32, c->rank, c->size) : 0;
            const int64_t end =
                i % 4 == 2 ? tl_comm_cut(count, TL_I32, c->rank + 1, c->size) : count;
            for (int64_t k = from; k < end; k++)
                RANK_CHECK(data[i * COUNT + k]
                           == c->size * (c->size - 1) / 2 + c->size * (i + k + round));
        }
        RANK_CHECK(tl_comm_advance(&w[0], &done[0]) == TL_ESTATE);
        RANK_CHECK(c->world->under_way == 0);
    }
    rank_free(how, data);
    return 0;
}

/* Two ranks a machine: in two levels, and with the same bits. Other layouts stay at one. */
static inline int check_machines(const tl_comm_args *args, tl_comm *c, const collectives *how)
{
    int32_t machines[TL_COMM_SHM_RANKS];
    const char *why;
    for (int32_t r = 0; r < c->size; r++) machines[r] = r % 2; // no neighbours
    RANK_CHECK(tl_comm_set_machines(c, machines, c->size, &why) == TL_OK);
    RANK_CHECK(!c->world->levels && (c->size < 3 ? !why : why && strstr(why, "mixed")));
    for (int32_t r = 0; r < c->size; r++) machines[r] = r < 3 ? 0 : 1;
    RANK_CHECK(tl_comm_set_machines(c, machines, 3 * c->size, &why) == TL_OK);
    RANK_CHECK(!c->world->levels);
    RANK_CHECK(c->size != 4 || strstr(why, "different numbers"));
    for (int32_t r = 0; r < c->size; r++) machines[r] = r / 2;
    RANK_CHECK(tl_comm_set_machines(c, machines, 3 * c->size, &why) == TL_OK);
    RANK_CHECK(!c->world->levels && (c->size != 4 || strstr(why, "no subtree")));
    RANK_CHECK(tl_comm_set_machines(c, machines, c->size, &why) == TL_OK);
    RANK_CHECK(!c->world->levels == !(c->size == 4 || c->size == 8));
    if (!c->world->levels) return 0;
    const int64_t before = c->calls;
    RANK_CHECK(check_sum(args, c, how, c->size, TL_F32, 70001) == 0);
    RANK_CHECK(check_sum(args, c, how, c->size, TL_BF16, 40000) == 0);
    RANK_CHECK(c->calls - before > 4); // those of levels are calls, too
    RANK_CHECK(check_sum(args, c, how, 2 * c->size, TL_F32, 20000) == 0); // at one level
    return check_under_way(args, c, how);
}

static inline int check_collectives(const tl_comm_args *args, void *payload)
{
    const collectives *how = payload;
    tl_comm *c;
    RANK_CHECK(tl_comm_open(&c, how->cls, args) == TL_OK);
    RANK_CHECK(c->rank == args->rank && c->size == args->size);
    RANK_CHECK(check_sums(args, c, how) == 0);
    RANK_CHECK(check_moves(args, c, how, 3) == 0);
    RANK_CHECK(check_moves(args, c, how, 5000) == 0);
    RANK_CHECK(check_messages(args, c, how) == 0);
    RANK_CHECK(check_groups(args, c) == 0);
    RANK_CHECK(check_under_way(args, c, how) == 0);
    RANK_CHECK(check_advance(args, c, how) == 0);
    RANK_CHECK(check_machines(args, c, how) == 0);
    RANK_CHECK(tl_comm_barrier(c->world) == TL_OK);
    tl_comm_close(&c);
    return 0;
}

#endif
