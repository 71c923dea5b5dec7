#include "op_cases.h"

#include <tilth/ops/matmul.h>

// One function for each equation: a row has no text of its own to pass.
#define EINSUM(name, operands, equation) OP_CALL(name, tl_einsum(c, equation, operands, in))
#define T(equation) "torch.einsum('" equation "', a, b)"

EINSUM(product, 2, "ij,jk->ik")
EINSUM(product_back, 2, "ij,kj->ik")
EINSUM(product_front, 2, "ji,jk->ik")
EINSUM(product_turned, 2, "ij,jk->ki")
EINSUM(implied, 2, "ij,jk")
EINSUM(implied_order, 2, "bj,ja")
EINSUM(spaces, 2, " i j , j k -> i k ")
EINSUM(capitals, 2, "Aj,jb->bA")
EINSUM(dot, 2, "i,i->")
EINSUM(dot_implied, 2, "i,i")
EINSUM(outer, 2, "i,j->ij")
EINSUM(outer_turned, 2, "i,j->ji")
EINSUM(hadamard, 2, "ij,ij->ij")
EINSUM(hadamard_turned, 2, "ij,ji->ij")
EINSUM(rows_dot, 2, "ij,ij->i")
EINSUM(all_dot, 2, "ij,ij->")
EINSUM(batch, 2, "bij,bjk->bik")
EINSUM(batch_last, 2, "ijb,jkb->ikb")
EINSUM(scores, 2, "bqhd,bkhd->bhqk")
EINSUM(values, 2, "bhqk,bkhd->bqhd")
EINSUM(project, 2, "btd,dhk->bthk")
EINSUM(unproject, 2, "bthk,hkd->btd")
EINSUM(contract_front, 2, "kij,kl->ijl")
EINSUM(contract_middle, 2, "ikj,kl->ijl")
EINSUM(contract_two, 2, "iabj,abk->ijk")
EINSUM(contract_swapped, 2, "iab,bak->ik")
EINSUM(sum_left_alone, 2, "ijx,jk->ik")
EINSUM(sum_right_alone, 2, "ij,jkx->ik")
EINSUM(sum_both, 2, "ij,kl->")
EINSUM(scale_rows, 2, "i,ij->ij")
EINSUM(by_scalar, 2, ",ij->ij")
EINSUM(six_shared, 2, "abcdefi,abcdefi->abcdef")
EINSUM(seven_shared, 2, "abcdefgi,abcdefgi->abcdefg")
EINSUM(eight_shared, 2, "abcdefgh,abcdefgh->abcdefgh")
EINSUM(eight_out, 2, "abcd,efgh->aebfcgdh")
EINSUM(ellipsis, 2, "...ij,...jk->...ik")
EINSUM(ellipsis_one, 2, "...ij,jk->...ik")
EINSUM(ellipsis_implied, 2, "...i,...i")
EINSUM(ellipsis_end, 2, "i...,i...->...")
EINSUM(ellipsis_moved, 2, "i...,ij->j...")
EINSUM(same, 1, "ij->ij")
EINSUM(turned, 1, "ij->ji")
EINSUM(turned_implied, 1, "ba")
EINSUM(sum_rows, 1, "ij->i")
EINSUM(sum_all, 1, "ijk->")
EINSUM(cycle, 1, "ijk->kij")
EINSUM(sum_middle, 1, "ijk->ki")
EINSUM(ellipsis_turned, 1, "...ij->...ji")
EINSUM(ellipsis_sum, 1, "...i->...")
EINSUM(three, 3, "ij,jk,kl->il")
EINSUM(three_shared, 3, "bi,bj,bk->bijk")
EINSUM(three_sum, 3, "i,i,i->")
EINSUM(bilinear, 3, "bi,oij,bj->bo")
EINSUM(three_dots, 3, "...i,...i,...i->...")
EINSUM(four, 4, "ab,bc,cd,de->ae")
EINSUM(needed_later, 3, "ij,j,jk->ik")

EINSUM(trace, 1, "ii->")
EINSUM(diagonal, 2, "ii,ij->j")
EINSUM(too_few_letters, 2, "i,jk->ik")
EINSUM(too_many_letters, 2, "ijk,jk->i")
EINSUM(unknown_letter, 2, "ij,jk->iz")
EINSUM(twice_in_result, 2, "ij,jk->ii")
EINSUM(bad_letter, 2, "i1,1k->ik")
EINSUM(missing_operand, 2, "ij,jk,kl->il")
EINSUM(extra_operand, 2, "ij->ij")
EINSUM(two_dots, 2, "..ij,jk->ik")
EINSUM(dots_dropped, 2, "...ij,jk->ik")
EINSUM(too_long, 2, "abcde,fghij->abcdefghij")
EINSUM(way_too_long, 3, "abcde,fghij,a->j")
EINSUM(no_operands, 0, "ij->ij")

static void of_null(tl_ctx *c, const op_case *k, tl_tensor *const *in, tl_tensor **out)
{
    tl_tensor *operands[] = {in[0], NULL};
    (void)k;
    out[0] = tl_einsum(c, "ij,jk->ik", 2, operands);
}

