/* Trainings whose processes a configuration, TF_CONFIG or torchrun's variables name, and what is
 * refused: the same bytes as in one process, or a message that says what to do.
 * needs: no sanitizer */
#include "tool/shell_lab.h"

#define WORDS                                                                                      \
    "tilth train --experiment=vision/local --mode=train tilth.seed=7 tilth.threads=1 "             \
    "trainer.train_steps=4 trainer.steps_per_loop=2 trainer.summary_interval=2 "                   \
    "trainer.checkpoint_interval=2 "
/* Both of two processes, of which `$i` is the number; either must end well. */
#define BOTH(line)                                                                                 \
    "for i in 0 1; do (" line " >$i.txt 2>&1; echo $? >$i.code) & done; wait; cat 0.txt 1.txt; "   \
    "test \"$(cat 0.code 1.code | tr -d '\\n')\" = 00"
#define SAME(folder) ends(0, "cmp one/ckpt-4.safetensors " folder "/ckpt-4.safetensors", "")

static void all_ways_lead_to_the_same_bytes(void **state)
{
    (void)state;
    ends(0, WORDS "--model_dir=one tilth.lanes=2", "ckpt-4");
    ends(0,
         BOTH(WORDS "--model_dir=a runtime.task_index=$i "
                    "runtime.worker_hosts=localhost:47001,localhost:47002 "
                    "runtime.distribution_strategy=mirrored tilth.comm=shm"),
         "ckpt-4");
    SAME("a");
    // who took part is not what the run is: one process can begin from its configuration
    ends(0, "grep -c -e 'task_index: -1' -e 'worker_hosts: null' a/params.yaml", "2");
    ends(0,
         "tilth params --experiment=vision/local --explain runtime.task_index=1 "
         "runtime.worker_hosts=localhost:1,localhost:2",
         "\n  task_index: 1  ");
    has("\n  worker_hosts: localhost:1,localhost:2  ");
    ends(0,
         BOTH("TF_CONFIG='{\"cluster\": {\"worker\": [\"localhost:47003\", "
              "\"localhost:47004\"]}, \"task\": {\"type\": \"worker\", \"index\": '$i'}}' " WORDS
              "--model_dir=b tilth.bucket_mb=0.0625 tilth.peer_timeout_s=60"),
         "ckpt-4");
    SAME("b");
    ends(0,
         BOTH("RANK=$i LOCAL_RANK=$i WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost "
              "MASTER_PORT=47005 " WORDS "--model_dir=c runtime.num_packs=3 "
              "runtime.all_reduce_alg=hierarchical_copy "
              "runtime.distribution_strategy=multi_worker_mirrored"),
         "ckpt-4");
    SAME("c");
    // divided, and gone on with by one
    ends(0,
         BOTH(WORDS "--model_dir=d runtime.task_index=$i trainer.train_steps=2 "
                    "runtime.worker_hosts=localhost:47006,localhost:47007 "
                    "tilth.checkpoint_shards=2"),
         "ckpt-2");
    ends(0, WORDS "--model_dir=d", "ckpt-4");
    SAME("d");
}

/* One that waits for the other is interrupted: the place where they would meet is left empty. */
static void an_interrupted_meeting_leaves_nothing(void **state)
{
    (void)state;
    ends(0,
         "mkdir -m 700 places; export XDG_RUNTIME_DIR=$PWD/places\n"
         "RANK=0 WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=47011 '" TILTH_PROGRAM
         "' train --experiment=vision/local --mode=train --model_dir=x & waits=$!\n"
         "for i in $(seq 1200); do ls places/*/join-* 2>&1 >/dev/null && break; sleep 0.05; done\n"
         "ls places/*\nkill -TERM $waits; wait $waits; echo ended with $?\n"
         "test -z \"$(ls places/*/)\"",
         "ended with 143");
    has("join-");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    ends(2, WORDS "--model_dir=x runtime.worker_hosts=hosta:1,hostb:2 runtime.task_index=0",
         "which need MPI; leave them out and let mpirun start them: mpirun -H hosta:1,hostb:1 "
         "--bind-to none ");
    has("tilth train --experiment=vision/local --mode=train tilth.seed=7 ");
    has(" --model_dir=x\n");
    ends(2, WORDS "--model_dir=x runtime.worker_hosts=a:1,b:2",
         "runtime: task_index: expected 0 to 1, for worker_hosts names 2 workers, found -1");
    ends(2, WORDS "--model_dir=x runtime.worker_hosts=a:1,b runtime.task_index=0",
         "runtime: worker_hosts: expected host:port,host:port, found 'a:1,b'");
    ends(2,
         WORDS "--model_dir=x runtime.worker_hosts=localhost:1,localhost:2 "
               "runtime.task_index=0 runtime.distribution_strategy=one_device",
         "is one_device, which is one process, and there are 2");
    ends(2,
         WORDS "--model_dir=x runtime.worker_hosts=localhost:1,localhost:2 "
               "runtime.task_index=0 tilth.comm=mpi",
         "tilth.comm is mpi, and runtime.worker_hosts and task_index is not of MPI");
    ends(2,
         "RANK=0 WORLD_SIZE=2 MASTER_PORT=4 " WORDS
         "--model_dir=x runtime.worker_hosts=a:1,a:2,a:3 runtime.task_index=1",
         "says rank 0 of 2, runtime.worker_hosts and task_index says rank 1 of 3");
    ends(2, WORDS "--model_dir=x runtime.distribution_strategy=parameter_server",
         "no order in which the updates of parameter servers could be repeated");
    ends(2, WORDS "--model_dir=x runtime.all_reduce_alg=nccl", "adds in an order of its own");
    ends(0, "test ! -e x", "");
    // one worker is a process by itself
    ends(0, WORDS "--model_dir=y runtime.worker_hosts=localhost:1", "ckpt-4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(all_ways_lead_to_the_same_bytes),
        SHELL_TEST(what_cannot_be_is_refused),
        SHELL_TEST(an_interrupted_meeting_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
