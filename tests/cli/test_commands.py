import csv
import io
import json
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

import hookline
from hookline.cli import main

COMMANDS = ["look", "look diff", "table", "sites", "edit", "freeze-check", "demo"]


def test_help_lists_the_commands_and_loads_no_torch():
    code = "import sys; from hookline.cli import main; main(['--help'])\n"
    code += "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in COMMANDS)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_examples(run, command):
    code, out, _ = run(*command.split(), "--help")
    assert code == 0
    assert f"hookline {command}" in out
    assert "Examples:" in out


@pytest.mark.parametrize("arguments", [["fly"], ["table"], ["table", "--no-such"], ["sites", "zoo.py:mlp", "--at"]])
def test_a_mistake_in_the_arguments_exits_with_2(run, arguments):
    assert run(*arguments)[0] == 2


def test_without_typer_the_command_line_gives_the_pip_command(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "hookline.cli.app", raising=False)
    assert main(["table"]) == 2
    assert "pip install 'hookline[cli]'" in capsys.readouterr().err
    assert main(["--version"]) == 0


def test_sites_lists_addresses_that_select_understands(folder, run):
    code, out, _ = run("sites", "zoo.py:mlp", "--json")
    found = json.loads(out)
    assert code == 0
    assert [each["address"] for each in found] == [".", "0", "1", "2"]
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    assert [hookline.select(model, each["address"])[0].path for each in found] == [".", "0", "1", "2"]


def test_sites_as_text_and_csv_and_of_some(folder, run):
    assert run("sites", "zoo.py:mlp", "--at", "[02]")[1].splitlines()[1].split() == ["0", "Linear", "40"]
    rows = list(csv.DictReader(io.StringIO(run("sites", "zoo.py:mlp", "--csv")[1])))
    assert [row["parameters"] for row in rows] == ["0", "40", "0", "18"]


def test_table_prints_what_was_done_and_the_rows(folder, run):
    code, out, _ = run("table", "zoo.py:mlp", "-i", "random:3x4")
    assert code == 0
    assert "mode: set to eval; --mode as-is leaves it as zoo.py:mlp gave it" in out
    assert "random: 3x4, normal, mean 0, std 1, seed 0" in out
    assert [line.split()[0] for line in out.splitlines()[3:7]] == [".", "0", "1", "2"]


def test_table_as_json_and_csv_has_nothing_else_on_stdout(folder, run):
    found = json.loads(run("table", "zoo.py:mlp", "-i", "random:3x4", "--json")[1])
    assert [row["shape"] for row in found["rows"]] == [[3, 2], [3, 8], [3, 8], [3, 2]]
    assert found["totals"]["parameters"] == 58
    rows = list(csv.DictReader(io.StringIO(run("table", "zoo.py:mlp", "-i", "random:3x4", "--csv")[1])))
    assert [row["shape"] for row in rows] == ["3x2", "3x8", "3x8", "3x2"]


@pytest.mark.parametrize("command", [["table"], ["look", "-o", "out.html"], ["look", "diff", "random:2", "--model"]])
def test_what_the_model_prints_does_not_get_into_the_output(folder, run, command):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    arguments = [*command, "zoo.py:loud", "--json"]
    arguments += ["random:2"] if "diff" in command else ["-i", "random:2"]
    code, out, err = run(*arguments)
    assert code == 0
    assert json.loads(out)
    assert err.startswith("loading\nrunning\n")


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    command = f"{sys.executable} -m hookline sites zoo.py:many | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], check=False, capture_output=True, text=True, cwd=folder
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_table_of_some_modules_keeps_the_totals(folder, run):
    out = run("table", "zoo.py:mlp", "-i", "random:3x4", "--at", "2", "--csv")[1]
    assert [row["address"] for row in csv.DictReader(io.StringIO(out))] == ["2"]
    assert "58 parameters" in run("table", "zoo.py:mlp", "-i", "random:3x4", "--at", "2")[1]


def test_several_inputs_are_the_arguments_of_the_model(folder, run):
    code, out, _ = run("table", "zoo.py:sums", "-i", "random:2x3", "-i", "random:2x3", "--json")
    assert code == 0
    twice = torch.randn(2, 3, generator=torch.Generator().manual_seed(0)) * 2
    assert json.loads(out)["rows"][0]["max"] == twice.max().item()


@pytest.mark.parametrize(("mode", "wanted"), [("eval", "eval"), ("train", "train"), ("as-is", "train")])
def test_the_mode_is_set_or_left(folder, run, mode, wanted):
    found = json.loads(run("table", "zoo.py:mlp", "-i", "random:3x4", "--json", "--mode", mode)[1])
    assert {row["mode"] for row in found["rows"]} == {wanted}


def test_weights_are_put_into_the_model(folder, run):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    nn.init.zeros_(model[2].weight)
    nn.init.constant_(model[2].bias, 3.0)
    torch.save(model.state_dict(), folder / "zeros.pt")
    found = json.loads(run("table", "zoo.py:mlp", "-i", "random:3x4", "--json", "--weights", "zeros.pt")[1])
    assert (found["rows"][0]["min"], found["rows"][0]["max"]) == (3.0, 3.0)


