"""The peer of bench_distributed: all_reduce of torch.distributed with gloo, by the same names.

    python bench/peers/distributed.py RANKS       # reads names, answers with seconds a call
"""
import re
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def once(data, calls):
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(data)
    return (time.perf_counter() - begin) / calls


def follow(rank, size, meet, asks):
    """Sums with the others as often as rank 0 is asked to."""
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method='file://' + meet, rank=rank, world_size=size)
    while True:
        ask = asks.get()  # sleeps
        if ask is None:
            return
        count, calls = ask
        once(torch.zeros(count), calls)


def main():
    size = int(sys.argv[1])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        context = mp.get_context('spawn')
        asks = [context.Queue() for _ in range(1, size)]
        peers = [context.Process(target=follow, args=(r, size, folder + '/meet', asks[r - 1]), daemon=True)
                 for r in range(1, size)]
        for p in peers:
            p.start()
        dist.init_process_group('gloo', init_method='file://' + folder + '/meet', rank=0, world_size=size)

        def run(count, calls):
            for a in asks:
                a.put((count, calls))
            return once(torch.zeros(count), calls)

        for line in sys.stdin:
            m = re.fullmatch(r'\d+ ranks (\d+) bytes', line.strip())
            if not m:
                print('no such case', flush=True)
                continue
            count = int(m[1]) // 4
            calls = max(2, min(200, int(2e-3 / run(count, 2)) + 1))
            run(count, 1)
            print(run(count, calls), flush=True)
        for a in asks:
            a.put(None)


if __name__ == '__main__':
    main()
