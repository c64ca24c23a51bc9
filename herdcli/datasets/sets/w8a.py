"""Platt's web pages, coded by LIBSVM."""

from __future__ import annotations

from herdcli.datasets.registry import DatasetEntry, PublishedFile

ENTRY = DatasetEntry(
    name="w8a",
    file="w8a",
    rows=49_749,
    columns=300,
    size=3_478_238,
    description="web pages, of one category or not (Platt's web data); svmlight text",
    figures="",
    licence="none stated (Platt's web data by way of LIBSVM)",
    restricted=True,
    origin="www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets",
    sources=(PublishedFile(file="w8a", urls=("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/w8a",), size=3_478_238),),
    digest="87a2019cc6559c1958e7d0f85cb797b347e32a8b52c53c572ed8b30e0bd6762e",
)
