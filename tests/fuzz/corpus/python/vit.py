"""A small vision transformer that learns from a folder of pictures."""
from flowvision.data import Mixup
from flowvision.loss.cross_entropy import SoftTargetCrossEntropy

from libai.config import LazyCall, get_config

model = get_config("common/model.py").model
graph = get_config("common/train.py").graph
optim = get_config("common/train.py").optim
train = get_config("common/train.py").train
dataloader = get_config("common/model.py").dataloader

# Where the pictures are.
pictures = "./pictures"
dataloader.train.dataset[0].root = pictures
dataloader.test[0].dataset.root = pictures

model.cfg.num_classes = 10
model.cfg.drop_path_rate = 0.1
model.cfg.loss_func = SoftTargetCrossEntropy()
dataloader.train.mixup_func = LazyCall(Mixup)(
    mixup_alpha=0.8,
    cutmix_alpha=1.0,
    prob=1.0,
    switch_prob=0.5,
    mode="batch",
    num_classes=model.cfg.num_classes,
)

optim.lr = 5e-4 * 1024 / 512
optim.weight_decay = 0.05
optim.params.clip_grad_max_norm = None
optim.params.clip_grad_norm_type = None
optim.params.overrides = {"pos_embed": {"weight_decay": 0.0}}

train.update(
    dict(
        output_dir="output/vit",
        train_micro_batch_size=64,
        train_epoch=100,
        train_iter=1,
        warmup_ratio=5 / 100,
    )
)
train.evaluation.eval_after_n_epoch = 1
train.dist.pipeline_num_layers = model.cfg.depth
