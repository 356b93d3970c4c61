"""The modules of a model, each with all its paths."""

from __future__ import annotations

import sys
from typing import NamedTuple

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

MOST_PATHS = 256
"""How many paths of one module are listed: modules that share modules that share modules double them at each level."""


class Place(NamedTuple):
    """One module and its paths.

    Attributes:
        module: the module.
        paths: its paths without the names of wrappers, the first one registered first; at most `MOST_PATHS`.
        spelt: its paths as `named_modules` spells them where they go through wrappers, with the wrappers' names.
    """

    module: nn.Module
    paths: tuple[str, ...]
    spelt: tuple[tuple[str, frozenset[str]], ...] = ()


def places(model: nn.Module) -> list[Place]:
    """Return every module of `model` once, in the order of registration, with all its paths.

    Wrappers (torch.compile, DDP, checkpoint and FSDP1 wrappers) have the path of what they wrap, which is the one
    that the path means; they themselves are left out.
    """
    walk = _Walk()
    walk.enter(model, "", "", frozenset())
    return [
        Place(module, (path, *walk.others.get(key, ())), tuple(walk.spelt.get(key, {}).items()))
        for key, (module, path) in walk.found.items()
    ]


def unwrapped(module: nn.Module) -> nn.Module:
    """Return the innermost module that `module` wraps; `module` itself if it is no wrapper."""
    wrappers = _Wrappers()
    while (name := wrappers.wrapped_name(module)) is not None:
        module = module.get_submodule(name)
    return module


class _Walk:
    """A walk down a model, along every path.

    Attributes:
        found: the modules with their first paths, by id.
        others, spelt: what few modules have: other paths, and spellings that go through wrappers.
    """

    def __init__(self) -> None:
        self.found: dict[int, tuple[nn.Module, str]] = {}
        self.others: dict[int, dict[str, None]] = {}
        self.spelt: dict[int, dict[str, frozenset[str]]] = {}
        self.wrappers = _Wrappers()
        self.above: set[int] = set()

    def enter(self, module: nn.Module, path: str, spelt: str, through: frozenset[str]) -> None:
        """Go down from a module that has this path, which is spelt so and goes through these wrappers."""
        key = id(module)
        if key in self.above:  # a module that lies below itself would have endless many paths
            return
        wrapped = self.wrappers.wrapped_name(module)
        if wrapped is None and not self._note(module, path, spelt, through):
            return
        if not module._modules:
            return
        self.above.add(key)
        for name, child in module._modules.items():
            if child is not None:
                below = f"{spelt}.{name}" if spelt else name
                if name == wrapped:
                    self.enter(child, path, below, through | {name})
                else:  # outside wrappers the two spellings are one
                    self.enter(child, (f"{path}.{name}" if path else name) if through else below, below, through)
        self.above.discard(key)

    def _note(self, module: nn.Module, path: str, spelt: str, through: frozenset[str]) -> bool:
        """Note a path of a module; False when it has so many already that they are followed no further."""
        key = id(module)
        _, first = self.found.setdefault(key, (module, path))
        if path != first:
            others = self.others.setdefault(key, {})
            if len(others) >= MOST_PATHS - 1:
                return False
            others[path] = None
        if through:
            self.spelt.setdefault(key, {})[spelt] = through
        return True


class _Wrappers:
    """The wrapper classes that have been imported; no instance can exist of the others."""

    def __init__(self) -> None:
        loaded = ((sys.modules.get(home), cls, name) for home, cls, name in _WRAPPERS)
        self.classes = [(getattr(home, cls), name) for home, cls, name in loaded if hasattr(home, cls)]
        self.names: dict[type[nn.Module], str | None] = {}

    def wrapped_name(self, module: nn.Module) -> str | None:
        """Return the name of the child that `module` only wraps, or None."""
        cls = type(module)
        if cls not in self.names:
            self.names[cls] = next((name for wrapper, name in self.classes if issubclass(cls, wrapper)), None)
        name = self.names[cls]
        return name if name is not None and module._modules.get(name) is not None else None
