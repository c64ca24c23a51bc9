"""How fast and how exact inference in Markov networks is: python scripts bench/networks/markov [--networks FOLDER]

One table: propagation in messages a second by schedule and shape of the variables, UPS to its fixed point, junction trees
with the time of the order apart from that of the propagation.  With a folder of UAI, .fg or BIF networks and a
references.json (exact marginals and log Z) also the errors on each of them.  Times are the least of several runs.

Measured beside other work on two cores: UPS to 1e-8 on 10×10, σ_w 5, eight seeds: 18 to 27 ms and 8 to 11 iterations
(plain, `--clamp rows-columns`, 0.08 to 0.8 s; without Newton steps on eight forests 0.1 to 1.3 s); 100×100, σ_w 2: 1.0 s,
8 iterations (without 10.3 s, 327); 100×100, σ_w 5: 1.6 s.  The double loop has the same Bethe log Z to 1e-8 in 1.2 to 7 s,
and over plaquettes takes 1.7 to 6 s.

Junction trees, all marginals with one elimination order: alarm 2.7 ms, hailfinder 4.3 ms, child 1.7 ms (pgmpy 1.0.4,
`--pgmpy`, needs 77 ms for child).  The frontier sweep over 20×20: 5 to 6 s CPU, 0.5 GB.  UPS-JT on 64 pixels and 106 pairs to
1e-9: 9 ms CPU with its junction tree, 1.3 ms of sweeps, 2|S| = 110 propagations each; tmlt-private-pgm 0.1.1a2 (`--mbi`;
private-pgm was not to be had) is after 200 iterations of mirror descent, 12.8 s, still 7e-3 from the marginals.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import numpy as np
from bench.networks.elimination_orders import shipped
from shared.figure_pipeline import HERD
from shared.real_data import FOLDER

from herdcli import fast, iterate
from herdcli.markov import algorithms
from herdcli.markov.bethe import loopy_propagation
from herdcli.markov.exact import elimination, junction_tree
from herdcli.markov.formats import network_formats as formats
from herdcli.markov.learning import learners as learning
from herdcli.markov.method import InferenceSettings
from herdcli.markov.model import constraints, network, random_networks
from herdcli.markov.model.graphs import structure_selection
from herdcli.markov.model.pairwise import reduce_to_pairwise

RUNS = 3
RIVAL = [sys.executable, str(Path(__file__).with_name("markov_peers.py"))]


def least(work: Callable[[], Any], runs: int = RUNS) -> tuple[float, Any]:
    """Seconds of the fastest run, and its answer."""
    best, answer = float("inf"), None
    for _ in range(runs):
        started = time.perf_counter()
        answer = work()
        best = min(best, time.perf_counter() - started)
    return best, answer


def infer(given: network.Network, algorithm: str, **settings: Any) -> tuple[Any, Any]:
    """Last state and result of an algorithm."""
    method = algorithms.make_inference_method(given, InferenceSettings(algorithm=algorithm, **settings))
    state = iterate.run_steps(method.step, method.init(), until=method.done)
    return state, method.result(state)


def mixed(states: int, rows: int, columns: int) -> network.Network:
    """A lattice of variables with `states` states and random positive tables."""
    random = np.random.default_rng(states)
    edges = random_networks.grid_edges(rows, columns).tolist()
    return network.build_network(
        [states] * (rows * columns), [((i, j), np.exp(random.standard_normal((states, states)))) for i, j in edges]
    )


def messages_a_second() -> None:
    """Updates of the compiled loop, or of its twin under HERD_KERNELS=python."""
    sweeps = 20 if fast.loops_in_use() == "cython" else 1
    for states, rows, columns in ((2, 10, 10), (2, 100, 100), (5, 60, 60), (11, 30, 30)):
        given = random_networks.generate_random_network("grid", rows=rows, columns=columns) if states == 2 else mixed(states, rows, columns)
        graph = reduce_to_pairwise(given)
        fixed, target = graph.flatten_fixed_marginals({})
        order, messages, scratch = loopy_propagation.forward_backward_order(graph), graph.uniform_messages(), graph.scratch()
        seconds, _ = least(lambda sent=(order, messages, messages, graph.arrays, fixed, target, 0.0, False, scratch): update(sent, sweeps))
        print(f"messages  {rows}×{columns} of {states} states: {sweeps * len(order) / seconds / 1e6:.2f} M/s")


def update(sent: tuple[Any, ...], sweeps: int) -> None:
    """Some sweeps over all messages."""
    for _ in range(sweeps):
        fast.update_messages(*sent)


def lattices() -> None:
    """The ratio-domain loop: to 1e-9 on 300×300, and messages a second in and out of cache."""
    for rows in (300, 1500):
        given = random_networks.generate_random_network("grid", rows=rows, columns=rows, sigma_w=1.0, sigma_b=1.0)
        method = algorithms.make_inference_method(given, InferenceSettings(algorithm="bp", schedule="checkerboard", tolerance=1e-9))
        seconds, state = least(lambda m=method: iterate.run_steps(m.step, m.init(), until=m.done))
        sweep, _ = least(lambda m=method, s=state: [fast.lattice_sweep(s.messages, m.weight, m.bias, False) for _ in range(10)])
        rate = 10 * 4 * rows * (rows - 1) / sweep / 1e9
        print(
            f"lattice   {rows}×{rows} to 1e-9: {seconds * 1e3:.1f} ms, {4 * state.step} sweeps of {sweep * 100:.3f} ms, "
            f"{rate:.2f} G messages/s, residual {state.residual[-1]:.1e}"
        )


LATTICES = ((10, 1.0, 0), *((10, 5.0, seed) for seed in range(8)), (30, 2.0, 0), (100, 2.0, 0), (100, 5.0, 0))


def fixed_points() -> None:
    """bp, ups and the thesis' plain ups to 1e-8 on lattices of the thesis, in seconds of the processor; the double loop."""
    settings: dict[str, dict[str, Any]] = {"bp": {"iterations": 500}, "ups": {"iterations": 500}}
    plain = {"clamp": "rows-columns", "iterations": 3000}
    regions = {"regions": "plaquettes", "iterations": 3000}
    for rows, sigma_w, seed in LATTICES:
        given = random_networks.generate_random_network("grid", rows=rows, columns=rows, sigma_w=sigma_w, sigma_b=1.0, seed=seed)
        small = rows == 10 and seed < 3
        runs = [*settings.items(), *([("ups", plain), ("double-loop", {"iterations": 3000}), ("double-loop", regions)] if small else [])]
        for algorithm, chosen in runs:
            started = time.process_time()
            state, found = infer(given, algorithm, tolerance=1e-8, **chosen)
            seconds = time.process_time() - started
            told, how = found.attributes, chosen.get("clamp", chosen.get("regions", ""))
            print(
                f"{algorithm:11} {how:12} {rows}×{rows}, σ_w {sigma_w:g}, seed {seed}: {seconds:.3f} s, {state.step} iterations, "
                f"residual {told['residual']:.1e}, log Z {told['log_z']:.8f}"
            )


