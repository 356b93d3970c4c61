import sys

import pytest
from torch import nn

from hookline.cli.model_spec import load_model
from hookline.errors import CommandError


@pytest.mark.parametrize("spec", ["zoo.py:made", "zoo.py:mlp", "./zoo.py:mlp", "zoo:made", "torch.nn:Identity"])
def test_a_model_is_a_module_or_what_a_function_without_arguments_returns(folder, spec):
    assert isinstance(load_model(spec), nn.Module)


def test_a_name_may_have_dots(folder):
    (folder / "nested.py").write_text("class Zoo:\n    from torch.nn import ReLU as act\n")
    assert isinstance(load_model("nested.py:Zoo.act"), nn.ReLU)


def test_a_file_finds_its_neighbours(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "neighbour.py").write_text("from torch import nn\nnet = nn.Tanh()\n")
    (folder / "sub" / "main_model.py").write_text("from neighbour import net\n")
    assert isinstance(load_model("sub/main_model.py:net"), nn.Tanh)


def test_a_file_that_is_named_like_a_module_of_python_does_not_take_its_place(folder):
    import random

    (folder / "random.py").write_text("from torch import nn\nnet = nn.Tanh()\n")
    load_model("random.py:net")
    assert sys.modules["random"] is random


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("zoo.py", "names no model: write package.module:name or file.py:name"),
        (":mlp", "names no model"),
        ("nowhere.py:mlp", "there is no file 'nowhere.py'"),
        ("no_such_package.models:mlp", "there is no Python module 'no_such_package'"),
        ("zoo.py:mpl", "zoo.py has no 'mpl'; the nearest: 'mlp'"),
        ("zoo.py:wants", r"zoo.py:wants wants arguments \(width\)"),
        ("zoo.py:number", "gives a int, not a torch.nn.Module: 3"),
        ("zoo.py:fails", r"zoo.py:fails failed: KeyError: 'weights' \(.*zoo.py, line \d+\)"),
        ("zoo.py:torch.e", "is a float: name a torch.nn.Module"),
        ("broken.py:net", r"broken.py cannot be imported: SyntaxError: .* \(.*broken.py, line 2\)"),
        ("needs.py:net", "needs.py cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
    ],
)
def test_what_gives_no_model_is_refused_with_the_reason(folder, spec, message):
    (folder / "broken.py").write_text("x = 1\nx = = 2\n")
    (folder / "needs.py").write_text("import not_there\n")
    with pytest.raises(CommandError, match=message):
        load_model(spec)
