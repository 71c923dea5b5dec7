"""The peer of bench_config: the same files read and merged in Python."""
import subprocess
import sys

import yaml
from omegaconf import OmegaConf

from answer import answer, seconds

FILES = sys.argv[1:]


def load(path):
    with open(path, encoding="utf-8") as f:
        # The C loader where there is one: the fastest that PyYAML has.
        return yaml.load(f, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def parse():
    config = OmegaConf.merge(*(OmegaConf.create(load(f)) for f in FILES))
    return OmegaConf.merge(config, OmegaConf.from_dotlist(["trainer.train_steps=100"]))


DATA = OmegaConf.to_container(parse())


def write():
    return yaml.dump(DATA, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))


def start():
    subprocess.run([sys.executable, "-c", "import omegaconf"], check=True)


CASES = {
    "parse experiment, 3 files and overrides": parse,
    "write params.yaml": write,
    "tilth list, whole process": start,
}

answer(CASES.get, lambda call: seconds(call, 0.02))
