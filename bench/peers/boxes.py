"""The peer of bench_boxes: suppression in torchvision, by the same names.

    python bench/peers/boxes.py THREADS       # reads names, answers with seconds a call
"""
import re
import sys

import torch
import torchvision

from answer import answer, seconds, warm

torch.set_num_threads(int(sys.argv[1]))


def make(name):
    m = re.fullmatch(r'nms (\d+)', name)
    if not m:
        return None
    n = int(m[1])
    low = torch.rand(n, 2) * 640
    boxes = torch.cat([low, low + 10 + torch.rand(n, 2) * 100], -1)
    scores = torch.rand(n) * .9 + .1
    return lambda: torchvision.ops.nms(boxes, scores, .5)


answer(lambda name: warm(make(name)), lambda call: seconds(call, 0.02))
