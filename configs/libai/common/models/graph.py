"""Whether a step runs as one program."""
from omegaconf import DictConfig

from libai.config import LazyCall
from libai.models.utils import GraphBase

graph = DictConfig(
    dict(
        enabled=True,
        debug=-1,
        auto_parallel=dict(
            enabled=False,
            enable_auto_parallel_ignore_user_sbp_config=False,
            trunk_algo=True,
            sbp_collector=False,
        ),
        train_graph=LazyCall(GraphBase)(is_train=True),
        eval_graph=LazyCall(GraphBase)(is_train=False),
        global_mode=dict(enabled=False),
    )
)
