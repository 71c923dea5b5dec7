#include "op_cases.h"

#include <tilth/ops/pool.h>
#include <tilth/sys/ops/apply.h>

/* Numbers of a row: height, width, method, align_corners. */
OP_CALL(resize, tl_resize(c, in[0], k->p[0], k->p[1], .method = (tl_resize_method)k->p[2],
                          .align_corners = k->p[3]))
OP_CALL(of_null, tl_resize(c, NULL, 2, 2))

static tl_tensor *back(tl_ctx *c, const op_case *k, tl_tensor *const *in)
{
    tl_resize_attr attr = {.height = k->p[0],
                           .width = k->p[1],
                           .method = (tl_resize_method)k->p[2],
                           .align_corners = k->p[3]};
    return tl_apply(c, TL_OP_resize_grad, &attr, 1, in);
}
OP_CALL(resize_grad, back(c, k, in))

#define IMAGE "a.permute(0,3,1,2)"
#define BACK ".permute(0,2,3,1)"
#define NEAREST "F.interpolate(" IMAGE ", (p[0], p[1]), mode='nearest-exact')" BACK
#define BILINEAR                                                                                   \
    "F.interpolate(" IMAGE ", (p[0], p[1]), mode='bilinear', align_corners=bool(p[3]))" BACK
// The nearest of aligned corners: rounded, halves up.
#define ROUNDED                                                                                    \
    "(lambda r: a[:, r(a.shape[1], p[0])][:, :, r(a.shape[2], p[1])])(lambda n, m: "               \
    "torch.tensor([(2 * i * (n - 1) + m - 1) // (2 * (m - 1)) if m > 1 else 0 for i in "           \
    "range(m)]))"

enum { N = TL_NEAREST, B = TL_BILINEAR };

