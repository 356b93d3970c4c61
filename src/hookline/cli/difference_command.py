"""`hookline look diff` and `hookline edit`: two runs, and how they differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from hookline.address import select
from hookline.cli.inputs import Inputs
from hookline.cli.model_spec import aside
from hookline.cli.subject import Request
from hookline.cli.table_command import show_partial
from hookline.cli.weights import load_weights
from hookline.errors import CommandError, ModelRunError
from hookline.looking.difference import DifferenceTable, difference
from hookline.looking.report.observation import Observation, observe


def look_diff(a: str, b: str, request: Request, *, at: Sequence[str] | None, as_json: bool) -> int:
    """Print how two runs differ: on two inputs or, when there is an input, with two weights files or plans."""
    if not request.inputs:
        return _of_inputs(a, b, request, at=at, as_json=as_json)
    if a.endswith(".json") and b.endswith(".json"):
        return _of_plans(a, b, request, at=at, as_json=as_json)
    return _of_weights(Path(a), Path(b), request, at=at, as_json=as_json)


def edit(plan: Path, request: Request, *, at: Sequence[str] | None, as_json: bool) -> int:
    """Print what a plan of edits changes: the run without it is A, the run with it is B."""
    model, said = request.load()
    inputs, paths = request.read(model), _paths(model, at)
    edited = _edited(model, plan)
    runs = _observed(model, inputs, paths), _observed(model, inputs, paths, edited)
    _show(difference(*runs, (f"without {plan}", f"with {plan}")), [*said, *inputs.said], as_json=as_json)
    return 0


def _of_inputs(a: str, b: str, request: Request, *, at: Sequence[str] | None, as_json: bool) -> int:
    model, said = request.load()
    paths = _paths(model, at)
    first, second = (replace(request, inputs=[spec]).read(model) for spec in (a, b))
    runs = _observed(model, first, paths), _observed(model, second, paths)
    _show(difference(*runs, (a, b)), [*said, *first.said, *second.said], as_json=as_json)
    return 0


def _of_weights(a: Path, b: Path, request: Request, *, at: Sequence[str] | None, as_json: bool) -> int:
    model, said = request.load()
    inputs, paths = request.read(model), _paths(model, at)
    runs = []
    for file in (a, b):
        load_weights(model, file)
        runs.append(_observed(model, inputs, paths))
    _show(difference(runs[0], runs[1], (str(a), str(b))), [*said, *inputs.said], as_json=as_json)
    return 0


def _of_plans(a: str, b: str, request: Request, *, at: Sequence[str] | None, as_json: bool) -> int:
    model, said = request.load()
    inputs, paths = request.read(model), _paths(model, at)
    edits = [_edited(model, Path(plan)) for plan in (a, b)]
    runs = [_observed(model, inputs, paths, each) for each in edits]
    _show(difference(runs[0], runs[1], (a, b)), [*said, *inputs.said], as_json=as_json)
    return 0


def _paths(model: nn.Module, at: Sequence[str] | None) -> set[str] | None:
    return {target.path for target in select(model, list(at))} if at else None


def _edited(model: nn.Module, plan: Path) -> AbstractContextManager[Any]:
    """Return the block in which a plan's edits are made.

    Raises:
        CommandError: there is no such file, or it holds no plan.
    """
    import hookline  # noqa: PLC0415 - loaded by now; its parts come when they are asked for

    if not plan.is_file():
        raise CommandError(f"there is no file {str(plan)!r}.")
    try:
        loaded = hookline.EditPlan.load(plan)
    except (ValueError, KeyError, UnicodeDecodeError) as error:
        raise CommandError(f"{str(plan)!r} holds no plan of edits: {error}") from error
    return _edits(model, loaded)


@contextmanager
def _edits(model: nn.Module, plan: Any) -> Iterator[None]:
    """Make the edits in the block, and not before."""
    import hookline  # noqa: PLC0415

    with hookline.edit(model, plan):
        yield


def _observed(
    model: nn.Module, inputs: Inputs, paths: set[str] | None, within: AbstractContextManager[Any] | None = None
) -> Observation:
    try:
        with aside(), within if within is not None else nullcontext():
            return observe(model, inputs.args, inputs.kwargs, paths)
    except ModelRunError as error:
        show_partial(error)
        raise


def _show(found: DifferenceTable, said: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(found.to_dict() | {"choices": list(said)}, indent=2))
        return
    print(*said, found, sep="\n")