@pytest.mark.parametrize(
    ("checks", "model", "code", "line"),
    [
        ("nan", "zoo.py:nans", 1, "nan: . is 100% not finite"),
        ("nan", "zoo.py:made", 0, ""),
        ("dead>10%", "zoo.py:mlp", 1, "dead: 1 is 12.5% dead channels"),
        ("dead>12.5%", "zoo.py:mlp", 0, ""),
        ("nonfinite>0%,zero>99%", "zoo.py:nans", 1, "nonfinite: . is 100% not finite"),
        ("uncalled", "zoo.py:mlp", 0, ""),
    ],
)
def test_a_check_that_fails_exits_with_1_and_names_the_place(folder, run, checks, model, code, line):
    got, _, err = run("table", model, "-i", "random:3x4", "--fail-on", checks)
    assert got == code
    assert line in err


@pytest.mark.parametrize("checks", ["fast", "dead", "dead>ten%", "nan>", "mean>3%"])
def test_a_check_that_cannot_be_read_is_refused(folder, refused, checks):
    assert "the checks are nan, dead>10%" in refused("table", "zoo.py:mlp", "-i", "random:3x4", "--fail-on", checks)


def test_look_writes_one_file_and_says_what_was_chosen_and_found(photo, run):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    code, out, _ = run("look", "zoo.py:tiny", "-i", photo, "--crop", "16", "--resize", "16", "-o", "out.html")
    assert code == 0
    assert "photo.png: resized to 16" in out
    assert "report: out.html" in out
    text = (photo.parent / "out.html").read_text()
    assert text.startswith("<!doctype html>")
    assert sorted(file.name for file in photo.parent.iterdir() if file.suffix == ".html") == ["out.html"]


def test_pictures_have_names_that_every_system_can_have_each_once():
    from hookline.cli.png_files import _name

    taken = set()
    names = [_name(text, taken) for text in (".", "a.b", "a[:]b/c", "A.B", "a.b call 2", "a.b_call_2", "..")]
    assert names == ["model", "a.b", "a_b_c", "A.B_2", "a.b_call_2", "a.b_call_2_2", "model_2"]


def test_look_names_the_likeliest_classes_and_shows_where_they_are(photo, run):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    (photo.parent / "names.txt").write_text("ant\nbee\ncat\n\ndog\neel\n")
    command = ("look", "zoo.py:tiny", "-i", photo, "--crop", "16", "--resize", "16", "--labels")
    assert run(*command, "names.txt")[0] == 0
    text = (photo.parent / "report.html").read_text()
    assert all(name in text for name in ("ant", "bee", "cat", "dog", "eel"))
    assert "Grad-CAM of" in text
    (photo.parent / "few.txt").write_text("ant\nbee\n")
    assert "no score for each of the 2 labels" in run(*command, "few.txt")[2]
    assert "there is no file 'nowhere.txt'" in run(*command, "nowhere.txt")[2]


def test_look_draws_the_photo_of_a_folder_that_is_asked_for(photo, run):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    (photo.parent / "many").mkdir()
    for name in ("a.png", "b.png"):
        (photo.parent / "many" / name).write_bytes(photo.read_bytes())
    size = ("--crop", "16", "--resize", "16")
    code, out, _ = run("look", "zoo.py:tiny", "-i", "many", *size, "--item", "1")
    assert code == 0
    assert "many: 2 photos: resized" in out
    assert "number 1 of a batch of 2" in (photo.parent / "report.html").read_text()
    code, _, err = run("look", "zoo.py:tiny", "-i", "many", *size, "--item", "2")
    assert (code, "there are 2 photos, from 0 to 1" in err) == (2, True)


def test_look_draws_each_tensor_into_a_file_of_its_own(photo, run):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    code, out, _ = run("look", "zoo.py:tiny", "-i", photo, "--crop", "16", "--resize", "16", "--png", "new/pictures")
    assert code == 0
    assert "pictures: 5 in new/pictures" in out
    names = sorted(file.name for file in (photo.parent / "new" / "pictures").iterdir())
    assert names == ["act.png", "conv.png", "head.png", "model.png", "pool.png"]


def test_look_as_json_has_table_findings_and_choices(folder, run):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    code, out, err = run("look", "zoo.py:nans", "-i", "random:3x4", "--json", "--fail-on", "nan")
    assert code == 1
    assert json.loads(out)["findings"][0]["address"] == "."
    assert "nan: ." in err


def _other_weights(folder):
    torch.save(nn.Linear(4, 8).state_dict(), folder / "other.pt")
    torch.save({"0.weight": torch.ones(8, 5)} | _rest(), folder / "shape.pt")
    torch.save([1, 2], folder / "list.pt")


def _rest():
    state = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).state_dict()
    return {name: value for name, value in state.items() if name != "0.weight"}


