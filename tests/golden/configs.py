#!/usr/bin/env python3
"""Writes tests/data/configs/*.yaml: the default configurations of all experiments of Model Garden, as it writes them.

    TF_CPP_MIN_LOG_LEVEL=2 TF_USE_LEGACY_KERAS=1 python tests/golden/configs.py [FOLDER]

with tensorflow 2.20.0, tf_keras and tf-models-official 2.20.0 from PyPI. '/' in a name is '__' in that of its file. The
readers are tests/zoo/test_configs.c, tests/train/test_experiment.c and tests/interop/check_params.py.
"""
import pathlib
import sys

from official.common import registry_imports  # pylint: disable=unused-import
from official.core import exp_factory
from official.modeling import hyperparams

FOLDER = pathlib.Path(__file__).resolve().parent.parent / 'data' / 'configs'


def names(registered, above=''):
    """What is registered under a/b is in the dictionary of a."""
    for name, entry in registered.items():
        if isinstance(entry, dict):
            yield from names(entry, f'{above}{name}/')
        else:
            yield above + name


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(names(exp_factory._REGISTERED_CONFIGS)):
        path = folder / f'{name.replace("/", "__")}.yaml'
        hyperparams.save_params_dict_to_yaml(exp_factory.get_exp_config(name), str(path))


if __name__ == '__main__':
    main()
