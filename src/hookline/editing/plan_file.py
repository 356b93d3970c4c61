"""A plan of edits as a JSON file, with its tensors beside it."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from hookline.address import select
from hookline.editing.indexing import Index
from hookline.editing.operation import Operation, known_operations
from hookline.editing.operations import bound
from hookline.editing.plan import EditPlan, Entry
from hookline.errors import HooklineError, MissingExtraError, PlanError
from hookline.structure import structure, structure_hash

_VERSION = 1


def save(plan: EditPlan, path: Path, model: nn.Module | None) -> None:
    """Write the plan; both files are written whole, or neither."""
    tensors: dict[str, Tensor] = {}
    edits = [_entry_to_json(entry, tensors) for entry in plan]
    data: dict[str, Any] = {"hookline_plan": _VERSION, "edits": edits}
    if model is not None:
        for entry in plan:
            select(model, entry.where)  # a plan that names nothing there is a mistake to be told now
        data["structure"] = _structure_of(model)
    elif plan.structure is not None:
        data["structure"] = plan.structure
    text = json.dumps(data, indent=2)
    if tensors:
        data["tensors"] = path.with_suffix(".safetensors").name
        text = json.dumps(data, indent=2)
        try:
            from safetensors.torch import save as to_bytes  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("saving tensors needs safetensors: pip install 'hookline[save]'.") from None
        _write(
            path.with_suffix(".safetensors"),
            to_bytes({name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}),
        )
    _write(path, text.encode())


def load(path: Path) -> EditPlan:
    """Return the plan of a file."""
    try:
        data = json.loads(path.read_text())
        if data["hookline_plan"] != _VERSION:
            raise PlanError(f"{path} was written by another version of hookline ({data['hookline_plan']!r}).")
        tensors = _tensors(path, data)
        plan = EditPlan([_entry_from_json(entry, tensors) for entry in data["edits"]])
        plan.structure = data.get("structure")
    except HooklineError:
        raise
    except FileNotFoundError as error:
        raise PlanError(f"there is no file {error.filename or path}.") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlanError(f"{path} is no plan of edits ({type(error).__name__}: {error}).") from error
    return plan


def check_structure(known: dict[str, Any], model: nn.Module) -> None:
    """Raise `PlanError` unless the model has the structure that a plan was made for; list where they differ."""
    if known["hash"] == structure_hash(model):
        return
    now = structure(model)
    before: dict[str, str] = known["sites"]
    lines = [
        f"  {path or '.'}: {before.get(path, 'not there')} in the plan, {now.get(path, 'not there')} in the model"
        for path in dict.fromkeys([*before, *now])
        if before.get(path) != now.get(path)
    ]
    more = [f"  and {len(lines) - 10} more"] if len(lines) > 10 else []
    raise PlanError(
        "the plan was made for a model of another structure; force=True runs it all the same. They differ at:\n"
        + "\n".join([*lines[:10], *more])
    )


def _structure_of(model: nn.Module) -> dict[str, Any]:
    return {"hash": structure_hash(model), "sites": structure(model)}


def _entry_to_json(entry: Entry, tensors: dict[str, Tensor]) -> dict[str, Any]:
    if not isinstance(entry.where, str):
        raise PlanError(f"{entry}: only an address can be saved, and this is said by a {type(entry.where).__name__}.")
    if entry.when is not None:
        raise PlanError(f"{entry}: when= is a function, which cannot be saved; use calls= or rows=.")
    operation = bound(entry.operation, entry.where)
    written: dict[str, Any] = {"where": entry.where, "operation": operation.name}
    if operation.function is not None:
        written["function"] = _name_of(operation.function, entry)
    if operation.operands:
        written["operands"] = {name: _to_json(value, tensors) for name, value in operation.operands.items()}
    if operation.index is not None:
        written["index"] = [_to_json(each, tensors) for each in operation.index]
    if entry.rows is not None:
        written["rows"] = _to_json(entry.rows, tensors)
    if entry.calls is not None:
        written["calls"] = sorted(entry.calls)
    return written


def _entry_from_json(data: dict[str, Any], tensors: dict[str, Tensor]) -> Entry:
    if data["operation"] not in known_operations() and "function" not in data:
        raise PlanError(f"there is no operation {data['operation']!r}; there are {', '.join(known_operations())}.")
    operands = {name: _from_json(value, tensors) for name, value in data.get("operands", {}).items()}
    index: Index | None = None
    if "index" in data:
        index = tuple(_from_json(each, tensors) for each in data["index"])
    function = _function(data["function"]) if "function" in data else None
    return Entry(
        data["where"],
        Operation(data["operation"], operands, index, function),
        _from_json(data["rows"], tensors) if "rows" in data else None,
        frozenset(data["calls"]) if "calls" in data else None,
    )


def _to_json(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = f"t{len(tensors)}"
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, tuple):
        return {"tuple": [_to_json(each, tensors) for each in value]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    return value


def _from_json(value: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "tensor":
        return tensors[held]
    if kind == "tuple":
        return tuple(_from_json(each, tensors) for each in held)
    if kind == "slice":
        return slice(*held)
    if kind == "complex":
        return complex(*held)
    if kind == "ellipsis":
        return Ellipsis
    raise PlanError(f"{kind!r} is nothing that a plan can have.")


def _name_of(function: Any, entry: Entry) -> str:
    name = f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"
    try:
        found = _function(name)
    except PlanError:
        found = None
    if found is not function:
        raise PlanError(
            f"{entry}: only a function that can be imported can be saved; put it into a module, or use the operations."
        )
    return name


def _function(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise PlanError(f"the plan has a function {name!r}, which cannot be imported: {error}.") from None
    return found


def _tensors(path: Path, data: dict[str, Any]) -> dict[str, Tensor]:
    if "tensors" not in data:
        return {}
    try:
        from safetensors.torch import load_file  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("loading tensors needs safetensors: pip install 'hookline[save]'.") from None
    file = path.parent / data["tensors"]
    if not file.exists():
        raise PlanError(f"the tensors of {path} are missing: there is no file {file}.")
    found: dict[str, Tensor] = load_file(str(file))
    return found


def _write(path: Path, content: bytes) -> None:
    new = path.with_name(path.name + ".new")
    try:
        new.write_bytes(content)
        os.replace(new, path)  # noqa: PTH105 - replaces on every platform, in one step
    except OSError as error:
        new.unlink(missing_ok=True)
        raise PlanError(f"could not write {path}: {error}.") from error
