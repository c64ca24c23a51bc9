"""Models as other programs read them: tensors, graphs of operations, Vowpal Wabbit's readable weights.

A writer is `(path, value) -> None`; the table of kinds says which kind has which.  Libraries are extras, imported when they are needed.
"""
