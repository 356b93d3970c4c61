"""One grammar for where: parse, match and print addresses, and read and write one part of a value."""

from hookline.address.containers import children, rebuild
from hookline.address.grammar import parse
from hookline.address.parts import leaves, map_leaves, read, write
from hookline.address.select import select
from hookline.address.selection import Selection, Target
from hookline.address.signature import Arguments, parameter_names
from hookline.address.spelling import Address, escape

__all__ = [
    "Address",
    "Arguments",
    "Selection",
    "Target",
    "children",
    "escape",
    "leaves",
    "map_leaves",
    "parameter_names",
    "parse",
    "read",
    "rebuild",
    "select",
    "write",
]
