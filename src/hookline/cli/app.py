"""The commands: what each takes; the work is done by the functions that they call."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from hookline.cli.choices import Mode, Order
from hookline.cli.options import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    AsCsv,
    AsJson,
    At,
    Crop,
    Device,
    FailOn,
    Input,
    Item,
    Labels,
    Mean,
    Model,
    ModeOption,
    OrderOption,
    Output,
    Plan,
    Png,
    Resize,
    Size,
    Std,
    Stretch,
    Tokenizer,
    Weights,
    request_of,
)

app = typer.Typer(
    help="Hooks for PyTorch models: look at what flows through them, from the shell.",
    epilog="Start with: hookline demo. Exit codes: 0; 1 when a check failed; 2 for a mistake in the arguments.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
)


def _examples(*lines: str) -> str:
    return "Examples:\n\n" + "\n\n".join(lines)


def _exit(run: Callable[..., int], *args: Any, **kwargs: Any) -> NoReturn:
    """Exit with the code that `run` returns; with 0 when the reader of the output has seen enough."""
    try:
        code = run(*args, **kwargs)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains at its exit
        code = 0
    raise typer.Exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        from hookline._version import __version__  # noqa: PLC0415 - printed rarely

        typer.echo(f"hookline {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    del version  # dealt with by its callback


@app.command(
    epilog=_examples(
        "hookline sites zoo.py:make",
        "hookline sites package.models:bert --at 'encoder.**' --json",
        "hookline sites zoo.py:make --functions -i random:1x3x224x224",
    )
)
def sites(
    model: Model,
    inputs: Input = None,
    at: At = None,
    called: Annotated[
        bool, typer.Option("--functions", help="List the torch functions that the modules call, on an --input.")
    ] = False,
    tokenizer: Tokenizer = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the addresses of a model: what --at, and hookline in Python, can name."""
    from hookline.cli.sites_command import sites as run  # noqa: PLC0415 - loads torch

    request = request_of(model, inputs, tokenizer=tokenizer)
    _exit(run, request, at=at, called=called, as_json=as_json, as_csv=as_csv)


@app.command(
    epilog=_examples(
        "hookline table zoo.py:make -i photo.jpg",
        "hookline table zoo.py:make -i random:1x3x224x224 --csv",
        "hookline table zoo.py:make -i x.npy --fail-on 'nan,dead>10%'",
    )
)
def table(
    model: Model,
    inputs: Input = None,
    at: At = None,
    weights: Weights = None,
    mode: ModeOption = Mode.eval,
    device: Device = None,
    tokenizer: Tokenizer = None,
    resize: Resize = 224,
    crop: Crop = 224,
    mean: Mean = IMAGENET_MEAN,
    std: Std = IMAGENET_STD,
    stretch: Stretch = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    fail_on: FailOn = None,
) -> None:
    """Print for each module its output's shape and statistics, its parameters and its time."""
    from hookline.cli.table_command import table as run  # noqa: PLC0415 - loads torch

    request = request_of(model, inputs, weights, mode, device, tokenizer, (resize, crop, mean, std, stretch))
    _exit(run, request, at=at, as_json=as_json, as_csv=as_csv, fail_on=fail_on)


@app.command(
    epilog=_examples(
        "hookline look zoo.py:make -i photo.jpg -o report.html",
        "hookline look zoo.py:make -i photo.jpg --at 'layer*.relu' --png pictures",
        "hookline look zoo.py:bert -i text:'A sentence.' --tokenizer folder",
        "hookline look diff cat.jpg dog.jpg --model zoo.py:make",
    )
)
def look(
    model: Model,
    inputs: Input = None,
    at: At = None,
    output: Output = Path("report.html"),
    png: Png = None,
    order: OrderOption = Order.index,
    item: Item = 0,
    labels: Labels = None,
    size: Size = "15 MB",
    weights: Weights = None,
    mode: ModeOption = Mode.eval,
    device: Device = None,
    tokenizer: Tokenizer = None,
    resize: Resize = 224,
    crop: Crop = 224,
    mean: Mean = IMAGENET_MEAN,
    std: Std = IMAGENET_STD,
    stretch: Stretch = False,
    as_json: AsJson = False,
    fail_on: FailOn = None,
) -> None:
    """Write a report, one file for a browser: findings, pictures and numbers of every module."""
    from hookline.cli.look_command import look as run  # noqa: PLC0415 - loads torch

    request = request_of(model, inputs, weights, mode, device, tokenizer, (resize, crop, mean, std, stretch))
    shown = {"order": order, "item": item, "labels": labels, "size": size}
    _exit(run, request, at=at, output=output, png=png, fail_on=fail_on, as_json=as_json, **shown)