def junction_trees(folder: Path, most: float) -> None:
    """Order, propagation and errors on the networks of a folder."""
    for name, known in json.loads((folder / "references.json").read_text()).items():
        raw = (folder / name).read_bytes()
        text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
        given = formats.read_network(text, {".gz": "bif"}.get(Path(name).suffix, Path(name).suffix[1:]))
        evidence = {int(i): state for i, state in known["evidence"].items()}
        given = network.condition_network(given, evidence)
        graph = elimination.moral_graph(given)
        started = time.perf_counter()
        search = iterate.run_steps(
            lambda now, g=graph, n=given: elimination.try_more_orders(n, g, 0, now), elimination.initial_order_search(given), steps=8
        )
        seconds = time.perf_counter() - started
        tree = junction_tree.build_clique_tree(given, search.order)
        told = f"tree      {name:26} width {search.width:2}, 2^{np.log2(search.cells):4.1f} cells, order {seconds * 1e3:6.1f} ms"
        if tree.bytes_needed(given) > most:
            print(f"{told}, left out: {tree.bytes_needed(given) / 1e9:.1f} GB")
            continue

        def work(n: network.Network = given, t: junction_tree.JunctionTreeLayout = tree) -> tuple[list[Any], float]:
            found = junction_tree.calibrate(n, t)
            return junction_tree.node_marginals(n, found), found.log_z

        seconds, (nodes, log_z) = least(work, RUNS if search.cells < 1e6 else 1)
        error = max(float(np.abs(nodes[i] - p).max()) for i, p in enumerate(known["marg"]) if i not in evidence)
        print(f"{told}, marginals {seconds * 1e3:7.1f} ms, error {error:.0e}, log Z {abs(log_z - known['logZ']):.0e}")


