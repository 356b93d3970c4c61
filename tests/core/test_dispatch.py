import copy
import pickle
import threading

import pytest

from hookline.core import AFTER, ARGS, AROUND, BEFORE, CALL, KWARGS, Call, Handle, Hook, Site, dispatch
from hookline.core.hook import describe_function
from hookline.core.numbering import Calls
from hookline.core.site import NOWHERE
from hookline.errors import HooklineWarning, HookResultError


class Thing:
    """Anything that is called."""

    about = None


THING = Thing()


def add(thing, a, b=0, **more):
    return (a, b, *more.items())


def site(*hooks: Hook) -> Site:
    made = NOWHERE
    for hook in hooks:
        made = made.with_hook(hook)
    return made


def run(where: Site, *args, function=add, **kwargs):
    return dispatch(where, THING, function, args, kwargs)


def test_without_hooks_the_function_is_called() -> None:
    assert run(NOWHERE, 1, b=2, c=3) == (1, 2, ("c", 3))


CONVENTIONS = {
    "args before": (Hook(BEFORE, lambda thing, args: (args[0] + 1,), ARGS), (2, 0)),
    "args before, a single value": (Hook(BEFORE, lambda thing, args: 7, ARGS), (7, 0)),
    "args before, nothing": (Hook(BEFORE, lambda thing, args: None, ARGS), (1, 0)),
    "kwargs before": (Hook(BEFORE, lambda thing, args, kwargs: (args, {"b": 5}), KWARGS), (1, 5)),
    "kwargs before, a list": (Hook(BEFORE, lambda thing, args, kwargs: ([4], kwargs), KWARGS), (4, 0)),
    "kwargs before, nothing": (Hook(BEFORE, lambda thing, args, kwargs: None, KWARGS), (1, 0)),
    "call before": (Hook(BEFORE, lambda call: (call.args[0], 9), CALL), (1, 9)),
    "args after": (Hook(AFTER, lambda thing, args, out: (args, out), ARGS), ((1,), (1, 0))),
    "kwargs after": (Hook(AFTER, lambda thing, args, kwargs, out: kwargs, KWARGS), {}),
    "call after": (Hook(AFTER, lambda call: call.output[::-1], CALL), (0, 1)),
    "false after": (Hook(AFTER, lambda thing, args, out: False, ARGS), False),
    "nothing after": (Hook(AFTER, lambda thing, args, out: None, ARGS), (1, 0)),
    "around": (Hook(AROUND, lambda call, proceed: (*proceed(), "!"), CALL), (1, 0, "!")),
}
ALWAYS = Hook(AFTER, lambda *_: None, ARGS, always=True)


@pytest.mark.parametrize("others", [(), (ALWAYS,)], ids=["short loop", "long loop"])
@pytest.mark.parametrize(("hook", "expected"), CONVENTIONS.values(), ids=CONVENTIONS.keys())
def test_each_convention_hands_over_the_call_and_takes_back_a_change(hook: Hook, expected, others) -> None:
    assert run(site(hook, *others), 1) == expected


@pytest.mark.parametrize("others", [(), (ALWAYS,)], ids=["short loop", "long loop"])
def test_assigning_to_a_call_changes_what_comes_next(others) -> None:
    def before(call):
        call.args, call.kwargs = (5,), {"b": 6}

    def after(call):
        call.output = (*call.output, call.kwargs)

    assert run(site(Hook(BEFORE, before, CALL), Hook(AFTER, after, CALL), *others), 1) == (5, 6, {"b": 6})


@pytest.mark.parametrize("changed", [5, (1, 2, 3), ((1,), [2]), ("text", {})], ids=repr)
@pytest.mark.parametrize("others", [(), (ALWAYS,)], ids=["short loop", "long loop"])
def test_a_hook_with_kwargs_must_return_args_and_kwargs(changed, others) -> None:
    with pytest.raises(HookResultError, match="must return None or"):
        run(site(Hook(BEFORE, lambda *_: changed, KWARGS), *others), 1)


def test_the_caller_s_kwargs_are_not_the_hook_s_to_keep() -> None:
    given = {"b": 1}

    def edit(thing, args, kwargs):
        kwargs["b"] = 2

    assert dispatch(site(Hook(BEFORE, edit, KWARGS)), THING, add, (0,), dict(given)) == (0, 2)
    assert given == {"b": 1}


