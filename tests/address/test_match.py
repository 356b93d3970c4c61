import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.address.match import matcher

MATCHES = [
    (".", "", True),
    (".", "a", False),
    ("a", "a", True),
    ("a", "", False),
    ("a", "a.b", False),
    ("*", "a", True),
    ("*", "", False),
    ("*", "a.b", False),
    ("a*", "a", True),
    ("a?", "a", False),
    ("a?", "ab", True),
    ("?.b", "..b", False),
    ("**", "", True),
    ("**", "a.b.c", True),
    ("a.**", "a", True),
    ("a.**", "a.b.c", True),
    ("a.**", "ab", False),
    ("**.b", "b", True),
    ("**.b", "a.b", True),
    ("**.b", "ab", False),
    ("a.**.b", "a.b", True),
    ("a.**.b", "a.x.y.b", True),
    ("a.**.b", "a.xb", False),
    ("a.**.**.b", "a.b", True),
    ("a.**.b.**", "a.b.c", True),
    ("x[12].y", "x2.y", True),
    ("x[12].y", "x3.y", False),
    ("x[a-c]", "xb", True),
    ("x[!1]", "x1", False),
    ("x[!1]", "x2", True),
    ("x[!1]y", "x.y", False),
    ("x[]]", "x]", True),
    ("x[^]", "x^", True),
    ("x[!a]", "xb", True),
    ("x[!a-c]", "xb", False),
    ("x[a-c-e]", "x-", True),
    ("x[+--]", "x,", True),
    ("x[a&&b]", "x&", True),
    ("x[~~]", "x~", True),
    ("x[||]", "x|", True),
    ("x[[a]", "x[", True),
    ("x[-a]", "x-", True),
    ("x[\\d]", "x1", False),
    ("x[b-a]", "xa", False),
    ("x[b-a]", "xx", False),
    ("x[!b-a]", "xz", True),
    ("a*b*c", "abxbc", True),
    ("a*b*c", "abc", True),
    ("a*b*c", "abcb", False),
    ("a*b*c", "a.bc", False),
    ("**.a.**.b.**.c", "x.a.b.a.y.b.z.c", True),
    ("**.a.**.b.**.c", "x.b.a.c", False),
    ("a[.]b", "a.b", True),
    ("layer+", "layer+", True),
    ("layer+*", "layerr", False),
]


@pytest.mark.parametrize(("pattern", "path", "expected"), MATCHES)
def test_a_pattern_matches_what_the_grammar_says(pattern: str, path: str, expected: bool) -> None:
    assert bool(matcher(pattern)(path)) is expected


def reference(pattern: list[str], path: list[str]) -> bool:
    """Match name by name: the definition, slow and plain."""
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(reference(pattern[1:], path[skip:]) for skip in range(len(path) + 1))
    if not path:
        return False
    one = re.fullmatch(pattern[0].replace("*", ".*").replace("?", "."), path[0])
    return bool(one) and reference(pattern[1:], path[1:])


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "a*", "?", "?b", "*a*b*", "*b?*a"]), min_size=1, max_size=6),
    st.lists(st.sampled_from(["a", "b", "ab", "bb", "aab", "babab"]), max_size=6),
)
def test_matching_agrees_with_its_definition(pattern: list[str], path: list[str]) -> None:
    assert bool(matcher(".".join(pattern))(".".join(path))) is reference(pattern, path)


SLOW = {
    "many stars": ("*a" * 40 + "b", "a" * 200),
    "many double stars": ("**.a." * 40 + "b", ".".join("a" * 200)),
    "both": ("**.*a*a*a*b." * 10 + "b", ".".join(["aaaaaaaaaaaa"] * 60)),
}


@pytest.mark.parametrize(("pattern", "path"), SLOW.values(), ids=SLOW.keys())
def test_no_pattern_makes_matching_explode(pattern: str, path: str) -> None:
    begin = time.perf_counter()
    assert not matcher(pattern)(path)
    assert time.perf_counter() - begin < 1  # seconds, where trying all ways would take years
