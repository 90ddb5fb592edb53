"""Does something to a library once it has been imported, and nothing if it never is."""

import functools
import importlib
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any


class Imports:
    """A finder that finds nothing of its own: it sees what is imported, and waits for its end."""

    def __init__(self, taught: Mapping[str, tuple[str, str]], programs: Mapping[str, str] = {}):
        """`taught`: for a module's name, the name of our file and its function for it.

        `programs`: those of them that `python -m` runs too, and their functions to call then.
        """
        self._taught, self._programs = taught, programs
        self._begun: list[types.ModuleType] = []  # being imported when we came
        self._unknown: list[str] = []
        self._is_used = False

    def watch(self) -> None:
        """Begins. What has been imported already is seen to now."""
        sys.meta_path.insert(0, self)
        for name in self._taught:
            if module := sys.modules.get(name):
                self._begun.append(module)
        self._look_at_begun()

    def device_is_used(self) -> None:
        """From now on a version of a library that is not known is warned of."""
        self._look_at_begun()
        self._is_used = True
        for text in self._unknown:
            warnings.warn(text, stacklevel=2)

    def find_spec(self, name: str, path=None, target=None):
        """What another finder finds, with our function after the module's own code."""
        if self._begun:
            self._look_at_begun()
        if name not in self._taught:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        # A loader that serves many modules, such as those of a zip file, is left alone.
        if spec is not None and getattr(spec.loader, "name", None) == name:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        original = loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            vars(loader).pop("get_code", None)
            del loader.exec_module
            original(module)
            self._teach(module)

        loader.exec_module = exec_module
        if main := self._programs.get(loader.name):
            # `python -m` asks for the code, and runs it elsewhere than in the module.
            text = f"from {loader.name} import {main}\n{main}()\n"
            loader.get_code = lambda name: compile(text, loader.path, "exec")

    def _look_at_begun(self) -> None:
        begun, self._begun = self._begun, []
        for module in begun:
            if getattr(module.__spec__, "_initializing", False):
                self._begun.append(module)
            else:
                self._teach(module)

    def _teach(self, module: types.ModuleType) -> None:
        """What cannot be put in place must not break the import of a library.

        What was put in place before an exception stays: a function puts last what needs the rest.
        """
        file, function = self._taught[module.__name__]
        try:
            ours = importlib.import_module(f"torch_lazuli.libraries.{file}")
            getattr(ours, function)(module)
        except Exception as error:  # a library's registry, say, raises its own
            reason = f"{type(error).__name__}: {error}"
            text = f"lazuli does not know this version of {module.__name__}: {reason}"
            self._unknown.append(text)
            if self._is_used:
                warnings.warn(text, stacklevel=2)


def replace(owner: Any, name: str) -> Callable[[Callable], Callable]:
    """Puts a function in the place of `owner.name`; it gets the one that was there first.

    Raises AttributeError if there is none.
    """

    def put(function: Callable) -> Callable:
        original = getattr(owner, name)

        @functools.wraps(original)
        def replaced(*arguments, **named):
            return function(original, *arguments, **named)

        is_static = isinstance(owner, type) and isinstance(owner.__dict__.get(name), staticmethod)
        setattr(owner, name, staticmethod(replaced) if is_static else replaced)
        return function

    return put
