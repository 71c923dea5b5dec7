"""The peer of bench_boxes: suppression in torchvision, by the same names.

    python bench/peers/boxes.py THREADS       # reads names, answers with seconds a call
"""
import re
import sys
import time

import torch
import torchvision

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


def seconds(call, budget):
    count, begin = 0, time.perf_counter()
    while count == 0 or time.perf_counter() - begin < budget:
        call()
        count += 1
    return (time.perf_counter() - begin) / count


ready, last = None, None
for line in sys.stdin:
    case = line.strip()
    if case != last:
        ready, last = make(case), case
        if ready:
            ready()
    print(seconds(ready, 0.02) if ready else 'no such case', flush=True)