@app.command(epilog=_examples("hookline demo", "hookline demo --photo coffee", "hookline demo --text"))
def demo(
    text: Annotated[bool, typer.Option("--text", help="A text encoder on a sentence, instead of the photo.")] = False,
    sentence: Annotated[str | None, typer.Option(help="Another sentence, for --text.")] = None,
    photo: Annotated[
        str, typer.Option(help="A photo of scikit-image: chelsea (a cat), coffee, rocket ...")
    ] = "chelsea",
    output: Output = Path("hookline-demo.html"),
) -> None:
    """Look at a trained network that sees a cat: prints what it found, writes a report."""
    from hookline.cli.demo import SENTENCE  # noqa: PLC0415 - loads torch
    from hookline.cli.demo import demo as run  # noqa: PLC0415

    _exit(run, text=(sentence or SENTENCE) if text or sentence else None, photo=photo, output=output)


@app.command(
    "look diff",
    epilog=_examples(
        "hookline look diff cat.jpg dog.jpg --model zoo.py:make",
        "hookline look diff before.pt after.pt --model zoo.py:make -i photo.jpg",
    ),
)
def look_diff(
    a: Annotated[str, typer.Argument(metavar="A", help="An input; with --input a weights file, or a plan (.json).")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    model: Annotated[str, typer.Option("--model", "-m", metavar="MODEL", help="As for look.")],
    inputs: Input = None,
    at: At = None,
    weights: Weights = None,
    mode: ModeOption = Mode.eval,
    device: Device = None,
    tokenizer: Tokenizer = None,
    resize: Resize = 224,
    crop: Crop = 224,
    mean: Mean = IMAGENET_MEAN,
    std: Std = IMAGENET_STD,
    stretch: Stretch = False,
    as_json: AsJson = False,
) -> None:
    """Run twice, and print where the two runs differ: two inputs, two weights files or two plans of edits."""
    from hookline.cli.difference_command import look_diff as run  # noqa: PLC0415 - loads torch

    request = request_of(model, inputs, weights, mode, device, tokenizer, (resize, crop, mean, std, stretch))
    _exit(run, a, b, request, at=at, as_json=as_json)


@app.command(epilog=_examples("hookline edit zoo.py:make --plan plan.json -i photo.jpg"))
def edit(
    model: Model,
    plan: Plan,
    inputs: Input = None,
    at: At = None,
    weights: Weights = None,
    mode: ModeOption = Mode.eval,
    device: Device = None,
    tokenizer: Tokenizer = None,
    resize: Resize = 224,
    crop: Crop = 224,
    mean: Mean = IMAGENET_MEAN,
    std: Std = IMAGENET_STD,
    stretch: Stretch = False,
    as_json: AsJson = False,
) -> None:
    """Run without and with a plan of edits, and print what it changes, module by module."""
    from hookline.cli.difference_command import edit as run  # noqa: PLC0415 - loads torch

    request = request_of(model, inputs, weights, mode, device, tokenizer, (resize, crop, mean, std, stretch))
    _exit(run, plan, request, at=at, as_json=as_json)


@app.command(
    "freeze-check",
    epilog=_examples("hookline freeze-check zoo.py:make frozen.json --weights after.pt -i random:8x3x224x224"),
)
def freeze_check(
    model: Model,
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="What Frozen.plan() gave, as a JSON file.")],
    inputs: Input = None,
    weights: Weights = None,
    device: Device = None,
    tokenizer: Tokenizer = None,
    resize: Resize = 224,
    crop: Crop = 224,
    mean: Mean = IMAGENET_MEAN,
    std: Std = IMAGENET_STD,
    stretch: Stretch = False,
) -> None:
    """Check that what a plan says is frozen is bit for bit what it was; exit with 1 if it is not."""
    from hookline.cli.freeze_command import freeze_check as run  # noqa: PLC0415 - loads torch

    request = request_of(model, inputs, weights, Mode.as_is, device, tokenizer, (resize, crop, mean, std, stretch))
    _exit(run, plan, request)