def frontier() -> None:
    """Exact marginals of a lattice whose junction tree is too large."""
    for rows in (16, 20):
        given = random_networks.generate_random_network("grid", rows=rows, columns=rows, sigma_w=2.0, sigma_b=1.0)
        started = time.process_time()
        _, found = infer(given, "frontier")
        print(f"frontier  {rows}×{rows}: {time.process_time() - started:.2f} s CPU, log Z {found.attributes['log_z']:.6f}")


def eights(folder: Path) -> constraints.LearningProblem | None:
    """The 8×8 eights' likeliest tree and 43 random pairs at most six steps apart on it, 106 pairs in all."""
    from herdcli.artifacts import load

    if not (folder / "eights8x8.h5").exists():
        return None
    x = load(str(folder / "eights8x8.h5"), kinds={"dataset"}).value.X.astype(np.int64)
    rows, cardinality = constraints.StateRows(x, np.full(len(x), 1 / len(x))), np.full(64, 2)
    information = constraints.compute_pair_tables(rows, cardinality, 1.0).mutual_informations()
    for seed in range(1000):
        edges = structure_selection.structure_pairs("chow-liu+random", 0.05, 6, 64, information, None, seed)
        if len(edges) == 106:
            break
    return constraints.LearningProblem(cardinality, constraints.make_clusters(rows, cardinality, edges, 1.0), rows=rows)


def scaling(problem: constraints.LearningProblem, rival: str | None, iterations: int) -> None:
    """UPS-JT and effective IPF to 1e-9, and private-pgm (mbi) in another interpreter."""
    for algorithm in ("ups-jt", "effective-ipf"):
        best = float("inf")
        for _ in range(RUNS):
            started = time.process_time()
            method = learning.make_learner(problem, learning.LearningSettings(algorithm=algorithm))
            state = method.init()
            sweeping = time.process_time()
            state = iterate.run_steps(method.step, state, until=method.done)
            best = min(best, time.process_time() - started)
            swept = time.process_time() - sweeping
        learned = method.result(state)
        print(
            f"{algorithm:9} 64 pixels, {len(problem.clusters)} pairs, clique size {method.width + 1}, |S| {len(method.graph.separators)}: "
            f"{best * 1e3:.1f} ms CPU with its junction tree, {swept * 1e3:.1f} ms of sweeps, {learned.iterations} sweeps, "
            f"{learned.counts[1]} propagations, error {learned.residual[-1]:.1e}"
        )
    if rival:
        pairs = [[*cluster.scope, cluster.target.ravel().tolist()] for cluster in problem.clusters]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"nodes": 64, "pairs": pairs}, file)
            file.flush()
            found = other(rival, "mbi", file.name, str(iterations), "MD")
        print(f"mbi       the same, {iterations} iterations of mirror descent: {found['seconds']:.1f} s CPU, error {found['error']:.1e}")


def other(python: str, *arguments: str) -> Any:
    """What bench/networks/markov_peers.py prints in another interpreter."""
    command = [python, str(Path(__file__).with_name("markov_peers.py")), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[-1])


