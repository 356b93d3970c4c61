"""Output files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hookline.errors import CommandError


class OutputFile:
    """A file to be written at the end of the work, in a place that was found to be writable at its start.

    Attributes:
        path: where it will be.
    """

    def __init__(self, path: Path, temporary: Path) -> None:
        self.path = path
        self._temporary = temporary

    def write(self, text: str) -> None:
        """Write the text; the file appears with all of it."""
        self._temporary.write_text(text, encoding="utf-8")
        self._temporary.replace(self.path)


@contextmanager
def output_file(path: Path) -> Iterator[OutputFile]:
    """Yield the file, to be written to in the block; on an error in it there is none, or the one that was there.

    Raises:
        CommandError: the folder is missing or cannot be written to, before anything else has been done.
    """
    if path.is_dir():
        raise CommandError(f"{str(path)!r} is a folder: name a file in it.")
    if not path.parent.is_dir():
        raise CommandError(f"there is no folder {str(path.parent)!r} to write {path.name!r} into.")
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise CommandError(f"{str(path)!r} cannot be written: {error.strerror}.") from error
    os.close(handle)
    mask = os.umask(0)
    os.umask(mask)
    temporary = Path(name)
    temporary.chmod(0o666 & ~mask)  # mkstemp's files are for their owner alone
    try:
        yield OutputFile(path, temporary)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def writable_folder(path: Path) -> Path:
    """Return the folder, made if it was missing.

    Raises:
        CommandError: it cannot be made or written to.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise CommandError(f"the folder {str(path)!r} cannot be written to: {error.strerror}.") from error
    return path
