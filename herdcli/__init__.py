"""Learning and inference by herding, contrastive divergence and Bethe free energies.

    import herdcli as herd
    rbm = herd.fit_rbm(X, hidden=100)

`herd.load`, `herd.save`, `herd.check` and a function for each command (`herd.fit_rbm`, `herd.kernel_herd`, …): see herdcli.cli.engine.
"""

import sys
from types import ModuleType
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The functions of the engine, imported when they are first asked for."""
    from importlib import import_module

    if name.startswith("_"):
        raise AttributeError(name)
    engine = import_module("herdcli.cli.engine")
    if name not in engine.FUNCTIONS:
        raise AttributeError(f"herdcli has no {name!r}; its functions: {', '.join(engine.FUNCTIONS)}")
    return getattr(engine, name) if name in engine.OWN else engine.function(name)


class _Called(ModuleType):
    """A package with the name of a command (`herdcli.em`), which is that command's function when it is called."""

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return __getattr__(self.__name__.rpartition(".")[2])(*inputs, **options)


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in ("data", "em", "ica"):
            value.__class__ = _Called
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
