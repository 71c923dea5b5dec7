/* What a kernel of a loop nest is written in: groups of threads, regions that each thread runs, and
 * what they bring together. In CUDA C a region is the thread's own; in plain C it is a loop over
 * the threads of a group, so that tests can run the text on the host.
 *
 *     PER_THREAD(128, float, mine, );          one for each thread, seen by later regions
 *     EACH_THREAD(128) { MY(mine) = x[t]; }    t is the thread
 *     REDUCE(128, float, sum, add_f, mine)     the same tree on both: `sum` is everybody's
 *     REDUCE_EACH(128, float, sums, add_f, some, 4)   the same of arrays of 4
 *     ONE_THREAD(128) { *y = sum; }
 *     SHARED(u32, counts, [256]);              one for the group, seen by all behind BARRIER(128)
 *     MEET                                     groups that run at once go on when they have heard
 *                                              of each other, of which the text takes care; on
 *                                              the host all run up to here first, then again
 *     if (CLAIM(&word)) ...                    true for one thread of all, once
 *     ROOM(128, bytes, 4096)                   the group's memory that its start asked for
 *     COPY_AHEAD(bytes + 16 * t, x + t)        16 bytes are on their way there,
 *     COPIES_END                               with all that were before
 *     COPIES_WAIT(1)                           all but the last 1 of such lots are there, for the
 *                                              thread that copied them
 *
 * KERNEL(threads) stands before a kernel; KERNEL_OF_MANY lets a processor have so many threads of
 * it at once, whose registers are as few as that takes.
 *
 * What stands outside of regions every thread computes alike. A group of 32 threads is a warp, and
 * a block has four of them; a larger one is a block.
 *
 * Put before number.h; included nowhere. Thread word: free-threaded. */

// clang-format off
#ifdef __CUDACC__

#define __INT8_TYPE__ signed char
#define __INT16_TYPE__ short
#define __INT32_TYPE__ int
#define __INT64_TYPE__ long long
#define __UINT8_TYPE__ unsigned char
#define __UINT16_TYPE__ unsigned short
#define __UINT32_TYPE__ unsigned
#define __UINT64_TYPE__ unsigned long long
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
#define __builtin_fmaf(a, b, c) __fmaf_rn(a, b, c)
#define __builtin_fma(a, b, c) __fma_rn(a, b, c)
#define __builtin_sqrtf(x) __fsqrt_rn(x)
#define __builtin_sqrt(x) __dsqrt_rn(x)
#define __builtin_floorf(x) floorf(x)
#define __builtin_floor(x) floor(x)
#define __builtin_ceilf(x) ceilf(x)
#define __builtin_ceil(x) ceil(x)
#define __builtin_rintf(x) rintf(x)
#define __builtin_rint(x) rint(x)
#define __builtin_truncf(x) truncf(x)
#define __builtin_trunc(x) trunc(x)
#define __builtin_pow(x, y) pow(x, y)
#define __builtin_exp(x) exp(x)
#define __builtin_log(x) log(x)
#define __builtin_sin(x) sin(x)
#define __builtin_cos(x) cos(x)

#define ALIGNED __align__(16)
#define FN static __device__ __forceinline__
#define RESTRICT __restrict__
#define KERNEL(threads)                                                                            \
    extern "C" __global__ void __launch_bounds__((threads) == 32 ? 128 : (threads))
#define KERNEL_OF_MANY(threads, many)                                                              \
    extern "C" __global__ void __launch_bounds__((threads) == 32 ? 128 : (threads),                \
                                                 (many) / ((threads) == 32 ? 128 : (threads)))
#define GROUP_PARAM
/* Whoever comes next may be on its way from the start; what came before has to be over. */
#if __CUDA_ARCH__ >= 900
#define TAKE_TURN                                                                                  \
    asm volatile("griddepcontrol.launch_dependents;\n\tgriddepcontrol.wait;" ::: "memory");
#else
#define TAKE_TURN
#endif
#define GROUP_BEGIN(threads, groups)                                                               \
    TAKE_TURN                                                                                      \
    const i64 block_ = (i64)blockIdx.x;                                                            \
    const i64 group = (threads) == 32 ? block_ * 4 + (threadIdx.x >> 5) : block_;                  \
    if (group >= (groups)) return;
#define UNROLL _Pragma("unroll")
#define EACH_THREAD(threads)                                                                       \
    for (int t = (int)(threadIdx.x % (threads)), once_ = 1; once_; once_ = 0)
#define ONE_THREAD(threads) if (threadIdx.x % (threads) == 0)
#define SYNC(threads) __syncthreads()
#define BARRIER(threads) { if ((threads) == 32) __syncwarp(); else SYNC(threads); }
#define PER_THREAD(threads, type, name, size) type name size
#define MY(name) name
#define SHARED(type, name, size) __shared__ type name size
#define MEET
#define CLAIM(word) (atomicCAS(word, 0u, 1u) == 0u)
#define ROOM(threads, name, bytes)                                                                 \
    extern __shared__ ALIGNED char room_[];                                                        \
    char *const name = room_ + ((threads) == 32 ? (int)(threadIdx.x >> 5) * (bytes) : 0);
#define COPY_AHEAD(to, from)                                                                       \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(                                \
                     (unsigned)__cvta_generic_to_shared(to)),                                      \
                 "l"(from)                                                                         \
                 : "memory");
