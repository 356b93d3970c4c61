"""One grammar for where: parse, match and print addresses, and read and write one part of a value."""

from hookline.address.grammar import Address, escape, parse
from hookline.address.parts import children, leaves, map_leaves, read, rebuild, write
from hookline.address.select import select
from hookline.address.selection import Selection, Target
from hookline.address.signature import Arguments

__all__ = [
    "Address",
    "Arguments",
    "Selection",
    "Target",
    "children",
    "escape",
    "leaves",
    "map_leaves",
    "parse",
    "read",
    "rebuild",
    "select",
    "write",
]
