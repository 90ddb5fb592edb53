"""Prints the table of lowering/targets/math/trig_table.h.

For the float32 exponents from 2^15 up: the unit of the last place times 2/pi, modulo 4, as a
float64 of 29 bits and the rest.
"""

import mpmath as mp

mp.mp.dps = 120
for exponent in range(142, 255):
    turn = mp.fmod(mp.mpf(2) ** (exponent - 150) * 2 / mp.pi, 4)
    high = mp.floor(turn * 2**27) / 2**27
    print(f"    {{{float(high).hex()}, {float(turn - high).hex()}}},")
