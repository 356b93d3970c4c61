import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookline.address import Address, escape, parse
from hookline.address.match import matcher
from hookline.errors import AddressError

SPELLINGS = {
    "the model, by nothing": ("", Address()),
    "the model, by a dot": (".", Address()),
    "a path": ("layer4.1.conv2", Address("layer4.1.conv2")),
    "wildcards": ("layer*.?.**.relu", Address("layer*.?.**.relu")),
    "a set": ("layer[12].x[!a-c]", Address("layer[12].x[!a-c]")),
    "an input": ("encoder:input", Address("encoder", side="input")),
    "an argument": ("encoder:input.mask", Address("encoder", side="input", part=("mask",))),
    "a part": ("e:output.0.hidden", Address("e", side="output", part=(0, "hidden"))),
    "a negative index": ("e:output.-1", Address("e", side="output", part=(-1,))),
    "a quoted key": ("e:output.'a b.c'", Address("e", side="output", part=("a b.c",))),
    "a digit key": ("e:output.'0'", Address("e", side="output", part=("0",))),
    "a gradient": ("layer4:output.grad", Address("layer4", side="output", grad=True)),
    "a part's gradient": ("l:input.x.grad", Address("l", side="input", part=("x",), grad=True)),
    "a key named grad": ("l:output.'grad'", Address("l", side="output", part=("grad",))),
    "a method": ("decoder.encode()", Address("decoder", "encode")),
    "a method's input": ("decoder.encode():input.0", Address("decoder", "encode", side="input", part=(0,))),
    "the model's method": ("encode()", Address(".", "encode")),
    "a function": ("attn/softmax", Address("attn", function="softmax")),
    "a function's second call": ("attn/softmax#1", Address("attn", function="softmax", occurrence=1)),
    "a function's input": ("a/sdpa#0:input.q", Address("a", None, "sdpa", 0, "input", ("q",))),
    "the model's function": ("./softmax", Address(".", function="softmax")),
    "the model's input": (".:input", Address(".", side="input")),
    "a set of special characters": ("a[:]b.[*].[/]", Address("a[:]b.[*].[/]")),
    "a set that has a bracket": ("[]x]", Address("[]x]")),
    "stars in a set": ("a[**]", Address("a[**]")),
    "a quoted quote": (r"a:output.'it\'s \\ '", Address("a", side="output", part=("it's \\ ",))),
    "an empty key": ("a:output.''", Address("a", side="output", part=("",))),
    "a digit key with a leading zero": ("a:output.'01'", Address("a", side="output", part=("01",))),
}


@pytest.mark.parametrize(("text", "address"), SPELLINGS.values(), ids=SPELLINGS.keys())
def test_an_address_means_what_the_grammar_says(text: str, address: Address) -> None:
    assert parse(text) == address


@pytest.mark.parametrize("text", [text for text, _ in SPELLINGS.values() if text])
def test_an_address_is_printed_as_it_was_written(text: str) -> None:
    assert str(parse(text)) == text


def test_white_space_around_an_address_does_not_matter() -> None:
    assert parse("  a.b:input \n") == parse("a.b:input")


def test_the_model_may_be_left_out_before_a_side_or_a_function() -> None:
    assert parse(":input") == parse(".:input")
    assert parse("/softmax") == parse("./softmax")


def test_an_index_may_have_leading_zeros() -> None:
    assert parse("a:output.01").part == (1,)


def test_two_double_stars_in_a_row_are_one() -> None:
    assert parse("a.**.**.b").pattern == "a.**.b"


@pytest.mark.parametrize(
    ("address", "text"),
    [(Address("a", grad=True), "a:output.grad"), (Address("a", part=(0,)), "a:output.0")],
    ids=["gradient", "part"],
)
def test_a_part_or_gradient_without_a_side_is_spelt_as_the_output_s(address: Address, text: str) -> None:
    assert str(address) == text


MISTAKES = {
    "a..b": 3,
    ".a": 1,
    "a:": 3,
    "a:foo": 3,
    "a.b(": 5,
    "1x()": 1,
    "a[": 2,
    "a b": 2,
    "a]": 2,
    "a**": 1,
    "x:output.": 10,
    "a/": 3,
    "a/b#": 5,
    "a:output.'x": 10,
    "a:input x": 8,
    "a:input.x[0]": 10,
    "x.[b-a]": 3,
    "[!]": 1,
    "a.**()": 3,
    "a:output.1234567890123456789": 10,
    "a/b#1234567890123456789": 5,
}