def beside_pgmpy(folder: Path, python: str) -> None:
    """All marginals of Bayesian networks by junction trees here and there, one elimination order each."""
    for name in ("asia", "child", "alarm"):
        text = gzip.decompress((folder / f"{name}.bif.gz").read_bytes()).decode()
        given = formats.read_network(text, "bif")
        best = float("inf")
        for _ in range(5):
            started = time.process_time()
            _, found = infer(given, "junction-tree", orders=1)
            best = min(best, time.process_time() - started)
        with tempfile.NamedTemporaryFile("w", suffix=".bif") as file:
            file.write(text)
            file.flush()
            theirs = other(python, "pgmpy", file.name, "1")
        apart = max(abs(sorted(found.nodes[i].tolist())[-1] - max(theirs["marginals"][given.name(i)].values())) for i in range(given.count))
        ratio = theirs["seconds"] / best
        print(f"pgmpy     {name}: {theirs['seconds']:.2f} s CPU, here {best * 1e3:.1f} ms ({ratio:.0f} times), apart {apart:.0e}")


def whole_process() -> None:
    """Propagation to 1e-9 from file to file: seconds of the processor, peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        for rows in (300, 1000):
            network_file, out = f"{folder}/{rows}.h5", f"{folder}/out.h5"
            size = ["--rows", str(rows), "--columns", str(rows)]
            subprocess.run(["herd", "network", "grid", *size, "--sigma-w", "1", "-o", network_file], check=True, capture_output=True)
            work = ["herd", "ups-infer", network_file, "--algorithm", "bp", "--output-marginals", "nodes", "-o", out]
            seconds, peak = min(used(work) for _ in range(RUNS))
            print(f"process   {rows}×{rows} by bp: {seconds:.2f} s CPU, {peak / 1e6:.0f} MB at most, file to file")


def queries() -> None:
    """Whole commands, artifact or BIF in and answer out: rows of evidence on alarm, and each query where it takes longest."""
    bundled = [folder / f"{name}.bif.gz" for folder in shipped() for name in ("alarm", "link", "munin", "andes")]
    with tempfile.TemporaryDirectory() as folder:
        eight = f"{folder}/eight.h5"
        subprocess.run([*HERD, "network", "random", "--nodes", "8", "--mean-degree", "5", "-o", eight], check=True, capture_output=True)
        seconds, peak = best_of([*HERD, "ups-infer", eight, "--query", "bounds", "--format", "csv"])
        print(f"query     eight variables, bounds {seconds:.2f} s CPU, {peak / 1e6:.0f} MB", flush=True)
        for path in bundled:
            name, plain = path.name.partition(".")[0], Path(folder, path.name.removesuffix(".gz"))
            plain.write_bytes(gzip.decompress(path.read_bytes()))
            if name == "alarm":
                rows = evidence_rows(plain, Path(folder, "rows.csv"))
                asked: dict[str, list[str]] = {"1,000 rows": ["--evidence-rows", str(rows)]}
                theirs = {"1,000 rows": [str(rows)]}
            else:
                tenth = formats.read_network(plain.read_text(), "bif").names[::10]  # as in the league of inference
                asked = {"marginals": ["--output-marginals", "nodes"], "log-z": ["--query", "log-z"], "mpe": ["--query", "mpe"]}
                asked["mmap"] = ["--query", f"mmap:{','.join(tenth)}"]
                theirs = {"marginals": []}
            for query, words in asked.items():
                suffix = "h5" if query == "marginals" else "csv"
                seconds, peak = best_of([*HERD, "ups-infer", str(plain), *words, "-o", f"{folder}/out.{suffix}"])
                told = f"query     {name:6} {query:10} {seconds:6.2f} s CPU, {peak / 1e6:5.0f} MB"
                if query in theirs and importlib.util.find_spec("pyagrum"):
                    other_seconds, other_peak = best_of([*RIVAL, "pyagrum", str(plain), *theirs[query]])
                    told += f"; pyAgrum {other_seconds:.2f} s, {other_peak / 1e6:.0f} MB ({other_seconds / seconds:.1f} times)"
                print(told, flush=True)


def evidence_rows(network_file: Path, target: Path) -> Path:
    """A table of 1,000 rows drawn from a network, half of whose cells are hidden: −1."""
    subprocess.run([*HERD, "sample", str(network_file), "-m", "1000", "-o", str(target)], check=True, capture_output=True)
    lines = target.read_text().splitlines()
    x = np.array([line.split(",") for line in lines[1:]], dtype=int)
    x[np.random.default_rng(0).random(x.shape) < 0.5] = -1
    target.write_text("\n".join([lines[0], *(",".join(map(str, row)) for row in x.tolist())]) + "\n")
    return target


def best_of(command: list[str]) -> tuple[float, int]:
    """The fastest of three runs, of one where it takes long."""
    first = used(command)
    return first if first[0] > 5 else min(first, *(used(command) for _ in range(RUNS - 1)))


def used(command: list[str]) -> tuple[float, int]:
    """Seconds of the processor that a command takes, and its peak memory in bytes."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, command
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def plaquettes() -> None:
    """Damped gbp over plaquettes, as `auto` runs it, against the frontier sweep on 20×20."""
    for sigma_w, seed in ((2.0, 0), (2.0, 1), (5.0, 0), (5.0, 1), (5.0, 2)):
        given = random_networks.generate_random_network("grid", rows=20, columns=20, sigma_w=sigma_w, sigma_b=1.0, seed=seed)
        exact = infer(given, "frontier")[1]
        started = time.process_time()
        state, found = infer(given, "gbp", regions="plaquettes", damping=0.5)
        seconds = time.process_time() - started
        apart = np.abs(np.concatenate(list(found.nodes)) - np.concatenate(exact.nodes)).mean()
        print(f"gbp       20×20, σ_w {sigma_w:g}, seed {seed}: mean error {apart:.4f} in {seconds:.1f} s CPU, {state.step} iterations")


