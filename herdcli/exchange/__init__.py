"""Models in formats of other programs: tensors, computation graphs, Vowpal Wabbit's readable weights.

A writer is `(path, value) -> None`; the table of kinds lists the writers of each kind.  Libraries are extras, imported when needed.
"""