@pytest.mark.parametrize(("text", "column"), MISTAKES.items())
def test_a_mistake_is_pointed_at(text: str, column: int) -> None:
    with pytest.raises(AddressError, match=f"column {column};") as caught:
        parse(text)
    line, caret = str(caught.value).splitlines()[-2:]
    assert line == f"  {text}"
    assert caret == " " * (1 + column) + "^"


def test_a_mistake_in_a_long_text_is_shown_with_what_is_around_it() -> None:
    text = "abc." * 100 + "x y" + ".abc" * 100
    with pytest.raises(AddressError, match="column 402;") as caught:
        parse(text)
    line, caret = str(caught.value).splitlines()[-2:]
    assert len(line) < 170
    assert line.startswith("  ...")
    assert line.endswith("...")
    assert line[len(caret) - 2 : len(caret) + 1] == "x y"


def test_characters_that_do_not_print_keep_the_message_in_its_three_lines() -> None:
    with pytest.raises(AddressError, match="write it in brackets") as caught:
        parse("ab\n\x1b[c]d")
    _, line, caret = str(caught.value).split("\n")
    assert line == "  ab\ufffd\ufffd[c]d"
    assert caret == "    ^"


LONG = {
    "names": "a." * 100_000 + "a",
    "stars": "*a" * 100_000,
    "double stars": "**.a." * 100_000,
    "sets": "[a]" * 100_000,
    "open sets": "[" * 100_000,
    "one set": "[" + "a-c" * 100_000 + "]",
    "parts": "a:output" + ".0" * 100_000,
    "digits": "a:output." + "1" * 100_000,
    "quotes": "a:output.'" + "\\'" * 100_000 + "'",
    "open quote": "a:output." + "'" * 100_000,
    "spaces": " " * 100_000 + "a b" + " " * 100_000,
    "parentheses": "a" + "()" * 100_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
def test_reading_a_very_long_text_takes_no_time(text: str) -> None:
    message = ""
    begin = time.perf_counter()
    try:
        parse(text)
    except AddressError as error:
        message = str(error)
    assert time.perf_counter() - begin < 3  # seconds, where anything but linear time would take hours
    assert len(message) < 500


def test_something_that_is_no_text_is_an_address_error() -> None:
    with pytest.raises(AddressError, match="got int: 3"):
        parse(3)


@given(st.text())
@example("[c-a]")
@example("[+--]")
@example("[a--]")
@example("a:output." + "1" * 5000)
@example("a/b#" + "1" * 5000)
def test_no_text_raises_anything_but_an_address_error(text: str) -> None:
    try:
        address = parse(text)
    except AddressError:
        return
    matcher(address.pattern)("a.b")
    assert parse(str(address)) == address
    assert str(parse(str(address))) == str(address)


ALPHABET = st.text("ab[]*?!^-.:/()#' \\\n'0123456789grad", max_size=20)


@given(ALPHABET)
def test_text_of_the_grammar_s_own_characters_round_trips_or_is_an_address_error(text: str) -> None:
    test_no_text_raises_anything_but_an_address_error.hypothesis.inner_test(text)


NAMES = st.text(min_size=1, max_size=6).filter(lambda name: "." not in name)


@given(st.lists(NAMES, min_size=1, max_size=3), st.lists(NAMES, min_size=1, max_size=3))
def test_an_escaped_path_matches_itself_and_no_other(names: list[str], others: list[str]) -> None:
    path, other = ".".join(names), ".".join(others)
    pattern = parse(escape(path)).pattern
    assert matcher(pattern)(path)
    assert bool(matcher(pattern)(other)) == (path == other)


@given(
    st.lists(st.one_of(st.text(max_size=5), st.integers(-9, 99)), max_size=4),
    st.sampled_from(["input", "output"]),
    st.booleans(),
)
def test_every_part_can_be_spelt(part: list[str | int], side: str, grad: bool) -> None:
    address = Address("a", side=side, part=tuple(part), grad=grad)
    assert parse(str(address)) == address
