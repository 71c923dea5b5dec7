/* The peer of bench_distributed: MPI_Allreduce of float32, by the same names. Rank 0 reads them and
 * answers with seconds a call; the others sleep until it asks, for MPI's own waiting burns a
 * processor. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TAG = 1 };

static double once(float *data, int count, int calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (int i = 0; i < calls; i++)
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return (MPI_Wtime() - begin) / calls;
}

/* As many calls as fill two milliseconds. */
static double measure(int rank, long bytes)
{
    float *data = calloc((size_t)bytes / 4 + 1, 4);
    int count = (int)(bytes / 4), calls = 1;
    double best = once(data, count, 1);
    if (rank == 0 && best * calls < 2e-3) calls = (int)(2e-3 / best) + 1;
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    best = once(data, count, calls);
    free(data);
    return best;
}

static long next_case(int rank, int size)
{
    long bytes = -1;
    char line[128];
    if (rank == 0) {
        if (!fgets(line, sizeof line, stdin) || sscanf(line, "%*d ranks %ld", &bytes) != 1)
            bytes = -1;
        for (int r = 1; r < size; r++) MPI_Send(&bytes, 1, MPI_LONG, r, TAG, MPI_COMM_WORLD);
        return bytes;
    }
    for (int there = 0; !there; usleep(200))
        MPI_Iprobe(0, TAG, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    MPI_Recv(&bytes, 1, MPI_LONG, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return bytes;
}

int main(int argc, char **argv)
{
    int rank, size;
    long bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while ((bytes = next_case(rank, size)) > 0) {
        double seconds = measure(rank, bytes);
        if (rank == 0) printf("%.9f\n", seconds);
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
