from libai.config import LazyCall, get_config
from flowvision.data import Mixup
train = get_config("common/train.py").train
train.amp.enabled = True
model = get_config("common/model.py").model
model.mixup_func = LazyCall(Mixup)(
    mixup_alpha=0.8,
    num_classes=model.depth,
)
train.update(
    dict(
        output_dir="output/vit",
        warmup_ratio=5 / 100,
    )
)
pass
