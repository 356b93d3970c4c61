import json
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import hookline
from hookline.looking.report.histogram import BINS, histogram
from hookline.looking.report.packing import packed, rounded, unpacked
from hookline.looking.report.sample import Detail, kept, levels_for, sample, value_range

pytest.importorskip("jinja2", reason="reports need jinja2")
pytest.importorskip("matplotlib", reason="reports need matplotlib")

ALL = Detail(64, 128, 200_000)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.act = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=True)
        self.head, self.unused = nn.Linear(4, 5), nn.Linear(2, 2)

    def forward(self, x):
        return self.head(self.act(self.conv(x)).mean((2, 3)))


def page_of(report):
    return json.loads(re.search(r'id="page">(.*?)</script>', report.html, re.DOTALL)[1])


def values_of(report, number):
    return unpacked(re.search(rf'id="v{number}">(.*?)</script>', report.html)[1])


@pytest.mark.parametrize("special", [0.0, -0.0, float("inf"), -float("inf"), 3.4e38, 1e-45, 1.0])
def test_packing_keeps_special_values(special):
    got = unpacked(packed(torch.tensor([special])))[0]
    assert got == pytest.approx(special, rel=2**-16)
    assert torch.signbit(got) == torch.signbit(torch.tensor(special))


def test_packing_keeps_nan():
    quiet = torch.tensor([0x7F800001, -1], dtype=torch.int32).view(torch.float32)  # whose upper bits alone say infinity
    assert unpacked(packed(quiet)).isnan().all()


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False), min_size=1))
def test_packed_values_are_within_2_to_the_minus_16_and_rounding_twice_is_rounding_once(numbers):
    values = torch.tensor(numbers)
    got = unpacked(packed(values))
    assert torch.equal(got, rounded(values))
    assert torch.equal(rounded(got), got)
    assert bool(((got - values).abs() <= values.abs() * 2.0**-16).all())


def test_a_sample_of_maps_holds_the_true_values_of_the_places_that_it_names():
    tensor = torch.randn(2, 9, 20, 30)
    found = sample(tensor, Detail(4, 10, 10_000), item=1)
    assert found.kind == "maps"
    assert found.step == (3, 3)
    assert torch.equal(found.values, tensor[1, :4, ::3, ::3])
    assert found.channels == (0, 1, 2, 3)
    assert found.index == (1, "c", "y", "x")
    assert found.said == (
        "number 1 of a batch of 2",
        "4 of 9 channels, by index",
        "every 3rd row and column of 20 x 30",
    )


@pytest.mark.parametrize(("order", "wanted"), [("index", (0, 1, 2)), ("energy", (2, 0, 1)), ("variance", (1, 0, 2))])
def test_channels_are_ordered_by_index_energy_or_variance(order, wanted):
    flat, wide, large = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.5]), torch.tensor([9.0, 9.0])
    tensor = torch.stack([flat, wide, large]).view(1, 3, 1, 2)
    found = sample(tensor, ALL, order=order)
    assert found.channels == wanted
    assert torch.equal(found.values, tensor[0, list(wanted)])


def test_a_sample_of_tokens_vectors_and_pooled_maps():
    tokens = torch.randn(1, 5, 7)
    assert torch.equal(sample(tokens, ALL).values, tokens)
    assert sample(tokens, ALL).kind == "matrix"
    pooled = torch.randn(1, 8, 1, 1)
    found = sample(pooled, ALL)
    assert (found.kind, found.index) == ("vector", (0, "x", 0, 0))
    assert torch.equal(found.values[0, 0], pooled[0, :, 0, 0])
    assert sample(torch.tensor([1.0]), ALL) is None
    assert sample(torch.ones(2, dtype=torch.complex64), ALL) is None
    video = torch.randn(1, 2, 3, 4, 5)
    assert torch.equal(sample(video, ALL).values, video[0, :, 0])


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=4),
    st.sampled_from([ALL, Detail(4, 12, 576), Detail(16, 16, 2000)]),
)
def test_the_estimate_of_what_is_kept_is_what_is_kept(shape, detail):
    found = sample(torch.zeros(shape), detail)
    if found is not None:
        assert kept(shape, detail) == found.values.numel()


