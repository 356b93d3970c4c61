"""Photos as a network takes them: resized, cropped, scaled."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hookline.errors import CommandError, MissingExtraError
from hookline.progress import tracked

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm")


@dataclass(frozen=True)
class Preparation:
    """How a photo becomes an input.

    Attributes:
        resize: pixels of the shorter side.
        crop: pixels of each side of the square that is cut from the middle.
        stretch: whether instead the whole photo is made that square, which changes its proportions.
        mean: what is subtracted from each colour, which goes from 0 to 1.
        std: what it is then divided by.
    """

    resize: int = 224
    crop: int = 224
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    stretch: bool = False

    def __post_init__(self) -> None:
        if not self.stretch and not 0 < self.crop <= self.resize:
            raise CommandError(f"cannot crop {self.crop} pixels from a photo whose shorter side has {self.resize}.")
        if not all(self.std):
            raise CommandError("a std of 0 cannot be divided by.")

    def __str__(self) -> str:
        mean, std = (" ".join(f"{value:g}" for value in values) for values in (self.mean, self.std))
        size = f"{self.crop} x {self.crop}"
        cut = f"resized to {self.resize} on the shorter side (bicubic), centre crop {size}"
        return f"{f'stretched to {size} (bicubic)' if self.stretch else cut}, RGB / 255, mean {mean}, std {std}"

    def photo(self, file: Path) -> Tensor:
        """Return the photo as the network sees it, before it is scaled.

        Returns:
            uint8, shape (3, crop, crop).

        Raises:
            CommandError: there is no such file, or it is no image.
        """
        image = _opened(file)
        if self.stretch:
            image = image.resize((self.crop, self.crop), _bicubic())
        else:
            scale = self.resize / min(image.size)
            width, height = (max(self.resize, round(side * scale)) for side in image.size)
            left, top = (width - self.crop) // 2, (height - self.crop) // 2
            image = image.resize((width, height), _bicubic()).crop((left, top, left + self.crop, top + self.crop))
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        return pixels.reshape(self.crop, self.crop, 3).permute(2, 0, 1).contiguous()  # (3, crop, crop)

    def scaled(self, photos: Tensor) -> Tensor:
        """Return photos (batch, 3, height, width) of uint8 as float32 input of the same shape."""
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (self.mean, self.std))
        return (photos / 255 - mean) / std


def image_files(folder: Path) -> tuple[list[Path], int]:
    """Return the images of a folder by name, and how many other files there are.

    Raises:
        CommandError: there is no image.
    """
    files = sorted(file for file in folder.iterdir() if file.is_file())
    images = [file for file in files if file.suffix.lower() in SUFFIXES]
    if not images:
        raise CommandError(f"the folder {str(folder)!r} has no image: {', '.join(SUFFIXES)}.")
    return images, len(files) - len(images)


def photos(files: list[Path], preparation: Preparation) -> Tensor:
    """Return the photos of several files as a batch, uint8, shape (batch, 3, crop, crop)."""
    return torch.stack([preparation.photo(file) for file in tracked(files, "reading photos", total=len(files))])


def _opened(file: Path) -> Any:
    try:
        from PIL import Image, ImageOps, UnidentifiedImageError  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("photos need pillow: pip install 'hookline[look]'.") from None
    if not file.is_file():
        raise CommandError(f"there is no file {str(file)!r}.")
    try:
        with Image.open(file) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except UnidentifiedImageError:
        raise CommandError(f"{str(file)!r} is not an image that can be read.") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise CommandError(f"{str(file)!r} cannot be read as an image: {error}") from error


def _bicubic() -> Any:
    from PIL import Image  # noqa: PLC0415 - an extra

    return Image.Resampling.BICUBIC
