# Each once.
sums = dict(a=[1 + 2 * 3 - 4, (1 + 2) * 3, 2 ** 10, 2 ** -1, -7 // 2, -7 % 3, 7.5 // 2, -7.5 % 2, -2 ** 2])
joined = {"list": [1] * 3 + [2], "text": "=" * 3 + "ab", "yes": True, "no": False, "none": None}
joined["text"] += "c"
sums.a[0] -= 1
sums.a[1] *= 2