def test_less_room_means_less_detail_and_none_at_all_no_pictures():
    shapes = [(1, 64, 56, 56)] * 100
    rich, poor = levels_for(shapes, 50_000_000), levels_for(shapes, 1_000_000)
    assert rich[0].values > poor[0].values
    assert levels_for(shapes, 1000) == []


def test_noise_beside_a_real_channel_has_next_to_no_contrast():
    low, high, _ = value_range(torch.cat([torch.rand(1, 50, 50), 1e-6 * torch.rand(1, 50, 50)]))
    assert high - low > 0.9


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([0.0, 1.0, 2.0], (0.0, 2.0)),
        ([-1.0, 0.0, 3.0], (-3.0, 3.0)),
        ([5.0, 5.0], (5.0, 5.0)),
        ([float("nan"), 1.0, float("inf"), 2.0], (1.0, 2.0)),
        ([0.0] * 999 + [7.0], (0.0, 7.0)),  # else the one value that matters would be off the map
        ([float("nan")], (0.0, 0.0)),
    ],
)
def test_the_range_is_symmetric_for_signed_values_and_of_the_finite_ones(values, wanted):
    assert value_range(torch.tensor(values))[:2] == wanted


def test_the_range_leaves_out_half_a_percent_at_each_end():
    low, high, rule = value_range(torch.arange(1000.0))
    assert (low, high) == (round(999 * 0.005), round(999 * 0.995))
    assert "0.5 to 99.5 percentile" in rule


@given(st.lists(st.sampled_from([0.0, 1.0, -2.5, 3.0, float("nan"), float("inf"), -float("inf")]), min_size=1))
def test_a_histogram_counts_every_value_once(numbers):
    found = histogram(torch.tensor(numbers))
    apart = sum(found[name] for name in ("zeros", "nan", "positive_infinity", "negative_infinity"))
    assert found["zeros"] == numbers.count(0.0)
    assert sum(found["counts"]) + apart == len(numbers)
    assert all(count >= 0 for count in found["counts"])


def test_a_histogram_has_equal_bins_from_the_smallest_to_the_largest():
    found = histogram(torch.arange(1.0, BINS + 2.0))  # one value on each edge
    assert (found["low"], found["high"]) == (1.0, BINS + 1.0)
    assert found["counts"] == [1] * (BINS - 1) + [2]


def test_the_page_has_the_values_of_each_module():
    model, x = Net(), torch.randn(1, 3, 6, 6)
    report = hookline.look(model, x)
    page = page_of(report)
    assert [site["path"] for site in page["sites"]] == [".", "conv", "act", "head"]
    conv = model.conv(x).detach()
    (picture,) = page["sites"][1]["pictures"]
    assert torch.equal(values_of(report, picture["data"]), rounded(conv).flatten())  # not what the in-place ReLU left
    assert page["sites"][1]["rows"][0]["mean"] == pytest.approx(conv.mean().item(), rel=1e-5)
    assert torch.equal(report.output, model(x))


def test_findings_come_first_and_name_modules():
    with torch.no_grad():
        model = Net()
        model.conv.bias[2] = -100.0
        model.head.weight[0, 0] = float("nan")
    report = hookline.look(model, torch.rand(1, 3, 6, 6))
    assert [(each.kind, each.address) for each in report.findings[:1]] == [("not finite", "head")]
    assert ("dead", "act") in [(each.kind, each.address) for each in report.findings]
    assert ("not called", "unused") in [(each.kind, each.address) for each in report.findings]
    assert report.html.index("Findings") < report.html.index("Layer table")


class Flagged(nn.Module):
    """Gives eight channels: 3 is dead, 5 constant, 7 has a NaN, 1 and 2 are equal."""

    def forward(self, x):
        x = x.clone()
        x[:, 2], x[:, 3], x[:, 5] = x[:, 1], 0, 0.25
        x[:, 6] = x[:, 1].flip(-1)  # of the same range as 1, and not the same
        x[0, 7, 2, 2] = float("nan")
        return x


