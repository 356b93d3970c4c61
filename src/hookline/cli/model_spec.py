"""A model as the shell names it: `package.module:name` or `file.py:name`."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from hookline.address.nearest import nearest
from hookline.errors import CommandError, HooklineError


def load_model(spec: str) -> nn.Module:
    """Return the model that `spec` names: a `torch.nn.Module`, or what a function without arguments returns.

    Args:
        spec: `package.module:name` or `file.py:name`; the name may have dots.

    Raises:
        CommandError: there is no such module or name, it cannot be imported, wants arguments, or gives no model.
    """
    place, colon, name = spec.rpartition(":")
    if not (colon and place and name):
        raise CommandError(
            f"{spec!r} names no model: write package.module:name or file.py:name, where the name is a torch.nn.Module "
            "or a function without arguments that returns one."
        )
    found = _attribute(_imported(place), name, place)
    model = found if isinstance(found, nn.Module) else _made(found, spec)
    if not isinstance(model, nn.Module):
        raise CommandError(f"{spec} gives a {type(model).__name__}, not a torch.nn.Module: {model!r:.80}.")
    return model


def _imported(place: str) -> ModuleType:
    path = Path(place)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise CommandError(f"there is no file {place!r} to take the model from.")
    # The folder of a file, as for `python file.py`; the present one for a module, as for `python -m`.
    sys.path.insert(0, str(path.resolve().parent if is_file else Path.cwd()))
    try:
        with aside():
            return _run_file(path) if is_file else importlib.import_module(place)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{place}.".startswith(f"{error.name}."):
            raise CommandError(f"there is no Python module {error.name!r} to take the model from.") from error
        raise CommandError(f"{place} cannot be imported: {what_went_wrong(error)}") from error


def _run_file(path: Path) -> ModuleType:
    # A name of its own: a file that is called random.py must not take the place of Python's module.
    name = f"hookline_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up there
    spec.loader.exec_module(module)
    return module


def _attribute(module: ModuleType, name: str, place: str) -> Any:
    found: Any = module
    for step in name.split("."):
        if not hasattr(found, step):
            near = nearest(step, [each for each in dir(found) if not each.startswith("_")])
            hint = f"; the nearest: {', '.join(map(repr, near))}" if near else ""
            raise CommandError(f"{place} has no {name!r}{hint}.")
        found = getattr(found, step)
    return found


def _made(maker: Any, spec: str) -> Any:
    if not callable(maker):
        raise CommandError(f"{spec} is a {type(maker).__name__}: name a torch.nn.Module or a function that makes one.")
    wanted = _required(maker)
    if wanted:
        raise CommandError(
            f"{spec} wants arguments ({', '.join(wanted)}): write a function without arguments that calls it, "
            "and name that one."
        )
    try:
        with aside():
            return maker()
    except HooklineError:
        raise
    except Exception as error:
        raise CommandError(f"{spec} failed: {what_went_wrong(error)}") from error


def _required(maker: Any) -> list[str]:
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # written in C: found out by calling it
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in variable]


def aside() -> AbstractContextManager[object]:
    """Return a block in which what the user's code prints goes to stderr: stdout is for what was asked for."""
    return contextlib.redirect_stdout(sys.stderr)


def what_went_wrong(error: BaseException) -> str:
    """Return an error of the user's code in one line, with the place where it was raised."""
    text = (str(error).strip().splitlines() or [""])[0]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SyntaxError):
        where = f" ({error.filename}, line {error.lineno})"
        text = error.msg
    return f"{type(error).__name__}: {text}{where}"
