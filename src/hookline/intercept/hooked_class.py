"""The subclass that a hooked module is given in place of its own class."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from hookline.errors import HooklineWarning, HookRefusedError
from hookline.intercept import caught, copies
from hookline.intercept.hookable import check_hookable
from hookline.intercept.made import MARK, Made, caught_by, made_from, set_class
from hookline.intercept.named_like import named_like
from hookline.intercept.shadowed import ShadowedMethod
from hookline.intercept.state import has_sites, site_key, sites

_set_bases = type.__dict__["__bases__"].__set__


# (mypy takes the __hash__ of a module class for that of its instances: hence the type: ignore[arg-type] below.)
# Bounded, because each parametrized or FSDP-wrapped module can have a class of its own. Strong, because a class
# that went away and was made anew would make torch.compile compile again.
@functools.lru_cache(maxsize=4096)
def hooked_class(base: type[Any], methods: frozenset[str], shadowed: frozenset[str]) -> type[nn.Module]:
    """Return the subclass of `base` that catches calls of `methods`.

    It is named like `base` and behaves like it; instances that have no site in their `__dict__` are left alone.
    """
    namespace: dict[str, Any] = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        MARK: Made(base, methods, shadowed, tuple(map(site_key, methods)), len(methods) == 1 and not caught_by(base)),
        "__class__": property(_class_of, _become),
        "__init__": named_like(base.__init__, _built_from(base)),
        "__reduce_ex__": copies.reduce_ex(base),
    }
    for name in ("__copy__", "__deepcopy__"):
        if hasattr(base, name):
            namespace[name] = named_like(getattr(base, name), copies.copier(base, name))
    for name in sorted(methods):
        run = named_like(getattr(base, name), caught.method(base, name))
        namespace[name] = ShadowedMethod(base, name, run) if name in shadowed else run
    if methods - shadowed:
        namespace["__setattr__"] = named_like(base.__setattr__, _noticing(base, methods - shadowed))
    if "forward" in methods and getattr(base, "_call_impl", None) is nn.Module._call_impl:
        shadow = None if "forward" in shadowed else _shadow_forward
        namespace["_call_impl"] = named_like(nn.Module._call_impl, caught.call_impl(base, shadow))
    if issubclass(base, torch.fx.GraphModule):
        namespace["recompile"] = named_like(base.recompile, _unhooked_meanwhile(base, "recompile"))
    return _subclass(base, namespace)


def catch(module: nn.Module, name: str) -> None:
    """Give `module` a class that catches calls of its method `name`, unless it has one.

    Raises:
        HookTypeError, HookRefusedError: instances of the class, or the method, cannot be hooked.
    """
    cls = catching(type(module), name, name in module.__dict__)  # type: ignore[arg-type]
    if cls is not type(module):
        set_class(module, cls)


@functools.lru_cache(maxsize=4096)
def catching(cls: type[Any], name: str, shadowed: bool) -> type[Any]:
    """Return what instances of `cls` must become for calls of their method `name` to be caught."""
    check_hookable(cls, name)
    hidden = frozenset((name,) if shadowed else ())
    made = made_from(cls)
    if made is not None and (name not in made.methods or not hidden <= made.shadowed):
        return hooked_class(made.base, made.methods | {name}, made.shadowed | hidden)  # type: ignore[arg-type]
    if name not in caught_by(cls):
        return hooked_class(cls, frozenset((name,)), hidden)  # type: ignore[arg-type]
    if shadowed and made is None and not any(under and name in under.shadowed for under in map(made_from, cls.__mro__)):
        raise HookRefusedError(
            f"{cls.__name__} cannot be hooked now: it was hooked before its class was put on top of ours, and since "
            f"then an attribute {name!r} was set on the module, which hides the method. Delete the attribute, hook the "
            "module, and set it again."
        )
    return cls


def restore_class(module: nn.Module) -> None:
    """Give `module` its original class back if nothing is hooked on it any more.

    If FSDP2 has put its own class on top of ours, ours stays underneath, inert.
    """
    made = made_from(type(module))
    if made is None:
        return
    for key in made.keys:
        if key in module.__dict__:
            return
    set_class(module, made.base)


def _shadow(module: nn.Module, name: str) -> None:
    """Change to the class that expects an attribute of the name of a caught method on the instance."""
    made = made_from(type(module))
    if site_key(name) not in module.__dict__:
        return
    if made is None:
        warnings.warn(
            f"the attribute {name!r} hides a hooked method of a {type(module).__name__}, whose class was put on top of "
            f"ours: its hooks do not run any more. Register them again on a module without that attribute.",
            HooklineWarning,
            stacklevel=4,
        )
    elif name in made.methods:
        set_class(module, hooked_class(made.base, made.methods, made.shadowed | {name}))  # type: ignore[arg-type]


def _shadow_forward(module: nn.Module) -> None:
    _shadow(module, "forward")


def _noticing(base: type[nn.Module], methods: frozenset[str]) -> Callable[..., None]:
    """Return a `__setattr__` that notices when an attribute is about to hide one of the caught methods."""

    def run(self: nn.Module, name: str, value: Any) -> None:
        if name in methods:
            _shadow(self, name)
        base.__setattr__(self, name, value)

    return run


def _class_of(self: nn.Module) -> type[Any]:
    """Answer `module.__class__`: truthfully, but for torch.nn.utils.parametrize.

    That takes the class which it has put on a module apart again (`delattr(module.__class__, "weight")`), and must
    find its own, not ours on top of it. torch.compile, on the other hand, must see ours.
    """
    cls = type(self)
    if sys._getframe(1).f_globals.get("__name__") == "torch.nn.utils.parametrize":
        made = made_from(cls)
        return made.base if made else cls
    return cls


def _become(self: nn.Module, cls: type[nn.Module]) -> None:
    """Handle `module.__class__ = cls`, by which FSDP2, parametrize and lazy modules change a module.

    Whatever it becomes, it keeps being caught: our class goes on top of the new one.
    """
    set_class(self, cls)
    for name in sites(self):
        catch(self, name)


def _subclass(base: type[nn.Module], namespace: dict[str, Any]) -> type[nn.Module]:
    """Make a subclass of `base` without running its `__init_subclass__` or the code of its metaclass.

    Those are made for classes that people write: they register them, or demand arguments.
    """
    cls: type[nn.Module] = type.__new__(type(base), base.__name__, (nn.Module,), namespace)
    try:
        _set_bases(cls, (base,))  # past the metaclass's own __setattr__
    except TypeError:  # `base` has __slots__ of its own: only ordinary subclassing can follow its layout
        try:
            cls = type.__new__(type(base), base.__name__, (base,), namespace)
        except TypeError as error:
            raise HookRefusedError(
                f"{base.__name__} cannot be hooked: Python makes no subclass of it ({error}). "
                "Hook the module that contains it, or use the module's own register_forward_hook."
            ) from error
    return cls


def _built_from(base: type[nn.Module]) -> Callable[..., None]:
    """Return an `__init__` that is run when somebody calls `type(module)(...)` to get another one like it."""

    def __init__(self: nn.Module, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        made = made_from(type(self))
        if made is not None and not has_sites(self):
            set_class(self, base)  # the new one is born unhooked
        base.__init__(self, *args, **kwargs)

    return __init__


def _unhooked_meanwhile(base: type[nn.Module], name: str) -> Callable[..., Any]:
    """Return a method for one that writes to `type(self)`, as GraphModule.recompile does with its new forward."""

    def run(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        hooked = type(self)
        if made_from(hooked) is None:
            return getattr(base, name)(self, *args, **kwargs)
        set_class(self, base)
        try:
            return getattr(base, name)(self, *args, **kwargs)
        finally:
            set_class(self, hooked)

    return run