def test_hooks_run_by_priority_then_prepended_then_in_order_of_registration() -> None:
    log = []

    def make(name, **options):
        return Hook(AFTER, lambda *_: log.append(name), ARGS, **options)

    where = site(
        make("a"), make("b"), make("early", priority=1), make("late", priority=-1), make("x", prepend=True),
        make("y", prepend=True), make("c"),
    )  # fmt: skip
    run(where, 1)
    assert log == ["early", "y", "x", "a", "b", "c", "late"]
    assert len(where) == len(list(where)) == 7


def test_a_site_without_its_last_hook_is_nowhere() -> None:
    first, second = Hook(BEFORE, print, ARGS), Hook(AFTER, print, ARGS)
    where = site(first, second)
    assert list(where.without(first)) == [second]
    assert where.without(first).without(second) is NOWHERE
    assert list(where.without(Hook(AFTER, print, ARGS))) == [first, second]


def test_a_hook_added_during_a_call_runs_from_the_next_call_on() -> None:
    log = []
    where = site(Hook(BEFORE, lambda *_: add_one(), ARGS))

    def add_one():
        nonlocal where
        where = where.with_hook(Hook(AFTER, lambda *_: log.append("late"), ARGS))

    run(where, 1)
    assert log == []
    run(where, 1)
    assert log == ["late"]


@pytest.mark.parametrize("phase", [BEFORE, AFTER])
@pytest.mark.parametrize("convention", [ARGS, KWARGS, CALL])
def test_a_spent_hook_does_not_run_later_in_the_same_call(phase: int, convention: int) -> None:
    def fail(*_):
        raise AssertionError

    spender = Hook(BEFORE, lambda *_: victim.spend(), ARGS)
    victim = Hook(phase, fail, convention)
    assert run(site(spender, victim), 1) == (1, 0)
    assert victim.removed


def test_a_spent_around_hook_only_makes_the_call() -> None:
    victim = Hook(AROUND, lambda call, proceed: "changed", CALL)
    assert run(site(Hook(BEFORE, lambda *_: victim.spend(), ARGS), victim), 1) == (1, 0)


def test_around_hooks_nest_in_their_order_inside_before_and_after() -> None:
    log = []

    def make(name):
        def hook(call, proceed):
            log.append(f"{name} in")
            result = proceed()
            log.append(f"{name} out")
            return result

        return Hook(AROUND, hook, CALL)

    def function(thing, a):
        log.append("call")
        return a

    run(
        site(make("outer"), make("inner"), Hook(BEFORE, lambda *_: log.append("before"), ARGS),
             Hook(AFTER, lambda *_: log.append("after"), ARGS)),
        1,
        function=function,
    )  # fmt: skip
    assert log == ["before", "outer in", "inner in", "call", "inner out", "outer out", "after"]


def test_around_may_skip_with_none_said_expressly() -> None:
    def skip(call, proceed):
        call.output = None

    assert run(site(Hook(AROUND, skip, CALL)), 1) is None


def test_around_that_neither_calls_nor_gives_an_output_is_an_error() -> None:
    with pytest.raises(HookResultError, match="neither made the call nor gave an output") as caught:
        run(site(Hook(AROUND, lambda call, proceed: None, CALL)), 1)
    assert "lambda" in caught.value.__notes__[0]


def test_an_error_of_the_function_is_not_laid_to_an_around_hook() -> None:
    def fail(thing, a):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        run(site(*(Hook(AROUND, lambda call, proceed: proceed(), CALL) for _ in range(2))), 1, function=fail)
    assert not hasattr(caught.value, "__notes__")


def test_around_may_answer_an_error_of_the_function() -> None:
    def answer(call, proceed):
        try:
            return proceed()
        except ValueError:
            return "answered"

    def fail(thing, a):
        raise ValueError

    assert run(site(Hook(AROUND, answer, CALL)), 1, function=fail) == "answered"


@pytest.mark.parametrize("phase", [BEFORE, AROUND, AFTER])
@pytest.mark.parametrize("others", [(), (ALWAYS,)], ids=["short loop", "long loop"])
def test_an_error_of_a_hook_says_which_hook_and_where(phase: int, others) -> None:
    def bad(*_):
        raise KeyError("oops")

    about = type("About", (), {"path": "layer.1"})()
    hook = Hook(phase, bad, CALL, about=about)
    where = site(hook, *others)
    for _ in range(4):
        where.calls.take()
    with pytest.raises(KeyError) as caught:
        run(where, 1)
    when = {BEFORE: "before", AROUND: "around", AFTER: "after"}[phase]
    (note,) = caught.value.__notes__
    assert note.startswith(f"hookline: raised by the hook {describe_function(bad)} that runs {when} 'layer.1' (Thing)")
    assert note.endswith(", call 4.")


