"""What goes to workers and back, without any: values as bytes, chunks of blocks as entries of the tree."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from dataclasses import fields
from typing import ClassVar

import numpy as np
import pytest

from herdcli.cluster import serialization
from herdcli.cluster.block_chunks import compute_chunk_sums
from herdcli.cluster.distributed_rounds import RemoteBlocks, choose_chunk_size
from herdcli.em.mixture.gaussian_densities import prepare_gaussians
from herdcli.em.mixture.mixture_e_step import EStep
from herdcli.numerics.block_statistics import (
    ArrayRows,
    CentredSums,
    RowBlock,
    RowBlocks,
    SquareSums,
    SumTree,
    add_next_blocks,
    sum_statistics,
)


def step(random: np.random.Generator) -> EStep:
    weight, mean, roots = np.array([0.25, 0.75]), random.normal(size=(2, 3)), np.tile(np.eye(3), (2, 1, 1))
    made = prepare_gaussians(np.log(weight), mean, roots, mean[0], 3.0, diagonal=False)
    return EStep(made, {"weight": weight, "mean": mean, "covariance": roots}, 2)


def test_values_come_back_bit_for_bit():
    random = np.random.default_rng(1)
    values = [1, 0.1, float("inf"), None, "ä\n", True, (1, [2.5]), {"a": np.arange(3), "b": np.zeros((0, 4)), "c": np.array(2.5)}]
    back = serialization.deserialize(serialization.serialize(values))
    assert back[:7] == values[:7]
    for name, array in values[7].items():
        assert back[7][name].dtype == array.dtype
        assert back[7][name].tobytes() == array.tobytes()
        assert back[7][name].shape == array.shape
        assert back[7][name].flags.writeable
    sent = step(random)
    found = serialization.deserialize(serialization.serialize(sent))
    assert type(found) is EStep
    for each in fields(sent.gaussians):
        assert np.array_equal(getattr(found.gaussians, each.name), getattr(sent.gaussians, each.name))
    block = RowBlock(0, random.normal(size=(50, 3)))
    assert serialization.serialize(found(block)) == serialization.serialize(sent(block))


@pytest.mark.parametrize("value", [object(), {1, 2}, print, np.array(["a"]), np.array([object()])])
def test_nothing_else_is_sent(value):
    with pytest.raises(TypeError, match="is not sent"):
        serialization.serialize({"a": [value]})


def test_only_classes_of_the_package_are_made_again():
    sent = serialization.serialize(RowBlock(0, np.zeros((1, 1)))).replace(
        b"herdcli.numerics.block_statistics:RowBlock", b"subprocess:Popen                          "
    )
    with pytest.raises(TypeError, match="subprocess is not of this package"):
        serialization.deserialize(sent)


@pytest.mark.parametrize(("size", "begun"), [(1, 0), (2, 0), (4, 0), (8, 3), (4, 2), (16, 0)])
def test_chunks_are_entries_of_the_tree(size, begun):
    """However many blocks a chunk has, and wherever a pass goes on, the sums are those of one pass in one place."""
    random = np.random.default_rng(2)
    X, weight = random.normal(size=(4096 * 11 + 100, 2)), random.random(4096 * 11 + 100)
    source, statistics = RowBlocks(ArrayRows(X, None, weight)), CentredSums(X[0])
    tree = SumTree()
    for block in source.take(0, begun):
        tree.add_block_sums(statistics(block))
    while tree.blocks < source.count:
        chunk = tree.blocks // size
        content = list(source.take(chunk * size, min((chunk + 1) * size, source.count)))
        for count, sums in compute_chunk_sums(content, statistics, tree.blocks - chunk * size):
            tree.add_block_sums(sums, count)
    assert serialization.serialize(tree.total_sums()) == serialization.serialize(sum_statistics(source, statistics))


def test_every_worker_gets_some_chunks():
    assert choose_chunk_size(2442, 2, 327_680) == 64
    assert choose_chunk_size(64, 2, 327_680) == 16  # small chunks: two for each worker
    assert choose_chunk_size(64, 2, 3_276_800) == 8
    assert choose_chunk_size(3, 2, 327_680) == 1


def test_chunks_of_wide_rows_are_few_blocks():
    """They are put together in the process that asks: 64 blocks of 500 columns were a gigabyte."""
    assert choose_chunk_size(2442, 2, 16_384_000) == 8
    assert choose_chunk_size(2442, 2, 1 << 28) == 1


class Task:
    """What a worker keeps or has found."""

    status = "finished"

    def __init__(self, value):
        self.value = value


class Here:
    """A farm of one worker in this process, which answers at once."""

    wanted: ClassVar[dict[str, str]] = {}
    shares_values = True
    count_seconds = staticmethod(nullcontext)

    def __init__(self):
        self.tasks = []

    def wait_for_workers(self):
        return ["here"]

    def store_on_worker(self, value, owner):
        return Task(value)

    def submit(self, function, rows, *arguments, **how):
        self.tasks.append(Task(function(rows.value, *arguments)))
        return self.tasks[-1]

    def wait(self):
        return self.tasks.pop(0)

    def task_result(self, task):
        return task.value


def test_what_a_round_of_many_chunks_looks_through_grows_as_the_chunks_do(monkeypatch):
    """Each of 10⁹ rows' 4,000 chunks once was held against all the others for every other one."""
    source, looked = RowBlocks(ArrayRows(np.arange(200 * 4096.0)[:, None])), []
    rounds = RemoteBlocks(source, Here(), 1, retries=0)

    class Counted(dict):
        def values(self):
            looked.append(len(self))
            return super().values()

    rounds.out = Counted()
    for _ in range(2):  # the second pass asks the same again
        assert sum_statistics(rounds, SquareSums(np.zeros(1)))["rows"].tolist() == [200 * 4096.0, 200 * 4096.0, 0.0]
    assert sum(looked) <= 400
    assert not rounds.begun