static const op_case cases[] = {
    {"product", {"2x3", "3x4"}, product, .torch = T("ij,jk->ik")},
    {"product of nothing", {"2x0", "0x4"}, product, .torch = T("ij,jk->ik")},
    {"product of views", {"5x3:T", "3x4:S"}, product, .torch = T("ij,jk->ik")},
    {"second transposed", {"2x3", "4x3"}, product_back, .torch = T("ij,kj->ik")},
    {"first transposed", {"3x2", "3x4"}, product_front, .torch = T("ji,jk->ik")},
    {"result transposed", {"2x3", "3x4"}, product_turned, .torch = T("ij,jk->ki")},
    {"implied result", {"2x3", "3x4"}, implied, .torch = T("ij,jk")},
    {"implied result is sorted", {"2x3", "3x4"}, implied_order, .torch = T("bj,ja")},
    {"spaces", {"2x3", "3x4"}, spaces, .torch = T("ij,jk->ik")},
    {"capitals", {"2x3", "3x4"}, capitals, .torch = T("Aj,jb->bA")},
    {"dot", {"7", "7"}, dot, .torch = T("i,i->")},
    {"dot, implied", {"7", "7"}, dot_implied, .torch = T("i,i")},
    {"outer", {"3", "4"}, outer, .torch = T("i,j->ij")},
    {"outer, turned", {"3", "4"}, outer_turned, .torch = T("i,j->ji")},
    {"elementwise", {"3x4", "3x4"}, hadamard, .torch = T("ij,ij->ij")},
    {"elementwise, turned", {"3x4", "4x3"}, hadamard_turned, .torch = T("ij,ji->ij")},
    {"dots of rows", {"3x4", "3x4"}, rows_dot, .torch = T("ij,ij->i")},
    {"dot of matrices", {"3x4", "3x4"}, all_dot, .torch = T("ij,ij->")},
    {"batch", {"2x3x4", "2x4x2"}, batch, .torch = T("bij,bjk->bik")},
    {"batch of none", {"0x3x4", "0x4x2"}, batch, .torch = T("bij,bjk->bik")},
    {"batch at the end", {"3x4x2", "4x3x2"}, batch_last, .torch = T("ijb,jkb->ikb")},
    {"attention scores", {"2x3x2x4", "2x5x2x4"}, scores, .torch = T("bqhd,bkhd->bhqk")},
    {"attention values", {"2x2x3x5", "2x5x2x3"}, values, .torch = T("bhqk,bkhd->bqhd")},
    {"projection", {"2x3x4", "4x2x3"}, project, .torch = T("btd,dhk->bthk")},
    {"projection back", {"2x3x2x4", "2x4x3"}, unproject, .torch = T("bthk,hkd->btd")},
    {"contracted first", {"4x2x3", "4x5"}, contract_front, .torch = T("kij,kl->ijl")},
    {"contracted in the middle", {"2x4x3", "4x5"}, contract_middle, .torch = T("ikj,kl->ijl")},
    {"two contracted", {"2x3x2x4", "3x2x5"}, contract_two, .torch = T("iabj,abk->ijk")},
    {"two contracted, in another order",
     {"2x3x4", "4x3x2"},
     contract_swapped,
     .torch = T("iab,bak->ik")},
    {"two contracted, of views",
     {"2x3x4:T", "4x3x2:S"},
     contract_swapped,
     .torch = T("iab,bak->ik")},
    {"a letter in the first alone", {"2x3x4", "3x5"}, sum_left_alone, .torch = T("ijx,jk->ik")},
    {"a letter in the second alone", {"2x3", "3x5x2"}, sum_right_alone, .torch = T("ij,jkx->ik")},
    {"all alone", {"2x3", "4x2"}, sum_both, .torch = T("ij,kl->")},
    {"rows scaled", {"3", "3x4"}, scale_rows, .torch = T("i,ij->ij")},
    {"by a scalar", {"-", "3x4"}, by_scalar, .torch = T(",ij->ij")},
    {"six shared",
     {"1x2x1x2x1x2x3", "1x2x1x2x1x2x3"},
     six_shared,
     .torch = T("abcdefi,abcdefi->abcdef")},
    {"seven shared",
     {"1x2x1x2x1x2x1x3", "1x2x1x2x1x2x1x3"},
     seven_shared,
     .torch = T("abcdefgi,abcdefgi->abcdefg")},
    {"eight shared",
     {"1x2x1x2x1x2x1x2", "1x2x1x2x1x2x1x2"},
     eight_shared,
     .torch = T("abcdefgh,abcdefgh->abcdefgh")},
    {"eight in the result", {"2x1x2x1", "1x2x1x3"}, eight_out, .torch = T("abcd,efgh->aebfcgdh")},
    {"dots", {"2x3x4", "2x4x2"}, ellipsis, .torch = T("...ij,...jk->...ik")},
    {"dots for nothing", {"3x4", "4x2"}, ellipsis, .torch = T("...ij,...jk->...ik")},
    {"dots of different length", {"3x2x3x4", "2x4x2"}, ellipsis, .torch = T("...ij,...jk->...ik")},
    {"dots broadcast", {"3x1x2x4", "1x2x4x2"}, ellipsis, .torch = T("...ij,...jk->...ik")},
    {"dots in one", {"2x3x2x4", "4x5"}, ellipsis_one, .torch = T("...ij,jk->...ik")},
    {"dots, implied", {"2x3", "2x3"}, ellipsis_implied, .torch = T("...i,...i->...")},
    {"dots at the end", {"3x2x4", "3x2x4"}, ellipsis_end, .torch = T("i...,i...->...")},
    {"dots that move", {"3x2x4", "3x5"}, ellipsis_moved, .torch = T("i...,ij->j...")},
    {"one, the same", {"2x3"}, same, .torch = "torch.einsum('ij->ij', a)"},
    {"one, transposed", {"2x3"}, turned, .torch = "torch.einsum('ij->ji', a)"},
    {"one, implied", {"2x3"}, turned_implied, .torch = "torch.einsum('ba', a)"},
    {"one, summed", {"2x3"}, sum_rows, .torch = "torch.einsum('ij->i', a)"},
    {"one, all summed", {"2x3x4"}, sum_all, .torch = "torch.einsum('ijk->', a)"},
    {"one, cycled", {"2x3x4"}, cycle, .torch = "torch.einsum('ijk->kij', a)"},
    {"one, summed and moved", {"2x3x4"}, sum_middle, .torch = "torch.einsum('ijk->ki', a)"},
    {"one with dots", {"2x3x4"}, ellipsis_turned, .torch = "torch.einsum('...ij->...ji', a)"},
    {"one with dots, summed", {"2x3x4"}, ellipsis_sum, .torch = "torch.einsum('...i->...', a)"},
    {"three", {"2x3", "3x4", "4x2"}, three, .torch = "torch.einsum('ij,jk,kl->il', a, b, c)"},
    {"three shared",
     {"2x2", "2x3", "2x2"},
     three_shared,
     .torch = "torch.einsum('bi,bj,bk->bijk', a, b, c)"},
    {"three to a number", {"5", "5", "5"}, three_sum, .torch = "torch.einsum('i,i,i->', a, b, c)"},
    {"bilinear",
     {"3x2", "4x2x5", "3x5"},
     bilinear,
     .torch = "torch.einsum('bi,oij,bj->bo', a, b, c)"},
    {"three with dots",
     {"3x1x4", "1x2x4", "2x4"},
     three_dots,
     .torch = "torch.einsum('...i,...i,...i->...', a, b, c)"},
    {"four",
     {"2x3", "3x2", "2x3", "3x2"},
     four,
     .torch = "torch.einsum('ab,bc,cd,de->ae', a, b, c, d)"},
    {"a letter that is needed later",
     {"2x3", "3", "3x4"},
     needed_later,
     .torch = "torch.einsum('ij,j,jk->ik', a, b, c)"},
    {"types meet", {"2x3:f32", "3x4:f64"}, product, .flags = CASE_F32_UP},

    {"trace", {"3x3"}, trace, .fails = "'i' stands twice"},
    {"diagonal", {"3x3", "3x2"}, diagonal, .fails = "diagonals and traces"},
    {"too few letters", {"2x3", "3x4"}, too_few_letters, .fails = "operand 0 is float"},
    {"too many letters", {"2x3", "3x4"}, too_many_letters, .fails = "it names 3 dims"},
    {"a letter of the result alone",
     {"2x3", "3x4"},
     unknown_letter,
     .fails = "'z' is in the result"},
    {"twice in the result", {"2x3", "3x4"}, twice_in_result, .fails = "'i' stands twice"},
    {"a digit", {"2x3", "3x4"}, bad_letter, .fails = "which 'i1' does not fit"},
    {"an operand is missing", {"2x3", "3x4"}, missing_operand, .fails = "2 operands are given"},
    {"an operand too many", {"2x3", "3x4"}, extra_operand, .fails = "2 operands are given"},
    {"two dots", {"2x2x3", "3x4"}, two_dots, .fails = "'.' is only allowed"},
    {"dots lost", {"2x2x3", "3x4"}, dots_dropped, .fails = "the result has none"},
    {"sizes differ", {"2x3", "4x5"}, product, .fails = "'j' is 4 in operand 1 and 3 before"},
    {"dots differ", {"2x2x3", "3x3x2"}, ellipsis, .fails = "a dim of '...' is 3"},
    {"ten dims", {"1x1x1x1x1", "1x1x1x1x1"}, too_long, .fails = "more than 8 dims"},
    {"ten dims on the way",
     {"2x1x1x1x1", "1x1x1x1x1", "2"},
     way_too_long,
     .torch = "torch.einsum('abcde,fghij,a->j', a, b, c)"},
    {"no operands", {"2x3"}, no_operands, .fails = "0 operands"},
    {"NULL", {"2x3"}, of_null, .fails = "operand 1 is NULL"},
};

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "einsum", cases, TL_COUNT(cases));
}
