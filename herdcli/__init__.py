"""Learning and inference by herding, contrastive divergence and Bethe free energies.

    import herdcli as herd
    rbm = herd.fit_rbm(X, hidden=100)

`herd.load`, `herd.save`, `herd.check` and a function for each command (`herd.fit_rbm`, `herd.kernel_herd`, …): see herdcli.engine.
"""

import sys
from types import ModuleType
from typing import Any

from herdcli.command_table import python_names

__version__ = "0.1.0"

LEARNING = python_names("learn")  # from rows
COMPUTING = python_names("compute")
OWN = ("load", "save", "check")


def __getattr__(name: str) -> Any:
    """Return a function of the engine; the engine is imported when one of its functions is first used."""
    from importlib import import_module

    known = (*LEARNING, *COMPUTING, *OWN)
    if name not in known:  # Python looks up submodules here too, before they are imported
        raise AttributeError(f"herdcli has no {name!r}; its functions: {', '.join(known)}")
    engine = import_module("herdcli.engine")
    return getattr(engine, name) if name in OWN else engine.function(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *LEARNING, *COMPUTING, *OWN])


class _CallablePackage(ModuleType):
    """A package that has the name of a command (`herdcli.em`) and runs that command's function when it is called."""

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return __getattr__(self.__name__.rpartition(".")[2])(*inputs, **options)

    @property
    def __signature__(self) -> Any:
        return __getattr__(self.__name__.rpartition(".")[2]).__signature__


class _RootPackage(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in ("data", "em", "ica"):
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _RootPackage
