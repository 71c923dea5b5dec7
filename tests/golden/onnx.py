#!/usr/bin/env python3
"""Writes small.onnx: a dense layer with relu, as the library `onnx` puts it into bytes.

    python tests/golden/onnx.py      # with onnx 1.23.2 from PyPI

tests/io/onnx/test_onnx.c writes the same layer, and compares the bytes.
"""
import pathlib
import sys

sys.path = [place for place in sys.path if pathlib.Path(place or '.').resolve() != pathlib.Path(__file__).resolve().parent]

import numpy as np
from onnx import TensorProto, helper, numpy_helper

kernel = numpy_helper.from_array(np.array([[1, -2], [3, -4], [5, 6.5]], np.float32), 'dense/kernel')
bias = numpy_helper.from_array(np.array([0.5, -0.25], np.float32), 'dense/bias')
graph = helper.make_graph(
    [helper.make_node('Gemm', ['x', 'dense/kernel', 'dense/bias'], ['Gemm_1'], name='Gemm_1'),
     helper.make_node('Elu', ['Gemm_1'], ['Elu_2'], name='Elu_2', alpha=1.0),
     helper.make_node('Identity', ['Elu_2'], ['y'], name='y')],
    'model', [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['N', 3])],
    [helper.make_tensor_value_info('y', TensorProto.FLOAT, ['N', 2])], [kernel, bias])
model = helper.make_model(graph, producer_name='tilth', producer_version='0.1.0', ir_version=8,
                          opset_imports=[helper.make_opsetid('', 17)])
helper.set_model_props(model, {'step': '7'})
(pathlib.Path(__file__).parent / 'small.onnx').write_bytes(model.SerializeToString())
