"""Learning and inference by herding, contrastive divergence and Bethe free energies.

    import herdcli as herd
    rbm = herd.fit_rbm(X, hidden=100)
    rbm.score(), rbm.sample(10).to_pandas()

Each command is a function with its name, and its options are keywords: `help(herd.fit_rbm)` lists them.  `herd.load` reads any file
that herd can read, `herd.save` writes a result, `herd.check` verifies files.  Results are dataclasses with methods: herdcli.results.
"""

import sys
from types import ModuleType
from typing import Any

from herdcli.command_table import python_names

__version__ = "0.1.0"

LEARNING = python_names("learn")  # from rows
COMPUTING = python_names("compute")
OWN = ("load", "save", "check", "Result")
PACKAGES = ("data", "em", "ica")  # names of commands that packages have too
__all__ = [*LEARNING, *COMPUTING, *OWN]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Return a function; the code behind it is imported when the first one is used."""
    from importlib import import_module

    if name not in __all__:  # Python looks up submodules here too, before they are imported
        raise AttributeError(_unknown_name_message(name))
    results = import_module("herdcli.results")
    found = getattr(results, name) if name in OWN else results.command_function(name)
    if name not in PACKAGES:
        globals()[name] = found
    return found


def _unknown_name_message(name: str) -> str:
    from herdcli.errors import nearest_name

    close = nearest_name(name, __all__)
    return f"herdcli has no {name!r}; {f'did you mean {close!r}?  ' if close else ''}its functions: {', '.join(__all__)}"


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "__doc__", "__all__", "__file__", "__name__", "__path__"])


class _CallablePackage(ModuleType):
    """A package that has the name of a command (`herdcli.em`) and runs that command's function when it is called."""

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        return _command_function(self)(*inputs, **options)

    @property
    def __signature__(self) -> Any:
        return _command_function(self).__signature__

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        function = _command_function(self)
        return f"{function.__name__}(X=None, y=None, **options)\n\n{function.__doc__}"


def _command_function(package: ModuleType) -> Any:
    return __getattr__(package.__name__.rpartition(".")[2])


class _RootPackage(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and name in PACKAGES:
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _RootPackage
