"""What was captured at one site."""

from __future__ import annotations

import bisect
import inspect
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hookline.address import Arguments, Target, read
from hookline.capturing.budget import bytes_in
from hookline.capturing.compiled import keep, ticket_for
from hookline.capturing.gradient_log import GradientLog
from hookline.capturing.options import Options
from hookline.capturing.reduction import Gathered
from hookline.capturing.shelf import Kept, Shelf
from hookline.capturing.skeleton import put_together, taken_apart
from hookline.capturing.snapshot import snapshot_value
from hookline.errors import CaptureError
from hookline.hooks.never_fired import why_no_gradient

if TYPE_CHECKING:
    from hookline.capturing.session import Session

_in_order = attrgetter("order")
_AS_IT_COMES = (0, 0)
_in_backward = torch._C._current_graph_task_id


class SiteLog:
    """The values of one site, in the order of its calls.

    Attributes:
        target: where it is.
        fired: how many calls were seen, recomputations not counted.
        entries: what is kept of them.
        gathered: what accumulates over them, with a `reduce=` of that kind.
        gradients: what puts gradients together, if the address names them.
    """

    def __init__(self, target: Target, options: Options, shelf: Shelf, session: Session) -> None:
        self.target = target
        self.fired = 0
        self.entries: list[Kept] = []
        self._received: list[list[Tensor]] = []
        self.gathered = Gathered(options.accumulator) if options.accumulator else None
        self.gradients = GradientLog(target, self.take_gradient) if target.address.grad else None
        self.ticket = ticket_for(self)
        self.skeleton: Any = None
        self._options = options
        self._shelf = shelf
        # Values are kept as they come: the usual case, for which little is done.
        self._keeps_all = shelf.budget is None and options.keeps_all
        self._session = session
        self._known_signature: inspect.Signature | None = None

    def after(self, _module: nn.Module, _args: tuple[Any, ...], output: Any) -> None:
        """Be the hook that runs after the module, for an output."""
        part = self.target.address.part
        self._take(read(output, part, address=str(self.target)) if part else output)

    def before(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Be the hook that runs before the module, for an input."""
        part = self.target.address.part
        if not part and not kwargs:
            self._take(args)
            return
        arguments = Arguments(self._signature(module), args, kwargs)
        if part:
            self._take(read(arguments[part[0]], part[1:], address=str(self.target)))
        else:
            self._take(arguments.by_name())

    def receive(self, tensors: list[Tensor]) -> None:
        """Take the tensors of one call from compiled code."""
        self._received.append(tensors)
        if self.skeleton is not None:
            self.settle()

    def settle(self) -> None:
        """Deal with what came from compiled code before its structure was known: that is told when the code ends."""
        received, self._received = self._received, []
        for tensors in received:
            try:
                value = put_together(self.skeleton, tensors)
            except IndexError:
                raise CaptureError(
                    f"{self.target}: its calls in compiled code have outputs of different structure."
                ) from None
            self._add(value, recomputed=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The addresses of the site, one for each path of its module."""
        return tuple(str(self.target.address.at("" if path == "." else path)) for path in self.target.paths)

    @property
    def gathers(self) -> bool:
        """Whether there is one result over all calls."""
        return self.gathered is not None

    @property
    def module(self) -> str:
        """The name of the module's class."""
        return type(self.target.module).__name__

    @property
    def structure_hash(self) -> str:
        """The hash of the model's structure."""
        return self._session.structure_hash

    def values(self, *, recomputed: bool) -> tuple[Any, ...]:
        """Return the values that are kept, of the real calls or of the recomputed ones."""
        self.settle()
        if self.gathered:
            return (self.gathered.result(),) if self.fired and not recomputed else ()
        return tuple(entry.value for entry in self.entries if entry.recomputed == recomputed)

    def places(self) -> list[tuple[str, int]]:
        """Return for each value where it lies, and its bytes."""
        if self.gathered:
            return [("memory", bytes_in(result)) for result in self.values(recomputed=False)]
        self.settle()
        return [(entry.where, entry.size) for entry in self.entries]

    def why_silent(self) -> str:
        """Say why the site was never called."""
        if self.gradients is not None and self.gradients.unwatched is not None:
            return why_no_gradient(self.gradients.unwatched)
        return self._session.why_silent(self)

    def take_gradient(self, value: Any, order: tuple[int, int]) -> None:
        """Take the gradients of one call; they come in the order of the backward pass, and are kept in `order`."""
        if not self.gathered and not self._options.function:
            value = snapshot_value(value, detach=self._options.detach)
        self._add(value, recomputed=False, order=order)

    def _take(self, value: Any) -> None:
        options = self._options
        if torch.compiler.is_compiling():
            self._take_in_trace(value)
            return
        recomputed = _in_backward() != -1
        if self._keeps_all and not recomputed:
            self.fired += 1
            self.entries.append(
                Kept(snapshot_value(value, detach=options.detach), recomputed=False, order=_AS_IT_COMES)
            )
            if self.fired == 1:
                self._session.one_fired()
            return
        if not self.gathered and not options.function:  # those look at the value at once
            value = snapshot_value(value, detach=options.detach)
        self._add(value, recomputed=recomputed)
        if self.fired == 1 and not recomputed:
            self._session.one_fired()

    def _take_in_trace(self, value: Any) -> None:
        if not self._options.detach or self._options.stop:
            option = "stop=True" if self._options.stop else "detach=False"
            raise CaptureError(
                f"{option} cannot be had from compiled code; capture on the model before it is compiled."
            )
        skeleton, tensors = taken_apart(value)
        # Written, never read: so the compiled code does not depend on it.
        self.skeleton = skeleton
        keep(self.ticket, [tensor.detach() for tensor in tensors])

    def _add(self, value: Any, *, recomputed: bool, order: tuple[int, int] = _AS_IT_COMES) -> None:
        options = self._options
        if not recomputed:
            self.fired += 1
        if self.gathered:
            if not recomputed:
                self.gathered.update(value)
            return
        if options.function:
            value = snapshot_value(options.function(value), detach=options.detach)
        value = options.converted(value)
        if options.last and self.entries:
            for old in [entry for entry in self.entries if entry.recomputed == recomputed]:
                if old.order > order:  # of gradients those of the last call come first
                    return
                self.entries.remove(old)
                self._shelf.drop(old)
        bisect.insort(self.entries, self._shelf.keep(value, recomputed=recomputed, order=order), key=_in_order)

    @property
    def path(self) -> str:
        """The first path of the module."""
        return self.target.path

    def learn_signature(self, signature: inspect.Signature) -> None:
        """Take note of the signature of the function that is called, if the address names one."""
        self._known_signature = signature

    def _signature(self, module: nn.Module) -> inspect.Signature:
        if self._known_signature is None:
            self._known_signature = inspect.signature(getattr(module, self.target.address.method or "forward"))
        return self._known_signature
