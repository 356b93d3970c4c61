import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import hookline
from hookline import NoMatchError

PLACES = ["stem", "layer1", "layer1.0", "layer1.1", "layer2.[02]", "head", "head.bias", "stem.1.weight", "**", "."]
OPERATION = st.one_of(
    st.tuples(st.just("freeze"), st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)),
    st.tuples(st.just("thaw"), st.tuples(st.integers(0, 5), st.sampled_from(PLACES))),
    st.tuples(st.just("remove"), st.integers(0, 5)),
    st.tuples(st.just("mode"), st.tuples(st.sampled_from(["", "layer1", "layer1.1"]), st.booleans())),
)


def build() -> nn.Module:
    def layer():
        return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))

    model = nn.ModuleDict({"stem": layer(), "layer1": layer(), "layer2": layer(), "head": nn.Linear(2, 2)})
    model["stem"][0].weight.requires_grad_(False)
    return model


def means(model, place) -> tuple[set[str], set[str]]:
    """Return the modules and the parameters that a place names, by the rules of the docs and by other code."""
    prefixes = {
        "layer2.[02]": ["layer2.0", "layer2.2"],
        "**": [""],
        ".": [""],
    }.get(place, [place])

    def inside(path):
        return any(not each or path == each or path.startswith(each + ".") for each in prefixes)

    modules = {path for path, _ in model.named_modules() if inside(path)}
    return modules, {path for path, _ in model.named_parameters() if inside(path)}


@settings(max_examples=60, deadline=None)
@given(st.lists(OPERATION, max_size=12))
def test_freezes_and_thaws_in_any_order_give_the_union_of_the_sets(operations) -> None:
    """F11."""
    model = build()
    own_modes = {path: True for path, _ in model.named_modules()}
    own_flags = {path: each.requires_grad for path, each in model.named_parameters()}
    frozen: list[tuple[hookline.Frozen, set[str], set[str]]] = []
    for name, detail in operations:
        if name == "freeze":
            sets = [means(model, place) for place in detail]
            modules, parameters = (set().union(*each) for each in zip(*sets, strict=True))
            frozen.append((hookline.freeze(model, *detail), modules, parameters))
        elif name == "thaw" and frozen:
            one, modules, parameters = frozen[detail[0] % len(frozen)]
            named = means(model, detail[1])
            if named[0] & modules or named[1] & parameters:
                one.thaw(detail[1])
                modules -= named[0]
                parameters -= named[1]
            else:
                with pytest.raises(NoMatchError):
                    one.thaw(detail[1])
        elif name == "remove" and frozen:
            frozen.pop(detail % len(frozen))[0].remove()
        elif name == "mode":
            path, mode = detail
            model.get_submodule(path).train(mode)
            own_modes |= {each: mode for each in own_modes if not path or each == path or each.startswith(path + ".")}
        held_modules = set().union(*(modules for _, modules, _ in frozen))
        held = set().union(*(parameters for _, _, parameters in frozen))
        assert {path: module.training for path, module in model.named_modules()} == {
            path: mode and path not in held_modules for path, mode in own_modes.items()
        }
        assert {path: each.requires_grad for path, each in model.named_parameters()} == {
            path: flag and path not in held for path, flag in own_flags.items()
        }
    for one, _, _ in frozen:
        one.check()
        one.remove()
    assert {path: each.requires_grad for path, each in model.named_parameters()} == own_flags
    assert all(type(module).__dict__.get("__hookline__") is None for module in model.modules())


def test_a_real_network_learns_with_its_head_alone_and_its_body_is_bit_for_bit_what_it_was() -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    from benchmarks.models import efficientnet

    model, _ = efficientnet()
    model._fc = nn.Linear(model._fc.in_features, 3)
    # Three classes that differ in colour and texture, with noise.
    target = torch.arange(12) % 3
    stripes = torch.sin(torch.arange(64.0) * 0.8)[None, None, None, :].expand(12, 3, 64, 64)
    x = torch.randn(12, 3, 64, 64) * 0.3 + torch.where((target == 1)[:, None, None, None], stripes, 0.0)
    x[:, 0] += (target == 2)[:, None, None] * 1.5
    frozen = hookline.freeze(model, lambda path, module: path != "" and not path.startswith(("_fc", "_dropout")))
    body = {name: each.clone() for name, each in model.state_dict().items() if not name.startswith("_fc")}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    losses = []
    for _ in range(20):
        model.train()
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 0.8
    assert losses[-1] < 0.2
    frozen.check(optimizer, probe=x[:2])
    assert all(torch.equal(each, model.state_dict()[name]) for name, each in body.items())
    assert frozen.report(x[:2]).earliest.path == "_fc.weight"