CORRECTED: dict[str, dict[str, Any]] = {
    "bp": {},
    "tree-ep": {"iterations": 100},
    "loop-corrected": {"iterations": 200},
    "gbp": {"regions": "plaquettes", "damping": 0.5},
}


def corrected() -> None:
    """Mean errors of marginals over five networks each, against the junction tree: what propagation loses, and what wins it back."""
    sizes: dict[str, dict[str, Any]] = {"random": {"nodes": 40, "degree": 3.0}, "grid": {"rows": 8, "columns": 8}}
    for kind, size in sizes.items():
        for sigma_w in (1.0, 2.0, 4.0):
            networks = [random_networks.generate_random_network(kind, **size, sigma_w=sigma_w, sigma_b=0.5, seed=seed) for seed in range(5)]
            exact = [infer(given, "junction-tree")[1] for given in networks]
            for algorithm, chosen in CORRECTED.items():
                started = time.process_time()
                runs = [infer(given, algorithm, tolerance=1e-6, **chosen)[1] for given in networks]
                seconds = (time.process_time() - started) / len(runs)
                pairs = zip(runs, exact, strict=True)
                errors = [np.abs(np.concatenate(list(a.nodes)) - np.concatenate(list(b.nodes))).mean() for a, b in pairs]
                ended = sum(bool(found.attributes["converged"]) for found in runs)
                print(f"corrected {kind:6} σ_w {sigma_w:g} {algorithm:14} error {np.mean(errors):.1e}, {ended} of 5 ended, {seconds:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=Path, default=None, help="folder of networks with references.json")
    parser.add_argument("--mbi", default=None, metavar="PYTHON", help="an interpreter that has private-pgm or tmlt-private-pgm")
    parser.add_argument("--pgmpy", default=None, metavar="PYTHON", help="an interpreter that has pgmpy")
    parser.add_argument("--iterations", type=int, default=1000, help="of mbi")
    parser.add_argument("--most", type=float, default=1e9, help="bytes a junction tree may take")
    parser.add_argument("--only", choices=["process", "queries", "gbp", "corrected"], default=None, help="these figures alone")
    options = parser.parse_args()
    print(f"kernels   {fast.loops_in_use()}")
    for name, figures in (("process", whole_process), ("queries", queries), ("gbp", plaquettes), ("corrected", corrected)):
        if options.only in (None, name):
            figures()
    if options.only:
        return
    messages_a_second()
    lattices()
    fixed_points()
    frontier()
    if (problem := eights(FOLDER)) is not None:
        scaling(problem, options.mbi, options.iterations)
    if options.networks and options.pgmpy:
        beside_pgmpy(options.networks, options.pgmpy)
    if options.networks:
        junction_trees(options.networks, options.most)


if __name__ == "__main__":
    main()
