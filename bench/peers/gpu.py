"""The peer of bench_gpu: the same training steps on a GPU in PyTorch, eager, compiled, and as CUDA graphs, and in JAX.

    python bench/peers/gpu.py      # reads names, answers with seconds for as many steps as bench_gpu does in a call
    python bench/peers/gpu.py NAME # one step, compiled: how long such a process takes is measured by who starts it

Every way of running a case is tried once; the fastest is the peer and is measured from then on. How each way did, how long
its first step took, and its peak of memory, goes to the standard error.
"""
import gc
import importlib.metadata as metadata
import os
import sys
import time

os.environ.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')  # else JAX takes most of the GPU's memory

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from answer import answer, seconds
from torch_models import torch_model

STEPS = 4  # as in bench_gpu.c
torch.manual_seed(0)
torch.backends.cudnn.benchmark = True
torch.set_float32_matmul_precision('high')

# Vocabularies in steps of 8: products with 30522 columns take three times as long.
GPT2 = dict(vocabulary=50304, time=1024, size=768, layers=12, heads=12, causal=True)
BERT = dict(vocabulary=30528, time=512, size=768, layers=12, heads=12, causal=False, predictions=76)
# name: (kind, settings, shape of the input, number of labels, classes, optimizer)
CASES = {
    'mlp784-256-256-10 B128 bf16': ('mlp', [784, 256, 256, 10], (128, 784), 128, 10, 'adamw'),
    'resnet18-cifar B64 bf16': ('resnet', None, (64, 32, 32, 3), 64, 10, 'adamw'),
    'gpt2-124M B64 T1024 bf16': ('lm', GPT2, (64, 1024), 64 * 1024, 50304, 'adamw'),
    'bert-base mlm B64 T512 P76 bf16': ('lm', BERT, (64, 512), 64 * 76, 30522, 'adamw'),
    'resnet50 B256 bf16': ('resnet50', 1001, (256, 224, 224, 3), 256, 1001, 'sgd'),
}


def data(kind, shape, labels, classes):
    rng = np.random.default_rng(0)
    x = rng.integers(0, classes, shape) if kind == 'lm' else rng.normal(size=shape).astype(np.float32)
    return x, rng.integers(0, classes, labels)


def make_step(case, compiled, graph, attention):
    kind, settings, shape, labels, classes, optimizer = case
    torch._dynamo.reset()
    model = torch_model(kind, settings).cuda()
    x, y = (torch.from_numpy(a).cuda() for a in data(kind, shape, labels, classes))
    if x.ndim == 4:
        x = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
        model = model.to(memory_format=torch.channels_last)
    parameters = list(model.parameters())
    if optimizer == 'adamw':
        optimizer = torch.optim.AdamW(parameters, 1e-3, weight_decay=0.01, fused=True, capturable=graph)
    else:
        optimizer = torch.optim.SGD(parameters, 1e-3, momentum=0.9, fused=True)

    def loss_of(x, y):  # with the model: what is compiled joins the loss to the last product
        return F.cross_entropy(model(x).float() if kind != 'lm' else model(x), y)
    loss_of = torch.compile(loss_of) if compiled else loss_of

    def step():
        with sdpa_kernel(attention), torch.autocast('cuda', torch.bfloat16):
            loss = loss_of(x, y)
        loss.backward()
        if kind == 'lm':
            torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    if not graph:
        return step
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        step()

    def replay(kept=step):  # the graph does not keep what it reads
        captured.replay()
    return replay


def jax_step(case):
    """JAX is not everywhere, and has models for some cases alone."""
    import jax_models
    kind, settings, shape, labels, classes, optimizer = case
    return jax_models.jax_step(kind, settings, *data(kind, shape, labels, classes), True)


def ways(case):
    """Names, and what gives a step and what waits for it."""
    kinds = [('cuDNN', SDPBackend.CUDNN_ATTENTION), ('flash', SDPBackend.FLASH_ATTENTION)] if case[0] == 'lm' else \
        [('', SDPBackend.MATH)]
    for name, attention in kinds:
        for way, compiled, graph in [('eager', False, False), ('compiled', True, False), ('CUDA graph', False, True),
                                     ('compiled CUDA graph', True, True)]:
            yield f'PyTorch {way} {name}'.strip(), \
                lambda: (make_step(case, compiled, graph, attention), torch.cuda.synchronize)
    if case[0] in ('mlp', 'resnet'):
        yield 'JAX', lambda: jax_step(case)


def warmed(step, wait):
    """Seconds of a step. Clocks of a GPU fall, and rise slowly: what bench.c does first goes first here as well."""
    for _ in range(STEPS):
        step()
    seconds(step, 0.3 / 16, wait)
    return seconds(step, 0.3, wait)


def fastest(name):
    case, best = CASES.get(name), None
    for way, make in ways(case) if case else []:
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()  # by the best until now
        try:
            begun = time.perf_counter()
            step, wait = make()
            step()
            wait()
            first = time.perf_counter() - begun
            for _ in range(3):
                step()
            wait()
            took = warmed(step, wait)
        except Exception as error:
            print(f'  {name}: {way} failed: {str(error)[:120]}', file=sys.stderr, flush=True)
            continue
        memory = f', {(torch.cuda.max_memory_allocated() - held) / 1e9:.2f} GB' if way != 'JAX' else ''
        print(f'  {name}: {way} {took * 1e3:.3f} ms{memory}, first step after {first:.1f} s', file=sys.stderr, flush=True)
        if best is None or took < best[2]:
            best = step, wait, took
        step = None
    return best


def first(name):
    case = CASES[name]
    torch.cuda.init()
    before, _ = torch.cuda.mem_get_info()
    step = make_step(case, True, False, SDPBackend.CUDNN_ATTENTION if case[0] == 'lm' else SDPBackend.MATH)
    step()
    torch.cuda.synchronize()
    step()  # behind cuDNN's trials of plans in the first one PyTorch gives back all that it holds
    torch.cuda.synchronize()
    after, _ = torch.cuda.mem_get_info()
    print(f'memory of the GPU: {(before - after) / 1e9:.3f} GB')


def versions():
    found = f'PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}'
    try:
        return f'{found}, JAX {metadata.version("jax")}'
    except metadata.PackageNotFoundError:
        return f'{found}, no JAX'


if len(sys.argv) > 1:
    first(sys.argv[1])
else:
    print(versions(), file=sys.stderr, flush=True)
    answer(fastest, lambda ready: STEPS * warmed(*ready[:2]))
