"""Census rows of UCI Adult, coded by LIBSVM, for training."""

from __future__ import annotations

from herdcli.datasets.registry import DatasetEntry, PublishedFile

ENTRY = DatasetEntry(
    name="a9a",
    file="a9a",
    rows=32_561,
    columns=123,
    size=2_327_314,
    description="census rows, income above 50,000 or not; svmlight text",
    figures="leagues; em",
    licence="CC BY 4.0 (UCI Adult)",
    restricted=False,
    origin="www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets",
    sources=(PublishedFile(file="a9a", urls=("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/a9a",), size=2_327_314),),
    digest="af45aba8749c26d8f76587c5a6ce4b02e61848e24d6bac57326e745118e7090a",
)
