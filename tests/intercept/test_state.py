from collections import OrderedDict

import pytest
from torch import nn

import hookline
from hookline.core import AFTER, ARGS, Hook, Site
from hookline.intercept.module_site import attach
from hookline.intercept.state import FAST_PATH, PREFIX, has_sites, keep_off_fast_path, site_key, sites, without_hooks


def hook(*_):
    return None


class Coder(nn.Module):
    def encode(self, x):
        return x

    def forward(self, x):
        return self.encode(x)


def test_the_key_of_a_method_is_the_same_string_each_time() -> None:
    for method in ("forward", "encode"):
        assert site_key(method) == PREFIX + method
        assert site_key("".join(method)) is site_key(method)


def test_no_key_of_ours_can_be_an_attribute_that_somebody_writes_in_code() -> None:
    assert not any(key.isidentifier() for key in (site_key("forward"), FAST_PATH))


def test_the_sites_of_a_module_are_named_by_method() -> None:
    module = Coder()
    assert not has_sites(module)
    assert sites(module) == {}
    attach(module, Hook(AFTER, hook, ARGS), "encode")
    assert has_sites(module)
    forward = hookline.register_forward_hook(module, hook)
    assert sorted(sites(module)) == ["encode", "forward"]
    assert all(isinstance(site, Site) for site in sites(module).values())
    forward.remove()
    assert list(sites(module)) == ["encode"]


def test_a_state_without_hooks_keeps_all_that_is_not_ours_and_the_original_keeps_everything() -> None:
    module = nn.Linear(2, 2)
    first = module.register_forward_hook(hook)
    hookline.register_forward_hook(module, hook)
    second = module.register_forward_hook(hook)
    before = dict(module.__dict__)
    clean = without_hooks(module.__dict__)
    assert list(clean["_forward_hooks"]) == [first.id, second.id]
    assert type(clean["_forward_hooks"]) is OrderedDict
    assert {key for key in module.__dict__ if key not in clean} == {site_key("forward")}
    assert all(
        clean[key] is value for key, value in module.__dict__.items() if key in clean and key != "_forward_hooks"
    )
    assert module.__dict__ == before
    assert list(module._forward_hooks) == [first.id, FAST_PATH, second.id]


def test_a_state_that_has_nothing_of_ours_comes_back_equal() -> None:
    state = nn.Linear(2, 2).__dict__
    assert without_hooks(state) == state
    assert without_hooks({"mine": 1}) == {"mine": 1}


def test_the_native_hook_against_the_fast_path_goes_by_itself_where_nothing_is_hooked() -> None:
    """E18: torch.ao.quantization moves the entries of _forward_hooks to the modules that it makes."""
    hooked, other = nn.Identity(), nn.Identity()
    handle = hookline.register_forward_hook(hooked, hook)
    other._forward_hooks[FAST_PATH] = keep_off_fast_path
    hooked(1), hooked.forward(1), other(1)
    assert FAST_PATH in hooked._forward_hooks
    assert FAST_PATH not in other._forward_hooks
    native = hooked.register_forward_hook(hook)  # now torch itself runs ours
    hooked(1)
    assert list(hooked._forward_hooks) == [FAST_PATH, native.id]
    handle.remove()
    assert list(hooked._forward_hooks) == [native.id]


@pytest.mark.parametrize("look", [has_sites, sites, lambda module: without_hooks(module.__dict__)])
def test_another_thread_may_register_while_the_keys_are_looked_at(look) -> None:
    """E11: the key itself does here what the other thread might do in between."""

    class Key(str):
        __slots__ = ()

        def startswith(self, *prefix):
            module.__dict__[f"set by {len(module.__dict__)}"] = 1
            return super().startswith(*prefix)

    module = nn.Identity()
    module.__dict__[Key("key")] = None
    look(module)
