"""Files that hold tensors: .npy, .pt, .pth and .safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from hookline.errors import CommandError, MissingExtraError

SUFFIXES = (".npy", ".pt", ".pth", ".safetensors")


def read_tensors(file: Path) -> Any:
    """Return what a file holds: a tensor, or lists and dicts of tensors. No code in the file is run.

    Raises:
        CommandError: there is no such file, or it is not of the kind that its name says.
        MissingExtraError: it is a safetensors file, and safetensors is not installed.
    """
    if not file.is_file():
        raise CommandError(f"there is no file {str(file)!r}.")
    try:
        return _READERS[file.suffix.lower()](file)
    except KeyError:
        raise CommandError(f"{file} is no file of tensors: {', '.join(SUFFIXES)} are.") from None
    except MissingExtraError:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CommandError(f"{file} cannot be read as {file.suffix}: {reason:.160}") from error


def _numpy(file: Path) -> Any:
    import numpy as np  # noqa: PLC0415 - an extra

    return torch.from_numpy(np.load(file, allow_pickle=False))


def _torch(file: Path) -> Any:
    return torch.load(file, map_location="cpu", weights_only=True)


def _safetensors(file: Path) -> Any:
    try:
        from safetensors.torch import load_file  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("safetensors files need safetensors: pip install 'hookline[save]'.") from None
    return load_file(file)


_READERS = {".npy": _numpy, ".pt": _torch, ".pth": _torch, ".safetensors": _safetensors}
