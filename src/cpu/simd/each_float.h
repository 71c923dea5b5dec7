/* Includes the file that BODY names once for each storage type. In it
 *
 *     T               is float, tli_bf16, tli_f16;
 *     T_NAME(x)       is x_f32, x_bf16, x_f16: for everything it defines;
 *     T_LOAD(p)       T_LOAD_N(p, n)  T_STORE(p, x)  T_STORE_N(p, x, n)  are vf_load_f32 ... ;
 *     T_LOAD_PAIR(p, pair)  loads two vectors that lie next to each other;
 *     T_GET(v)        T_PUT(f)  convert one value from and to float.
 *
 *     #define BODY "cpu/simd/layer_norm.inc"
 *     #include "cpu/simd/each_float.h"
 *
 * BODY is undefined afterwards. */
#include "cpu/simd/vec.h"

#define T_JOIN_(a, b) a##_##b
#define T_JOIN(a, b) T_JOIN_(a, b)
#define T_NAME(x) T_JOIN(x, T_SHORT)
#define T T_JOIN(tli, T_SHORT)
#define T_LOAD T_JOIN(vf_load, T_SHORT)
#define T_LOAD_N T_JOIN(T_LOAD, n)
#define T_LOAD_PAIR T_JOIN(T_LOAD, pair)
#define T_STORE T_JOIN(vf_store, T_SHORT)
#define T_STORE_N T_JOIN(T_STORE, n)
#define T_GET T_JOIN(tli_get, T_SHORT)
#define T_PUT T_JOIN(tli_put, T_SHORT)

#define T_SHORT f32
#include BODY
#undef T_SHORT
#define T_SHORT bf16
#include BODY
#undef T_SHORT
#define T_SHORT f16
#include BODY
#undef T_SHORT

#undef T_JOIN_
#undef T_JOIN
#undef T_NAME
#undef T
#undef T_LOAD
#undef T_LOAD_N
#undef T_LOAD_PAIR
#undef T_STORE
#undef T_STORE_N
#undef T_GET
#undef T_PUT
#undef BODY
