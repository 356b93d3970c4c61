"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hookline.cli.choices import Mode, Order, parse_triple

if TYPE_CHECKING:
    from hookline.cli.subject import Request

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
Png = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Draw each tensor as a PNG file there, too.")]
OrderOption = Annotated[Order, typer.Option("--order", help="The order of channels.")]
Item = Annotated[int, typer.Option(min=0, help="Which of a batch is drawn; the numbers are of all.")]
Labels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Names of the classes, one a line: lists the likeliest, with Grad-CAM on a photo."
    ),
]
Size = Annotated[str, typer.Option(metavar="SIZE", help="The most bytes of the file; it says what it leaves out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")]

IMAGENET_MEAN = "0.485,0.456,0.406"
IMAGENET_STD = "0.229,0.224,0.225"
Plan = Annotated[Path, typer.Option(metavar="FILE", help="A plan, as hookline.EditPlan.save writes it.")]


def request_of(
    model: str,
    inputs: list[str] | None = None,
    weights: Path | None = None,
    mode: Mode = Mode.eval,
    device: str | None = None,
    tokenizer: Path | None = None,
    photo: tuple[int, int, str, str, bool] | None = None,
) -> Request:
    """Return what the options of a command say about its model and input.

    Args:
        model: the option of that name, as are the others.
        inputs: "--input".
        weights: "--weights".
        mode: "--mode".
        device: "--device".
        tokenizer: "--tokenizer".
        photo: "--resize", "--crop", "--mean", "--std" and "--stretch".
    """
    from hookline.cli.images import Preparation  # noqa: PLC0415 - loads torch
    from hookline.cli.subject import Request  # noqa: PLC0415

    preparation = Preparation()
    if photo is not None:
        resize, crop, mean, std, stretch = photo
        preparation = Preparation(resize, crop, parse_triple(mean), parse_triple(std), stretch)
    return Request(model, inputs or (), weights, mode, device, tokenizer, preparation)
