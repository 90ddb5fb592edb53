"""Fits the polynomials of lowering/targets/math and prints them, highest coefficient first.

Weighted minimax by Lawson's algorithm (iteratively reweighted least squares; C. L. Lawson, 1961)
on Chebyshev points, in a Chebyshev basis. Coefficients are then rounded to the working precision
one by one, from the lowest power, each time refitting the rest. Needs numpy and mpmath.

Usage: fit.py [name...]
"""

import sys

import mpmath as mp
import numpy as np
from numpy.polynomial import chebyshev

mp.mp.dps = 50


def fit(values, x, weight, degree):
    """Minimax polynomial to `values` at x, error times weight; coefficients lowest first."""
    a, b = x.min(), x.max()
    t = (2 * x - a - b) / (b - a)
    matrix = chebyshev.chebvander(t, degree)
    w = np.ones_like(x)
    best = None
    for _ in range(60):
        root = np.sqrt(w) * weight
        c = np.linalg.lstsq(matrix * root[:, None], values * root, rcond=None)[0]
        error = np.abs((matrix @ c - values) * weight)
        if best is None or error.max() < best[0]:
            best = (error.max(), c)
        w *= error
        w /= w.sum()
    # From the Chebyshev basis on [a, b] to powers of x, exactly enough.
    poly, scale, shift = (
        [mp.mpf(0)],
        mp.mpf(2) / (mp.mpf(b) - mp.mpf(a)),
        -(mp.mpf(a) + mp.mpf(b)) / (mp.mpf(b) - mp.mpf(a)),
    )
    previous, current = [mp.mpf(1)], [shift, scale]

    def add(p, q, k):
        n = max(len(p), len(q))
        return [(p[i] if i < len(p) else 0) + k * (q[i] if i < len(q) else 0) for i in range(n)]

    def times_t(p):
        return add([shift * v for v in p], [mp.mpf(0)] + [scale * v for v in p], 1)

    for k, value in enumerate(best[1]):
        term = previous if k == 0 else current
        poly = add(poly, term, mp.mpf(value))
        if k >= 1:
            previous, current = current, add([2 * v for v in times_t(current)], previous, -1)
    return [float(v) for v in poly]


def run(name, f, a, b, degree, weight=lambda x: 1, single=True, fixed=()):
    """Prints the coefficients and the error of f(x) ~ polynomial(x) on [a, b].

    `fixed` are the lowest coefficients, given.
    """
    n = 600
    x = np.array([(a + b) / 2 + (b - a) / 2 * np.cos(np.pi * (k + 0.5) / n) for k in range(n)])
    exact = [f(mp.mpf(float(v))) for v in x]
    w = np.array([float(weight(mp.mpf(float(v)))) for v in x])
    cast = (lambda v: float(np.float32(v))) if single else float
    known = [cast(c) for c in fixed]
    while len(known) <= degree:
        k = len(known)
        rest = np.array(
            [
                float(
                    (y - mp.polyval(known[::-1] or [0], mp.mpf(float(v)))) / mp.mpf(float(v)) ** k
                )
                for v, y in zip(x, exact, strict=True)
            ]
        )
        c = fit(rest, x, w * np.abs(x) ** k, degree - k)
        known.append(cast(c[0]))
    error = max(
        abs(float(y - mp.polyval(known[::-1], mp.mpf(float(v))))) * wv
        for v, y, wv in zip(x, exact, w, strict=True)
    )
    print(f"{name}: error 2^{np.log2(error):.1f}")
    print("  {" + ", ".join(repr(float(np.float32(c)) if single else c) for c in known[::-1]) + "}")


def root(z, f, limit):
    """f(sqrt(z)) for functions of the square of their argument; `limit` is the value at 0."""
    return limit if z < mp.mpf(10) ** -20 else f(mp.sqrt(z))


def scaled_erfc(x):
    return mp.exp(x * x) * mp.erfc(x)


