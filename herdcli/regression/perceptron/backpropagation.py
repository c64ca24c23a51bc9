"""The forward map of a perceptron, the backward recursion of its gradient, and Pearlmutter's recursion of products with its Hessian.

With x⁰ a row and l = 1 … L, layer by layer (Makin, eq. 5.16):

    a^l = W^l x^{l−1} + b^l,        x^l = ψ(a^l),        the last one without ψ: η = a^L.

η are the natural parameters of the response's family (Makin, sec. 5.2.1, "a statistical view").  So the recursion starts from the
gradient of −log p(y | η), which for canonical links is the mean less the response (eq. 5.17):

    δ^L = ∂ℓ/∂η,                    δ^{l−1} = (W^l' δ^l) ∘ ψ'(a^{l−1}),

and the gradients are sums over rows (eq. 5.18):

    ∂ℓ/∂W^l = Σ δ^l x^{l−1}',       ∂ℓ/∂b^l = Σ δ^l.

R{·} is the derivative along a change (V^l, c^l) of the parameters.  Applied to every line above it gives the product of the Hessian with
this change, with C the curvature of −log p in η:

    R{a^l} = W^l R{x^{l−1}} + V^l x^{l−1} + c^l,         R{x^l} = ψ'(a^l) ∘ R{a^l},
    R{δ^L} = C R{η},
    R{δ^{l−1}} = (W^l' R{δ^l} + V^l' δ^l) ∘ ψ'(a^{l−1}) + (W^l' δ^l) ∘ ψ''(a^{l−1}) ∘ R{a^{l−1}},
    R{∂ℓ/∂W^l} = Σ R{δ^l} x^{l−1}' + δ^l R{x^{l−1}}',    R{∂ℓ/∂b^l} = Σ R{δ^l}.

In the code rows are those of matrices, so products are in the other order.
Source: Makin, eqs. 5.16 to 5.18; Pearlmutter (1994), "Fast exact multiplication by the Hessian".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from herdcli.records import dataclass
from herdcli.regression.perceptron.activations import Activation
from herdcli.schema import Array, Matrix, is_sparse

Layers = Sequence[tuple[Array, Array]]  # W^l (n_l, n_{l−1}) and b^l (n_l,), the first layer first


@dataclass(frozen=True)
class ForwardPass:
    """The values of all layers: inputs a^1 … a^L, the last of which is η (m, K), and outputs x^0 … x^{L−1}."""

    inputs: list[Array]
    outputs: list[Array]

    @property
    def eta(self) -> Array:
        """The predictors η (m, K)."""
        return self.inputs[-1]


def forward(layers: Layers, activation: Activation, rows: Matrix) -> ForwardPass:
    """Return a^l and x^l of rows (m, D), dense or CSR."""
    inputs, outputs = list[Array](), [rows]
    for number, (W, b) in enumerate(layers):
        a = outputs[-1] @ W.T
        a += b
        inputs.append(a)
        if number < len(layers) - 1:
            outputs.append(activation.value(a))
    return ForwardPass(inputs, outputs)


def backward(layers: Layers, activation: Activation, forward_pass: ForwardPass, delta: Array, gradients: Layers) -> None:
    """Write ∂ℓ/∂W^l and ∂ℓ/∂b^l into the arrays of `gradients`.  delta  δ^L (m, K), times the weights of the rows."""
    for number in range(len(layers) - 1, -1, -1):
        x, (to_W, to_b) = forward_pass.outputs[number], gradients[number]
        _sum_products(delta, x, to_W)
        np.sum(delta, axis=0, out=to_b)
        if number:
            # δ^l = (W^{l+1}' δ^{l+1}) ∘ ψ'(a^l): the chain rule through one layer.
            delta = delta @ layers[number][0]
            delta *= activation.slope(forward_pass.inputs[number - 1], x)


def _sum_products(delta: Array, x: Matrix, out: Array) -> None:
    """Write Σ δ x' of rows δ (m, k) and x (m, n), dense or CSR, into out (k, n)."""
    if is_sparse(x):
        out[:] = (x.T @ delta).T
    else:
        np.matmul(delta.T, x, out=out)


def hessian_product(
    layers: Layers,
    change: Layers,
    activation: Activation,
    forward_pass: ForwardPass,
    delta: Array,
    curvature: Callable[[Array], Array],
    products: Layers,
) -> None:
    """Write the product of the Hessian with `change` into the arrays of `products`.

    delta      δ^L (m, K), times the weights of the rows.
    curvature  R{η} ↦ C R{η}, times the weights of the rows.
    """
    # R{·} is the derivative along the change of all weights: one pass forward for R{a} and R{x}, then one backward for R{δ}.
    moved = _directional_forward_pass(layers, change, activation, forward_pass)
    r_delta = curvature(moved.eta)
    for number in range(len(layers) - 1, -1, -1):
        x, r_x, (to_W, to_b) = forward_pass.outputs[number], moved.outputs[number], products[number]
        _sum_products(r_delta, x, to_W)
        if number:  # R{x^0} = 0
            to_W += delta.T @ r_x
        np.sum(r_delta, axis=0, out=to_b)
        if number:
            W, V, a, r_a = layers[number][0], change[number][0], forward_pass.inputs[number - 1], moved.inputs[number - 1]
            back = delta @ W
            slope = activation.slope(a, x)
            # R{δ^l} = (W' R{δ} + V' δ) ∘ ψ' + (W' δ) ∘ ψ'' ∘ R{a^l}, the product rule on δ^l.
            r_delta = (r_delta @ W + delta @ V) * slope + back * activation.curvature(a, x) * r_a
            delta = back * slope


def _directional_forward_pass(layers: Layers, change: Layers, activation: Activation, forward_pass: ForwardPass) -> ForwardPass:
    """Return R{a^l} and R{x^l}; R{x^0} is the number 0."""
    inputs, outputs = list[Array](), [np.zeros(())]
    for number, ((W, _), (V, c)) in enumerate(zip(layers, change, strict=True)):
        x = forward_pass.outputs[number]
        r_a = x @ V.T + c
        if number:
            r_a += outputs[-1] @ W.T
        inputs.append(r_a)
        if number < len(layers) - 1:
            outputs.append(activation.slope(forward_pass.inputs[number], forward_pass.outputs[number + 1]) * r_a)
    return ForwardPass(inputs, outputs)