def test_exactly_the_channels_that_carry_nothing_of_their_own_are_found():
    report = hookline.look(nn.Sequential(Flagged()), torch.randn(2, 8, 5, 5))
    (picture,) = page_of(report)["sites"][1]["pictures"]
    assert picture["words"] == {"2": "= 1", "3": "dead", "5": "constant"}
    found = {(each.kind, each.address): each.text for each in report.findings}
    assert set(found) == {
        ("not finite", "0"),
        ("not finite", "."),
        ("dead", "0"),
        ("constant", "0"),
        ("duplicate", "0"),
    }
    assert "the first in execution order" in found["not finite", "0"]
    # 1 - 0.05 ** (1 / 2) = 0.776: with two inputs it is known only that it fires in fewer than 78 % of inputs
    assert found["dead", "0"] == (
        "1 of 8 channels are 0 everywhere in all 2 inputs: each fires in less than 0.78 of inputs (95 % sure); "
        "handed on by 1 module"
    )
    assert found["constant", "0"].startswith("1 of 8 channels have one value everywhere")
    assert found["duplicate", "0"] == "channels are the same value by value: 1 = 2"


def test_a_healthy_network_has_no_findings():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))
    assert hookline.look(model, torch.randn(3, 3, 4, 4)).findings == ()


def test_values_at_the_bound_of_an_activation_are_saturated_and_a_rectifier_that_does_not_fire_is_not():
    rarely = torch.tensor([3.0] + [-1.0] * 49)
    x = torch.stack([torch.full((50,), 9.0), torch.linspace(0, 6, 50), torch.full((50,), -1.0), rarely], dim=-1)
    kinds = {each.kind: each.text for each in hookline.look(nn.ReLU6(), x[None]).findings}
    assert kinds == {
        "saturated": "1 of 4 channels lie at a bound",
        "dead": "1 of 4 channels are 0 everywhere in this input",
    }
    x = torch.stack(
        [torch.linspace(-9, 9, 50), torch.linspace(4, 9, 50) * torch.tensor([1.0, -1.0]).repeat(25)], dim=-1
    )
    (only,) = hookline.look(nn.Tanh(), x[None]).findings
    assert (only.kind, only.text) == ("saturated", "1 of 2 channels lie at a bound")


def test_a_channel_of_infinities_is_not_finite_and_not_constant():
    x = torch.randn(1, 5, 2)
    x[..., 1] = float("inf")
    assert [each.kind for each in hookline.look(nn.Identity(), x).findings] == ["not finite"]