def test_where_errors_have_no_notes_the_message_says_it() -> None:
    class PlainError(ValueError):
        add_note = property()  # as on Python 3.10, where errors have no such method

    def bad(*_):
        raise PlainError("oops", 2)

    with pytest.raises(PlainError, match=r"oops.*hookline: raised by the hook .*bad.* that runs after Thing") as caught:
        run(site(Hook(AFTER, bad, ARGS)), 1)
    assert caught.value.args[1] == 2


def log_always(log: list, **options) -> Hook:
    return Hook(AFTER, lambda thing, args, out: log.append((args, out)), ARGS, always=True, **options)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit], ids=lambda error: error.__name__)
@pytest.mark.parametrize("where", ["before", "function", "around", "after"])
def test_clean_up_hooks_run_once_on_every_exit(where: str, error: type[BaseException]) -> None:
    def fail(*_):
        raise error("stop")

    log: list = []
    hooks = {
        "before": [Hook(BEFORE, lambda *_: (8,), ARGS), Hook(BEFORE, fail, ARGS)],
        "function": [],
        "around": [Hook(AROUND, fail, CALL)],
        "after": [log_always(log), Hook(AFTER, fail, ARGS)],
    }[where]
    with pytest.raises(error, match="stop"):
        run(site(*hooks, log_always(log)), 1, function=fail if where == "function" else add)
    expected = {"before": [((8,), None)], "after": [((1,), (1, 0))] * 2}.get(where, [((1,), None)])
    assert log == expected


def test_clean_up_hooks_run_in_their_order_when_nothing_failed() -> None:
    log: list = []
    assert run(site(log_always(log), Hook(AFTER, lambda *_: 3, ARGS), log_always(log)), 1) == 3
    assert log == [((1,), (1, 0)), ((1,), 3)]


def test_an_error_of_a_clean_up_hook_is_a_warning_beside_the_first_error() -> None:
    def bad(*_):
        raise OSError("disk")

    def fail(*_):
        raise ValueError("first")

    log: list = []
    with pytest.raises(ValueError, match="first"), pytest.warns(HooklineWarning, match="bad.* raised OSError: disk"):
        run(site(Hook(AFTER, bad, ARGS, always=True), log_always(log)), 1, function=fail)
    assert log == [((1,), None)]


def test_a_clean_up_hook_that_failed_itself_is_not_run_again() -> None:
    log = []

    def bad(*_):
        log.append(1)
        1 / 0

    with pytest.raises(ZeroDivisionError):
        run(site(Hook(AFTER, bad, ARGS, always=True)), 1)
    assert log == [1]


def test_a_clean_up_hook_hands_its_output_to_the_next_but_cannot_swallow_the_error() -> None:
    log: list = []

    def fail(*_):
        1 / 0

    with pytest.raises(ZeroDivisionError):
        run(site(Hook(AFTER, lambda *_: "made up", ARGS, always=True), log_always(log)), 1, function=fail)
    assert log == [((1,), "made up")]


def test_hooks_that_do_not_apply_are_left_out_of_the_call() -> None:
    applies = False
    where = site(
        Hook(BEFORE, lambda *_: 5, ARGS, applies=lambda: applies),
        Hook(AROUND, lambda call, proceed: "around", CALL, applies=lambda: applies),
    )
    assert run(where, 1) == (1, 0)
    applies = True
    assert run(where, 1) == "around"
    assert run(where.with_hook(Hook(AFTER, lambda *_: "after", ARGS)), 1) == "after"


def test_a_call_counts_from_where_the_hook_came_in() -> None:
    first = Hook(BEFORE, lambda call: None, CALL)
    where = site(first)
    for _ in range(3):
        where.calls.take()
    second = Hook(BEFORE, lambda call: None, CALL)
    where = where.with_hook(second)
    number = where.calls.take()
    assert Call(first, THING, (), {}, number).number == 3
    assert Call(second, THING, (), {}, number).number == 0


