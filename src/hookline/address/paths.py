"""The modules of a model, each with all its paths."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from torch import nn

# The wrapper classes whose one child stands for the wrapped module, by where they live: importing
# torch.distributed only to ask whether a module is one of its wrappers would take longer than all the rest.
_WRAPPERS = (
    ("torch._dynamo.eval_frame", "OptimizedModule", "_orig_mod"),
    ("torch.nn.parallel.distributed", "DistributedDataParallel", "module"),
    ("torch.nn.parallel.data_parallel", "DataParallel", "module"),
    ("torch.distributed.algorithms._checkpoint.checkpoint_wrapper", "ActivationWrapper", "_checkpoint_wrapped_module"),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel", "_fsdp_wrapped_module"),
)


@dataclass(frozen=True)
class Place:
    """One module and its paths.

    Attributes:
        module: the module.
        paths: its paths without the names of wrappers, the first one registered first.
        spelt: its paths as `named_modules` spells them.
    """

    module: nn.Module
    paths: tuple[str, ...]
    spelt: tuple[str, ...]


def places(model: nn.Module) -> list[Place]:
    """Return every module of `model` once, in the order of registration, with all its paths.

    Wrappers (torch.compile, DDP, checkpoint and FSDP1 wrappers) have the path of what they wrap, which is the one
    that the path means; they themselves are left out.
    """
    wrappers = _wrappers()
    found: dict[int, tuple[nn.Module, list[str], list[str]]] = {}
    # A module that lies below itself would have endless many paths: those on the way down are not entered again.
    stack: list[tuple[nn.Module, str, str, frozenset[int]]] = [(model, "", "", frozenset())]
    while stack:
        module, path, spelt, above = stack.pop()
        if id(module) in above:
            continue
        wrapped = wrapped_name(module, wrappers)
        if wrapped is None:
            _, paths, spellings = found.setdefault(id(module), (module, [], []))
            if path not in paths:
                paths.append(path)
            spellings.append(spelt)
        above |= {id(module)}
        for name, child in reversed(module._modules.items()):
            if child is not None:
                prefix = f"{spelt}.{name}" if spelt else name
                stack.append((child, path if name == wrapped else f"{path}.{name}" if path else name, prefix, above))
    return [Place(module, tuple(paths), tuple(spelt)) for module, paths, spelt in found.values()]


def wrapped_name(module: nn.Module, wrappers: list[tuple[type, str]]) -> str | None:
    """Return the name of the child that `module` only wraps, or None."""
    for wrapper, name in wrappers:
        if isinstance(module, wrapper) and name in module._modules:
            return name
    return None


def _wrappers() -> list[tuple[type, str]]:
    """Return the wrapper classes that have been imported; no instance can exist of the others."""
    loaded = ((sys.modules.get(home), cls, name) for home, cls, name in _WRAPPERS)
    return [(getattr(home, cls), name) for home, cls, name in loaded if hasattr(home, cls)]
