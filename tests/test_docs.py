import contextlib
import io
import re
from pathlib import Path

import pytest

import hookline

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page: Path) -> None:
    """Python blocks of a page share their names; a text block right after one is its exact output."""
    names: dict[str, object] = {"__name__": "page"}
    printed = ""
    for language, body in BLOCK.findall(page.read_text()):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(body, str(page.relative_to(ROOT)), "exec"), names)
            printed = out.getvalue()
        elif language == "text":
            assert printed == body
            printed = ""


def test_every_public_name_is_in_the_reference() -> None:
    reference = (ROOT / "docs" / "reference.md").read_text()
    missing = [name for name in hookline.__all__ if name != "__version__" and f"::: hookline.{name}\n" not in reference]
    assert missing == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert [page.name for page in PAGES[1:] if page.name not in navigation] == []
