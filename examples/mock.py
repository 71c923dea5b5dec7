# The task `mock`, which every installation has, as LiBai's own configurations are written:
#     tilth train_net --config-file=mock.py train.output_dir=out
from libai.config import LazyCall, get_config

train = get_config("common/train.py").train
optim = get_config("common/optim.py").optim
graph = get_config("common/models/graph.py").graph
model = LazyCall("mock")()

optim.lr = 0.05
train.train_micro_batch_size = 10  # of each batch ...
train.num_accumulation_steps = 2  # ... of which two make one step
train.test_micro_batch_size = 10
train.train_iter = 200
train.warmup_ratio = 20 / train.train_iter
train.checkpointer.update(period=50, max_to_keep=3)
train.evaluation.update(eval_period=50, eval_iter=10, eval_metric="mse", eval_mode="min")