#define COPIES_END asm volatile("cp.async.commit_group;" ::: "memory");
#define COPIES_WAIT(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory");
#define REDUCE(threads, type, name, join, mine)                                                    \
    type name;                                                                                     \
    {                                                                                              \
        __shared__ type warps_[32];                                                                \
        name = mine;                                                                               \
        for (int o_ = 16; o_; o_ >>= 1) name = join(name, __shfl_xor_sync(~0u, name, o_));         \
        if ((threads) == 32) {                                                                     \
            name = __shfl_sync(~0u, name, 0);                                                      \
        } else {                                                                                   \
            SYNC(threads);                                                                         \
            if ((threadIdx.x & 31) == 0) warps_[threadIdx.x >> 5] = name;                          \
            SYNC(threads);                                                                         \
            name = warps_[0];                                                                      \
            for (int w_ = 1; w_ < (threads) / 32; w_++) name = join(name, warps_[w_]);             \
        }                                                                                          \
    }
#define REDUCE_EACH(threads, type, name, join, mine, count)                                        \
    type name[count];                                                                              \
    UNROLL for (int k_ = 0; k_ < (count); k_++) name[k_] = mine[k_];                               \
    UNROLL for (int o_ = 16; o_; o_ >>= 1)                                                         \
        UNROLL for (int k_ = 0; k_ < (count); k_++)                                                \
            name[k_] = join(name[k_], __shfl_xor_sync(~0u, name[k_], o_));                         \
    if ((threads) > 32) {                                                                          \
        __shared__ ALIGNED type warps_[((threads) + 31) / 32][count];                              \
        SYNC(threads);                                                                             \
        if ((threadIdx.x & 31) == 0)                                                               \
            UNROLL for (int k_ = 0; k_ < (count); k_++) warps_[threadIdx.x >> 5][k_] = name[k_];   \
        SYNC(threads);                                                                             \
        UNROLL for (int k_ = 0; k_ < (count); k_++) name[k_] = warps_[0][k_];                      \
        for (int w_ = 1; w_ < (threads) / 32; w_++)                                                \
            UNROLL for (int k_ = 0; k_ < (count); k_++) name[k_] = join(name[k_], warps_[w_][k_]); \
    }
#define JOIN_VECTORS(threads, type, name, join, columns, each)                                     \
    UNROLL for (int j_ = 0; j_ < (each); j_++) {                                                   \
        __shared__ type lanes_[threads];                                                           \
        SYNC(threads);                                                                             \
        lanes_[threadIdx.x] = name[j_];                                                            \
        SYNC(threads);                                                                             \
        if (threadIdx.x < (columns))                                                               \
            for (int l_ = (columns); l_ < (threads); l_ += (columns))                              \
                name[j_] = join(name[j_], lanes_[l_ + threadIdx.x]);                               \
    }

#else

#define ALIGNED
#define FN static inline __attribute__((always_inline, unused))
#define RESTRICT restrict
#define KERNEL(threads) static void
#define KERNEL_OF_MANY(threads, many) static void
#define GROUP_PARAM , i64 group
#define GROUP_BEGIN(threads, groups)
#define UNROLL
#define EACH_THREAD(threads) for (int t = 0; t < (threads); t++)
#define ONE_THREAD(threads)
#define BARRIER(threads)
#define PER_THREAD(threads, type, name, size) type name[threads] size
#define MY(name) name[t]
#define SHARED(type, name, size) type name size
static int met_ __attribute__((unused));
#define MEET if (!met_) return;
#define CLAIM(word) (*(word) ? 0u : (*(word) = 1u))
#define ROOM(threads, name, bytes) char name[bytes] __attribute__((aligned(16)));
#define COPY_AHEAD(to, from) __builtin_memcpy(to, from, 16);
#define COPIES_END
#define COPIES_WAIT(left)
#define REDUCE(threads, type, name, join, mine)                                                    \
    type name = mine[0];                                                                           \
    {                                                                                              \
        type warp_[32], other_[32];                                                                \
        for (int w_ = 0; w_ < (threads); w_ += 32) {                                               \
            for (int l_ = 0; l_ < 32; l_++) warp_[l_] = mine[w_ + l_];                             \
            for (int o_ = 16; o_; o_ >>= 1) {                                                      \
                for (int l_ = 0; l_ < 32; l_++) other_[l_] = join(warp_[l_], warp_[l_ ^ o_]);      \
                for (int l_ = 0; l_ < 32; l_++) warp_[l_] = other_[l_];                            \
            }                                                                                      \
            name = w_ ? join(name, warp_[0]) : warp_[0];                                           \
        }                                                                                          \
    }
#define REDUCE_EACH(threads, type, name, join, mine, count)                                        \
    type name[count];                                                                              \
    for (int k_ = 0; k_ < (count); k_++) {                                                         \
        type one_[threads];                                                                        \
        for (int t_ = 0; t_ < (threads); t_++) one_[t_] = mine[t_][k_];                            \
        REDUCE(threads, type, whole_, join, one_)                                                  \
        name[k_] = whole_;                                                                         \
    }
#define JOIN_VECTORS(threads, type, name, join, columns, each)                                     \
    for (int l_ = (columns); l_ < (threads); l_++)                                                 \
        for (int j_ = 0; j_ < (each); j_++)                                                        \
            name[l_ % (columns)][j_] = join(name[l_ % (columns)][j_], name[l_][j_]);

#endif
#define JOIN_LANES(threads, type, name, join, columns)                                             \
    JOIN_VECTORS(threads, type, name, join, columns, 1)
/* What a thread loads and stores at once. */
typedef struct ALIGNED vector_float { float x[8]; } vector_float;
typedef struct ALIGNED vector_u16 { unsigned short x[8]; } vector_u16;
#define IS_ALIGNED(at) ((unsigned long long)(at) % 16 == 0)
// clang-format on
