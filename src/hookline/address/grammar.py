"""The grammar in which addresses are written."""

from __future__ import annotations

import re
from typing import Literal, NoReturn

from hookline.address.match import ranges
from hookline.address.spelling import INTEGER, PLAIN_PART, Address, Part
from hookline.errors import AddressError

_NAME = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"[0-9]+")
_MOST_DIGITS = 18  # what a 64-bit index can have; Python refuses to read numbers of thousands of digits


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
    """Reads one address from left to right, each character once."""

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
        begins = self.text[self.at : self.at + 2]
        if not begins or begins[0] in ":/":
            return [], None
        if begins in {".", ".:", "./"}:
            self.at += 1
            return [], None
        names: list[str] = []
        while True:
            begin = self.at
            name = self.glob()
            if self.take("("):
                if not self.take(")"):
                    self.fail("')': a method is named with empty parentheses, 'encode()'")
                if not _NAME.fullmatch(name):
                    self.at = begin
                    self.fail("the name of a method before '()'")
                return names, name
            if name != "**" or names[-1:] != ["**"]:  # ** twice means no more than once
                names.append(name)
            if not self.take("."):
                return names, None

    def glob(self) -> str:
        """Read one name of a path, with its wildcards."""
        begin = self.at
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "[":
                self.set()
            elif char in ".:/(":
                break
            elif char in ")]#'\\" or char.isspace():
                written = f"[{char}]" if char.isprintable() else "it in brackets"
                self.fail(f"no {char!r} in a module's name; if one is named so, write {written}")
            else:
                self.at += 1
        name = self.text[begin : self.at]
        if not name:
            self.fail("a name, or one of * ? **")
        if "**" in _outside_sets(name) and name != "**":
            self.at = begin
            self.fail("'**' as a whole name, as in 'layer1.**.relu'")
        return name

    def set(self) -> None:
        """Move past `[..]`: a set of characters, of which `]` may be the first."""
        begin = self.at
        first = begin + 2 if self.text[begin + 1 : begin + 2] == "!" else begin + 1
        end = self.text.find("]", first + 1)
        if end < 0:
            self.fail("a ']' that closes this '['")
        for low, high in ranges(self.text[first:end]):
            if low > high:
                self.fail(f"a range that goes up, [{high}-{low}] and not [{low}-{high}]")
        self.at = end + 1

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
        found = PLAIN_PART.match(self.text, self.at)
        if not found:
            self.fail("an index, a name, or a key in quotes, as in \":output.0.'odd key'\"")
        if not INTEGER.fullmatch(found[0]):
            self.at = found.end()
            return found[0]
        if len(found[0]) > _MOST_DIGITS:
            self.fail(f"an index of at most {_MOST_DIGITS} digits; a key that is made of digits stands in quotes, '12'")
        self.at = found.end()
        return int(found[0])

    def quoted(self) -> str:
        begin = self.at
        self.at += 1
        chars: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "'":
                return "".join(chars)
            if char == "\\" and self.at < len(self.text):
                char = self.text[self.at]
                self.at += 1
            chars.append(char)
        self.at = begin
        return self.fail("a quote that closes this one")

    def name(self, expected: str) -> str:
        found = _NAME.match(self.text, self.at)
        if not found:
            self.fail(expected)
        self.at = found.end()
        return found[0]

    def number(self, expected: str) -> int:
        found = _NUMBER.match(self.text, self.at)
        if not found or len(found[0]) > _MOST_DIGITS:
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
        line, caret = _pointed_at(self.text, self.at)
        raise AddressError(
            f"cannot read the address at column {self.at + 1}; expected {expected}:\n  {line}\n  {caret}"
        )


def _outside_sets(name: str) -> str:
    """Return the name with a placeholder for each `[..]`, where stars are characters like others."""
    return re.sub(r"\[!?.[^\]]*\]", "x", name, flags=re.DOTALL)


def _pointed_at(text: str, at: int) -> tuple[str, str]:
    """Return the text in one line, cut down to what is around the column `at`, and the line with the caret."""
    begin = at - 70 if at > 80 else 0
    before, after = ("..." if begin else ""), ("..." if len(text) > at + 80 else "")
    # Line breaks, tabs and the like would put the caret elsewhere, or spoil the terminal.
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[begin : at + 80])
    return f"{before}{shown}{after}", " " * (len(before) + at - begin) + "^"
