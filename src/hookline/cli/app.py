"""The commands: what each takes; the work is done by the functions that they call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hookline.cli.choices import Mode, Order, parse_triple

if TYPE_CHECKING:
    from hookline.cli.subject import Request

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


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="package.module:name or file.py:name, a torch.nn.Module or a function without arguments that returns one.",
        show_default=False,
    ),
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        "-i",
        metavar="INPUT",
        help="photo.jpg, a folder of photos, x.npy, x.pt, x.safetensors, random:1x3x224x224 or text:'A sentence.'; "
        "several for several arguments.",
        show_default=False,
    ),
]
At = Annotated[
    list[str] | None,
    typer.Option("--at", metavar="ADDRESS", help="Where to look, such as 'blocks.*'; all modules by default."),
]
Weights = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A state dict (.pt, .pth, .safetensors) for the model.")
]
ModeOption = Annotated[Mode, typer.Option("--mode", help="The mode to run the model in.")]
Device = Annotated[str | None, typer.Option(metavar="DEVICE", help="Where to run, such as cuda or mps.")]
Tokenizer = Annotated[Path | None, typer.Option(metavar="FOLDER", help="The tokenizer for text:, from transformers.")]
Resize = Annotated[int, typer.Option(min=1, help="Pixels of a photo's shorter side.")]
Crop = Annotated[int, typer.Option(min=1, help="Pixels of the square that is cut from the middle.")]
Stretch = Annotated[bool, typer.Option("--stretch", help="Make the whole photo that square, instead of a crop.")]
Mean = Annotated[str, typer.Option(metavar="R,G,B", help="Subtracted from each colour of a photo.")]
Std = Annotated[str, typer.Option(metavar="R,G,B", help="What each colour is then divided by.")]
FailOn = Annotated[
    str | None,
    typer.Option(
        metavar="CHECKS",
        help="Exit with 1 if a check fails: nan, dead>10%, zero>90%, uncalled; several with commas.",
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The report to write.")]
OrderOption = Annotated[Order, typer.Option("--order", help="The order of channels.")]
Size = Annotated[str, typer.Option(metavar="SIZE", help="The most bytes of the file; it says what it leaves out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")]

_IMAGENET_MEAN = "0.485,0.456,0.406"
_IMAGENET_STD = "0.229,0.224,0.225"


def _request(  # one place where the options of all commands come together
    model: str,
    inputs: list[str] | None = None,
    weights: Path | None = None,
    mode: Mode = Mode.eval,
    device: str | None = None,
    tokenizer: Path | None = None,
    photo: tuple[int, int, str, str, bool] | None = None,
) -> Request:
    from hookline.cli.images import Preparation  # noqa: PLC0415 - loads torch
    from hookline.cli.subject import Request  # noqa: PLC0415

    preparation = Preparation()
    if photo is not None:
        resize, crop, mean, std, stretch = photo
        preparation = Preparation(resize, crop, parse_triple(mean), parse_triple(std), stretch)
    return Request(model, inputs or (), weights, mode, device, tokenizer, preparation)


@app.command(
    epilog=_examples("hookline sites zoo.py:make", "hookline sites package.models:bert --at 'encoder.**' --json")
)
def sites(model: Model, at: At = None, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """List the addresses of a model: what --at, and hookline in Python, can name."""
    from hookline.cli.sites_command import sites as run  # noqa: PLC0415 - loads torch

    raise typer.Exit(run(_request(model), at=at, as_json=as_json, as_csv=as_csv))


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
    mean: Mean = _IMAGENET_MEAN,
    std: Std = _IMAGENET_STD,
    stretch: Stretch = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    fail_on: FailOn = None,
) -> None:
    """Print for each module its output's shape and statistics, its parameters and its time."""
    from hookline.cli.table_command import table as run  # noqa: PLC0415 - loads torch

    request = _request(model, inputs, weights, mode, device, tokenizer, (resize, crop, mean, std, stretch))
    raise typer.Exit(run(request, at=at, as_json=as_json, as_csv=as_csv, fail_on=fail_on))


@app.command(
    epilog=_examples(
        "hookline look zoo.py:make -i photo.jpg -o report.html",
        "hookline look zoo.py:make -i photo.jpg --at 'layer*.relu'",
        "hookline look zoo.py:bert -i text:'A sentence.' --tokenizer folder",
        "hookline look diff cat.jpg dog.jpg --model zoo.py:make",
    )
)
def look(
    model: Model,
    inputs: Input = None,
    at: At = None,
    output: Output = Path("report.html"),
    order: OrderOption = Order.index,
    size: Size = "15 MB",
    weights: Weights = None,
    mode: ModeOption = Mode.eval,
    device: Device = None,
    tokenizer: Tokenizer = None,
    resize: Resize = 224,
    crop: Crop = 224,
    mean: Mean = _IMAGENET_MEAN,
    std: Std = _IMAGENET_STD,
    stretch: Stretch = False,
    as_json: AsJson = False,
    fail_on: FailOn = None,
) -> None:
    """Write a report, one file for a browser: findings, pictures and numbers of every module."""
    from hookline.cli.look_command import look as run  # noqa: PLC0415 - loads torch

    request = _request(model, inputs, weights, mode, device, tokenizer, (resize, crop, mean, std, stretch))
    raise typer.Exit(run(request, at=at, output=output, order=order, size=size, fail_on=fail_on, as_json=as_json))


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

    raise typer.Exit(run(text=(sentence or SENTENCE) if text or sentence else None, photo=photo, output=output))
