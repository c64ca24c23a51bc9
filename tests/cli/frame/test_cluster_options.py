"""--cluster before any worker is asked: what may be typed, what is refused, and that nothing of Dask is imported unasked."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

from herdcli.cli.frame.options.common_options import parse_options
from herdcli.cli.frame.run.cluster_run import pack_command_for_workers
from herdcli.cli.main import COMMANDS
from herdcli.cluster.cluster_spec import ClusterAddress, parse_cluster, parse_setting


def test_where_is_read():
    assert parse_cluster("local:4") == ClusterAddress("local", 4)
    assert parse_cluster("slurm:12") == ClusterAddress("slurm", 12)
    assert parse_cluster("tcp://head:8786") == ClusterAddress("running", address="tcp://head:8786")
    assert str(parse_cluster("tls://10.0.0.1:8786")) == "tls://10.0.0.1:8786"
    assert str(parse_cluster("pbs:3")) == "pbs:3"
    assert parse_setting("tls-ca-file=a=b") == ("tls_ca_file", "a=b")


@pytest.mark.parametrize("text", ["", "local", "local:0", "local:-1", "local:٣", "http://head:1", "tcp://head", "moab:3", "tcp://head:1/x"])
def test_nothing_else_is_a_place(herd, text):
    done = herd("herd", "none.h5", "--cluster", text)
    assert done.code == 2
    assert f"Invalid value for '--cluster': '{text}' is none of local:N, tcp://HOST:PORT" in done.err


REFUSED = {
    "--cluster makes all shards, --shard one of them": ["--per-class", "--cluster", "local:2", "--shard", "1/2"],
    "--cluster distributes the parts of a run, but this run has only one part": ["--cluster", "local:2"],
    "is not of the form KEY=VALUE": ["--per-class", "--cluster", "local:2", "--cluster-option", "queue"],
    "--cluster-option queue is not a setting of workers on this machine": [
        "--per-class",
        "--cluster",
        "local:2",
        "--cluster-option",
        "queue=a",
    ],
    "--cluster-option wait=soon is not a number of seconds": ["--per-class", "--cluster", "local:2", "--cluster-option", "wait=soon"],
    "--cluster tls://127.0.0.1:1 needs certificates": ["--per-class", "--cluster", "tls://127.0.0.1:1"],
    "--cluster slurm:2: its workers must reach this machine, but it accepts no connections from others": [
        "--per-class",
        "--cluster",
        "slurm:2",
    ],
    "--cluster-option tls-ca-file=none.pem: no such file": [
        "--per-class",
        "--cluster",
        "local:1",
        "--cluster-option",
        "tls-ca-file=none.pem",
    ],
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_cannot_be_is_refused_in_a_line(herd, digits, message):
    if "form KEY" not in message and "one of them" not in message and "only one" not in message:
        pytest.importorskip("dask_jobqueue", reason="dask.distributed is not installed: herdcli[dask]")
    done = herd("herd", digits, "--iterations", "5", "-q", *REFUSED[message])
    assert (done.code, done.err.count("\n")) == (2, 2), done.err
    assert message in done.err


NOTHING_TO_DEAL = {
    "ica --algorithm infomax": (
        "--cluster works only with --algorithm ml, not with infomax",
        "use --algorithm ml, or leave out --cluster",
    ),
    "fit-mrf --algorithm bayes": (
        "--cluster distributes the parts of a run, but this run has only one part",
        "shards and workers exchange only counts of rows, which do not suffice for --moments, --feature-clusters, --structure l1, "
        "--algorithm bayes and sampled gradients",
    ),
}


@pytest.mark.parametrize("line", NOTHING_TO_DEAL)
def test_algorithms_without_rounds_over_rows_have_no_workers(herd, digits, line):
    command, *words = line.split()
    message, hint = NOTHING_TO_DEAL[line]
    done = herd(command, digits, *words, "-q", "--cluster", "local:2")
    assert (done.code, done.err) == (2, f"herd {command}: {message}\nhint: {hint}\n")


WITHOUT_SHARDS = {
    "em": (
        "every iteration needs all rows, so the run cannot be divided into shards",
        "use --cluster WHERE, which distributes the rows over workers",
    ),
    "ica": (
        "every iteration needs all rows, so the run cannot be divided into shards",
        "use --cluster WHERE, which distributes the rows over workers; --shard works with --one-pass",
    ),
}


@pytest.mark.parametrize("command", WITHOUT_SHARDS)
def test_commands_whose_work_has_no_parts_say_what_to_do_in_the_place_of_shards(herd, digits, command):
    why, hint = WITHOUT_SHARDS[command]
    done = herd(command, digits, "--shard", "1/2", "-q")
    assert (done.code, done.err) == (2, f"herd {command}: --shard: {why}\nhint: {hint}\n")
    assert "--shard" not in herd(command, "--help").out.decode()


def test_settings_without_a_cluster_are_said_to_do_nothing(herd, digits):
    done = herd("herd", digits, "--iterations", "5", "--mixed", "--retries", "2", "--cluster-option", "a=b")
    for option in ("mixed", "retries", "cluster-option"):
        assert f"warning: --{option} has no effect without --cluster" in done.err


def test_without_the_extra_the_line_says_what_to_install(digits, tmp_path):
    words = ["herd", str(digits), "--iterations", "5", "--per-class", "-q", "--cluster", "tcp://127.0.0.1:1"]
    program = f"import sys; sys.modules['distributed'] = None; from herdcli.cli.main import main; main({words!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    told = "herd herd: --cluster needs distributed, which is not installed\nhint: pip install 'herdcli[dask]'\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_workers_of_this_machine_need_no_extra(digits, tmp_path):
    words = ["herd", str(digits), "--iterations", "5", "--per-class", "-q", "-o"]
    dask = "import sys; sys.modules['distributed'] = sys.modules['dask'] = None; from herdcli.cli.main import main;"
    for program in (f"{dask} main({[*words, 'dealt.h5', '--cluster', 'local:2']!r})", f"{dask} main({[*words, 'one.h5']!r})"):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "dealt.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()


def test_pods_need_a_package_of_their_own(digits, tmp_path):
    pytest.importorskip("distributed", reason="dask.distributed is not installed: herdcli[dask]")
    words = ["herd", str(digits), "--iterations", "5", "--per-class", "-q", "--cluster", "kubernetes:2"]
    program = f"import sys; sys.modules['dask_kubernetes'] = None; from herdcli.cli.main import main; main({words!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    told = "herd herd: --cluster needs dask_kubernetes, which is not installed\nhint: pip install dask-kubernetes\n"
    assert (done.returncode, done.stderr) == (2, told)


def test_nothing_of_dask_is_imported_unasked(digits, tmp_path):
    program = (
        "import sys\n"
        "from herdcli.cli.main import main\n"
        f"try: main(['herd', {str(digits)!r}, '--per-class', '--iterations', '2', '-q', '-o', 'made.h5'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print(sorted({'dask', 'distributed', 'dask_jobqueue', 'tornado', 'cloudpickle', 'herdcli.cluster.worker_pool'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == "[]\n"


NO_ROUNDS = {
    "pt": (["--algorithm", "pt"], "--cluster works with --algorithm cd, pcd, rpcd and fpcd, not with pt"),
    "exact": (["--algorithm", "exact"], "--cluster works with --algorithm cd, pcd, rpcd and fpcd, not with exact"),
    "natural": (["--optimizer", "natural"], "--optimizer natural does not work with --cluster"),
    "small": (["--batch-size", "20"], "--cluster distributes blocks of 512 rows, but a minibatch has only 20"),
    "layers": (["--layers", "3,2"], "--cluster distributes the parts of a run, but this run has only one part"),
}


@pytest.mark.parametrize("name", NO_ROUNDS)
def test_minibatches_that_cannot_be_dealt_are_refused_in_a_line(herd, tmp_path, name):
    options, message = NO_ROUNDS[name]
    rows = tmp_path / "rows.npy"
    np.save(rows, np.random.default_rng(0).integers(0, 2, (1500, 3), dtype=np.uint8))
    fit = ["fit-rbm", str(rows), "--hidden", "5", "--batch-size", "1500"]
    done = herd(*fit, *options, "-q", "--cluster", "local:2")
    assert (done.code, done.err.count("\n")) == (2, 2), done.err
    assert message in done.err


TYPED_AND_SENT = {  # a command line, and the words of it that workers get
    "fit-rbm": ("in.h5 --per-class --plot filters weights.gif --hidden 3", "in.h5 --per-class --hidden 3"),
    "herd": ("in.h5 --per-class --plot animation weights.gif", "in.h5 --per-class"),
    "nherd-train": ("in.vw --cache in.cache --C 2", "in.vw --C 2"),
    "kernel-herd": ("in.h5 --count 5 --thinning-report report.csv --no-state --safe-csv", "in.h5 --count 5 --no-state"),
    "ups-infer": ("net.h5 --format csv --evidence-rows rows.csv", "net.h5 --evidence-rows rows.csv"),
    "fit-mrf": ("in.h5 --structure l1 --path path.csv --support support.csv --format bif", "in.h5 --structure l1"),
    "em": ("in.h5 --components 2 --on-disk", "in.h5 --components 2 --on-disk"),
}


@pytest.mark.parametrize("name", TYPED_AND_SENT)
def test_workers_get_only_the_options_that_they_need(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text("quiet = true\n")
    typed, sent = TYPED_AND_SENT[name]
    run = "-o out.h5 -n --trace t.jsonl --lock lock -v --options own.toml --cluster local:2 --max-memory 1G"
    command = import_module(COMMANDS[name][0]).command
    context = command.make_context(name, f"{typed} {run}".split())
    with context:
        session, _ = parse_options(context, vars(command.callback)["request"], dict(context.params))
        words = pack_command_for_workers(session, 1).words
    threads = ["--threads", "1"] if "threads" in context.params else []
    assert sorted(words) == sorted([name, *sent.split(), "--max-memory", "1G", *threads])