FITS = {
    # exp(r) = 1 + r + r^2 P(r), |r| <= ln2 / 2 (a little more, for the rounding of the reduction)
    "exp": lambda: run(
        "exp", lambda r: (mp.exp(r) - 1 - r) / r**2, -0.3475, 0.3475, 4, lambda r: r**2
    ),
    "expm1": lambda: run(
        "expm1", lambda r: (mp.exp(r) - 1 - r) / r**2, -0.3475, 0.3475, 5, lambda r: abs(r)
    ),
    # log(1 + f) = f - f^2/2 + f^3 P(f), sqrt(1/2) <= 1 + f <= sqrt(2)
    "log": lambda: run(
        "log",
        lambda f: (mp.log1p(f) - f + f**2 / 2) / f**3,
        -0.2930,
        0.4143,
        8,
        lambda f: abs(f**3 / mp.log1p(f)),
    ),
    "log2": lambda: run(
        "log2",
        lambda f: (mp.log1p(f) / mp.log(2) - f / mp.log(2)) / f**2,
        -0.2930,
        0.4143,
        8,
        lambda f: abs(f**2 / mp.log1p(f)),
    ),
    # sin(r) = r + r^3 P(r^2), cos(r) = 1 - r^2/2 + r^4 P(r^2), |r| <= pi/4
    "sin": lambda: run(
        "sin",
        lambda z: root(z, lambda r: (mp.sin(r) - r) / r**3, mp.mpf(-1) / 6),
        1e-9,
        0.62,
        3,
        lambda z: z,
    ),
    "cos": lambda: run(
        "cos",
        lambda z: root(z, lambda r: (mp.cos(r) - 1 + r**2 / 2) / r**4, mp.mpf(1) / 24),
        1e-9,
        0.62,
        3,
        lambda z: z**2,
    ),
    # tanh(x) = x + x^3 P(x^2), |x| <= 0.625
    "tanh": lambda: run(
        "tanh",
        lambda z: root(z, lambda x: (mp.tanh(x) - x) / x**3, mp.mpf(-1) / 3),
        1e-9,
        0.3907,
        5,
        lambda z: z,
    ),
    # erf(x) = x + x P(x^2), |x| <= 1
    "erf": lambda: run(
        "erf", lambda z: root(z, lambda x: mp.erf(x) / x - 1, 2 / mp.sqrt(mp.pi) - 1), 1e-9, 0.85, 6
    ),
    # erf(x) = 1 - exp(P(x)), 0.92 <= x <= 4
    "erf_tail": lambda: run(
        "erf_tail", lambda x: mp.log(mp.erfc(x)), 0.92, 4.0, 8, lambda x: mp.erfc(x) / mp.erf(x)
    ),
    # In float32, for results of bfloat16 and float16. The tail, subnormal in float16, may be as
    # coarse as bfloat16 is.
    "short_erfc": lambda: run(
        "short_erfc",
        lambda x: mp.log(mp.erfc(x), 2),
        0.0,
        9.6,
        9,
        lambda x: 1 if x < 4 else 2**-4,
        fixed=(0,),
    ),
    "short_erf": lambda: run(
        "short_erf",
        lambda z: root(z, lambda x: mp.erf(x) / x - 1, 2 / mp.sqrt(mp.pi) - 1),
        1e-9,
        0.25,
        2,
    ),
    "short_tanh": lambda: run(
        "short_tanh",
        lambda z: root(z, lambda x: (mp.tanh(x) - x) / x**3, mp.mpf(-1) / 3),
        1e-9,
        0.0625,
        1,
        lambda z: z,
    ),
    "short_log": lambda: run(
        "short_log",
        lambda f: (mp.log1p(f) - f) / f**2 if abs(f) > 1e-9 else mp.mpf(-1) / 2,
        -0.0626,
        0.0626,
        2,
        abs,
    ),
    # erfc(a) = exp(-a^2) t P(t), t = 1 / (1 + a / 2), 0 <= a <= 10, coarser from 2 on
    "near_erfc": lambda: run(
        "near_erfc",
        lambda t: scaled_erfc(2 / t - 2) / t,
        1 / 6,
        1.0,
        6,
        lambda t: 2 ** -min(max(2 * (2 / t - 4), 0), 6) * t / scaled_erfc(2 / t - 2),
    ),
    # In float64, for float32 results:
    "exp_wide": lambda: run(
        "exp_wide",
        lambda r: (mp.exp(r) - 1 - r) / r**2,
        -0.3466,
        0.3466,
        6,
        lambda r: r**2,
        single=False,
    ),
    "exp2_wide": lambda: run(
        "exp2_wide", lambda r: (2**r - 1) / r, -0.5, 0.5, 7, abs, single=False
    ),
    # log(m) = 2 s + s^3 P(s^2), s = (m - 1) / (m + 1), |s| <= 0.1716
    "log_wide": lambda: run(
        "log_wide",
        lambda z: root(z, lambda s: (2 * mp.atanh(s) - 2 * s) / s**3, mp.mpf(2) / 3),
        1e-9,
        0.02945,
        4,
        lambda z: z,
        single=False,
    ),
    "tan_wide": lambda: run(
        "tan_wide",
        lambda z: root(z, lambda r: (mp.tan(r) - r) / r**3, mp.mpf(1) / 3),
        1e-9,
        0.618,
        9,
        lambda z: z,
        single=False,
    ),
    "asin_wide": lambda: run(
        "asin_wide",
        lambda z: root(z, lambda x: (mp.asin(x) - x) / x**3, mp.mpf(1) / 6),
        1e-9,
        0.25,
        8,
        lambda z: z,
        single=False,
    ),
    "atan_wide": lambda: run(
        "atan_wide",
        lambda z: root(z, lambda x: (mp.atan(x) - x) / x**3, mp.mpf(-1) / 3),
        1e-9,
        0.1716,
        6,
        lambda z: z,
        single=False,
    ),
    "sinh_wide": lambda: run(
        "sinh_wide",
        lambda z: root(z, lambda x: (mp.sinh(x) - x) / x**3, mp.mpf(1) / 6),
        1e-9,
        1.0,
        4,
        lambda z: z,
        single=False,
    ),
    # erfc(x) = exp(-x^2) P(t) / (1 + 2 x), t = (x - 4) / (x + 4), 0 <= x <= 10.2
    "erfc_wide": lambda: run(
        "erfc_wide",
        lambda t: (lambda x: scaled_erfc(x) * (1 + 2 * x))(4 * (1 + t) / (1 - t)),
        -1.0,
        0.44,
        14,
        single=False,
    ),
}

if __name__ == "__main__":
    for key in sys.argv[1:] or FITS:
        FITS[key]()
