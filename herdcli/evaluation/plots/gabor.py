"""Gabor functions fitted to many pictures at once: where, how large, how oriented and how fine a filter is.

    g = exp(−½ (x'²/σ² + y'²/τ²)) (a cos 2πfx' + b sin 2πfx'),   x' = (x − x₀) cos θ + (y − y₀) sin θ,
                                                                   y' = (y − y₀) cos θ − (x − x₀) sin θ

in pixels, x to the right and y downwards from the upper left one; x' runs across the bars.  Squares are minimised by
Levenberg's and Marquardt's steps on all pictures side by side, from several starts each: the peaks of the power spectrum
give f and θ, the moments of the picture's fourth power the place and the size.
Source: Teh (2003), sec. 4.7.2, after Lewicki & Olshausen (1999); Marquardt (1963).
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from herdcli.algorithm import Map
from herdcli.records import dataclass
from herdcli.schema import Array

PIXELS = 1 << 14  # total number of pixels of pictures that are fitted together, so that their derivatives stay in the cache
TRIED, REFINED = 12, 40  # steps from every start, and from the best one
SPECTRUM = 64  # the power spectrum is sampled at so many frequencies a side
SMALLEST = 0.3  # σ and τ, in pixels
FLAT = 1e-12  # pictures whose squares are less than this are no filters


@dataclass(frozen=True)
class GaborParameters:
    """Parameters (n,) of the functions fitted to n pictures; 0 ≤ θ < π and f ≥ 0.  r2 is 1 − residual over total variation."""

    x: Array
    y: Array
    sigma: Array  # standard deviation across the bars, in pixels
    tau: Array  # along them
    theta: Array  # direction across the bars, in radians
    frequency: Array  # cycles per pixel
    amplitude: Array
    phase: Array  # at (x, y), in radians
    r2: Array


def fit_gabors(pictures: Array, *, map: Map = map) -> GaborParameters:
    """The Gabor functions nearest to pictures (n, height, width).  A picture without variation has r2 = 0."""
    batch = max(1, PIXELS // pictures[0].size)
    parts = list(map(_fit_batch, [pictures[start : start + batch].astype(np.float64) for start in range(0, len(pictures), batch)]))
    return GaborParameters(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(GaborParameters)))


def gabor_images(parameters: GaborParameters, height: int, width: int) -> Array:
    """The functions themselves, (n, height, width)."""
    a, b = parameters.amplitude * np.cos(parameters.phase), -parameters.amplitude * np.sin(parameters.phase)
    stacked = np.stack(
        [parameters.x, parameters.y, np.log(parameters.sigma), np.log(parameters.tau), parameters.theta, parameters.frequency, a, b], axis=1
    )
    return _gabor_values(stacked, *_pixel_grid(height, width)).reshape(-1, height, width)


def _pixel_grid(height: int, width: int) -> tuple[Array, Array]:
    y, x = np.mgrid[:height, :width].astype(np.float64)
    return x.ravel(), y.ravel()


def _fit_batch(pictures: Array) -> GaborParameters:
    count, height, width = pictures.shape
    grid, data = _pixel_grid(height, width), pictures.reshape(count, -1)
    total = ((data - data.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    scale = np.sqrt(np.maximum((data**2).sum(axis=1), FLAT))[:, np.newaxis]
    data = data / scale
    starts = _initial_parameters(data.reshape(pictures.shape), grid)
    each = len(starts) // count
    tried, error = _levenberg_marquardt(starts, np.repeat(data, each, axis=0), grid, TRIED)
    best = np.arange(count) * each + error.reshape(count, each).argmin(axis=1)
    p, error = _levenberg_marquardt(tried[best], data, grid, REFINED)
    r2 = np.where(total > FLAT, 1.0 - error * scale[:, 0] ** 2 / np.maximum(total, FLAT), 0.0)
    a, b = p[:, 6] * scale[:, 0], p[:, 7] * scale[:, 0]
    backwards = (np.floor_divide(p[:, 4], np.pi) % 2 == 1) != (p[:, 5] < 0)  # x' the other way round
    phase = np.arctan2(np.where(backwards, b, -b), a)
    return GaborParameters(p[:, 0], p[:, 1], np.exp(p[:, 2]), np.exp(p[:, 3]), p[:, 4] % np.pi, np.abs(p[:, 5]), np.hypot(a, b), phase, r2)


def _initial_parameters(pictures: Array, grid: tuple[Array, Array]) -> Array:
    """Four starts (4n, 8) for each picture: two peaks of its spectrum, two sizes."""
    count, height, width = pictures.shape
    x, y = grid
    mass = pictures.reshape(count, -1) ** 4
    mass = mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300)
    x0, y0 = mass @ x, mass @ y
    spread = (mass * ((x - x0[:, np.newaxis]) ** 2 + (y - y0[:, np.newaxis]) ** 2)).sum(axis=1) / 2
    # The fourth power of exp(−½ u²/σ²) has the variance σ²/4 along u.
    size = np.clip(2.0 * np.sqrt(spread), 0.7, max(height, width) / 2)
    power = np.abs(np.fft.rfft2(pictures, (SPECTRUM, SPECTRUM))) ** 2
    down, across = np.fft.fftfreq(SPECTRUM), np.fft.rfftfreq(SPECTRUM)
    result: Array = np.zeros((count, 2, 2, 8))
    for peak in range(2):
        place = power.reshape(count, -1).argmax(axis=1)
        fy, fx = down[place // len(across)], across[place % len(across)]
        result[:, peak, :, 4] = np.arctan2(fy, fx)[:, np.newaxis]
        result[:, peak, :, 5] = np.maximum(np.hypot(fx, fy), 0.25 / max(height, width))[:, np.newaxis]
        near = np.hypot(down[:, np.newaxis] - fy[:, np.newaxis, np.newaxis], across - fx[:, np.newaxis, np.newaxis]) < 1.5 / max(
            height, width
        )
        power[near] = 0.0
    for index, factor in enumerate((1.0, 0.5)):
        result[:, :, index, 2:4] = np.log(np.maximum(size * factor, SMALLEST))[:, np.newaxis, np.newaxis]
    result[..., 0], result[..., 1] = x0[:, np.newaxis, np.newaxis], y0[:, np.newaxis, np.newaxis]
    result = result.reshape(-1, 8)
    return _solve_amplitudes(result, np.repeat(pictures.reshape(count, -1), 4, axis=0), grid)


def _solve_amplitudes(p: Array, data: Array, grid: tuple[Array, Array]) -> Array:
    """a and b by least squares, the rest as it is."""
    derivatives = _gabor_derivatives(p, *grid)[1][:, 6:]
    gram = derivatives @ derivatives.transpose(0, 2, 1) + 1e-9 * np.eye(2)
    p[:, 6:] = np.linalg.solve(gram, derivatives @ data[:, :, np.newaxis])[..., 0]
    return p


def _gabor_values(p: Array, x: Array, y: Array) -> Array:
    return _gabor_derivatives(p, x, y)[0]


def _gabor_derivatives(p: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """g (n, P) at the pixels, and its derivatives (n, 8, P) by x₀, y₀, log σ, log τ, θ, f, a, b."""
    x0, y0, log_sigma, log_tau, theta, f, a, b = (column[:, np.newaxis] for column in p.T)
    cos, sin = np.cos(theta), np.sin(theta)
    u, v = (x - x0) * cos + (y - y0) * sin, (y - y0) * cos - (x - x0) * sin
    across, along = u * np.exp(-2 * log_sigma), v * np.exp(-2 * log_tau)  # u/σ², v/τ²
    envelope = np.exp(-0.5 * (u * across + v * along))
    wave, other = np.cos(2 * np.pi * f * u), np.sin(2 * np.pi * f * u)
    g = envelope * (a * wave + b * other)
    turned = envelope * (b * wave - a * other) * (2 * np.pi)  # ∂g/∂(fu)
    by_u, by_v = turned * f - g * across, -g * along
    result = np.empty((len(p), 8, x.size))
    # ∂u/∂(x₀, y₀, θ) = (−cos θ, −sin θ, v) and ∂v/∂(x₀, y₀, θ) = (sin θ, −cos θ, −u); by log σ the exponent −½ u²/σ² grows by u²/σ².
    result[:, 0] = by_v * sin - by_u * cos
    result[:, 1] = -by_u * sin - by_v * cos
    result[:, 2], result[:, 3] = g * u * across, g * v * along
    result[:, 4] = by_u * v - by_v * u
    result[:, 5] = turned * u
    result[:, 6], result[:, 7] = envelope * wave, envelope * other
    return g, result


def _levenberg_marquardt(p: Array, data: Array, grid: tuple[Array, Array], steps: int) -> tuple[Array, Array]:
    """So many damped Gauss-Newton steps from p (n, 8), each kept where it lowers the squares; p and the squares left (n,)."""
    x, y = grid
    side = max(x.max(), y.max()) + 1
    lowest = np.array([-side / 2, -side / 2, np.log(SMALLEST), np.log(SMALLEST), -np.inf, -0.75, -np.inf, -np.inf])
    highest = np.array([1.5 * side, 1.5 * side, np.log(2 * side), np.log(2 * side), np.inf, 0.75, np.inf, np.inf])
    damping = np.full(len(p), 1e-2)
    g, derivatives = _gabor_derivatives(p, x, y)
    error = ((data - g) ** 2).sum(axis=1)
    for _ in range(steps):
        gradient = (derivatives @ (data - g)[:, :, np.newaxis])[..., 0]
        normal = derivatives @ derivatives.transpose(0, 2, 1)
        diagonal = np.einsum("nii->ni", normal)
        # (D'D + λ diag D'D) δ = D'r: the damping is in the units of each parameter (Marquardt 1963).  Small λ is Gauss & Newton's step,
        # large λ a short one downhill.
        diagonal += damping[:, np.newaxis] * diagonal + 1e-10
        moved = np.clip(p + np.linalg.solve(normal, gradient[..., np.newaxis])[..., 0], lowest, highest)
        new_g, new_derivatives = _gabor_derivatives(moved, x, y)
        new_error = ((data - new_g) ** 2).sum(axis=1)
        better = new_error < error
        p, error = np.where(better[:, np.newaxis], moved, p), np.where(better, new_error, error)
        g[better], derivatives[better] = new_g[better], new_derivatives[better]
        damping = np.clip(np.where(better, damping * 0.3, damping * 5.0), 1e-9, 1e9)
    return p, error
