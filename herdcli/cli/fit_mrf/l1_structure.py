"""`herd fit-mrf --structure l1` and `stability`: pairs selected by penalised regressions, and the path of penalties as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from herdcli.errors import BadUsage

if TYPE_CHECKING:
    from pathlib import Path as File

    from herdcli.cli.frame.run.session import Session
    from herdcli.markov.learning.l1_selection import PenaltyPath
    from herdcli.markov.model.constraints import StateRows
    from herdcli.markov.model.graphs.structure_selection import Pair
    from herdcli.schema import Array


def select_pairs(
    session: Session,
    structure: tuple[str, float, int],
    variables: tuple[Array, list[str] | None],
    rows: StateRows,
    seed: int,
    path: str | None,
) -> list[Pair]:
    """Return the selected pairs and, with --path, write the path.  variables  numbers of states and names of the variables."""
    from herdcli.markov.learning import l1_selection

    states, names = variables
    if (states > 2).any():
        i = int(np.argmax(states > 2))
        name = names[i] if names else f"x{i}"
        raise BadUsage(f"--structure {structure[0]} needs two-state variables, but {name} has {states[i]} states", hint="use --values two")
    kind, penalty, halves = structure
    x = rows.x.astype(np.float64)
    made = session.run_preparation(l1_selection.PenalisedRegressions(x, rows.weight, np.array([penalty]) if penalty else None), label="l1")
    found, told = (
        l1_selection.mutually_selected_pairs(made.weight[made.best_index]),
        f"penalty {made.penalty[made.best_index]:.4g}",
    )
    share = None
    if kind == "stability":
        points = made.penalty[: made.best_index + 1]
        share = session.run_preparation(l1_selection.StabilitySelection(x, rows.weight, halves, seed, points), label="stability")
        found = [(int(i), int(j)) for i, j in np.argwhere(np.triu(share >= l1_selection.CHOSEN, 1))]
        where = f"at least {l1_selection.CHOSEN:.0%} of {halves} random halves of the rows"
        told = f"each in {where}, penalties from {made.penalty[made.best_index]:.4g}"
    session.console.note(f"{kind}: {len(found)} pairs selected, {told}")
    if path is not None:
        _write_penalty_path(session, path, made, share)
    return found


def _write_penalty_path(session: Session, path: str, penalty_path: PenaltyPath, share: Array | None) -> None:
    """Write one line per penalty and pair with a nonzero weight: the weights of both regressions and the share of halves that have it."""
    from herdcli.cli.frame.output import outputs

    lines = ["penalty,score,first,second,weight_first,weight_second" + ("" if share is None else ",chosen")]
    for penalty, score, weight in zip(penalty_path.penalty.tolist(), penalty_path.score.tolist(), penalty_path.weight, strict=True):
        for i, j in np.argwhere(np.triu((weight != 0) | (weight.T != 0), 1)).tolist():
            row = [penalty, score, i, j, float(weight[j, i]), float(weight[i, j])]
            lines.append(",".join(map(repr, [*row, *([] if share is None else [float(share[i, j])])])))
    content = "\n".join(lines) + "\n"

    def write(target: File) -> None:
        outputs.write_text(target, content)

    outputs.write_side_file(session, path, write, binary=False)
