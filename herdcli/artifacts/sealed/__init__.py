"""Sealed artifacts: dataclasses in HDF5 and Parquet, checkpoints, seals and histories."""
