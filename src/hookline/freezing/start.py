"""Freeze a part of a model."""

from __future__ import annotations

from typing import Any, Literal

from torch import nn

from hookline.errors import AddressError, FreezeError
from hookline.freezing.example import Example
from hookline.freezing.frozen import Frozen
from hookline.freezing.layout import Layout
from hookline.freezing.level import Level
from hookline.freezing.naming import named
from hookline.freezing.prefix import check_gradient_arrives, runs_before
from hookline.freezing.run import record
from hookline.intercept.hookable import check_module


def freeze(
    model: nn.Module,
    *where: Any,
    until: str | None = None,
    level: Literal["params", "state", "function"] = "function",
    dropout: bool = False,
    example: Any = None,
) -> Frozen:
    """Freeze what `where` names, and keep it frozen whatever is called on the model.

    ```python
    frozen = hookline.freeze(model, "stem", "layer[12]", "cls_token")
    train(model)
    frozen.check()
    ```

    A module that is named is frozen with all that is in it. No parameter is replaced, and the groups of no optimizer
    are touched. Gradients of the frozen parameters are cleared at once, for an optimizer would still apply them.

    Args:
        model: the module whose modules and parameters are named. Freeze before wrapping it for distributed training.
        where: addresses of modules or parameters, parameters, modules, classes, regexes, predicates, or lists of these.
        until: freeze also all that runs before this place; needs `example`.
        level: "params": parameters get no gradient and move no more. "state": buffers, such as batch-norm statistics,
            do not move either. "function": frozen modules also stay in inference mode through every `train()`, so that
            they compute in training what they compute in inference.
        dropout: leave dropout modules of the frozen part in the mode of the model.
        example: an input of the model: a tensor, a tuple of arguments or a dict of named ones. The model is run on it
            once, without a trace, to find the order in which it runs.

    Raises:
        NoMatchError: something in `where` names neither a module nor a parameter.
        AddressError: an address is misspelt, or nothing is named.
        HookTypeError: an option is of the wrong kind.
        HookRefusedError: a module cannot be hooked (TorchScript).
        FreezeError: it would quietly go wrong: half of a tied pair, a lazy module, a model that is in a
            DistributedDataParallel, reentrant checkpointing behind a frozen beginning. Nothing has been changed.
    """
    check_module(model)
    how = Level.checked(level, dropout=dropout)
    if not where and until is None:
        raise AddressError("freeze() was told nothing to freeze: name modules or parameters, '.' for all, or until=.")
    if until is not None and example is None:
        raise FreezeError(
            f"until={until!r} needs to know the order in which the model runs: give an input, example=x (a tensor, a "
            "tuple of arguments or a dict of named ones)."
        )
    layout = Layout(model)
    part = named(layout, where)
    given = None if example is None else Example.of(example)
    if until is not None and given is not None:
        part |= runs_before(layout, until, given)
    if given is not None:
        check_gradient_arrives(layout, part, record(layout, given, training=True))
    return Frozen(model, part, how, given)
