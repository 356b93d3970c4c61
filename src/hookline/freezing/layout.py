"""The parameters and buffers of a model, each in its place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from hookline.address.paths import Place, places

Key = tuple[int, str]


@dataclass(frozen=True, eq=False)
class Slot:
    """The place of one tensor: the module that owns it, and its name there.

    A place, not a tensor: FSDP2 and `load_state_dict(assign=True)` put another tensor there.

    Attributes:
        module: the owner.
        name: the name among the owner's parameters or buffers.
        kind: "parameter" or "buffer".
        paths: all paths of the place, more than one when the module has several.
    """

    module: nn.Module
    name: str
    kind: str
    paths: tuple[str, ...]

    @property
    def path(self) -> str:
        """The first path."""
        return self.paths[0]

    @property
    def key(self) -> Key:
        """What tells this place from others."""
        return id(self.module), self.name

    @property
    def tensor(self) -> Tensor | None:
        """What is there now."""
        held = self.module._parameters if self.kind == "parameter" else self.module._buffers
        return held[self.name] if self.name in held else None  # noqa: SIM401 - of a ScriptModule they have no get()

    @property
    def trains(self) -> bool:
        """Whether what is there now gets a gradient."""
        tensor = self.tensor
        return tensor is not None and tensor.requires_grad


@dataclass(frozen=True)
class Part:
    """Some modules and parameters of a model, as sets.

    Attributes:
        modules: the modules, by id.
        slots: the places of the parameters.
    """

    modules: dict[int, nn.Module] = field(default_factory=dict)
    slots: dict[Key, Slot] = field(default_factory=dict)

    def __or__(self, other: Part) -> Part:
        return Part(self.modules | other.modules, self.slots | other.slots)

    def __sub__(self, other: Part) -> Part:
        return Part(
            {key: value for key, value in self.modules.items() if key not in other.modules},
            {key: value for key, value in self.slots.items() if key not in other.slots},
        )

    def __and__(self, other: Part) -> Part:
        return self - (self - other)

    def __bool__(self) -> bool:
        return bool(self.modules or self.slots)


class Layout:
    """What a model consists of now.

    Attributes:
        places: its modules with their paths, wrappers left out.
        slots: the places of its parameters.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.places = places(model)
        self._by_id = {id(place.module): place for place in self.places}
        self.slots = [slot for place in self.places for slot in _slots(place, "parameter")]

    def __contains__(self, module: nn.Module) -> bool:
        return id(module) in self._by_id

    def path(self, module: nn.Module) -> str:
        """Return the first path of a module, `.` for the model itself."""
        return self._by_id[id(module)].paths[0] or "."

    def whole(self, modules: Iterable[nn.Module]) -> Part:
        """Return the modules with all that is below them."""
        below = {id(each): each for module in modules for each in module.modules() if id(each) in self._by_id}
        return Part(below, {slot.key: slot for slot in self.slots if id(slot.module) in below})

    def buffers(self, modules: Iterable[nn.Module]) -> Iterator[Slot]:
        """Yield the places of the buffers that the modules own."""
        for module in modules:
            if id(module) in self._by_id:
                yield from _slots(self._by_id[id(module)], "buffer")

    def ties(self) -> Iterator[list[Slot]]:
        """Yield the places that hold one and the same memory, where there are several."""
        groups: dict[object, list[Slot]] = {}
        for slot in self.slots:
            groups.setdefault(memory(slot.tensor), []).append(slot)
        return (group for group in groups.values() if len(group) > 1)


def memory(tensor: Tensor | None) -> object:
    """Return what is equal for tensors that begin at the same element of the same storage."""
    if tensor is None or is_lazy(tensor) or tensor.layout is not torch.strided or hasattr(tensor, "__tensor_flatten__"):
        return id(tensor)
    # Not data_ptr(): that is 0 for all meta tensors, and makes a copy-on-write storage its own.
    return tensor.untyped_storage()._cdata, tensor.storage_offset()


def _slots(place: Place, kind: str) -> Iterator[Slot]:
    held = place.module._parameters if kind == "parameter" else place.module._buffers
    for name, tensor in held.items():
        if tensor is not None:
            yield Slot(place.module, name, kind, tuple(f"{path}.{name}" if path else name for path in place.paths))
