"""Census rows of UCI Adult, coded by LIBSVM, for testing."""

from __future__ import annotations

from herdcli.datasets.registry import DatasetEntry, PublishedFile

ENTRY = DatasetEntry(
    name="a9a.t",
    file="a9a.t",
    rows=16_281,
    columns=123,
    size=1_164_628,
    description="the test rows of a9a; svmlight text",
    figures="",
    licence="CC BY 4.0 (UCI Adult)",
    restricted=False,
    origin="www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets",
    sources=(PublishedFile(file="a9a.t", urls=("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/a9a.t",), size=1_164_628),),
    digest="1ee3eb71c3de489171deda9fd3666da692ee41746a68837242c71e2e71ab968d",
)
