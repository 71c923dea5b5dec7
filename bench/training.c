#include "training.h"

#include <stdio.h>
#include <stdlib.h>

void training_run(void *payload)
{
    training *t = payload;
    if (tl_trainer_train(t->trainer, t->steps, t->logs) == TL_OK) return;
    fprintf(stderr, "%s\n", tl_error_message());
    abort();
}

void training_deinit(training *t)
{
    tl_trainer_free(&t->trainer);
    tl_logs_free(&t->logs);
    tl_task_free(&t->task);
    tl_strategy_free(&t->strategy);
    tl_config_free(&t->config);
    tl_registry_free(&t->registry);
}
