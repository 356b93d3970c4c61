"""The report as a document: one HTML page with everything in it."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from hookline._version import __version__
from hookline.errors import MissingExtraError
from hookline.looking.layer_table import LayerTable
from hookline.looking.report.colours import for_page
from hookline.looking.report.finding import Finding

_SCRIPTS = ("values.js", "colours.js", "probe.js", "tree.js", "charts.js", "site.js", "stages.js", "main.js")


@dataclass(frozen=True)
class Report:
    """What `hookline.look` returns.

    Attributes:
        html: the page: no part of it is anywhere else.
        table: the layer table.
        findings: what is worth a look, the gravest first.
        choices: what was chosen and what was left out, a line each.
        output: what the model returned.
    """

    html: str
    table: LayerTable
    findings: tuple[Finding, ...]
    choices: tuple[str, ...]
    output: Any

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        size = len(self.html.encode()) / 1e6
        return f"<Report of {self.table.totals.modules} modules, {len(self.findings)} findings, {size:.1f} MB>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:720px;border:0"></iframe>'


def rendered(page: dict[str, Any], data: Sequence[str], **parts: Any) -> str:
    """Return the page.

    Args:
        page: what its script has to know.
        data: the packed values of all pictures.
        parts: what the template shows.

    Raises:
        MissingExtraError: jinja2 or matplotlib, whose colour maps are used, is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - an extra
        from markupsafe import Markup  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("a report needs jinja2: pip install 'hookline[look]'.") from None
    template = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(_file("page.html.j2"))
    safe = Markup  # what is ours, or escaped for its place
    return template.render(
        version=__version__,
        style=safe(_file("style.css")),
        script=safe("\n".join(map(_file, _SCRIPTS))),
        page=safe(_in_script(page | for_page())),
        data=[safe(text) for text in data],
        **parts,
    )


def _in_script(value: Any) -> str:
    """Return JSON that no text in it can end the script element of."""
    return json.dumps(value, separators=(",", ":"), allow_nan=True).replace("<", "\\u003c")


def _file(name: str) -> str:
    return resources.files("hookline.looking.report").joinpath("page", name).read_text(encoding="utf-8")