MLP = ("table", "zoo.py:mlp", "-i", "random:3x4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("table", "zoo.py:mlp"), "an input is missing"),
        (("table", "zoo.py:mlp", "-i", "nowhere.png"), "there is no file 'nowhere.png'"),
        (("table", "zoo.py:mlp", "-i", "zoo.py"), "'zoo.py' is not an image"),
        (("table", "zoo.py:wants", "-i", "random:3x4"), "wants arguments (width)"),
        ((*MLP, "--weights", "other.pt"), "the weights of other.pt do not fit the model: '0.weight' and 3 more"),
        ((*MLP, "--weights", "shape.pt"), "'0.weight' has shape (8, 4) in the model and (8, 5) in the file"),
        ((*MLP, "--weights", "list.pt"), "list.pt holds no state dict"),
        ((*MLP, "--weights", "nowhere.pt"), "there is no file 'nowhere.pt'"),
        ((*MLP, "--at", "0.wieght"), "no module of the model is at '0.wieght'"),
        ((*MLP, "--device", "warp"), "the device 'warp' cannot be used"),
        ((*MLP, "--mean", "1,2"), "expected one number or three"),
        (("look", "zoo.py:mlp", "-i", "random:3x4", "--at", "x"), "no module of the model is at 'x'"),
        (("look", "zoo.py:mlp", "-i", "random:3x4", "-o", "nowhere/r.html"), "there is no folder 'nowhere'"),
        (("look", "zoo.py:mlp", "-i", "random:3x4", "-o", "."), "'.' is a folder"),
        (("look", "zoo.py:mlp", "-i", "random:3x4", "--png", "zoo.py"), "the folder 'zoo.py' cannot be written to"),
        (("look", "zoo.py:mlp", "-i", "random:3x4", "-o", "/proc/r.html"), "'/proc/r.html' cannot be written"),
        (("look", "zoo.py:mlp", "-i", "random:3x4", "--size", "big"), "expected a size such as"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_nothing_is_written(folder, refused, arguments, message):
    pytest.importorskip("PIL")
    _other_weights(folder)
    err = refused(*arguments)
    assert message in err
    assert err.startswith("hookline: ")
    assert err.count("\n") == 1


def test_an_input_of_the_wrong_shape_names_the_module_and_shows_the_shapes_so_far(folder, refused):
    (folder / "deep.py").write_text(
        "from torch import nn\nnet = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.Sequential(nn.Linear(6, 2)))\n"
    )
    err = refused("look", "deep.py:net", "-i", "random:2x3x4")
    *table, sentence = err.splitlines()
    assert [line.split()[:3] for line in table[1:4]] == [
        [".", "Sequential", "no"],
        ["0", "Flatten", "2x12"],
        ["1", "Linear", "2x5"],
    ]
    assert sentence.startswith("hookline: '2.0' (Linear) failed when given 2 x 5: mat1 and mat2 shapes")


def test_a_report_that_was_there_stays_when_the_run_fails(folder, run):
    (folder / "report.html").write_text("old")
    assert run("look", "zoo.py:mlp", "-i", "random:3x5")[0] == 2
    assert (folder / "report.html").read_text() == "old"


def test_nothing_but_the_table_is_printed_when_piped(folder):
    done = subprocess.run(
        [sys.executable, "-m", "hookline", "table", "zoo.py:mlp", "-i", "random:3x4", "--csv"],
        capture_output=True, text=True, check=True, cwd=folder,
    )  # fmt: skip
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 5


def test_a_narrow_terminal_gets_fewer_columns_and_is_told(folder, monkeypatch):
    import os

    from hookline.cli import table_command

    monkeypatch.setattr(table_command.shutil, "get_terminal_size", lambda: os.terminal_size((100, 30)))
    monkeypatch.setattr(table_command.sys, "stdout", type("Tty", (), {"isatty": lambda self: True})())
    table = hookline.layer_table(nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2))
    text = table_command.fitted(table)
    assert max(map(len, text.splitlines()[:3])) <= 100
    assert "left out, too narrow: mode, dtype" in text


def test_help_is_there_at_once():
    """No timed test: this one only warns of an import that takes seconds, such as torch's."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "hookline", "--help"], capture_output=True, check=True)
    assert time.perf_counter() - start < 30


def test_sites_lists_the_functions_that_the_modules_call(folder, run, refused):
    code, out, _ = run("sites", "zoo.py:tiny", "--functions", "-i", "random:1x3x8x8", "--json")
    found = {info["address"]: info for info in json.loads(out)}
    assert code == 0
    assert {"conv/conv2d", "act/relu", "head/linear", "./flatten"} <= set(found)
    assert found["conv/conv2d"]["arguments"][:2] == ["input", "weight"]
    assert [
        row.split()[0]
        for row in run("sites", "zoo.py:tiny", "--functions", "-i", "random:1x3x8x8", "--at", "act")[1].splitlines()
    ] == ["address", "act/relu"]
    rows = csv.DictReader(io.StringIO(run("sites", "zoo.py:tiny", "--functions", "-i", "random:1x3x8x8", "--csv")[1]))
    assert {row["address"] for row in rows} == set(found)
    assert "--functions needs an --input" in refused("sites", "zoo.py:tiny", "--functions")
