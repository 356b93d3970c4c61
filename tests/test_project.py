import subprocess
import sys
from pathlib import Path

import pytest

import hookline
from hookline.cli import main

ROOT = Path(__file__).parents[1]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_hookline_and_all_its_names_loads_no_package_but_torch_and_what_torch_loads() -> None:
    code = "import sys, torch\nbefore = {name.split('.')[0] for name in sys.modules}\nimport hookline\n"
    code += "for name in hookline.__all__: getattr(hookline, name)\n"
    code += "print(sorted({name.split('.')[0] for name in sys.modules} - before - set(sys.stdlib_module_names)))"
    assert run(code).strip() == "['hookline']"


def test_the_command_line_answers_without_loading_torch() -> None:
    out = run("import sys\nfrom hookline.cli import main\nmain(['--help'])\nprint('torch' in sys.modules)")
    assert "Usage: hookline" in out
    assert out.splitlines()[-1] == "False"


def test_the_command_line_says_its_version_and_refuses_what_it_does_not_know(capsys) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hookline {hookline.__version__}\n"
    assert main(["fly"]) == 2
    assert "No such command 'fly'" in capsys.readouterr().err


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        hookline.no_such_name


def test_dir_lists_every_public_name() -> None:
    assert set(hookline.__all__) <= set(dir(hookline))


def test_every_public_name_has_a_docstring() -> None:
    assert [name for name in hookline.__all__ if name != "__version__" and not getattr(hookline, name).__doc__] == []


def test_the_readme_fits_on_three_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


def test_the_changelog_has_the_present_version() -> None:
    released = hookline.__version__.split(".dev")[0]
    heading = "## Unreleased" if "dev" in hookline.__version__ else f"## {released}"
    assert heading in (ROOT / "CHANGELOG.md").read_text()


def test_continuous_integration_runs_what_a_developer_runs() -> None:
    assert "make test" in (ROOT / ".ci" / "run").read_text()
    assert "make test" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
