"""Every command that loops gives the same bytes on the compiled loops and on the NumPy ones: so the other tests of commands run once."""

from __future__ import annotations

import numpy as np
import pytest

from herdcli import fast

LINES = """
fit-rbm small.h5 --hidden 4 --epochs 2
fit-rbm small.h5 --hidden 4 --epochs 2 --algorithm pcd --centering
fit-rbm small.h5 --units spin --hidden 4 --epochs 2 --steps 3
fit-rbm small.h5 --visible-units gaussian --standardize --hidden 4 --epochs 2
fit-rbm small.h5 --visible-units rate:3 --range 0,1 --hidden 4 --epochs 2
fit-rbm small.h5 --layers 4,3 --epochs 2
fit-rbm turns.csv --recurrent --threshold 0 --range=-9,9 --hidden 4 --epochs 2
eval model.h5 --likelihood ais --temperatures 30 --reverse --format csv
apply model.h5 small.h5
sample model.h5 --count 6 --burn-in 5
herd small.h5 --iterations 20
herd small.h5 --hidden 5 --iterations 20
herd small.h5 --per-class --iterations 20
kernel-herd points.csv -m 9
kernel-herd points.csv -m 9 --kernel laplace --rule line-search
kernel-herd points.csv -m 9 --kernel matern32 --rule pairwise --weights simplex
kernel-herd small.h5 -m 5 --kernel hamming
kernel-herd points.csv -m 9 --rule min-norm-point
nherd-train small.h5
nherd-train small.h5 --covariance full --C 1
nherd-train small.h5 --algorithm arow --C 1 --passes 2
nherd-train small.h5 --kernel gaussian --C 1
nherd-train rows.svm --bits 8
nherd-train rows.svm --bias
ica points.csv
ica points.csv --algorithm infomax --rates 0.01x20
ica points.csv --algorithm ebm --filters 5 --rates 0.01x9
ica points.csv --algorithm sparse-coding --filters 5 --rates 0.1x5
ups-infer grid.h5 --algorithm bp
ups-infer grid.h5 --algorithm bp --schedule residual
ups-infer grid.h5 --algorithm bp --schedule sequential
ups-infer grid.h5 --algorithm ups
ups-infer grid.h5 --algorithm tap
ups-infer grid.h5 --algorithm frontier
ups-infer grid.h5 --algorithm junction-tree
ups-infer grid.h5 --algorithm gibbs --sweeps 50
fit-mrf bits.csv --smoothing 1
fit-mrf bits.csv --smoothing 1 --algorithm ipf
em points.csv --components 2 --iterations 3
em points.csv --model kmeans --components 3
em points.csv --model fa --components 1 --iterations 3
em turns.csv --model hmm --components 2 --iterations 3
em counts.csv --model hmm --emission poisson --components 2 --iterations 3
em counts.csv --model hmm --emission categorical --components 2 --iterations 3
em points.csv --model hmm --emission gmm --components 2 --iterations 3
em turns.csv --model lds --components 1 --iterations 3
apply hmm.h5 turns.csv --want viterbi
apply hmm.h5 turns.csv --want paths:3
apply hmm.h5 turns.csv --want smoothed --particles 20
apply lds.h5 turns.csv --want smoothed --particles 20
regress small.h5 --l2 .1
""".strip().splitlines()
BEFORE = """
network grid --rows 4 --columns 4 -o grid.h5
fit-rbm small.h5 --hidden 4 --epochs 2 -o model.h5
em turns.csv --model hmm --components 2 --iterations 2 -o hmm.h5
em turns.csv --model lds --components 1 --iterations 2 -o lds.h5
""".strip().splitlines()


@pytest.mark.skipif(fast.loops_in_use() == "python", reason="compares both kernels; needs the compiled ones")
def test_every_command_that_loops_gives_the_same_bytes_on_both(herd, small, tmp_path):
    random = np.random.default_rng(5)
    np.savetxt(tmp_path / "points.csv", random.laplace(size=(60, 3)), delimiter=",", header="a,b,c", comments="")
    np.savetxt(tmp_path / "bits.csv", random.integers(0, 2, (60, 3)), delimiter=",", header="a,b,c", comments="", fmt="%d")
    rows = np.column_stack([np.repeat(np.arange(6), 10), random.normal(size=(60, 2)).round(3)])
    np.savetxt(tmp_path / "turns.csv", rows, delimiter=",", header="sequence,a,b", comments="", fmt="%g")
    np.savetxt(tmp_path / "counts.csv", random.integers(0, 4, 60), header="a", comments="", fmt="%d")
    (tmp_path / "rows.svm").write_text("".join(f"{1 - 2 * (row[1] < 0)} 1:{row[1]} 2:{row[2]}\n" for row in rows))
    for line in BEFORE:
        assert herd(*line.split(), "-q").code == 0
    for line in LINES:
        ours, theirs = herd(*line.split(), "-q"), herd(*line.split(), "-q", kernels="python")
        assert (ours.code, ours.err) == (theirs.code, theirs.err) == (0, ""), line
        assert ours.out == theirs.out, line
