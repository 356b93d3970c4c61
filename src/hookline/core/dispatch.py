"""Run the hooks of one call around the function that is called."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from hookline.core import watching
from hookline.core.call import Call
from hookline.core.hook import ARGS, KWARGS, Hook
from hookline.core.notes import annotate
from hookline.core.numbering import IN_TRACE
from hookline.core.site import Site
from hookline.errors import HooklineWarning, HookResultError

_Args = tuple[Any, ...]
_Kwargs = dict[str, Any]


def dispatch(  # noqa: C901, PLR0912 - in line, since each call of a helper costs as much as all else done for a hook
    site: Site,
    module: Any,
    function: Callable[..., Any],
    args: _Args,
    kwargs: _Kwargs,
) -> Any:
    """Return `function(module, *args, **kwargs)` with the site's hooks run around it.

    `args` and `kwargs` must be this call's own: hooks may edit `kwargs` in place.
    """
    if not site.plain:
        for applies in site.scopes:
            if applies():
                break
        else:
            if site.all_scoped:  # the usual case of another thread's hooks
                return function(module, *args, **kwargs)
        if site.scopes:
            site = site.in_scope()
        if not site.plain:
            return _dispatch_any(site, module, function, args, kwargs)
    number = site.calls.take() if site.calls is not None else 0
    hook: Hook | None = None
    try:
        for hook in site.before:
            if hook.convention == ARGS:
                changed = hook.function(module, args)
            elif hook.convention == KWARGS:
                changed = hook.function(module, args, kwargs)
                if changed is not None:
                    args, kwargs = _pair(changed)
                    watching.changed(hook, module)
                continue
            else:
                call = Call(hook, module, args, kwargs, number)
                changed = hook.function(call)
                # (Dynamo cannot compare all these by identity; in compiled code nobody asks for it either.)
                if number != IN_TRACE and (call.args is not args or call.kwargs is not kwargs):
                    watching.changed(hook, module)
                args, kwargs = call.args, call.kwargs
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
                watching.changed(hook, module)
    except BaseException as error:
        annotate(error, hook, module, number)
        raise
    output = function(module, *args, **kwargs)
    try:
        for hook in site.after:
            if hook.convention == ARGS:
                changed = hook.function(module, args, output)
            elif hook.convention == KWARGS:
                changed = hook.function(module, args, kwargs, output)
            else:
                call = Call(hook, module, args, kwargs, number)
                call.output = output
                changed = hook.function(call)
                if number != IN_TRACE and call.output is not output:
                    watching.changed(hook, module)
                output = call.output
            if changed is not None:
                output = changed
                watching.changed(hook, module)
    except BaseException as error:
        annotate(error, hook, module, number)
        raise
    return output


def _dispatch_any(
    site: Site,
    module: Any,
    function: Callable[..., Any],
    args: _Args,
    kwargs: _Kwargs,
) -> Any:
    """Do what `dispatch` does, also for around hooks and for hooks that run on every exit."""
    number = site.calls.take() if site.calls is not None else 0
    hook: Hook | None = None
    output: Any = None
    ran = 0
    try:
        for hook in site.before:
            args, kwargs = _run_before(hook, module, args, kwargs, number)
        hook = None  # what the function raises, or an around hook, is not for us to annotate
        leave = None
        if site.gradient:
            args, kwargs, leave = watching.watch(site, module, args, kwargs, number)
        output = _run_around(site.around, module, function, args, kwargs, number)
        for hook in site.after:
            ran += 1
            output = _run_after(hook, module, args, kwargs, output, number)
        hook = None
        if leave is not None:
            output = leave(output)
    except BaseException as error:
        if hook is not None:
            annotate(error, hook, module, number)
        _clean_up(site.after[ran:], module, args, kwargs, output, number)
        raise
    return output


# The rules that `dispatch` has in line:
def _run_before(hook: Hook, module: Any, args: _Args, kwargs: _Kwargs, number: int) -> tuple[_Args, _Kwargs]:
    if hook.convention == KWARGS:
        changed = hook.function(module, args, kwargs)
        if changed is not None:
            args, kwargs = _pair(changed)
    else:
        if hook.convention == ARGS:
            changed = hook.function(module, args)
        else:
            call = Call(hook, module, args, kwargs, number)
            changed = hook.function(call)
            if number != IN_TRACE and (call.args is not args or call.kwargs is not kwargs):
                watching.changed(hook, module)
            args, kwargs = call.args, call.kwargs
        if changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    if changed is not None:
        watching.changed(hook, module)
    return args, kwargs


def _run_after(hook: Hook, module: Any, args: _Args, kwargs: _Kwargs, output: Any, number: int) -> Any:
    if hook.convention == ARGS:
        changed = hook.function(module, args, output)
    elif hook.convention == KWARGS:
        changed = hook.function(module, args, kwargs, output)
    else:
        call = Call(hook, module, args, kwargs, number)
        call.output = output
        changed = hook.function(call)
        if number != IN_TRACE and call.output is not output:
            watching.changed(hook, module)
        output = call.output
    if changed is None:
        return output
    watching.changed(hook, module)
    return changed


def _run_around(
    hooks: tuple[Hook, ...],
    module: Any,
    function: Callable[..., Any],
    args: _Args,
    kwargs: _Kwargs,
    number: int,
) -> Any:
    """Return the function's result with the first hook around it, inside that the second, and so on."""
    if not hooks:
        return function(module, *args, **kwargs)
    hook, inner = hooks[0], hooks[1:]
    call = Call(hook, module, args, kwargs, number)
    from_inside: BaseException | None = None

    def proceed() -> Any:
        """Make the call with the arguments that `call` has now, and return its output."""
        nonlocal from_inside
        try:
            call.output = _run_around(inner, module, function, call.args, dict(call.kwargs), number)
        except BaseException as error:
            from_inside = error
            raise
        return call.output

    try:
        changed = hook.function(call, proceed)
        watching.changed(hook, module)  # it may have done anything
        if changed is not None:
            return changed
        if not call.has_output:
            raise HookResultError(  # noqa: TRY301 - to be annotated like an error of the hook, which it is
                "the around hook neither made the call nor gave an output: call proceed(), return a value, "
                "or set call.output (to None, if that is what is meant)."
            )
    except BaseException as error:
        if error is not from_inside:
            annotate(error, hook, module, number)
        raise
    finally:
        from_inside = None  # an error and the frame that holds it would keep each other alive
    return call.output


def _clean_up(
    hooks: tuple[Hook, ...],
    module: Any,
    args: _Args,
    kwargs: _Kwargs,
    output: Any,
    number: int,
) -> None:
    """Run the clean-up hooks that an error kept from running; they cannot swallow it."""
    for hook in hooks:
        if not hook.always:
            continue
        try:
            output = _run_after(hook, module, args, kwargs, output, number)
        except Exception as error:
            warnings.warn(
                f"the clean-up hook {hook.describe()} raised {type(error).__name__}: {error}; "
                "this is a warning because the call itself had already raised.",
                HooklineWarning,
                stacklevel=2,
            )


def _pair(changed: Any) -> tuple[_Args, _Kwargs]:
    """Return what a hook with kwargs gave back as `(args, kwargs)`, or say what it should have been."""
    if isinstance(changed, tuple) and len(changed) == 2 and isinstance(changed[1], dict):
        args, kwargs = changed
        if isinstance(args, (tuple, list)):
            return tuple(args), kwargs
    raise HookResultError(
        "a hook that takes kwargs must return None or (args, kwargs), a tuple and a dict; "
        f"it returned {changed!r:.200}."
    )
