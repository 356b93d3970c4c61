"""What is left of a model behind its frozen beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hookline.address import leaves, map_leaves
from hookline.capturing.snapshot import snapshot
from hookline.core import AFTER, AROUND, CALL, KWARGS, Hook
from hookline.errors import FreezeError
from hookline.freezing.cut import Cut
from hookline.freezing.dependence import Dependence
from hookline.freezing.example import Example
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

    def __init__(
        self, model: nn.Module, frozen: Frozen, cut: Cut, example: Example, count: int, *, dense: bool
    ) -> None:
        super().__init__()
        self.model = model
        self._frozen, self._cut, self._dense = frozen, cut, dense
        self._call = Example(_blank(example.args), _blank(example.kwargs))
        self._count = count
        self._watch: Dependence | None = None
        self._answers, self._output = _answers(self.model, cut, example)

    def forward(self, *features: Any) -> Any:
        """Return what the model gives.

        Args:
            features: the tensor or tensors of the output of the last frozen module, of any number of samples.

        Raises:
            FreezeError: the features are of another number of tensors, or a part of the beginning was thawed.
        """
        given = [leaf for _, leaf in leaves(list(features))]
        self._check(given)
        scale = len(given[0])
        args, kwargs = self._blank_of([self._call.args, self._call.kwargs], scale, given[0].device)
        handles = attach_all(self._hooks(given, scale))
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
        wanted = sum(isinstance(leaf, Tensor) for _, leaf in leaves(self._output))
        if len(given) != wanted or not all(isinstance(each, Tensor) for each in given):
            raise FreezeError(f"the tail is called with the {wanted} tensors that {self._cut.path!r} gives.")
        if self._cut.prefix - self._frozen._holding.part:
            raise FreezeError(
                f"a part of what the features were computed with has been thawed, up to {self._cut.path!r}: train the "
                "model itself, or cache the features of what is still frozen."
            )

    def _hooks(self, given: list[Tensor], scale: int) -> list[tuple[nn.Module, Hook, str]]:
        reached: list[bool] = []
        # The model's code may write in place to what it takes for the output of its own module.
        features = (snapshot(each, detach=False) for each in given)

        def last(_call: Any, _proceed: Callable[[], Any]) -> Any:
            reached.append(True)
            return map_leaves(lambda _, leaf: next(features) if isinstance(leaf, Tensor) else leaf, self._output)

        def answering(outputs: list[Any]) -> Callable[..., Any]:
            left = iter(outputs)

            def answer(_call: Any, proceed: Callable[[], Any]) -> Any:
                return proceed() if reached else self._blank_of(next(left), scale, given[0].device)

            return answer

        hooks = [
            (module, Hook(AROUND, answering(self._answers[id(module)]), CALL), "forward") for module in self._cut.before
        ]
        return [*hooks, (self._cut.module, Hook(AROUND, last, CALL), "forward")]

    def _blank_of(self, value: Any, scale: int, device: torch.device) -> Any:
        """Return NaN (0 where there is none) in the shapes of a nested value, for another number of samples."""

        def blank(_: Any, leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            shape = list(leaf.shape)
            if shape and shape[0] % self._count == 0:
                shape[0] = shape[0] // self._count * scale
            nan = float("nan") if leaf.is_floating_point() or leaf.is_complex() else 0
            one = torch.full((), nan, dtype=leaf.dtype, device=device).expand(shape)
            answer = one.clone() if self._dense else one
            if self._watch is not None:
                self._watch.mark(answer)
            return answer

        return map_leaves(blank, value)


def _answers(model: nn.Module, cut: Cut, example: Example) -> tuple[dict[int, list[Any]], Any]:
    """Run the model; return what each module before the cut gave at each call, and what the cut's module gave."""
    outputs: dict[int, list[Any]] = {id(module): [] for module in (*cut.before, cut.module)}

    def note(module: nn.Module, _args: Any, _kwargs: Any, output: Any) -> None:
        outputs[id(module)].append(_blank(output))

    handles = attach_all((module, Hook(AFTER, note, KWARGS), "forward") for module in (*cut.before, cut.module))
    try:
        example.run(model)
    finally:
        for handle in handles:
            handle.remove()
    return outputs, outputs[id(cut.module)][0]


def _blank(value: Any) -> Any:
    """Return a nested value with meta tensors in the place of tensors."""
    return map_leaves(lambda _, leaf: leaf.detach().to("meta") if isinstance(leaf, Tensor) else leaf, value)
