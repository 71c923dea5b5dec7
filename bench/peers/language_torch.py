"""The peer of bench_language's steps: BERT's pre-training in PyTorch, eager and compiled.

    python bench/peers/language_torch.py THREADS        # reads names, answers with seconds a step
    python bench/peers/language_torch.py --memory NAME  # MB by which the process grows at its peak

A name holds all sizes: "bert L12 C768 H12 V30522 T128 B8 P20 bf16". Every way of running a case is
tried once; the fastest is the peer and is measured from then on. A case in bf16 may be answered by
a step in f32, if that is faster here. How each way did goes to the standard error.
"""
import os
import re
import resource
import sys

memory_of = sys.argv[2] if sys.argv[1] == '--memory' else None
threads = len(os.sched_getaffinity(0)) if memory_of else int(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])

import torch
import torch.nn as nn
import torch.nn.functional as F

from answer import answer, grown_mb, seconds

torch.set_num_threads(threads)
torch.manual_seed(0)
DROPOUT, GIVEN_UP = 0.1, 10  # a way that is this many times slower than another is not tried further


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.norm_1, self.norm_2 = nn.LayerNorm(size, 1e-12), nn.LayerNorm(size, 1e-12)

    def forward(self, x, mask):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=DROPOUT)
        seen = self.out(seen.transpose(1, 2).reshape(b, t, c))
        x = self.norm_1(x + F.dropout(seen, DROPOUT))
        more = self.down(F.gelu(self.up(x), approximate='tanh'))
        return self.norm_2(x + F.dropout(more, DROPOUT))


class Bert(nn.Module):
    def __init__(self, L, C, H, V, T):
        super().__init__()
        self.words, self.places, self.types = nn.Embedding(V, C), nn.Embedding(512, C), nn.Embedding(2, C)
        self.norm = nn.LayerNorm(C, 1e-12)
        self.blocks = nn.ModuleList(Block(C, H) for _ in range(L))
        self.guess, self.guess_norm, self.guess_bias = nn.Linear(C, C), nn.LayerNorm(C, 1e-12), nn.Parameter(
            torch.zeros(V))
        self.inner, self.follows = nn.Linear(C, C), nn.Linear(C, 2)

    def forward(self, ids, mask, types, where):
        x = self.words(ids) + self.places.weight[:ids.shape[1]] + self.types(types)
        x = F.dropout(self.norm(x), DROPOUT)
        mask = mask[:, None, None, :].bool()
        for block in self.blocks:
            x = block(x, mask)
        hidden = x.gather(1, where[:, :, None].expand(-1, -1, x.shape[2]))
        hidden = self.guess_norm(F.gelu(self.guess(hidden), approximate='tanh'))
        first = F.dropout(torch.tanh(self.inner(x[:, 0])), DROPOUT)
        return F.linear(hidden, self.words.weight, self.guess_bias), self.follows(first)


def sizes(name):
    return {letter: int(number) for letter, number in re.findall(r' ([A-Z])(\d+)', name)}


def make_step(name, half, compiled):
    torch._dynamo.reset()
    z = sizes(name)
    B, T, P, V = z['B'], z['T'], z['P'], z['V']
    model = Bert(z['L'], z['C'], z['H'], V, T)
    ids, labels = torch.randint(5, V, (B, T)), torch.randint(5, V, (B * P,))
    mask, types = torch.ones(B, T, dtype=torch.long), (torch.arange(T) >= T // 2).long().expand(B, T).contiguous()
    where, follows = torch.randint(1, T, (B, P)), torch.randint(0, 2, (B,))
    weights = torch.ones(B * P)
    decayed = [p for n, p in model.named_parameters() if 'norm' not in n and 'bias' not in n]
    others = [p for n, p in model.named_parameters() if 'norm' in n or 'bias' in n]
    optimizer = torch.optim.AdamW([dict(params=decayed, weight_decay=0.01), dict(params=others, weight_decay=0)],
                                  1e-4, fused=True)
    parameters = list(model.parameters())

    def loss_of(ids, mask, types, where):
        words, first = model(ids, mask, types, where)
        losses = F.cross_entropy(words.float().flatten(0, 1), labels, reduction='none')
        return (losses * weights).sum() / weights.sum() + F.cross_entropy(first.float(), follows)

    forward = torch.compile(loss_of) if compiled else loss_of

    def step():
        with torch.autocast('cpu', torch.bfloat16, enabled=half):
            loss = forward(ids, mask, types, where)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return step


# --- answers -------------------------------------------------------------------------------------------

def fastest(name):
    best, hopeless = None, set()
    for half in ([False, True] if name.endswith(' bf16') else [False]):
        for compiled in (False, True):
            if half in hopeless:
                continue  # the compiler calls the same products
            way = f'PyTorch {"compiled " if compiled else ""}{"bf16" if half else "f32"}'
            try:
                step = make_step(name, half, compiled)
                step()
                took = seconds(step, 0)
                if best is None or took < GIVEN_UP * best[1]:
                    took = seconds(step, 0.5)
                else:
                    hopeless.add(half)
            except Exception as error:
                print(f'  {name}: {way} failed: {str(error)[:120]}', file=sys.stderr, flush=True)
                continue
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(f'  {name}: {way} {took * 1e3:.3f} ms (peak so far {peak:.0f} MB)', file=sys.stderr, flush=True)
            if best is None or took < best[1]:
                best = (half, compiled), took, step
    if best is None or best[0] == (half, compiled):
        return best and best[2]
    step = make_step(name, *best[0])  # anew: to try the others the compiler forgot what it had made
    for _ in range(3):
        step()
    return step


def memory(name):
    """Eager PyTorch, which takes less than its compiler does; grown after everything is imported."""
    half = name.endswith(' bf16')
    make_step('bert L2 C32 H2 V100 T32 B1 P5 f32', half, False)()  # all that PyTorch loads when it is first used

    def run():
        step = make_step(name, half, False)
        for _ in range(3):
            step()
    return grown_mb(run)


if memory_of:
    print(f'{memory(memory_of):.1f}')
    sys.exit()

answer(fastest, lambda step: seconds(step, 0.1))
