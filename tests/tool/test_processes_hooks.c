/* A program of one's own on several processes: a hook of one of them is heard by all, and what only
 * one of them holds is found before it is saved. With words behind it, this is that program.
 * needs: no sanitizer */
#include "tool/shell_lab.h"

#include <tilth/comm/who.h>
#include <tilth/tool/main.h>
#include <tilth/train/controller/controller.h>

#define TRAIN                                                                                      \
    " train --experiment=vision/local --mode=train tilth.seed=7 trainer.train_steps=40 "           \
    "tilth.lanes=2 trainer.steps_per_loop=20 trainer.summary_interval=20 "                         \
    "trainer.checkpoint_interval=10 --model_dir="

/* --- the program ------------------------------------------------------------------------------ */

/* What RANK:STEP in the environment asks of this process at this step. */
static bool is_asked(const char *name, int64_t step)
{
    const char *at = getenv(name);
    tl_who who;
    int rank, when;
    return at && sscanf(at, "%d:%d", &rank, &when) == 2 && tl_who_find(&who, NULL) == TL_OK
           && who.rank == rank && step == when;
}

static tl_status after_step(tl_hook *h)
{
    const int64_t step = tl_controller_step(h->controller);
    tl_model *m = tl_controller_trainer(h->controller)->model;
    if (is_asked("STOPS", step)) tl_controller_request_stop(h->controller, "it has seen enough");
    if (is_asked("FAILS", step)) return TL_FAIL(TL_EDATA, "it cannot go on");
    if (!is_asked("FORGETS", step)) return TL_OK;
    tl_tensor *t = tl_model_block(m, 0)->values; // one bit of one weight
    tl_lease l;
    TL_TRY(tl_lease_write(&l, t));
    *(uint32_t *)l.data ^= 1;
    return tl_lease_end(&l);
}

typedef struct asked {
    tl_hook base;
} asked;
static const tl_hook_class asked_class = {
    .cls = TL_CLASS(tl_hook_class, "asked", NULL, asked, NULL),
    .after_step = after_step,
};

static tl_status add_hooks(tl_hooks *into, const tl_main_run *run, void *payload)
{
    (void)run, (void)payload;
    return tl_hooks_add(into, NULL, &asked_class, &(tl_hook_args){.period = 1});
}

/* --- what becomes of it ----------------------------------------------------------------------- */

static char self[4096];

/* This program, between what the environment is to have and its words. */
static void own_ends(int code, const char *before, const char *after, const char *part)
{
    char line[8192];
    snprintf(line, sizeof line, "%s '%s'%s", before, self, after);
    ends(code, line, part);
}

static void a_hook_of_one_stops_all(void **state)
{
    (void)state;
    own_ends(0, "STOPS=0:7", TRAIN "a", "stopped: it has seen enough");
    own_ends(0, "STOPS=0:7", " launch -n 2" TRAIN "b", "stopped: it has seen enough");
    own_ends(0, "STOPS=1:7", " launch -n 2" TRAIN "c", "stopped: another process asked");
    ends(0, "cmp a/ckpt-7.safetensors b/ckpt-7.safetensors", "");
    ends(0, "cmp a/ckpt-7.safetensors c/ckpt-7.safetensors", "");
}

static void a_hook_that_fails_ends_all(void **state)
{
    (void)state;
    own_ends(1, "FAILS=1:13", " launch -n 2" TRAIN "a",
             "rank 1 failed: hook 'asked': it cannot go on");
    assert_true(tl_file_exists("a/ckpt-10.safetensors"));
    own_ends(1, "FAILS=0:13", " launch -n 2" TRAIN "b", "hook 'asked': it cannot go on");
    assert_null(strstr(said, "[1]"));
}

static void what_one_has_forgotten_is_not_saved(void **state)
{
    (void)state;
    own_ends(1, "FORGETS=1:15", " launch -n 2" TRAIN "a", "is another on rank 1 than on rank 0");
    has("at step 20, where both have computed the same");
    assert_true(tl_file_exists("a/ckpt-10.safetensors"));
    assert_false(tl_file_exists("a/ckpt-20.safetensors"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SHELL_TEST(a_hook_of_one_stops_all),
        SHELL_TEST(a_hook_that_fails_ends_all),
        SHELL_TEST(what_one_has_forgotten_is_not_saved),
    };
    if (argc > 1)
        return tl_main_with(argc, argv,
                            &(tl_main_options){.program = "own", .add_hooks = add_hooks});
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
