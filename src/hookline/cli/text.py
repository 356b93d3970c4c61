"""A sentence as a language model takes it: tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hookline.errors import CommandError, MissingExtraError


def tokenized(text: str, folder: Path | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the keyword arguments for a sentence, of batch 1, and its tokens as words.

    Args:
        text: the sentence; `@file` reads it from a file of UTF-8.
        folder: where the tokenizer's files lie, as `transformers` saves them.

    Raises:
        CommandError: no folder, no tokenizer in it, or text that is no UTF-8.
        MissingExtraError: transformers is not installed.
    """
    text = _read(Path(text[1:])) if text.startswith("@") else text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CommandError("the text is not valid UTF-8.") from None
    if not text.strip():
        raise CommandError("the text is empty: write text:'A sentence.'")
    tokenizer = _tokenizer(folder)
    encoded = dict(tokenizer(text, return_tensors="pt"))
    return encoded, tuple(tokenizer.convert_ids_to_tokens(encoded["input_ids"][0].tolist()))


def _read(file: Path) -> str:
    if not file.is_file():
        raise CommandError(f"there is no file {str(file)!r}.")
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"{str(file)!r} is not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}."
        ) from error


def _tokenizer(folder: Path | None) -> Any:
    if folder is None:
        raise CommandError("text needs a tokenizer: --tokenizer FOLDER, with the files that transformers saves.")
    if not folder.is_dir():
        raise CommandError(f"there is no folder {str(folder)!r} with a tokenizer.")
    try:
        from transformers import AutoTokenizer  # noqa: PLC0415 - not needed for anything else
    except ImportError:
        raise MissingExtraError("a tokenizer needs transformers: pip install transformers.") from None
    try:
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CommandError(f"the folder {str(folder)!r} holds no tokenizer that can be read: {reason:.160}") from error
