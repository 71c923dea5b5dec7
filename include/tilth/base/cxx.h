/* For programs in C++20: what the macros of other headers need there, since C++ has neither
 * compound literals nor _Generic. Designators stand in the order of the members, and .a.b = x is
 * written .a = TL_INIT(.b = x):
 *
 *     tl_layer *head = tl_dense(s, "head", .units = 3, .activation = TL_ACT_RELU);
 *     static const tl_field fields[] = {
 *         TL_F(my_config, units, .i = 8, TL_AT_LEAST(1), .help = "units"), TL_F_END};
 *     static const tl_layer_class net_class = TL_INIT(
 *         .cls = TL_CLASS(tl_layer_class, "net", NULL, net, NULL),
 *         .build = build, .forward = forward);
 *     TL_TRY(tl_model_new(&m, TL_LITERAL(tl_model_args, .engine = e, .cls = &net_class)));
 *
 * TL_INIT and TL_LITERAL work in C as well; what TL_LITERAL points to lives, in C++, until the end
 * of the expression.
 *
 * Thread word: immutable. */
#ifndef TILTH_BASE_CXX_H
#define TILTH_BASE_CXX_H

/* TL_INIT(...): braces; members that are left out are zero. TL_LITERAL(type, ...): where a struct
 * with these members lies. Those that end in _ are for the headers. */
#ifdef __cplusplus

/* -Wextra of g++ warns of members that designators leave out, and here they always may be. It is
 * silent where the braces come from a header of the system, which is all that this says of this
 * one. */
#pragma GCC system_header

#include <cstddef>
#include <cstdint>

// clang-format off
namespace tl_cxx {
template <class T> inline T *address(T &&value)
{
    return &value;
}
template <class T, std::size_t N> constexpr std::int64_t count(const T (&)[N])
{
    return N;
}
template <class T, std::size_t N> inline T *items(T (&&list)[N])
{
    return list;
}
} // namespace tl_cxx

#define TL_INIT(...) {__VA_ARGS__}
#define TL_TABLE_(type, ...) type{__VA_ARGS__}
#define TL_VALUE_(type, ...) (type{__VA_ARGS__})
#define TL_LITERAL(type, ...) tl_cxx::address(type{__VA_ARGS__})
/* A list, which lives until the end of the expression, and how long it is. */
#define TL_ITEMS_(type, ...) tl_cxx::items<type>({__VA_ARGS__})
#define TL_COUNT_OF_(type, ...) tl_cxx::count<type>({__VA_ARGS__})
/* One that lives as long as the program. */
#define TL_STATIC_ITEMS_(type, ...)                                                                \
    []() -> const type * {                                                                         \
        static const type tl_items_[] = {__VA_ARGS__};                                             \
        return tl_items_;                                                                          \
    }()

#else

#define TL_INIT(...) {__VA_ARGS__}
#define TL_TABLE_(type, ...) {__VA_ARGS__}
#define TL_VALUE_(type, ...) ((type){__VA_ARGS__})
#define TL_LITERAL(type, ...) (&(type){__VA_ARGS__})
#define TL_ITEMS_(type, ...) ((type[]){__VA_ARGS__})
#define TL_COUNT_OF_(type, ...) TL_COUNT(((type[]){__VA_ARGS__}))
#define TL_STATIC_ITEMS_(type, ...) ((const type[]){__VA_ARGS__})
// clang-format on

#endif

#endif
