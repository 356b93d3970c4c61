"""`hookline freeze-check`: is what should be frozen what it was?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hookline.cli.inputs import Inputs
from hookline.cli.subject import Request
from hookline.errors import CommandError


def freeze_check(plan: Path, request: Request) -> int:
    """Check a model against a plan of `Frozen.plan()`; return the exit code, 1 when a frozen tensor is not what it was.

    With an input, the model is also run in training mode: each frozen module must give what it gives in inference mode.
    """
    import hookline  # noqa: PLC0415 - loaded by now; its parts come when they are asked for

    if not plan.is_file():
        raise CommandError(f"there is no file {str(plan)!r}.")
    model, said = request.load()
    probe = _probe(request.read(model)) if request.inputs else None
    print(*said, sep="\n", end="\n" if said else "")
    try:
        frozen = hookline.Frozen.apply_plan(model, plan)
        frozen.check(probe=probe)
    except hookline.NotFrozenError as error:
        print(f"hookline: {error}", file=sys.stderr)
        return 1
    except (ValueError, UnicodeDecodeError) as error:  # no JSON
        raise CommandError(f"{str(plan)!r} holds no plan of a freeze: {error}") from error
    print(frozen.report(probe))
    print("all of it is what it was" + (", in training mode too." if probe is not None else "."))
    return 0


def _probe(inputs: Inputs) -> Any:
    if inputs.args and inputs.kwargs:
        raise CommandError("freeze-check takes arguments by position or by name, not both.")
    return inputs.kwargs or inputs.args
