"""Refuse what cannot be hooked, and say what to do instead."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from hookline.errors import HookRefusedError, HookTypeError


def check_module(module: Any) -> None:
    """Raise unless `module` is an initialised torch module."""
    if not isinstance(module, nn.Module):
        raise HookTypeError(
            f"expected a torch.nn.Module to hook, got {type(module).__name__}: {module!r:.100}. "
            "The module comes first: hookline.register_forward_hook(module, hook)."
        )
    if "_forward_hooks" not in module.__dict__:
        raise HookRefusedError(
            f"{type(module).__name__} is not initialised: call super().__init__() in its __init__ before hooking it."
        )


def check_hookable(cls: type[nn.Module], method: str) -> None:
    """Raise unless calls of the method `method` of instances of `cls` can be caught."""
    if issubclass(cls, torch.jit.ScriptModule):
        raise HookRefusedError(
            f"{cls.__name__} runs as TorchScript, outside Python, where no hook of ours can see its calls. "
            "Hook the Python module before it is scripted or traced, or use the module's own register_forward_hook."
        )
    found = inspect.getattr_static(cls, method, None)
    if isinstance(found, (staticmethod, classmethod, property)):
        raise HookRefusedError(
            f"{cls.__name__}.{method} is a {type(found).__name__}: it is not called on the module. "
            "Hook a method that calls it."
        )
    if callable(found) and not hasattr(type(found), "__get__"):
        raise HookRefusedError(
            f"{cls.__name__}.{method} is a {type(found).__name__}, which Python does not hand the module it is called "
            f"on. Define {method} as a method that calls it."
        )
    if not callable(getattr(cls, method, None)):
        raise HookTypeError(f"{cls.__name__} has no method {method!r} to hook.")
