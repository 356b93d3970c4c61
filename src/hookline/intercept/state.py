"""What hookline keeps on a module while it is hooked."""

from __future__ import annotations

from typing import Any

from torch import nn

from hookline.core import Site

PREFIX = "hookline."
"""Begins the key of each site in a module's `__dict__`; with its dot it can be no attribute of anybody's."""

FORWARD = PREFIX + "forward"


class _Keys(dict[str, str]):
    def __missing__(self, method: str) -> str:
        self[method] = key = PREFIX + method
        return key


site_key = _Keys(forward=FORWARD).__getitem__
"""Return the key of the site of a method: the same string each time, so that its hash is known."""


FAST_PATH = PREFIX + "keeps nn.TransformerEncoderLayer off its fast path"
"""The key of one native forward hook that does nothing.

`nn.TransformerEncoderLayer` runs a fused kernel, which calls none of its children, unless one of them has hooks
in its `_forward_hooks`. See torch/nn/modules/transformer.py, "forward pre-/hooks are attached to the module".
"""


OUTSIDE_FORWARD = frozenset({"train", "_load_from_state_dict"})
"""Methods that no forward calls: who hooks only these leaves the fast path, and the speed of each call, as they are."""


def keep_off_fast_path(module: nn.Module, *_: Any) -> None:
    """Do nothing (torch.jit.script stops here: remove hookline's hooks before you script a module)."""
    if not has_sites(module):
        # On a copy that was made without asking us (torch.ao.quantization moves hooks to new modules).
        module._forward_hooks.pop(FAST_PATH, None)  # type: ignore[call-overload]


# The dicts are copied before they are walked, in one step of C code: another thread may be hooking the module.
def has_sites(module: nn.Module) -> bool:
    """Return whether anything is hooked on `module`."""
    return any(key.startswith(PREFIX) for key in list(module.__dict__))


def has_forward_sites(module: nn.Module) -> bool:
    """Return whether anything is hooked on `module` that runs in a forward pass."""
    return not sites(module).keys() <= OUTSIDE_FORWARD


def sites(module: nn.Module) -> dict[str, Site]:
    """Return the sites of `module` by the name of the method whose calls they catch."""
    return {key[len(PREFIX) :]: value for key, value in list(module.__dict__.items()) if key.startswith(PREFIX)}


def without_hooks(state: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a module's `__dict__` that holds nothing of ours."""
    clean = {key: value for key, value in list(state.items()) if not key.startswith(PREFIX)}
    native = clean.get("_forward_hooks")
    if native and FAST_PATH in native:
        clean["_forward_hooks"] = type(native)((key, hook) for key, hook in native.items() if key != FAST_PATH)
    return clean
