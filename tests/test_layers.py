import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "hookline"
# Each may import from itself and from those before it.
ORDER = [
    "_version",
    "errors",
    "table",
    "progress",
    "structure",
    "core",
    "address",
    "intercept",
    "hooks",
    "capturing",
    "editing",
    "freezing",
    "looking",
    "testing",
    "cli",
]


def files_of(layer: str) -> list[Path]:
    return [SRC / f"{layer}.py"] if (SRC / f"{layer}.py").exists() else sorted((SRC / layer).rglob("*.py"))


def imports_of(file: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(file.read_text())))
    named = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return named | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


@pytest.mark.parametrize("layer", ORDER)
def test_a_layer_imports_only_from_itself_and_from_those_before_it(layer: str) -> None:
    files = files_of(layer)
    assert files
    for file in files:
        ours = {name.split(".")[1] for name in imports_of(file) if name.startswith("hookline.")}
        assert ours <= set(ORDER[: ORDER.index(layer) + 1]), file


def test_every_module_has_its_place_in_the_order() -> None:
    found = {path.stem for path in SRC.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} == set(ORDER)


def test_core_does_not_import_torch() -> None:
    for file in files_of("core"):
        assert not {name for name in imports_of(file) if name.split(".")[0] == "torch"}, file


def test_no_file_is_a_drawer_for_everything_or_longer_than_a_concept() -> None:
    for file in SRC.rglob("*.py"):
        assert file.stem not in {"utils", "helpers", "common", "misc"}
        assert len(file.read_text().splitlines()) <= 300, file
