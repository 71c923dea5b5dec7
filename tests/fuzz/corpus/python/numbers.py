SIZE = 224; HALF = SIZE // 2
ints = [0, -1, 0x1F, 0o17, 0b11, 1_000]
floats = (1., .5, 1e-5, 5 / 300, 1e16, 123456789.125, float("inf"), -0.0)
size = dict(a=int(SIZE * 0.45), half=float(HALF), all=ints)
