"""Inner loops, compiled or in NumPy, with the same signatures and, bit for bit, the same results.

Use them as `from herdcli import fast; fast.logistic(x)`.  The compiled loops are used if they were built, else their NumPy twins;
HERD_KERNELS=cython|python overrides this.  A new loop `name` consists of a pair of files, `_name.pyx` and `numpy_name.py`, and one
entry in TWINS.  A pair is imported when one of its functions is first used.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from herdcli.errors import BadUsage

if TYPE_CHECKING:  # for type checkers, which read the signatures of the NumPy twins
    from herdcli.fast.numpy_adaptive import *
    from herdcli.fast.numpy_blocks import *
    from herdcli.fast.numpy_chain import *
    from herdcli.fast.numpy_clusters import *
    from herdcli.fast.numpy_csr import *
    from herdcli.fast.numpy_dual import *
    from herdcli.fast.numpy_embedding import *
    from herdcli.fast.numpy_exact import *
    from herdcli.fast.numpy_families import *
    from herdcli.fast.numpy_flips import *
    from herdcli.fast.numpy_gibbs import *
    from herdcli.fast.numpy_herding import *
    from herdcli.fast.numpy_hmc import *
    from herdcli.fast.numpy_junction import *
    from herdcli.fast.numpy_kalman import *
    from herdcli.fast.numpy_lattice import *
    from herdcli.fast.numpy_markov import *
    from herdcli.fast.numpy_online import *
    from herdcli.fast.numpy_online_text import *
    from herdcli.fast.numpy_orders import *
    from herdcli.fast.numpy_standardize import *  # type: ignore[assignment]  # each twin has a check of its own arrays
    from herdcli.fast.numpy_wide import *

TWINS = {  # the functions of each pair; this is their only list
    "adaptive": "adam_update momentum_update scaled_rows",
    "blocks": "block_marginals draw_block exchange",
    "chain": "chain_backward chain_forward chain_paths chain_viterbi",
    "clusters": "add_cluster_rows candidate_costs nearest_two pair_products",
    "csr": "add_curvature_products add_transposed_products csr_products",
    "dual": "learn_dual",
    "embedding": "exp2_each gaussian_finish gaussian_tile gaussian_values kernel_tile kernel_values stein_values",
    "exact": "exact_exp exact_expm1 exact_log exact_log1p exact_product",
    "families": "best_change count_added_variables gather_arguments sum_terms",
    "flips": "flip_clusters",
    "gibbs": "add_sparse_product centred_momentum_step logistic momentum_step running_sums sparse_scratch two_state_means two_state_sample",
    "herding": "ascend herding_scratch herding_update hidden_pass",
    "hmc": "expert_energy expert_slope leapfrog leapfrog_scratch",
    "junction": "clique_updates region_updates settle_and_scale",
    "kalman": "kalman_filter kalman_smoother",
    "lattice": "lattice_sweep lattice_tile",
    "markov": "residual_updates settle update_messages",
    "online": "count_hashed_words learn_binary learn_multiclass linear_scores murmur3 normal_cdf parse_text rescale solve_step with_bias "
    "with_products",
    "orders": "elimination_along elimination_line elimination_reached greedy_elimination",
    "standardize": "standardize",
    "wide": "by_unit current_rows draw_words fill_words guide_table lag_slacks list_below move_units natural_at row_extents shown_product",
}

_TOPIC = {function: topic for topic, functions in TWINS.items() for function in functions.split()}
_used = ""


def loops_in_use() -> str:
    """Return the name of the loops in use: "cython" or "python"."""
    return _used


def instruction_set() -> str:
    """Return the instruction set of the tile loops: avx512, avx2, sse2 or avx2+fma; "" for the NumPy loops.  HERD_SIMD selects it."""
    if _used != "cython":
        return ""
    return str(_load_compiled_loops("embedding").instruction_set())


def _load_compiled_loops(topic: str) -> Any:
    """Return the compiled loops of a topic, with the instruction set that HERD_SIMD asks for."""
    module = import_module(f"herdcli.fast._{topic}")
    wanted = os.environ.get("HERD_SIMD")
    if not wanted or not hasattr(module, "use_instruction_set"):
        return module
    if wanted == "avx2+fma" and wanted not in module.instruction_sets():
        wanted = "avx2"  # these loops never fuse a multiplication and an addition
    try:
        module.use_instruction_set(wanted)
    except ValueError as error:
        raise BadUsage(str(error), where="HERD_SIMD") from None
    return module


def use_loops(name: str) -> None:
    """Switch all loops to "cython" or "python".  Raises BadUsage if these loops are not available."""
    global _used
    if name not in ("cython", "python"):
        raise BadUsage(f"unknown kernels '{name}', expected cython or python", where="HERD_KERNELS")
    missing = [topic for topic in TWINS if name == "cython" and find_spec(f"herdcli.fast._{topic}") is None]
    if missing:
        raise BadUsage(
            f"the compiled loops are not built (no herdcli.fast._{missing[0]})", where="HERD_KERNELS", hint="set HERD_KERNELS=python"
        )
    for function in _TOPIC:
        globals().pop(function, None)
    _used = name


def __getattr__(function: str) -> Any:
    """Look up a loop at its first use and store it as an ordinary attribute of the module."""
    if function not in _TOPIC:
        raise AttributeError(f"module 'herdcli.fast' has no attribute '{function}'")
    topic = _TOPIC[function]
    try:
        module = _load_compiled_loops(topic) if _used == "cython" else import_module(f"herdcli.fast.numpy_{topic}")
        found = globals()[function] = getattr(module, function)
    except ImportError as error:
        raise BadUsage(f"the compiled loops cannot be loaded ({error})", where="HERD_KERNELS", hint="set HERD_KERNELS=python") from None
    return found


def _choose_loops() -> None:
    """Choose the loops that HERD_KERNELS asks for, else the compiled ones if they exist, else those of NumPy."""
    wanted = os.environ.get("HERD_KERNELS")
    if wanted:
        use_loops(wanted)
        return
    try:
        use_loops("cython")
    except BadUsage:
        use_loops("python")


_choose_loops()