def test_what_is_no_dataclass_of_the_package_is_not_called():
    import json

    from herdcli.cluster import serialization

    for named in ("herdcli.cli.main:main", "herdcli.scratch:scratch_folder", "herdcli.cluster.serialization:is_dataclass", "os:system"):
        head = json.dumps([{"class": named, "fields": {}}, []]).encode()
        content = f"{len(head):<{serialization.ALIGNED - 1}}\n".encode() + head.ljust(serialization._round_up_alignment(len(head)))
        with pytest.raises(TypeError, match="of this package"):
            serialization.deserialize(content)


def test_statistics_are_packed_once_a_round(monkeypatch):
    """They were packed and hashed for every chunk: 45 s a round for 10 MB and 4,000 chunks."""
    source, packed = RowBlocks(ArrayRows(np.arange(50 * 4096.0)[:, None])), []
    serialize = serialization.serialize
    monkeypatch.setattr(serialization, "serialize", lambda value: packed.append(type(value)) or serialize(value))
    rounds, centre = RemoteBlocks(source, Here(), 1, retries=0), np.zeros(1)
    for passes in range(3):
        tree = SumTree()
        while tree.blocks < source.count:  # a step of an algorithm may make its statistics anew, of the same arrays
            add_next_blocks(tree, rounds, SquareSums(centre))
        assert tree.total_sums()["rows"].tolist() == [50 * 4096.0, 50 * 4096.0, 0.0]
        assert packed.count(SquareSums) == passes + 1
    centre += 2048.0  # changed in place, it is another request
    assert sum_statistics(rounds, SquareSums(centre))["first"][0] == pytest.approx((np.arange(50 * 4096.0) - 2048.0).sum())


def test_a_lost_worker_is_replaced_by_the_one_with_the_fewest_chunks():
    class Farm(Here):
        addresses: ClassVar[list[str]] = ["a", "b", "c"]

        def wait_for_workers(self):
            return self.addresses

    farm = Farm()
    rounds = RemoteBlocks(RowBlocks(ArrayRows(np.arange(12 * 4096.0)[:, None])), farm, 1, retries=0)
    sum_statistics(rounds, SquareSums(np.zeros(1)))
    assert Counter(rounds.owner.values()) == {"a": 4, "b": 4, "c": 4}
    farm.addresses = ["a", "c"]
    for chunk in [chunk for chunk, address in rounds.owner.items() if address == "b"]:
        rounds.kept.pop(chunk)
    sum_statistics(rounds, SquareSums(np.ones(1)))
    assert Counter(rounds.owner.values()) == {"a": 6, "c": 6}
