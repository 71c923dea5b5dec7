#include <tilth/ops/comm.h>

#include <tilth/core/attrs.h>
#include <tilth/sys/ops/apply.h>

#include "op_cases.h"

/* Of one lane they are copies; tests/graph/test_collectives.c has several. p[0]: lanes. */
OP_CALL(all_gather, TL_APPLY(c, all_gather, (&(tl_comm_attr){k->p[0]}), in[0]))
OP_CALL(all_reduce, TL_APPLY(c, all_reduce, (&(tl_comm_attr){k->p[0]}), in[0]))
OP_CALL(reduce_scatter, TL_APPLY(c, reduce_scatter, (&(tl_comm_attr){k->p[0]}), in[0]))
OP_CALL(alone, tl_all_gather(c, tl_all_reduce(c, tl_reduce_scatter(c, in[0]))))
OP_CALL(lane, tl_lane(c))

static const op_case cases[] = {
    {"all_gather", {"3x4"}, all_gather, .p = {1}, .flags = CASE_EXACT},
    {"all_gather of a view", {"3x4:T"}, all_gather, .p = {1}, .flags = CASE_EXACT},
    {"all_gather of nothing", {"0x4"}, all_gather, .p = {1}, .flags = CASE_EXACT},
    {"all_gather of bool",
     {"5:bool"},
     all_gather,
     .p = {1},
     .flags = CASE_EXACT | CASE_NO_GRADIENT},
    {"all_gather of a scalar", {"-"}, all_gather, .p = {1}, .fails = "must have an axis"},
    {"all_gather of no lane", {"3"}, all_gather, .p = {0}, .fails = "lanes is 0"},
    {"all_gather without the others", {"3"}, all_gather, .p = {2}, .fails = "has no strand"},
    {"all_reduce", {"3x4"}, all_reduce, .p = {1}, .flags = CASE_EXACT},
    {"all_reduce of a scalar", {"-"}, all_reduce, .p = {1}, .flags = CASE_EXACT},
    {"all_reduce of bool", {"3:bool"}, all_reduce, .p = {1}, .fails = "bool"},
    {"reduce_scatter", {"3x4"}, reduce_scatter, .p = {1}, .flags = CASE_EXACT},
    {"reduce_scatter of a view", {"6x4:S"}, reduce_scatter, .p = {1}, .flags = CASE_EXACT},
    {"reduce_scatter of parts", {"3"}, reduce_scatter, .p = {2}, .fails = "3 rows cannot be cut"},
    {"alone", {"3x4"}, alone, .flags = CASE_EXACT},
    {"lane", {"3:const"}, lane, .flags = CASE_EXACT | CASE_NO_GRADIENT},
};

int main(int argc, char **argv)
{
    return op_cases_main(argc, argv, "comm", cases, TL_COUNT(cases));
}
