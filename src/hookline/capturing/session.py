"""Hooks that capture, from when they are put on until they are taken off."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from hookline.address import Selection, Target, select
from hookline.capturing.budget import bytes_of
from hookline.capturing.feature_map import Features
from hookline.capturing.options import Keep, Options
from hookline.capturing.shelf import Shelf
from hookline.capturing.site_log import SiteLog
from hookline.core import AFTER, ARGS, BEFORE, CALL, INPUT_GRADIENT, KWARGS, OUTPUT_GRADIENT, Hook
from hookline.errors import AddressError, NeverFiredError, NeverFiredWarning, StopForward
from hookline.hooks.never_fired import why_never_fired
from hookline.intercept.hookable import check_module
from hookline.intercept.placing import place_all
from hookline.structure import structure_hash

# Last among the hooks of a site: what is captured is what flows on, all edits done.
_LAST = float("-inf")


def capture(
    model: nn.Module,
    *where: Any,
    detach: bool = True,
    to: torch.device | str | int | None = None,
    dtype: torch.dtype | None = None,
    reduce: Any = None,
    keep: Keep = "all",
    budget: int | str | None = None,
    stop: bool = False,
    strict: bool = False,
) -> Features:
    """Capture what flows at the named places of `model`: the true values, whatever is done to them later.

    ```python
    with hookline.capture(model, "layer*.relu", "fc:input") as features:
        model(x)
    features["fc:input"]
    ```

    Values are captured from now on until the end of the `with` block, or until `features.remove()`. A tensor shares
    its memory with the model's own until one of the two is written to: then the write makes the copy. The model runs
    as without us.

    Args:
        model: the module whose submodules the addresses name.
        where: addresses (outputs, inputs, parts, methods, gradients), modules, classes, regexes, predicates, or lists
            of these.
            `"fc:input"` is the tuple of positional arguments, or, if any came by name, a dict of all by name.
            `"fc:output.grad"` and `"fc:input.grad"` are what `backward()` inside the block brings there, in the same
            structure, with None for what gets no gradient; see `Hooks.gradient` for which gradient that is.
        detach: cut the values off from the autograd graph; False keeps it.
        to: a device to move tensors to at once.
        dtype: a dtype to convert floating point and complex tensors to at once.
        reduce: keep less: a function of the value, run at once (only its result is kept), or something that gathers
            over all calls: `hookline.stats`, a class or an object with `update(tensor)` and `result()`.
        keep: "all" values, or only the "last" of each site.
        budget: bytes of memory for the values, such as `"2 GiB"`. Past it the oldest move to files in a temporary
            folder, and are read as memory maps; the folder goes with the features.
        stop: end the run once each place has been called, by a `StopForward` that the `with` block swallows.
        strict: a place that was never called is a `NeverFiredError` at the end of the block, not a warning.

    Raises:
        NoMatchError: an address names nothing in the model. Then nothing was hooked.
        AddressError: an address is misspelt.
        HookTypeError: an option is of the wrong kind.
        CaptureError: at run time, when a value cannot be kept.
    """
    check_module(model)
    selection = select(model, list(where))
    for target in selection:
        _check_address(target, stop=stop)
    options = Options.checked(
        detach=detach, to=to, dtype=dtype, reduce=reduce, keep=keep, stop=stop, sites=len(selection)
    )
    return Session(model, selection, options, None if budget is None else bytes_of(budget), strict=strict).features


def features(model: nn.Module, *inputs: Any, at: Any, **kwargs: Any) -> Features:
    """Run `model(*inputs, **kwargs)` until each place in `at` has been called, and return what was captured there.

    The rest of the model is not run. The grad mode is the caller's; values are detached.

    Args:
        model: the module to run.
        inputs: its positional arguments.
        at: an address, or a list of addresses, modules, classes, ...
        kwargs: its keyword arguments.

    Raises:
        NeverFiredError: the model ran to its end without calling one of the places; the message says why.
    """
    with capture(model, *(at if isinstance(at, (list, tuple)) else [at]), stop=True, strict=True) as captured:
        model(*inputs, **kwargs)
        captured._session.model_ran = True  # type: ignore[union-attr]
    return captured


class Session:
    """The hooks of one capture."""

    def __init__(
        self, model: nn.Module, selection: Selection, options: Options, budget: int | None, *, strict: bool
    ) -> None:
        self._model = model
        self._options = options
        self._strict = strict
        self.model_ran = False
        shelf = Shelf(budget)
        self._logs = [SiteLog(target, options, shelf, self) for target in selection]
        self._waiting = len(self._logs)
        self._handles = place_all((log.target, _hook(log)) for log in self._logs)
        self.features = Features({str(log.target).removesuffix(":output"): log for log in self._logs}, self)

    @property
    def structure_hash(self) -> str:
        """The hash of the model's structure."""
        return structure_hash(self._model)

    def one_fired(self) -> None:
        """Take note that a site has its first value; end the run when it was the last one to wait for."""
        self._waiting -= 1
        if self._options.stop and self._waiting <= 0:
            raise StopForward(self)

    def why_silent(self, log: SiteLog) -> str:
        """Say why a site was never called."""
        ran = self.model_ran or any(other.fired for other in self._logs)
        return why_never_fired(self._model, log.target, others_ran=ran)

    def remove(self) -> None:
        """Take the hooks off; what was captured stays."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def leave(self, error: BaseException | None) -> bool:
        """End the capture; return whether `error` is the one by which it ended the run."""
        self.remove()
        if isinstance(error, StopForward) and error.source is self:
            return True
        silent = [log for log in self._logs if not log.fired] if error is None else []
        if silent:
            text = "\n".join(f"{str(log.target)!r} was not captured: {log.why_silent()}" for log in silent)
            if self._strict or self._options.stop:
                raise NeverFiredError(text)
            warnings.warn(text, NeverFiredWarning, stacklevel=3)
        return False


def _hook(log: SiteLog) -> Hook:
    before = log.target.address.side == "input"
    if log.gradients is not None:
        phase = INPUT_GRADIENT if before else OUTPUT_GRADIENT
        return Hook(phase, log.gradients.receive, CALL, priority=_LAST, about=log.gradients)
    return Hook(
        BEFORE if before else AFTER,
        log.before if before else log.after,
        KWARGS if before else ARGS,
        priority=_LAST,
        about=log,
    )


def _check_address(target: Target, *, stop: bool) -> None:
    if target.address.grad and stop:
        raise AddressError(
            f"{target} names a gradient, which comes after the forward pass; features() and stop=True end that. Use "
            "hookline.capture(model, ...), and backward() inside its `with` block."
        )
