/* One rank of mpirun: every collective over MPI against the reference. mpi.sh runs it. */
#include "test.h"

#include <tilth/comm/who.h>

#include "collectives.h"

extern const tl_comm_class tl_comm_mpi;

int main(void)
{
    tl_who who;
    collectives how = {.cls = &tl_comm_mpi};
    if (tl_who_find(&who, NULL) != TL_OK) {
        fprintf(stderr, "%s\n", tl_error_message());
        return 1;
    }
    return check_collectives(&(tl_comm_args){.rank = who.rank, .size = who.size}, &how);
}
