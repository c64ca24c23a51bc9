"""Products, exponentials and logarithms, rounded as in NumPy and BLAS, or under `exact_arithmetic_enabled` identically on every machine.

The last bits of results of BLAS, NumPy and the C library depend on the processor: each has code for several processors, with different
orders of addition.  Within `exact_arithmetic_enabled()` these functions use `fast.exact_*`, in which every rounding is fixed: additions,
multiplications, divisions and roots as in IEEE 754, in one order.  Otherwise each is, bit for bit, the NumPy function that its docstring
names.  Topics call these instead of `@` and `np.exp`.  Whether arithmetic is exact is a property of the run, like `np.errstate`, and not
part of any signature.  Sums of NumPy (`np.sum`, `cumsum`, `einsum` without `optimize`) have one order on all processors and are not
replaced.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from herdcli import fast
from herdcli.schema import Array, Matrix, is_sparse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_EXACT: ContextVar[bool] = ContextVar("exact", default=False)
LOG_TAU = 1.8378770664093453  # log 2π; a logarithm of the C library may differ in its last bit
LARGEST_TANH = 22.0  # tanh of a larger number is 1 in float64
LEAST = 2.0**-54  # probability at which a normal number is drawn instead of at 0


def is_exact() -> bool:
    """Return whether arithmetic is exact in this context."""
    return _EXACT.get()


@contextmanager
def exact_arithmetic_enabled() -> Iterator[None]:
    """Use exact arithmetic in this thread within the `with` block."""
    token = _EXACT.set(True)
    try:
        yield
    finally:
        _EXACT.reset(token)


def set_exact(exact: bool) -> None:
    """Set whether arithmetic in this thread is exact, as in the thread that starts it: workers have contexts of their own."""
    _EXACT.set(exact)


def matrix_product(a: Matrix, b: Array, out: Array | None = None) -> Array:
    """Return a b as `a @ b`: (n, k) by (k, m), (n, k) by (k,), (k,) by (k, m) or (k,) by (k,), into `out` (n, m) if given.

    Exact products are those of `fast.exact_product`; CSR matrices are multiplied by SciPy, which adds the entries in sequence.
    """
    if not _EXACT.get() or is_sparse(a):
        plain: Array = a @ b if out is None else np.matmul(a, b, out=out)
        return plain
    kind = np.result_type(a, b)
    kind = kind if kind in (np.float32, np.float64) else np.dtype(np.float64)
    left, right = np.asarray(a, dtype=kind), np.asarray(b, dtype=kind)
    shape = left.shape[:-1] + right.shape[1:]
    left, right = left.reshape(math.prod(left.shape[:-1]), left.shape[-1]), right.reshape(len(right), math.prod(right.shape[1:]))
    found = np.empty((len(left), right.shape[1]), dtype=kind) if out is None else out
    fast.exact_product(left, right, found)
    result: Array = found if out is not None else found.reshape(shape) if shape else found[0, 0]
    return result


def dot(a: Array, b: Array) -> Array:
    """Return Σ a b over all entries of two arrays of one shape, a number, as `np.vdot`."""
    return matrix_product(np.ravel(a), np.ravel(b)) if _EXACT.get() else np.asarray(np.vdot(a, b))[()]


def exp(x: Array | float, out: Array | None = None) -> Array:
    """Return e^x of numbers (..., n), as `np.exp`."""
    found: Array = _apply_elementwise(fast.exact_exp, x, out) if _EXACT.get() else np.exp(x, out=out)
    return found


def log(x: Array | float, out: Array | None = None) -> Array:
    """Return log x of numbers (..., n), as `np.log`."""
    found: Array = _apply_elementwise(fast.exact_log, x, out) if _EXACT.get() else np.log(x, out=out)
    return found


def log1p(x: Array | float) -> Array:
    """Return log(1 + x) of numbers (..., n), as `np.log1p`."""
    found: Array = _apply_elementwise(fast.exact_log1p, x, None) if _EXACT.get() else np.log1p(x)
    return found


def exp2(x: Array) -> Array:
    """Return 2^x, (n,) float64, as `np.exp2`."""
    if not _EXACT.get():
        plain: Array = np.exp2(x)
        return plain
    room = np.zeros(-(-len(x) // 16) * 16)
    room[: len(x)] = x
    fast.exp2_each(room)
    return room[: len(x)]


def hypot(a: float, b: float) -> Array:
    """Return √(a² + b²) of two numbers far from overflow, as `np.hypot`."""
    found: Array = np.sqrt(a * a + b * b) if _EXACT.get() else np.hypot(a, b)
    return found


def integer_power(x: Any, n: int) -> Any:
    """Return x^n of a number or of x (..., n), as `x ** n`; the C library rounds differently on processors without fused products."""
    if not _EXACT.get():
        return x**n
    found, square, left = 1.0, x, abs(n)
    while left:
        found, square, left = (found * square if left % 2 else found), square * square, left // 2
    return found if n >= 0 else 1.0 / found


def tanh(x: Array | float) -> Array:
    """Return tanh x of numbers (..., n), as `np.tanh`."""
    if not _EXACT.get():
        plain: Array = np.tanh(x)
        return plain
    # tanh |x| = (e^{2|x|} − 1)/(e^{2|x|} + 1) without cancellation near 0.
    twice = _apply_elementwise(fast.exact_expm1, 2.0 * np.minimum(np.abs(x), LARGEST_TANH), None)
    found: Array = np.copysign(twice / (twice + 2.0), x)
    return found


def softplus(x: Array | float) -> Array:
    """Return log(1 + e^x) of numbers (..., n)."""
    # log(1 + e^x) = max(x, 0) + log(1 + e^{−|x|}): the exponent is never positive.
    found: Array = np.maximum(x, 0.0) + log1p(exp(-np.abs(x)))
    return found


def log_add_exp(a: ArrayLike, b: ArrayLike) -> Array:
    """Return log(e^a + e^b) of numbers (..., n), as `np.logaddexp`."""
    if not _EXACT.get():
        plain: Array = np.logaddexp(a, b)
        return plain
    high, low = np.maximum(a, b), np.minimum(a, b)
    with np.errstate(invalid="ignore"):
        gap = np.where(high == low, 0.0, low - high)  # the difference of two equal infinities is undefined
    found: Array = high + log1p(exp(gap))
    return found


def log_sum_exp(x: Array, axis: int = 0, *, keepdims: bool = False) -> Array:
    """Return log Σ e^x along an axis of x (..., n), as `np.logaddexp.reduce`."""
    if not _EXACT.get():
        plain: Array = np.logaddexp.reduce(x, axis=axis, keepdims=keepdims)  # type: ignore[call-overload]
        return plain
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found = log(exp(x - safe).sum(axis=axis, keepdims=True)) + safe
    result: Array = found if keepdims else found.squeeze(axis)[()]
    return result


def standard_normals(generator: np.random.Generator, shape: int | tuple[int, ...], dtype: type = np.float64) -> Array:
    """Return independent standard normal numbers (..., n), float64 or float32, as `standard_normal`.

    In exact mode the numbers differ: they are normal quantiles of uniform numbers, computed without the C library's logarithms.
    Source: Wichura (1988), algorithm AS 241, relative error 1e-16.
    """
    if not _EXACT.get():
        plain: Array = generator.standard_normal(shape, dtype=dtype)
        return plain
    u = generator.random(shape)
    q = u - 0.5
    r = 0.180625 - q * q
    found = np.asarray(q * _evaluate_rational(r, CENTRAL))
    far = np.abs(q) > 0.425
    # In the tails, quantiles are ratios in √(−log p), where p is the probability of the nearer tail.
    root = np.sqrt(-log(np.maximum(np.minimum(u[far], 1.0 - u[far]), LEAST)))
    tail = np.where(root <= 5.0, _evaluate_rational(root - 1.6, TAIL), _evaluate_rational(root - 5.0, EXTREME))
    found[far] = np.copysign(tail, q[far])
    drawn: Array = found.astype(dtype)
    return drawn


Coefficients = tuple[tuple[float, ...], tuple[float, ...]]  # coefficients of numerator and denominator, highest power first
CENTRAL: Coefficients = (
    (
        *(2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4),
        *(1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0),
    ),
    (
        *(5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4),
        *(5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
    ),
)
TAIL: Coefficients = (
    (
        *(7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0),
        *(3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0),
    ),
    (
        *(1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1),
        *(6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0),
    ),
)
EXTREME: Coefficients = (
    (
        *(2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2),
        *(2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0),
    ),
    (
        *(2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4),
        *(1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
    ),
)


def _evaluate_rational(x: Array, coefficients: Coefficients) -> Array:
    above, below = (_evaluate_polynomial(x, part) for part in coefficients)
    return above / below


def _evaluate_polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    found: Array = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        found = found * x + coefficient
    return found


def _apply_elementwise(function: Callable[[Array], None], x: Array | float, out: Array | None) -> Array:
    """Apply a function to every entry in float64; results have the type of the entries."""
    given = np.asarray(x)
    work = np.array(given, dtype=np.float64, order="C")
    function(work.reshape(-1))
    if out is not None:
        out[...] = work
        return out
    found: Array = (work.astype(np.float32) if given.dtype == np.float32 else work)[()]
    return found