def test_a_scale_a_thousand_times_the_usual_one_is_found_where_it_begins():
    class Times(nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by = by

        def forward(self, x):
            return x * self.by

    model = nn.Sequential(*(Times(by) for by in (1, 1, 1, 1, 2000, 1, 1e-7)))
    found = {each.kind: (each.address, each.text) for each in hookline.look(model, torch.randn(4, 9)).findings}
    assert found["exploding scale"][0] == "4"
    assert found["exploding scale"][1].endswith("and 1 modules more")
    assert found["vanishing scale"][0] == "6"


def test_the_bound_on_a_unit_that_never_fired_is_that_of_the_binomial():
    from hookline.looking.report.finding import fires_in_less_than

    share = fires_in_less_than(512)
    assert (1 - share) ** 512 == pytest.approx(0.05)
    assert share < 0.006


def test_at_names_the_modules_that_have_a_page_and_the_table_has_all():
    report = hookline.look(Net(), torch.rand(1, 3, 6, 6), at="act")
    assert [site["path"] for site in page_of(report)["sites"]] == ["act"]
    assert [row.path for row in report.table.rows] == [".", "conv", "act", "head"]


def test_a_size_limit_is_kept_and_what_was_dropped_is_said():
    model, x = nn.Sequential(*[nn.Conv2d(3, 3, 1) for _ in range(6)]), torch.rand(1, 3, 100, 100)
    full = hookline.look(model, x)
    small = hookline.look(model, x, size="450 kB")
    assert len(small.html) < 450_000 < len(full.html)
    assert any("of 210,000 values are drawn" in line for line in small.choices)
    assert not any("are drawn" in line for line in full.choices)
    none = hookline.look(model, x, size="100 kB")
    assert any(line.startswith("no pictures: those of 7 tensors do not fit") for line in none.choices)
    assert page_of(none)["sites"][1]["rows"][0]["mean"] is not None


def test_a_size_limit_is_kept_by_values_that_do_not_deflate():
    bits = torch.randint(0, 2**31, (1, 4, 100, 100)).to(torch.int32) & 0x7F7FFFFF  # any finite float
    report = hookline.look(nn.Identity(), bits.view(torch.float32), size="530 kB")
    assert len(report.html) < 530_000
    assert any("of 40,000 values are drawn" in line for line in report.choices)


def test_float64_values_beyond_float32_are_said_to_be_drawn_as_infinite():
    said = sample(torch.tensor([1.0, 1e300], dtype=torch.float64), ALL).said
    assert said == ("1 finite values beyond 3.4e38 are drawn as infinite",)


def test_a_module_called_twice_has_a_picture_for_each_call():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(-self.act(x) + 1)

    site = page_of(hookline.look(Twice(), torch.rand(1, 4)))["sites"][1]
    assert [picture["label"] for picture in site["pictures"]] == ["call 1", "call 2"]


def test_the_likeliest_classes_are_the_softmax_of_the_scores():
    pytest.importorskip("PIL", reason="photos need pillow")
    model, x = Net(), torch.rand(1, 3, 6, 6)
    report = hookline.look(model, x, labels=["a", "b", "c", "d", "<e>"], photo=torch.zeros(3, 6, 6, dtype=torch.uint8))
    shares = model(x).softmax(-1)[0]
    assert f"{shares.max().item():.3f}" in report.html
    assert "&lt;e&gt;" in report.html
    with pytest.raises(hookline.HookTypeError, match="no score for each of the 3 labels"):
        hookline.look(model, x, labels=["a", "b", "c"])


def test_nothing_in_the_page_can_end_its_script_or_load_anything():
    report = hookline.look(nn.Sequential(nn.Linear(2, 2)), torch.ones(1, 2), title="</script><img src=x>")
    assert "</script><img" not in report.html
    assert "default-src 'none'" in report.html
    assert not re.search(r"""(src|href)=["'](https?:)?//""", report.html)


def test_tokens_name_the_rows_and_their_norms_are_drawn_by_block():
    class Blocks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    model, x = Blocks(), torch.randn(1, 2, 4)
    report = hookline.look(model, x, tokens=["the", "cat"])
    norms = page_of(report)["norms"]
    assert norms["columns"] == ["layers.0", "layers.1", "layers.2"]
    first = model.layers[0](x)[0].norm(dim=-1)
    assert torch.allclose(values_of(report, norms["data"]).view(2, 3)[:, 0], first, rtol=1e-4)


def test_attention_is_told_by_rows_that_add_up_to_1():
    from hookline.looking.report.site import is_attention

    assert is_attention(torch.rand(1, 2, 5, 5).softmax(-1), 5)
    assert not is_attention(torch.rand(1, 2, 5, 5), 5)
    assert not is_attention(torch.rand(1, 2, 5, 5).softmax(-1), 4)


def test_a_report_is_saved_whole_and_shown_in_a_notebook(tmp_path):
    report = hookline.look(nn.Linear(2, 2), torch.ones(1, 2))
    report.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == report.html
    assert report._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert "Report of 1 modules" in repr(report)


def test_a_failing_model_and_a_wrong_address_leave_no_hook():
    model = Net()
    with pytest.raises(hookline.ModelRunError, match="'conv'"):
        hookline.look(model, torch.rand(1, 2, 6, 6))
    with pytest.raises(hookline.NoMatchError):
        hookline.look(model, torch.rand(1, 3, 6, 6), at="cnov")
    assert [type(module) for module in (model, model.conv)] == [Net, nn.Conv2d]
    assert hookline.hooks_on(model) is not None


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_a_missing_package_is_an_error_with_the_pip_command(monkeypatch, package):
    import sys

    from hookline.looking.report import colours

    colours._map.cache_clear()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(hookline.MissingExtraError, match=r"pip install 'hookline\[look\]'"):
        hookline.look(nn.Linear(2, 2), torch.ones(1, 2))
