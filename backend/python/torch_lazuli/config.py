"""The device's settings, as attributes of `torch.lazuli.config`."""

import contextlib
import difflib
import json
from collections.abc import Iterator
from typing import Any

from torch_lazuli.operators import ops


class Config:
    """Settings that can be read, set, and set for a while.

        torch.lazuli.config.fusion = False
        with torch.lazuli.config.patch(fusion=False):
            ...

    `print(torch.lazuli.config)` lists them. Each has an environment variable of its name too:
    LAZULI_FUSION for `fusion`. Raises AttributeError for a name that does not exist, and
    ValueError for a value that does not fit.
    """

    def _all(self) -> dict[str, Any]:
        return json.loads(ops._config_get())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        settings = self._all()
        if name not in settings:
            raise AttributeError(_no_such_setting(name, settings))
        return settings[name]

    def __setattr__(self, name: str, value: Any) -> None:
        settings = self._all()
        if name not in settings:
            raise AttributeError(_no_such_setting(name, settings))
        ops._config_set(name, json.dumps(value))

    def __dir__(self) -> list[str]:
        return ["patch", *self._all()]

    def __repr__(self) -> str:
        return "\n".join(f"{name} = {value!r}" for name, value in sorted(self._all().items()))

    @contextlib.contextmanager
    def patch(self, **settings: Any) -> Iterator[None]:
        """Sets some settings, and sets them back at the end of the `with` block."""
        before = {name: getattr(self, name) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


def _no_such_setting(name: str, settings: dict[str, Any]) -> str:
    close = difflib.get_close_matches(name, settings, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(sorted(settings))}"
    return f"torch.lazuli.config has no setting {name!r}; {hint}"


config = Config()
