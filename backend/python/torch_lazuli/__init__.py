"""Lazuli: a lazy, compiling device for PyTorch.

`import torch` loads this package through the entry point group `torch.backends`; there is nothing
to import by hand. What a user calls is in `torch.lazuli` (see device_module.py).
"""

__version__ = "0.2.0"

_loaded = False


def _autoload() -> None:
    """Loads the plugin and registers the device with torch; called at the end of `import torch`.

    A plugin that is missing or does not fit must not break `import torch`: it is warned about,
    once, and the device is then not there.
    """
    global _loaded
    if _loaded:
        return
    _loaded = True
    import warnings

    from torch_lazuli import registration, takeover
    from torch_lazuli.library import LibraryError

    try:
        registration.register()
    except LibraryError as error:
        warnings.warn(f"device 'lazuli' is not available: {error}", stacklevel=2)
        return
    if names := takeover.asked():
        from torch_lazuli.takeover import install

        install.take_over(takeover.Request.parse(names))


def load_ipython_extension(shell) -> None:
    """Takes a notebook over: `%load_ext torch_lazuli`."""
    import torch  # noqa: F401  makes the device known

    from torch_lazuli.takeover import notebook

    notebook.load(shell)
