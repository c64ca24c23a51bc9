"""h5py, imported once with the environment libhdf5 needs to see when it is loaded.

No filter plug-ins from the user's environment, and no locks but ours on files being written.
Other modules take h5py from here.
"""

from __future__ import annotations

import os

os.environ["HDF5_PLUGIN_PRELOAD"] = "::"
if os.environ.get("HDF5_USE_FILE_LOCKING", "FALSE").upper() not in ("FALSE", "0"):
    del os.environ["HDF5_USE_FILE_LOCKING"]

import h5py

__all__ = ["h5py"]
