"""Look at a model: run it once, and make a report of what it did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from hookline.address import select
from hookline.address.paths import places
from hookline.capturing.budget import bytes_of
from hookline.errors import CaptureError
from hookline.intercept.hookable import check_module
from hookline.looking.report.cam import class_map, last_maps
from hookline.looking.report.document import Report, rendered
from hookline.looking.report.finding import Finding, findings
from hookline.looking.report.fitting import draw_within
from hookline.looking.report.hero import Hero, likeliest, scores
from hookline.looking.report.observation import Observation, observe
from hookline.looking.report.sample import Order
from hookline.looking.report.token_map import token_map


def look(
    model: nn.Module,
    *inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    at: Any = None,
    title: str | None = None,
    photo: Tensor | None = None,
    tokens: Sequence[str] = (),
    labels: Sequence[str] = (),
    choices: Sequence[str] = (),
    order: Order = "index",
    item: int = 0,
    size: int | str = "15 MB",
) -> Report:
    """Run `model(*inputs, **kwargs)` once, and return a report of what each module gave.

    ```python
    hookline.look(model, x).save("report.html")
    ```

    The run is made without gradients and in the model's present mode; buffers and random numbers are as before
    afterwards.

    Args:
        model: the model.
        inputs: its positional arguments.
        kwargs: its keyword arguments.
        at: where to look, as everywhere; None for all modules. The layer table has all modules either way.
        title: of the page; by default the model's class.
        photo: what the input was made from, uint8 of shape (3, height, width), to draw maps over.
        tokens: the words of the input, to name rows with.
        labels: names of the classes, when the output has a score for each: the five likeliest are listed.
        choices: what was done to make the input, to be listed with what was chosen here.
        order: of the channels of a feature map: "index", "energy" or "variance".
        item: which of the batch is drawn; the numbers are of all of it.
        size: bytes that the file may have; pictures are left out, and the report says which, until it fits.

    Returns:
        The report; `report.save("report.html")` writes it to one file, which needs nothing else.

    Raises:
        NoMatchError: `at` names nothing in the model. Then it was not run.
        ModelRunError: the model failed; the error has the layer table up to there.
        MissingExtraError: jinja2 or matplotlib is not installed.
    """
    check_module(model)
    budget = bytes_of(size)
    paths = None if at is None else {target.path for target in select(model, at)}
    seen = observe(model, inputs, kwargs or {}, paths)
    hero = _hero(model, inputs, kwargs or {}, seen, photo=photo, tokens=tokens, labels=labels, item=item)
    said = [*choices, *draw_within(budget, seen.sites, item=item, order=order, tokens=tokens)]
    found = findings(seen.table, seen.sites)
    if any(
        flags is not None and flags.inputs == 1 and flags.dead for site in seen.sites for flags in site.channel_flags
    ):
        said.append("dead: of one input, which says little of others; with 300 it bounds them to 1 %")
    for site in seen.sites:
        site.flags = [f"{each.kind}: {each.text}" for each in found if each.path == site.path]
    return document(model, seen, hero, found, said, title or type(model).__name__, tokens, item)


def _hero(
    model: nn.Module,
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    seen: Observation,
    *,
    photo: Tensor | None,
    tokens: Sequence[str],
    labels: Sequence[str],
    item: int,
) -> Hero:
    """Return the input and the answer; with a photo also the places that speak for the likeliest class."""
    classes = tuple(likeliest(seen.output, labels, item=item)) if labels else ()
    path = last_maps(seen) if photo is not None and labels else None
    if path is None:
        return Hero(photo, classes, tuple(tokens))
    target = int(scores(seen.output, len(labels))[item].argmax())
    try:
        cam = class_map(model, inputs, kwargs, path, target=target, classes=len(labels), item=item)
    except (RuntimeError, CaptureError) as error:
        return Hero(photo, classes, tuple(tokens), cam_said=f"No Grad-CAM: {str(error).splitlines()[0]}")
    height, width = cam.shape
    about = (
        f"Grad-CAM of {classes[0][0]!r} at {path}, {height} x {width}, from 0 to {cam.max().item():.3g}, not smoothed."
    )
    zero = " It is 0 everywhere: nothing there speaks for this class." if not cam.any() else ""
    return Hero(photo, classes, tuple(tokens), cam, about + zero)


def document(
    model: nn.Module,
    seen: Observation,
    hero: Hero,
    found: Sequence[Finding],
    said: Sequence[str],
    title: str,
    tokens: Sequence[str],
    item: int,
) -> Report:
    """Return the page of what was observed, and drawn."""
    data = [text for site in seen.sites for text in site.data]
    numbered = []
    first = 0
    for site in seen.sites:
        numbered.append(site.to_dict(first))
        first += len(site.data)
    cam, cam_data = hero.packed(len(data))
    norms, norms_data = token_map(model, seen.sites, tokens, len(data) + len(cam_data), item=item)
    page = {"title": title, "tokens": list(tokens), "sites": numbered, "tree": _tree(model), "cam": cam, "norms": norms}
    totals = seen.table.totals
    text = rendered(
        page,
        [*data, *cam_data, *norms_data],
        title=title,
        heading=title,
        lead=str(totals),
        findings=found,
        nothing_found="All values are finite, no channel is 0 everywhere, and every module was called.",
        hero=hero.to_dict(),
        pictures=[],
        table=seen.table,
        columns=seen.table.columns,
        rows=list(zip((row.path for row in seen.table.rows), seen.table.cells(), strict=True)),
        footer=seen.table.footer(),
        choices=said,
    )
    return Report(text, seen.table, tuple(found), tuple(said), seen.output)


def _tree(model: nn.Module) -> dict[str, Any]:
    """Return the modules as they contain each other, each once."""
    nodes: dict[str, dict[str, Any]] = {}
    for place in places(model):
        path = place.paths[0] or "."
        above, _, name = path.rpartition(".") if path != "." else ("", "", "model")
        node = {"path": path, "name": name, "type": type(place.module).__name__, "children": []}
        while above and above not in nodes:
            above = above.rpartition(".")[0]
        if path != ".":
            nodes[above or "."]["children"].append(node)
        nodes[path] = node
    return nodes["."]
