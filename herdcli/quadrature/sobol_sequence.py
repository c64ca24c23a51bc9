"""The Sobol sequence in up to 64 dimensions, in natural (Gray code) order from the point 0.

Source: Sobol (1967); Antonov & Saleev (1979), the Gray code order; primitive polynomials and initial direction numbers of
Joe & Kuo (2008), new-joe-kuo-6.
"""

from __future__ import annotations

import numpy as np

from herdcli.errors import BadUsage
from herdcli.schema import Array

BITS = 52

# "p:m_1,…,m_s" for dimensions 2 … 64: the polynomial's coefficients as bits, and the first s direction numbers
_TEXT = (
    "3:1 7:1,3 11:1,3,1 13:1,1,1 19:1,1,3,3 25:1,3,5,13 37:1,1,5,5,17 41:1,1,5,5,5 47:1,1,7,11,19 55:1,1,5,1,1 59:1,1,1,3,11 "
    "61:1,3,5,5,31 67:1,3,3,9,7,49 91:1,1,1,15,21,21 97:1,3,1,13,27,49 103:1,1,1,15,7,5 109:1,3,1,15,13,25 115:1,1,5,5,19,61 "
    "131:1,3,7,11,23,15,103 137:1,3,7,13,13,15,69 143:1,1,3,13,7,35,63 145:1,3,5,9,1,25,53 157:1,3,1,13,9,35,107 "
    "167:1,3,1,5,27,61,31 171:1,1,5,11,19,41,61 185:1,3,5,3,3,13,69 191:1,1,7,13,1,19,1 193:1,3,7,5,13,19,59 203:1,1,3,9,25,29,41 "
    "211:1,3,5,13,23,1,55 213:1,3,7,3,13,59,17 229:1,3,1,3,5,53,69 239:1,1,5,5,23,33,13 241:1,1,7,7,1,61,123 247:1,1,7,9,13,61,49 "
    "253:1,3,3,5,3,55,33 285:1,3,1,15,31,13,49,245 299:1,3,5,15,31,59,63,97 301:1,3,1,11,11,11,77,249 333:1,3,1,11,27,43,71,9 "
    "351:1,1,7,15,21,11,81,45 355:1,3,7,3,25,31,65,79 357:1,3,1,1,19,11,3,205 361:1,1,5,9,19,21,29,157 369:1,3,7,11,1,33,89,185 "
    "391:1,3,3,3,15,9,79,71 397:1,3,7,11,15,39,119,27 425:1,1,3,1,11,31,97,225 451:1,1,1,3,23,43,57,177 463:1,3,7,7,17,17,37,71 "
    "487:1,3,1,5,27,63,123,213 501:1,1,3,5,11,43,53,133 529:1,3,5,5,29,17,47,173,479 539:1,3,3,11,3,1,109,9,69 "
    "545:1,1,1,5,17,39,23,5,343 557:1,3,1,5,25,15,31,103,499 563:1,1,1,11,11,17,63,105,183 601:1,1,5,11,9,29,97,231,363 "
    "607:1,1,5,15,19,45,41,7,383 617:1,3,7,7,31,19,83,137,221 623:1,1,1,3,23,15,111,223,83 631:1,1,5,13,31,15,55,25,161 "
    "637:1,1,3,13,25,47,39,87,257 "
)
DIRECTIONS = tuple(_TEXT.split())


def direction_numbers(dimension: int) -> Array:
    """Return the direction numbers (BITS,) of one dimension (0, 1, …) as integers of BITS bits."""
    numbers = [1] * BITS
    if dimension:
        text, _, initial = DIRECTIONS[dimension - 1].partition(":")
        polynomial = int(text)
        degree = polynomial.bit_length() - 1
        numbers[:degree] = [int(number) for number in initial.split(",")]
        for i in range(degree, BITS):
            # m_i = 2a_1 m_{i−1} ⊕ … ⊕ 2^{s−1} a_{s−1} m_{i−s+1} ⊕ 2^s m_{i−s} ⊕ m_{i−s}, a the polynomial's coefficients (Joe & Kuo 2008).
            number = numbers[i - degree] ^ (numbers[i - degree] << degree)
            for k in range(1, degree):
                if polynomial >> (degree - k) & 1:
                    number ^= numbers[i - k] << k
            numbers[i] = number
    return np.array([number << (BITS - 1 - i) for i, number in enumerate(numbers)], dtype=np.uint64)


def sobol_points(count: int, dimensions: int, *, start: int = 0) -> Array:
    """Return the points (count, dimensions) number `start`, start + 1, … in [0, 1), exact multiples of 2^−52.

    Raises BadUsage beyond 64 dimensions.
    """
    if dimensions > len(DIRECTIONS) + 1:
        raise BadUsage(f"the Sobol sequence works for at most {len(DIRECTIONS) + 1} columns, but there are {dimensions}")
    index = np.arange(start, start + count, dtype=np.uint64)
    # Point n is the sum modulo 2 of the direction numbers at the ones of n's Gray code: within each power of 2, this is a permutation of
    # the order by n's own bits in which only one number changes from a point to the next (Antonov & Saleev 1979).
    gray = index ^ (index >> np.uint64(1))
    out = np.zeros((count, dimensions), dtype=np.uint64)
    for j in range(dimensions):
        for bit, number in enumerate(direction_numbers(j)[: int(start + count).bit_length()]):
            out[:, j] ^= np.where(gray >> np.uint64(bit) & np.uint64(1), number, np.uint64(0))
    return out * 2.0**-BITS
