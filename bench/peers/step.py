"""The peer of bench_step: the same training steps in PyTorch (eager and compiled) and in JAX.

    python bench/peers/step.py THREADS      # reads names, answers with seconds a step
    python bench/peers/step.py --memory NAME  # MB by which PyTorch's process grows at its peak

Every way of running a case is tried once; the fastest is the peer and is measured from then on. A
case in bf16 may be answered by a peer that computes in f32, if that is faster here. How each way did,
and the peak of memory, goes to the standard error.
"""
import os
import platform
import resource
import sys

memory_of = sys.argv[2] if sys.argv[1] == '--memory' else None
threads = len(os.sched_getaffinity(0)) if memory_of else int(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
os.environ.setdefault('JAX_PLATFORMS', 'cpu')

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F

from answer import answer, grown_mb, seconds
from step_cases import CASES, data
from torch_models import STAGES, torch_model

torch.set_num_threads(threads)
torch.manual_seed(0)
RATE, DECAY = 1e-3, 0.01
GIVEN_UP = 10  # a way that is this many times slower than another is not tried further

# --- PyTorch -------------------------------------------------------------------------------------------

def torch_step(kind, settings, shape, labels, classes, half, compiled):
    torch._dynamo.reset()
    model = torch_model(kind, settings)
    x, y = (torch.from_numpy(a) for a in data(kind, shape, labels, classes))
    if x.ndim == 4:
        x = x.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=True)
    forward = torch.compile(model) if compiled else model

    def step():
        with torch.autocast('cpu', torch.bfloat16, enabled=half):
            loss = F.cross_entropy(forward(x).float(), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step, lambda: None


# --- JAX -----------------------------------------------------------------------------------------------

rng = np.random.default_rng(1)


def normal(*shape):
    return jnp.asarray(rng.normal(size=shape).astype(np.float32) * 0.02)


def jax_dense(i, o):
    return dict(w=normal(i, o), b=jnp.zeros(o))


def dense(p, x):
    return x @ p['w'] + p['b']


def jax_mlp(widths):
    params = [jax_dense(i, o) for i, o in zip(widths, widths[1:])]

    def apply(p, x):
        for layer in p[:-1]:
            x = jax.nn.relu(dense(layer, x))
        return dense(p[-1], x)
    return params, apply


def conv(x, w, stride=1):
    pad = [(w.shape[0] // 2,) * 2] * 2
    return jax.lax.conv_general_dilated(x, w, (stride, stride), pad, dimension_numbers=('NHWC', 'HWIO', 'NHWC'))


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')


def jax_lenet():
    params = dict(a=normal(3, 3, 1, 32), ab=jnp.zeros(32), b=normal(3, 3, 32, 64), bb=jnp.zeros(64),
                  up=jax_dense(3136, 128), head=jax_dense(128, 10))

    def apply(p, x):
        x = max_pool(jax.nn.relu(conv(x, p['a']) + p['ab']))
        x = max_pool(jax.nn.relu(conv(x, p['b']) + p['bb']))
        return dense(p['head'], jax.nn.relu(dense(p['up'], x.reshape(x.shape[0], -1))))
    return params, apply


def jax_part(i, o, kernel):
    return dict(w=normal(kernel, kernel, i, o), g=jnp.ones(o), b=jnp.zeros(o))


def conv_norm(p, x, stride):
    x = conv(x, p['w'], stride)
    x = (x - x.mean((0, 1, 2))) * jax.lax.rsqrt(x.var((0, 1, 2)) + 1e-5)
    return x * p['g'] + p['b']


def jax_resnet():
    blocks, i = [], 64
    for o, stride in STAGES:
        blocks.append([jax_part(i, o, 3), jax_part(o, o, 3)] + ([jax_part(i, o, 1)] if i != o else []))
        i = o
    params = dict(stem=jax_part(3, 64, 3), blocks=blocks, head=jax_dense(512, 10))

    def apply(p, x):
        x = jax.nn.relu(conv_norm(p['stem'], x, 1))
        for (o, stride), parts in zip(STAGES, p['blocks']):
            y = conv_norm(parts[1], jax.nn.relu(conv_norm(parts[0], x, stride)), 1)
            x = jax.nn.relu(y + (conv_norm(parts[2], x, stride) if len(parts) > 2 else x))
        return dense(p['head'], x.mean((1, 2)))
    return params, apply


def jax_norm(size):
    return dict(g=jnp.ones(size), b=jnp.zeros(size))


def layer_norm(p, x):
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p['g'] + p['b']


def jax_lm(vocabulary, time, size, layers, heads, causal):
    blocks = [dict(norm_1=jax_norm(size), norm_2=jax_norm(size), qkv=jax_dense(size, 3 * size),
                   out=jax_dense(size, size), up=jax_dense(size, 4 * size), down=jax_dense(4 * size, size))
              for _ in range(layers)]
    params = dict(tokens=normal(vocabulary, size), places=normal(time, size), blocks=blocks, norm=jax_norm(size))

    def apply(p, ids):
        b, t = ids.shape
        x = p['tokens'][ids] + p['places'][:t]
        for block in p['blocks']:
            qkv = dense(block['qkv'], layer_norm(block['norm_1'], x)).reshape(b, t, 3, heads, -1)
            seen = jax.nn.dot_product_attention(qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2], is_causal=causal)
            x = x + dense(block['out'], seen.reshape(b, t, size))
            x = x + dense(block['down'], jax.nn.gelu(dense(block['up'], layer_norm(block['norm_2'], x))))
        return (layer_norm(p['norm'], x) @ p['tokens'].T).reshape(b * t, -1)
    return params, apply


def jax_model(kind, settings):
    if kind == 'mlp':
        return jax_mlp(settings)
    if kind == 'lm':
        return jax_lm(**settings)
    return jax_lenet() if kind == 'lenet' else jax_resnet()


def jax_step(kind, settings, shape, labels, classes, half, compiled):
    params, apply = jax_model(kind, settings)
    x, y = (jnp.asarray(a) for a in data(kind, shape, labels, classes))

    def cast(tree):
        if not half:
            return tree
        return jax.tree.map(lambda a: a.astype(jnp.bfloat16) if a.dtype == jnp.float32 else a, tree)

    def loss_of(p, x, y):
        scores = jax.nn.log_softmax(apply(cast(p), cast(x)).astype(jnp.float32))
        return -jnp.take_along_axis(scores, y[:, None], 1).mean()

    def update(state, x, y):
        p, m, v, t = state
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        m_scale, v_scale = 1 / (1 - 0.9 ** t), 1 / (1 - 0.999 ** t)
        p = jax.tree.map(lambda p, m, v: p * (1 - RATE * DECAY)
                         - RATE * m * m_scale / (jnp.sqrt(v * v_scale) + 1e-8), p, m, v)
        return (p, m, v, t), loss

    run = jax.jit(update, donate_argnums=0)
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    box = [(params, zeros(), zeros(), jnp.float32(0))]

    def step():
        box[0], box[1:] = (lambda r: (r[0], [r[1]]))(run(box[0], x, y))
    return step, lambda: jax.block_until_ready(box)


# --- answers -------------------------------------------------------------------------------------------

def slow_half(case):
    """bf16 convolutions of PyTorch take minutes on CPUs without their own kernels for it."""
    return case[0] in ('lenet', 'resnet') and platform.machine() == 'aarch64'


def ways(case, half):
    """All ways that are not known to be hopeless, the quick ones first."""
    for precision in ([False, True] if half else [False]):
        name = 'bf16' if precision else 'f32'
        if not (precision and slow_half(case)):
            yield f'PyTorch {name}', torch_step, precision, False
            yield f'PyTorch compiled {name}', torch_step, precision, True
        yield f'JAX {name}', jax_step, precision, True


def fastest(name):
    case, half = CASES.get(name.rpartition(' ')[0]), name.endswith(' bf16')
    best, hopeless = None, set()
    for way, make, precision, compiled in ways(case, half) if case else []:
        if (make, precision) in hopeless:
            continue  # the compiler calls the same products
        try:
            step, wait = make(*case, precision, compiled)
            step()
            took = seconds(step, 0, wait)
            if best is None or took < GIVEN_UP * best[2]:
                took = seconds(step, 0.3, wait)
            else:
                hopeless.add((make, precision))
        except Exception as error:
            print(f'  {name}: {way} failed: {str(error)[:120]}', file=sys.stderr, flush=True)
            continue
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f'  {name}: {way} {took * 1e3:.3f} ms (peak so far {memory:.0f} MB)', file=sys.stderr, flush=True)
        if best is None or took < best[2]:
            best = step, wait, took
    return best


def memory(name):
    """Eager PyTorch, which takes less than its compiler does; grown after everything is imported."""
    case = CASES[name.rpartition(' ')[0]]
    half = name.endswith(' bf16') and not slow_half(case)
    warm, _ = torch_step(*CASES['tiny mlp 16-32-32-2 B32'], half, False)
    warm()  # all that PyTorch loads when it is first used

    def run():
        step, wait = torch_step(*case, half, False)
        for _ in range(3):
            step()
        wait()
    return grown_mb(run)


if memory_of:
    print(f'{memory(memory_of):.1f}')
    sys.exit()

answer(fastest, lambda ready: seconds(ready[0], 0.1, ready[1]))
