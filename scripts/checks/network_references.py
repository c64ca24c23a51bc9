"""references.json of the networks of `herd data networks`: exact log Z and marginals, by herd's own junction tree.

    python scripts checks/network_references FOLDER           FOLDER/references.json, unless it is there or there are no networks
    python scripts checks/network_references FOLDER --again   anew

log Z is compared with KNOWN, on which libDAI, pyAgrum and a junction tree written for the purpose agreed to 12 digits; a difference
ends the program.  Networks that are not in KNOWN have no entry: they are too wide for a junction tree.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from shared.figure_pipeline import replace

import herdcli

DIGITS = 1e-7  # of log Z, relative to 1 or to its size
KNOWN = {
    "alarm.fg": -0.00019992,
    "hoi1.fg": 5.53078089,
    "hoi2.fg": 5.25140091,
    "testfast.fg": 14.32823328,
    "twofactors.fg": 3.13226322,
    "zeroes1.fg": 2.19722458,
    "merlin_ChestClinic.uai": -2.20464166,
    "merlin_cancer.uai": -1.13943428,
    "merlin_paskin.uai": 0.69314718,
    "merlin_simple5.uai": 11.46192160,
    "pgmpy_grid4x4.uai": 102.34885642,
    "alarm.bif.gz": 0.0,
    "asia.bif.gz": 0.0,
    "cancer.bif.gz": 0.0,
    "child.bif.gz": 0.0,
    "earthquake.bif.gz": 0.0,
    "hailfinder.bif.gz": 0.0,
    "insurance.bif.gz": 0.0,
    "sachs.bif.gz": 0.0,
    "survey.bif.gz": 0.0,
    "win95pts.bif.gz": 0.0,
    "Alchemy_11.uai": 1396.00944578,
    "Grids_11.uai": 390.07716647,
    "Grids_13.uai": 767.50073811,
    "ObjectDetection_11.uai": -172.41840464,
    "Promedus_30.uai": -50.88831606,
    "Segmentation_11.uai": -55.25304418,
    "Segmentation_12.uai": -23.68720706,
}


def evidence_of(network: Path) -> list[str]:
    """The file of evidence of a network, as a list of one or none."""
    for path in (Path(f"{network}.evid"), network.with_suffix(".evid")):
        if path.exists() and len(path.read_text(encoding="utf-8").split()) > 1:
            return [str(path)]
    return []


def reference(network: Path) -> dict[str, Any]:
    """log Z (natural logarithm) and the marginals of all variables.  Ends the program where log Z is not the known one."""
    beliefs = herdcli.ups_infer(str(network), algorithm="junction-tree", evidence=evidence_of(network))
    known = KNOWN[network.name]
    if abs(beliefs.log_z - known) > DIGITS * max(1.0, abs(known)):
        sys.exit(f"{network.name}: log Z is {beliefs.log_z:.10g}, and {known:.10g} is known: the file is another one")
    marginals = [beliefs.node[first:end].tolist() for first, end in zip(beliefs.node_offset, beliefs.node_offset[1:], strict=False)]
    return {"n": len(marginals), "logZ": float(beliefs.log_z), "marg": marginals, "verified_by": ["herd"]}


def main() -> None:
    """Write the references of the networks that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the networks: herd data networks --where")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    target = options.folder / "references.json"
    if target.exists() and not options.again:
        return
    networks = [options.folder / name for name in KNOWN if (options.folder / name).exists()]
    if not networks:
        return
    replace(target, json.dumps({network.name: reference(network) for network in networks}))
    print(f"{target}: {len(networks)} networks")


if __name__ == "__main__":
    main()
