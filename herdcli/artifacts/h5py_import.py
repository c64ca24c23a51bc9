"""The import of h5py, done once with the environment that libhdf5 must see when it is loaded.

It disables filter plug-ins from the user's environment, and libhdf5's locks, since herd locks files that it writes.
Other modules import h5py from here.
"""

from __future__ import annotations

import os

os.environ["HDF5_PLUGIN_PRELOAD"] = "::"
if os.environ.get("HDF5_USE_FILE_LOCKING", "FALSE").upper() not in ("FALSE", "0"):
    del os.environ["HDF5_USE_FILE_LOCKING"]

import h5py

__all__ = ["h5py"]
