"""Training steps in JAX, for the peers of bench_step and bench_gpu."""
import jax
import jax.numpy as jnp
import numpy as np

from torch_models import STAGES

RATE, DECAY = 1e-3, 0.01
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


def jax_step(kind, settings, x, y, half):
    """A step, and what waits for it; x and y are numpy's."""
    params, apply = jax_model(kind, settings)
    x, y = jnp.asarray(x), jnp.asarray(y)

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
