"""What hooks on gradients are handed."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor, nn

from hookline.address import Address
from hookline.address.signature import positional_names
from hookline.address.spelling import Part
from hookline.core import OUTPUT_GRADIENT, Hook
from hookline.intercept.gradient.places import Places
from hookline.intercept.gradient.wanted import signature_at


class _OfCall:
    """What is known in the backward pass of the call whose gradients are at hand."""

    __slots__ = ("_number", "backward_pass", "hook", "module")

    def __init__(self, hook: Hook, module: nn.Module, number: int, backward_pass: int) -> None:
        self.hook = hook
        self.module = module
        self._number = number
        self.backward_pass = backward_pass

    @property
    def number(self) -> int:
        """The number of the forward call: 0 for the first since the hook was put on, then 1, 2, ..."""
        return int(self._number) - self.hook.first

    @property
    def path(self) -> str:
        """The path of the module in the model that the hook was registered with."""
        return str(self.hook.about.path)

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths of the module, when it is registered under several (tied modules)."""
        return tuple(self.hook.about.paths)


class GradientCall(_OfCall):
    """The gradient of one tensor, in one backward pass through one call of a module.

    Attributes:
        grad: the gradient, of the tensor's shape, dtype and device. Assigning to it, or returning another from the
            hook, changes what is backpropagated from here on. Never change it in place: others may hold it.
        module: the module that was called.
        backward_pass: 0 in the first backward pass that reaches the call, 1 in the second (`retain_graph`, double
            backward), ...
        hook: the hook that is being run.
        places: where the tensors lie that get a gradient with this one.
        place: the number of this one among them.
    """

    __slots__ = ("grad", "place", "places")

    def __init__(
        self,
        hook: Hook,
        module: nn.Module,
        number: int,
        backward_pass: int,
        grad: Tensor,
        places: Places,
        place: int,
    ) -> None:
        super().__init__(hook, module, number, backward_pass)
        self.grad = grad
        self.places = places
        self.place = place

    @property
    def leaf(self) -> str:
        """The address of the tensor whose gradient it is: `"block:output.0"`, `"block:input.mask"`."""
        address: Address = self.hook.about.address
        part = self.places.parts[self.place]
        if self.hook.phase == OUTPUT_GRADIENT:
            return str(replace(address, side="output", part=part, grad=False))
        names = positional_names(signature_at(self.hook.about, self.module))
        return str(replace(address, side="input", part=_named(part, names), grad=False))

    def __repr__(self) -> str:
        return f"<gradient of {self.leaf}, call {self.number}, shape {tuple(self.grad.shape)}>"


class BackwardCall(_OfCall):
    """The end of a module's backward pass.

    Attributes:
        parameter_grads: what this pass gave each parameter of the module (and of those inside it), by name, before it
            was added to `parameter.grad`. A parameter that got nothing is not there. One that several calls, or
            modules, use has the sum.
        module: the module that was called.
        backward_pass: 0 in the first backward pass that reaches the call, 1 in the second, ...
        hook: the hook that is being run.
    """

    __slots__ = ("parameter_grads",)

    def __init__(
        self, hook: Hook, module: nn.Module, number: int, backward_pass: int, parameter_grads: dict[str, Tensor]
    ) -> None:
        super().__init__(hook, module, number, backward_pass)
        self.parameter_grads = parameter_grads

    def __repr__(self) -> str:
        names = ", ".join(self.parameter_grads) or "none"
        return f"<end of the backward pass of {self.path!r}, call {self.number}, gradients of: {names}>"


def _named(part: Part, names: list[str]) -> Part:
    """Return the way to a part of the arguments, with the name of one that came by position."""
    first = part[0]
    return (names[first], *part[1:]) if isinstance(first, int) and first < len(names) else part
