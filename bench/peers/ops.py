"""The peer of bench_ops: the same calls in PyTorch, by the same names.

    python bench/peers/ops.py THREADS       # reads names, answers with seconds a call
"""
import re
import sys

import torch
import torch.nn.functional as F

from answer import answer, seconds, warm

torch.set_num_threads(int(sys.argv[1]))


def rand(*shape, dtype=torch.float32):
    return (torch.rand(*shape) * 2 - 1).to(dtype)


def forward(fn, *inputs):
    def call():
        with torch.no_grad():
            fn(*inputs)
    return call


def both(fn, *inputs):
    """Forward and the whole way back to the float inputs."""
    leaves = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    weight = None

    def call():
        nonlocal weight
        y = fn(*inputs)
        weight = torch.ones_like(y) if weight is None else weight
        torch.autograd.grad(y, leaves, weight)
    return call


def adamw():
    p = rand(10000000).requires_grad_()
    p.grad = rand(10000000)
    return torch.optim.AdamW([p], 1e-3, fused=True).step


def attention(half, t, causal, back):
    # A model makes [batch, time, heads, size]; PyTorch wants the heads before the time.
    q, k, v = (rand(8, t, 12, 64, dtype=torch.bfloat16 if half else torch.float32) for _ in range(3))

    def call(q, k, v):
        return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                                              is_causal=causal)
    return (both if back else forward)(call, q, k, v)


def convolution(shape, ins, outs, kernel, stride, dilation, groups, dtype, what):
    """The faster one of the two memory formats is the peer; `shape` is images and their size."""
    calls = []
    images, size = shape
    pad = kernel // 2 * dilation
    for memory in (torch.channels_last, torch.contiguous_format):
        x = rand(images, ins, size, size, dtype=dtype).contiguous(memory_format=memory)
        w = rand(outs, ins // groups, kernel, kernel, dtype=dtype).contiguous(memory_format=memory)
        gy = torch.rand_like(F.conv2d(x, w, None, stride, pad, dilation, groups))
        if not what:
            calls.append(forward(lambda x, w: F.conv2d(x, w, None, stride, pad, dilation, groups), x, w))
        else:
            mask = [what == 'input', what == 'filter', False]
            calls.append(lambda x=x, w=w, gy=gy: torch.ops.aten.convolution_backward(
                gy, x, w, None, [stride] * 2, [pad] * 2, [dilation] * 2, False, [0, 0], groups, mask))
    return min(calls, key=lambda call: (call(), seconds(call, 0.05))[1])


PLAIN = {
    'add, one element': lambda: forward(torch.add, rand(1), rand(1)),
    'add 4096x4096': lambda: forward(torch.add, rand(4096, 4096), rand(4096, 4096)),
    'add 4096x4096 and a row': lambda: forward(torch.add, rand(4096, 4096), rand(4096)),
    'exp 2048x3072': lambda: forward(torch.exp, rand(2048, 3072)),
    'gelu 2048x3072': lambda: forward(F.gelu, rand(2048, 3072)),
    'gelu 2048x3072 and gradient': lambda: both(F.gelu, rand(2048, 3072)),
    'gelu tanh 2048x3072': lambda: forward(lambda x: F.gelu(x, approximate='tanh'), rand(2048, 3072)),
    'layer_norm 8192x768': lambda: forward(lambda x, g, b: F.layer_norm(x, (768,), g, b), rand(8192, 768),
                                           rand(768), rand(768)),
    'layer_norm 8192x768 and gradient': lambda: both(lambda x, g, b: F.layer_norm(x, (768,), g, b),
                                                     rand(8192, 768), rand(768), rand(768)),
    'softmax 8192x768': lambda: forward(lambda x: torch.softmax(x, -1), rand(8192, 768)),
    'softmax 8192x768 and gradient': lambda: both(lambda x: torch.softmax(x, -1), rand(8192, 768)),
    'batch_norm 64x32x32x64 and gradient': lambda: both(
        lambda x, g, b: F.batch_norm(x, None, None, g, b, training=True),
        rand(64, 64, 32, 32).contiguous(memory_format=torch.channels_last), rand(64), rand(64)),
    'cross_entropy 2048x8192 and gradient': lambda: both(
        lambda x, y: F.cross_entropy(x, y, reduction='none'), rand(2048, 8192), torch.randint(8192, (2048,))),
    'lookup 8192x256 of 2048 and gradient': lambda: both(lambda t, i: F.embedding(i, t), rand(8192, 256),
                                                         torch.randint(8192, (2048,))),
    'sum 4096x4096': lambda: forward(torch.sum, rand(4096, 4096)),
    'sum of rows 4096x4096': lambda: forward(lambda x: x.sum(0), rand(4096, 4096)),
    'transpose 2048x2048': lambda: forward(lambda x: x.T.contiguous(), rand(2048, 2048)),
    'max_pool 128x28x28x32 and gradient': lambda: both(
        lambda x: F.max_pool2d(x, 2), rand(128, 32, 28, 28).contiguous(memory_format=torch.channels_last)),
    'linear 128x768x3072 gelu': lambda: forward(lambda x, w, b: F.gelu(F.linear(x, w, b)), rand(128, 768),
                                                rand(3072, 768), rand(3072)),
    'linear 8x768x768 gelu': lambda: forward(lambda x, w, b: F.gelu(F.linear(x, w, b)), rand(8, 768),
                                             rand(768, 768), rand(768)),
    'adamw 10000000': adamw,
}


def make(name):
    if name in PLAIN:
        return PLAIN[name]()
    m = re.fullmatch(r'(f32|bf16) attention B8 H12 T(\d+) D64( causal)?( and gradient)?', name)
    if m:
        return attention(m[1] == 'bf16', int(m[2]), bool(m[3]), bool(m[4]))
    m = re.fullmatch(r'(bf16 )?(conv|retinanet|depthwise|dilated) (\d+) (\d+)(?:>(\d+))? k(\d+) s(\d+)(?: d(\d+))?'
                     r'(?: (input|filter) gradient)?', name)
    if m:
        images = {'conv': 8, 'retinanet': 4, 'depthwise': 16, 'dilated': 2}[m[2]]
        size, ins, kernel, stride = (int(m[i]) for i in (3, 4, 6, 7))
        return convolution((images, size), ins, int(m[5] or ins), kernel, stride, int(m[8] or 1),
                           ins if m[2] == 'depthwise' else 1, torch.bfloat16 if m[1] else torch.float32, m[9])
    return None


answer(lambda name: warm(make(name)), lambda call: seconds(call, 0.02))
