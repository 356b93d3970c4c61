"""What is left of a model behind its frozen beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hookline.address import leaves
from hookline.capturing.snapshot import snapshot
from hookline.core import AROUND, CALL, Hook
from hookline.errors import FreezeError
from hookline.freezing.cut import Cut
from hookline.freezing.dependence import Dependence
from hookline.freezing.stand_ins import Recorded, StandIn, filled
from hookline.intercept.module_site import attach_all

if TYPE_CHECKING:
    from hookline.freezing.frozen import Frozen


class Tail(nn.Module):
    """The model, run from the stored output of its last frozen module on.

    The model's own code runs; the calls of modules up to there are answered with tensors of NaN of the right shapes,
    and the last one with the features, so that nothing else can enter unnoticed. Its parameters and modes are the
    model's. It is not compiled. One thread at a time may run it, and none the model meanwhile.

    Attributes:
        model: the model.
    """

    def __init__(self, model: nn.Module, frozen: Frozen, cut: Cut, recorded: Recorded, *, dense: bool) -> None:
        super().__init__()
        self.model = model
        self._frozen, self._cut, self._recorded, self._dense = frozen, cut, recorded, dense
        self._watch: Dependence | None = None

    def forward(self, *features: Any) -> Any:
        """Return what the model gives.

        Args:
            features: the tensor or tensors of the output of the last frozen module, of any number of samples.

        Raises:
            FreezeError: the features are of another number of tensors, or a part of the beginning was thawed.
        """
        given = [leaf for _, leaf in leaves(list(features))]
        self._check(given)
        count = len(given[0])
        args, kwargs = self._fill(self._recorded.call, count, given[0].device)
        handles = attach_all(self._hooks(given, count))
        try:
            # Parts that are compiled would be compiled anew each time, for hooks that are new each time.
            with torch.compiler.set_stance("force_eager"):
                return self.model(*args, **kwargs)
        finally:
            for handle in handles:
                handle.remove()

    def depends_on_more(self, *features: Any) -> tuple[Any, bool]:
        """Return what the model gives, and whether it depends on any value but those of the features."""
        self._watch = Dependence()
        try:
            with self._watch:
                output = self(*features)
            return output, self._watch.of(output)
        finally:
            self._watch = None

    def _check(self, given: Sequence[Any]) -> None:
        wanted = sum(isinstance(leaf, StandIn) for _, leaf in leaves(self._recorded.output))
        if len(given) != wanted or not all(isinstance(each, Tensor) for each in given):
            raise FreezeError(f"the tail is called with the {wanted} tensors that {self._cut.path!r} gives.")
        if self._cut.prefix - self._frozen._holding.part:
            raise FreezeError(
                f"a part of what the features were computed with has been thawed, up to {self._cut.path!r}: train the "
                "model itself, or cache the features of what is still frozen."
            )

    def _hooks(self, given: list[Tensor], count: int) -> list[tuple[nn.Module, Hook, str]]:
        reached: list[bool] = []
        # The model's code may write in place to what it takes for the output of its own module.
        features = (snapshot(each, detach=False) for each in given)

        def last(_call: Any, _proceed: Callable[[], Any]) -> Any:
            reached.append(True)
            return filled(self._recorded.output, lambda _: next(features))

        def answering(outputs: list[Any]) -> Callable[..., Any]:
            left = iter(outputs)

            def answer(_call: Any, proceed: Callable[[], Any]) -> Any:
                return proceed() if reached else self._fill(next(left), count, given[0].device)

            return answer

        hooks = [
            (module, Hook(AROUND, answering(self._recorded.answers[id(module)]), CALL), "forward")
            for module in self._cut.before
        ]
        return [*hooks, (self._cut.module, Hook(AROUND, last, CALL), "forward")]

    def _fill(self, value: Any, count: int, device: torch.device) -> Any:
        def fill(stand_in: StandIn) -> Tensor:
            answer = stand_in.filled(count, device, dense=self._dense)
            if self._watch is not None:
                self._watch.mark(answer)
            return answer

        return filled(value, fill)