static const op_case cases[] = {
    {"nearest, twice", {"1x2x3x2"}, resize, .p = {4, 6, N}, .torch = NEAREST},
    {"nearest, three times", {"1x2x2x1"}, resize, .p = {6, 6, N}, .torch = NEAREST},
    {"nearest, half", {"1x4x6x2"}, resize, .p = {2, 3, N}, .torch = NEAREST},
    {"nearest, a third", {"1x6x9x1"}, resize, .p = {2, 3, N}, .torch = NEAREST},
    {"nearest, odd", {"2x3x5x2"}, resize, .p = {5, 7, N}, .torch = NEAREST},
    {"nearest, odd, smaller", {"1x7x5x2"}, resize, .p = {3, 2, N}, .torch = NEAREST},
    {"nearest, up and down", {"1x3x8x2"}, resize, .p = {7, 3, N}, .torch = NEAREST},
    {"nearest, the same", {"1x3x4x2"}, resize, .p = {3, 4, N}, .torch = NEAREST},
    {"nearest, from one", {"1x1x1x3"}, resize, .p = {3, 2, N}, .torch = NEAREST},
    {"nearest, to one", {"1x3x4x3"}, resize, .p = {1, 1, N}, .torch = NEAREST},
    {"nearest, aligned", {"1x3x4x2"}, resize, .p = {5, 7, N, 1}, .torch = ROUNDED},
    {"nearest, aligned, smaller", {"1x7x6x2"}, resize, .p = {3, 4, N, 1}, .torch = ROUNDED},
    {"nearest, aligned, halves", {"1x2x2x1"}, resize, .p = {3, 3, N, 1}, .torch = ROUNDED},
    {"nearest, aligned, to one", {"1x3x4x2"}, resize, .p = {1, 1, N, 1}, .torch = ROUNDED},
    {"nearest, aligned, from one", {"1x1x1x2"}, resize, .p = {3, 2, N, 1}, .torch = ROUNDED},
    {"bilinear, twice", {"1x2x3x2"}, resize, .p = {4, 6, B}, .torch = BILINEAR},
    {"bilinear, three times", {"1x2x2x1"}, resize, .p = {6, 6, B}, .torch = BILINEAR},
    {"bilinear, half", {"1x4x6x2"}, resize, .p = {2, 3, B}, .torch = BILINEAR},
    {"bilinear, much smaller", {"1x9x11x1"}, resize, .p = {2, 3, B}, .torch = BILINEAR},
    {"bilinear, much larger", {"1x2x3x1"}, resize, .p = {9, 11, B}, .torch = BILINEAR},
    {"bilinear, odd", {"2x3x5x2"}, resize, .p = {5, 7, B}, .torch = BILINEAR},
    {"bilinear, odd, smaller", {"1x7x5x2"}, resize, .p = {3, 2, B}, .torch = BILINEAR},
    {"bilinear, up and down", {"1x3x8x2"}, resize, .p = {7, 3, B}, .torch = BILINEAR},
    {"bilinear, the same", {"1x3x4x2"}, resize, .p = {3, 4, B}, .torch = BILINEAR},
    {"bilinear, from one", {"1x1x1x3"}, resize, .p = {3, 2, B}, .torch = BILINEAR},
    {"bilinear, to one", {"1x3x4x3"}, resize, .p = {1, 1, B}, .torch = BILINEAR},
    {"bilinear, aligned", {"1x3x4x2"}, resize, .p = {5, 7, B, 1}, .torch = BILINEAR},
    {"bilinear, aligned, smaller", {"1x7x6x2"}, resize, .p = {3, 4, B, 1}, .torch = BILINEAR},
    {"bilinear, aligned, the same", {"1x3x4x2"}, resize, .p = {3, 4, B, 1}, .torch = BILINEAR},
    {"bilinear, aligned, to one", {"1x3x4x2"}, resize, .p = {1, 1, B, 1}, .torch = BILINEAR},
    {"bilinear, aligned, from one", {"1x1x1x2"}, resize, .p = {3, 2, B, 1}, .torch = BILINEAR},
    {"bilinear in another order", {"2x3x4x2:T"}, resize, .p = {4, 3, B}, .torch = BILINEAR},
    {"bilinear with gaps", {"2x3x4x2:S"}, resize, .p = {4, 3, B}, .torch = BILINEAR},
    {"nearest of one image many times", {"3x3x2x2:B"}, resize, .p = {4, 3, N}, .torch = NEAREST},
    {"no images", {"0x3x4x2"}, resize, .p = {4, 3, B}},
    {"no channels", {"1x3x4x0"}, resize, .p = {4, 3, B}},
    {"back, nearest", {"1x4x6x2"}, resize_grad, .p = {2, 3, N}},
    {"back, nearest, smaller", {"1x2x3x2"}, resize_grad, .p = {4, 7, N}},
    {"back, bilinear", {"1x5x7x2"}, resize_grad, .p = {2, 3, B}},
    {"back, bilinear, aligned", {"1x5x7x2"}, resize_grad, .p = {2, 3, B, 1}},
    {"back, bilinear, to one", {"1x5x7x2:T"}, resize_grad, .p = {1, 1, B, 1}},

    {"three dims", {"3x4x2"}, resize, .p = {4, 3, B}, .fails = "the image is"},
    {"to nothing", {"1x3x4x2"}, resize, .p = {0, 3, B}, .fails = "cannot become 0x3"},
    {"to less", {"1x3x4x2"}, resize, .p = {3, -3, N}, .fails = "cannot become 3x-3"},
    {"from nothing", {"1x0x4x2"}, resize, .p = {3, 3, N}, .fails = "0x4 pixels cannot become"},
    {"no such method", {"1x3x4x2"}, resize, .p = {3, 3, 5}, .fails = "5 is no method"},
    {"integers", {"1x3x4x2:int<9"}, resize, .p = {3, 3, N}, .fails = "floating-point"},
    {"NULL", {"1"}, of_null, .fails = "input 0 is NULL"},
};

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "resize", cases, TL_COUNT(cases));
}