def test_calls_are_numbered_once_each_over_threads() -> None:
    calls, taken = Calls(), []
    threads = [threading.Thread(target=lambda: taken.extend(calls.take() for _ in range(1000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(4000))


def test_a_call_without_output_says_so_and_has_no_other_attributes() -> None:
    call = Call(Hook(BEFORE, print, CALL), THING, (1,), {"b": 2}, 0)
    assert not call.has_output
    with pytest.raises(AttributeError, match="no output yet"):
        call.output
    with pytest.raises(AttributeError, match="no 'outputs'"):
        call.outputs
    call.output = None
    assert call.has_output
    assert repr(call) == "<Call 0 of Thing, 1 args, kwargs ['b']>"


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))], ids=["copy", "pickle"])
def test_a_copy_of_a_site_is_the_site_without_hooks(twin) -> None:
    assert twin(site(Hook(BEFORE, lambda *_: None, ARGS))) is NOWHERE


def test_a_handle_takes_its_hook_off_once_also_when_the_thing_is_gone() -> None:
    released = []
    thing = Thing()
    with Handle(Hook(BEFORE, add, ARGS), thing, lambda *each: released.append(each), "forward") as handle:
        assert repr(handle) == f"<Handle of {describe_function(add)} on Thing>"
    handle.remove()
    assert released == [(thing, handle.hook, "forward")]
    assert repr(handle) == "<Handle of a removed hook>"
    released.clear()
    handle = Handle(Hook(BEFORE, add, ARGS), thing, lambda *each: released.append(each), "forward")
    del thing
    assert repr(handle).endswith("on something that is gone>")
    handle.remove()
    assert released == []


def test_functions_are_described_by_name_and_place() -> None:
    from functools import partial, wraps

    @wraps(add)
    def wrapper(*args):
        return add(*args)

    class Tool:
        def __call__(self): ...

    place = f"({__file__}:{add.__code__.co_firstlineno})"
    assert describe_function(add) == f"'add' {place}"
    assert describe_function(partial(partial(wrapper, 1), 2)) == f"'add' {place}"
    assert describe_function(Tool()).startswith("'test_functions_are_described_by_name_and_place.<locals>.Tool'")
    assert describe_function(print) == "'print'"


def test_threads_that_replace_the_site_never_mix_up_a_call() -> None:
    """E11"""
    base = site(Hook(BEFORE, lambda thing, args, kwargs: (args, kwargs), KWARGS))
    current, done, wrong = [base], threading.Event(), []

    def register():
        for _ in range(10_000):
            hook = Hook(AFTER, lambda thing, args, kwargs, out: out, KWARGS)
            current[0] = base.with_hook(hook)
            hook.spend()
            current[0] = base
        done.set()

    thread = threading.Thread(target=register)
    thread.start()
    while not done.is_set():
        if run(current[0], 1) != (1, 0):
            wrong.append(1)
    thread.join()
    assert wrong == []


def test_plain_python_neither_compiles_nor_repeats_calls(monkeypatch) -> None:
    from hookline.core import numbering

    assert (numbering._not_compiling(), numbering._no_backward()) == (False, -1)
    calls = Calls()
    calls.take()
    monkeypatch.setattr(numbering, "_backward", lambda: 7)
    hook = Hook(BEFORE, print, CALL)
    again = Call(hook, THING, (), {}, calls.take())
    assert (again.number, again.recomputed) == (0, True)
    assert calls.latest == 0


def test_in_a_trace_the_number_is_found_when_it_is_asked_for(monkeypatch) -> None:
    from hookline.core import numbering

    asked = []
    monkeypatch.setattr(numbering, "_compiling", lambda: True)
    monkeypatch.setattr(numbering, "_number_in_trace", lambda hook: asked.append(hook) or len(asked) - 1)
    hook, calls = Hook(BEFORE, print, CALL), Calls()
    first, second = (Call(hook, THING, (), {}, calls.take()) for _ in range(2))
    assert asked == []
    assert (first.number, first.number, second.number) == (0, 0, 1)
    assert not first.recomputed


def test_hooks_that_take_part_everywhere_run_beside_those_that_do_not() -> None:
    where = site(
        Hook(AFTER, lambda *_: "scoped", ARGS, applies=lambda: False),
        Hook(AFTER, lambda thing, args, out: (*out, "everywhere"), ARGS),
    )
    assert run(where, 1) == (1, 0, "everywhere")


def test_an_interrupt_in_a_clean_up_hook_is_not_made_a_warning() -> None:
    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(site(Hook(AFTER, interrupt, ARGS, always=True)), 1, function=lambda thing, a: 1 / 0)
