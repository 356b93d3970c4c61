"""Addresses: how people say where in a model."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, NoReturn

from hookline.errors import AddressError

Part = tuple[str | int, ...]

_SPECIAL = re.compile(r"[*?\[\]:/()#\s'\\]")
_PLAIN_PART = re.compile(r"[^\s.:'\"()/#\[\]]+")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Address:
    """A place in a model: a module, and there a side of its call, a part of that, its gradient.

    Attributes:
        pattern: the module path, with `*`, `?`, `**` and `[..]`; "." is the model itself.
        method: the method whose calls are meant, or None for forward.
        function: a torch function that the module's own forward calls, or None.
        occurrence: which of several calls of that function, from 0; None means all.
        side: "input" or "output"; None when the address does not say.
        part: the way from the side to one part of it: indices and keys, outermost first.
        grad: whether the gradient is meant.
    """

    pattern: str = "."
    method: str | None = None
    function: str | None = None
    occurrence: int | None = None
    side: Literal["input", "output"] | None = None
    part: Part = ()
    grad: bool = False

    def __str__(self) -> str:
        text = self.pattern
        if self.method is not None:
            text = f"{self.method}()" if self.pattern == "." else f"{text}.{self.method}()"
        if self.function is not None:
            text = f"{text}/{self.function}" + (f"#{self.occurrence}" if self.occurrence is not None else "")
        if self.side is not None:
            text = f"{text}:{self.side}" + "".join(f".{_spell_part(part)}" for part in self.part)
        return text + (".grad" if self.grad else "")

    def at(self, path: str) -> Address:
        """Return this address with the pattern replaced by one module's path."""
        return replace(self, pattern=escape(path) or ".")


def escape(path: str) -> str:
    """Return the pattern that matches exactly this module path, e.g. `a[:]b` for a module that is named `a:b`."""
    return _SPECIAL.sub(lambda found: f"[{found[0]}]", path)


def parse(text: str) -> Address:
    """Return the address that `text` spells.

    Raises:
        AddressError: with a line that points at the column where the text goes wrong.
    """
    if not isinstance(text, str):
        raise AddressError(
            f"an address is a string such as 'layer4.1:output', got {type(text).__name__}: {text!r:.80}."
        )
    return _Parser(text).address()


class _Parser:
    """Reads one address from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text.rstrip()
        self.at = len(text) - len(text.lstrip())

    def address(self) -> Address:
        names, method = self.path()
        function = occurrence = None
        if self.take("/"):
            function = self.name("the name of a torch function, as in 'attn/softmax'")
            if self.take("#"):
                occurrence = self.number("which of its calls, as in 'attn/softmax#1'")
        side, part, grad = self.side() if self.take(":") else (None, (), False)
        if self.at < len(self.text):
            self.fail("the end of the address, ':input' or ':output'")
        pattern = ".".join(names) or "."
        return Address(pattern, method, function, occurrence, side, part, grad)

    def path(self) -> tuple[list[str], str | None]:
        """Read the dotted names, of which the last may be a method's: `decoder.encode()`."""
        rest = self.text[self.at :]
        if not rest or rest[0] in ":/":
            return [], None
        if rest[0] == "." and (len(rest) == 1 or rest[1] in ":/"):
            self.at += 1
            return [], None
        names: list[str] = []
        while True:
            begin = self.at
            names.append(self.glob())
            if self.take("("):
                if not self.take(")"):
                    self.fail("')': a method is named with empty parentheses, 'encode()'")
                method = names.pop()
                if not _NAME.fullmatch(method):
                    self.at = begin
                    self.fail("the name of a method before '()'")
                return names, method
            if not self.take("."):
                return names, None

    def glob(self) -> str:
        """Read one name of a path, with its wildcards, in canonical spelling."""
        begin, name = self.at, ""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "[":
                name += self.set()
            elif char in ".:/(":
                break
            elif char in ")]#'\\" or char.isspace():
                self.fail(f"no {char!r} in a module's name; if one is named so, write [{char}]")
            else:
                name += char
                self.at += 1
        if self.at == begin:
            self.fail("a name, or one of * ? **")
        if "**" in name and name != "**":
            self.at = begin
            self.fail("'**' as a whole name, as in 'layer1.**.relu'")
        return name

    def set(self) -> str:
        """Read `[..]`: a set of characters, of which `]` may be the first."""
        begin = self.at
        first = begin + 2 if self.text[begin + 1 : begin + 2] == "!" else begin + 1
        end = self.text.find("]", first + 1)
        if end < 0:
            self.fail("a ']' that closes this '['")
        self.at = end + 1
        return self.text[begin : self.at]

    def side(self) -> tuple[Literal["input", "output"], Part, bool]:
        for side in ("input", "output"):
            if self.take(side):
                break
        else:
            self.fail("'input' or 'output'")
        parts: list[str | int] = []
        quoted = False
        while self.take("."):
            quoted = self.text[self.at : self.at + 1] == "'"
            parts.append(self.quoted() if quoted else self.part())
        grad = bool(parts) and parts[-1] == "grad" and not quoted
        if grad:
            parts.pop()
        return side, tuple(parts), grad

    def part(self) -> str | int:
        found = _PLAIN_PART.match(self.text, self.at)
        if not found:
            self.fail("an index, a name, or a key in quotes, as in \":output.0.'odd key'\"")
        self.at = found.end()
        return int(found[0]) if _INTEGER.fullmatch(found[0]) else found[0]

    def quoted(self) -> str:
        key = ""
        begin = self.at
        self.at += 1
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "'":
                return key
            if char == "\\" and self.at < len(self.text):
                char = self.text[self.at]
                self.at += 1
            key += char
        self.at = begin
        return self.fail("a quote that closes this one")

    def name(self, expected: str) -> str:
        found = _NAME.match(self.text, self.at)
        if not found:
            self.fail(expected)
        self.at = found.end()
        return found[0]

    def number(self, expected: str) -> int:
        found = re.compile(r"[0-9]{1,9}").match(self.text, self.at)
        if not found:
            self.fail(expected)
        self.at = found.end()
        return int(found[0])

    def take(self, token: str) -> bool:
        """Move past `token` if it comes next."""
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def fail(self, expected: str) -> NoReturn:
        raise AddressError(
            f"cannot read the address at column {self.at + 1}; expected {expected}:\n  {self.text}\n  {' ' * self.at}^"
        )


def _spell_part(part: str | int) -> str:
    if isinstance(part, int):
        return str(part)
    if part != "grad" and _PLAIN_PART.fullmatch(part) and not _INTEGER.fullmatch(part):
        return part
    escaped = part.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
