"""Prints the tables of lowering/targets/math/erf_table.h.

erf(k step + r) by a polynomial in r for each k, |r| <= step / 2, up to `last`, where erf rounds
to 1. Interpolated at Chebyshev's points. The polynomial of k = 0 is that of
erf(r) - r, so that results near 0 have no more than the last step's error.
"""

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def interpolated(f, a, b, degree):
    """The polynomial's coefficients, lowest first."""
    n = degree + 1
    x = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (k + mp.mpf(0.5)) / n) for k in range(n)]
    powers = mp.matrix(n, n)
    for i in range(n):
        for j in range(n):
            powers[i, j] = x[i] ** j
    return list(mp.lu_solve(powers, mp.matrix([f(v) for v in x])))


def table(name, step, last, degree, cast):
    half = mp.mpf(step) / 2
    columns = [[0] + interpolated(lambda r: mp.erf(r) / r - 1, mp.mpf("1e-12"), half, degree - 1)]
    for k in range(1, 16):
        center = mp.mpf(step) * k
        end = min(half, last - center)
        columns.append(interpolated(lambda r, c=center: mp.erf(c + r), -half, end, degree))
    print(f"inline constexpr std::array<double, 16> {name}[] = {{")
    for power in reversed(range(degree + 1)):
        print("    {" + ", ".join(cast(c[power]).hex() for c in columns) + "},")
    print("};\n")


if __name__ == "__main__":
    table("kErfOfF32", 67 / 256, 4.05, 5, lambda v: float(np.float32(float(v))))
    table("kErfOfF64", 197 / 512, 5.96, 12, float)
