/* The page of one module: its numbers, its pictures, its histogram. */

const siteView = document.getElementById("site");
/* The cell that a click elsewhere has chosen. */
let chosenCell = null;
const photo = document.querySelector("#cam img");

function showSite(site) {
  const before = page.sites[site.number - 1];
  const after = page.sites[site.number + 1];
  const step = (other, text, title) =>
    element("a", { class: other ? "button" : "button off", href: other ? hashOf(other.path) : null, title, text });
  const parts = [
    element("div", { class: "site-head" },
      element("div", {},
        element("h1", { class: "address", text: site.path === "." ? "the model" : site.path }),
        element("p", { class: "lead", text: `${site.type} · ${site.shape} · ${site.dtype}` })),
      element("div", { class: "steps" }, step(before, "‹ Previous", "Previous in execution order ([)"), step(after, "Next ›", "Next in execution order (])"))),
    site.flags.length
      ? element("ul", { class: "findings card" }, ...site.flags.map((flag) => element("li", { class: "warn", text: flag })))
      : null,
    ...site.rows.map((row) => numbers(row, site.rows.length > 1)),
    ...site.pictures.map((picture) => pictureCard(picture)),
    site.pictures.length ? null : element("p", { class: "card muted", text: site.why || "There is no picture of this module: its output holds no tensor with more than one value." }),
  ];
  siteView.replaceChildren(...parts.filter((part) => part !== null));
  hush();
}

function numbers(row, several) {
  const fact = (name, value, note) =>
    element("div", { class: "fact" }, element("dt", { text: name }), element("dd", { text: value, title: note || "" }));
  const parameters = row.frozen ? row.parameters.toLocaleString("en") + (row.frozen === "yes" ? " frozen" : row.frozen === "part" ? " partly frozen" : "")  : "–";
  return element("section", { class: "card" },
    several ? element("h2", { class: "address", text: row.address }) : null,
    element("dl", { class: "facts" },
      fact("mean", shown(row.mean)), fact("std", shown(row.std)), fact("rms", shown(row.rms)),
      fact("min", shown(row.min)), fact("max", shown(row.max)),
      fact("zero", percent(row.zero)), fact("not finite", percent(row.nonfinite)),
      fact("dead channels", row.dead === null ? "–" : `${Math.round(row.dead * row.channels)} of ${row.channels}`),
      fact("parameters", parameters), fact("mode", row.mode),
      fact("time", `${row.ms.toFixed(2)} ms${row.calls > 1 ? ` in ${row.calls} calls` : ""}`)));
}

function pictureCard(picture) {
  const body = element("div", { class: "picture-body" });
  const card = element("section", { class: "card picture" },
    element("h2", {}, (picture.label && `output ${picture.label}`.replace("output call", "call")) || { maps: "Feature maps", matrix: picture.tokens ? "Tokens by features" : "Rows by features", vector: "Values" }[picture.kind],
      element("span", { class: "muted small", text: ` ${picture.full}` })),
    body);
  values(picture.data).then((all) => {
    const draw = { maps: drawMaps, matrix: drawMatrix, vector: drawVector }[picture.kind];
    body.append(draw(picture, all));
    if (picture.kind !== "vector") body.append(colourBar(picture, all));
    if (picture.histogram) body.append(drawHistogram(picture.histogram));
    const map = `colours: ${mapOf(picture)}${picture.signed ? ", 0 in its middle" : ""}, one range for all cells; enlarged by whole factors, not smoothed`;
    const said = picture.kind === "vector" ? picture.said.slice(0, -1) : [...picture.said, map];
    if (said.length) body.append(element("p", { class: "choices", text: said.join(" · ") }));
  });
  return card;
}

/* How many times a cell of this width is enlarged. */
function enlargement(width, cells) {
  const wanted = cells <= 4 ? 200 : cells <= 16 ? 132 : cells <= 36 ? 96 : 76;
  return Math.max(1, Math.round(wanted / width));
}

function drawMaps(picture, all) {
  const [cells, height, width] = picture.shape;
  const factor = enlargement(Math.max(width, height), cells);
  const grid = element("div", { class: "grid", style: `--cell:${width * factor}px` });
  const large = element("div", { class: "large" });
  for (let cell = 0; cell < cells; cell++) {
    const canvas = element("canvas", { role: "img", tabindex: "0", "aria-label": sayCell(picture, all, cell) });
    canvas.style.width = `${width * factor}px`;
    canvas.style.height = `${height * factor}px`;
    paint(canvas, all, picture, cell);
    readable(canvas, all, picture, cell);
    const figure = element("figure", {}, canvas, element("figcaption", {}, ...cellCaption(picture, all, cell)));
    const choose = () => {
      for (const other of grid.children) other.classList.toggle("chosen", other === figure);
      enlarge(large, picture, all, cell);
    };
    canvas.addEventListener("click", choose);
    canvas.addEventListener("keydown", (event) => event.key === "Enter" && choose());
    grid.append(figure);
  }
  const first = chosenCell !== null && chosenCell < cells ? chosenCell : firstAlive(picture, all);
  chosenCell = null;
  enlarge(large, picture, all, first);
  grid.children[first].classList.add("chosen");
  return element("div", { class: "maps" }, grid, large);
}

function cellValues(picture, all, cell) {
  const size = picture.shape[1] * picture.shape[2];
  return all.subarray(cell * size, (cell + 1) * size);
}

function extent(part) {
  let low = Infinity;
  let high = -Infinity;
  let other = 0;
  for (const value of part) {
    if (!Number.isFinite(value)) other++;
    else {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return { low, high, other };
}

function firstAlive(picture, all) {
  for (let cell = 0; cell < picture.shape[0]; cell++) {
    const { low, high } = extent(cellValues(picture, all, cell));
    if (high > low) return cell;
  }
  return 0;
}

function cellCaption(picture, all, cell) {
  const { low, high, other } = extent(cellValues(picture, all, cell));
  const caption = [element("span", { text: picture.channels[cell] })];
  const word = picture.words[picture.channels[cell]];
  if (word && word !== "constant") caption.push(element("span", { class: "word", text: word }));
  else if (low === high) caption.push(element("span", { class: "muted", text: `all ${shown(low)}` }));
  if (other) caption.push(element("span", { class: "bad", text: `× ${other}`, title: `${other} values are not finite` }));
  return caption;
}

function sayCell(picture, all, cell) {
  const { low, high, other } = extent(cellValues(picture, all, cell));
  const range = low === high ? `all ${shown(low)}` : low > high ? "no finite value" : `from ${shown(low)} to ${shown(high)}`;
  return `${picture.cell} ${picture.channels[cell]}: ${range}${other ? `, ${other} not finite` : ""}`;
}

/* One channel, large; over the photo where there is one of the same proportions. */
function enlarge(target, picture, all, cell) {
  const [, height, width] = picture.shape;
  const factor = Math.max(1, Math.floor((picture.tokens ? 300 : 360) / Math.max(width, height)));
  const canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": sayCell(picture, all, cell) });
  const over = photo && picture.cell === "channel" && Math.abs(photo.width / photo.height - width / height) < 0.12;
  const box = element("div", { class: over ? "stack over" : "stack", style: `width:${width * factor}px;height:${height * factor}px` });
  const state = enlarge.state || (enlarge.state = { over: false, strength: 0.8 });
  const draw = () => {
    box.replaceChildren();
    if (over && state.over) {
      box.append(element("img", { src: photo.src, alt: photo.alt }), canvas);
      paintOver(canvas, all, picture, cell, state.strength);
    } else {
      box.append(canvas);
      paint(canvas, all, picture, cell);
      if (factor >= 6) glyphs(box, picture, all, cell, factor);
    }
  };
  readable(canvas, all, picture, cell);
  draw();
  const strength = element("input", { type: "range", min: 0, max: 100, value: state.strength * 100, "aria-label": "Strength of the overlay" });
  strength.hidden = !state.over;
  strength.addEventListener("input", () => { state.strength = strength.value / 100; draw(); });
  const box2 = element("input", { type: "checkbox" });
  box2.checked = state.over;
  box2.addEventListener("change", () => { state.over = box2.checked; strength.hidden = !state.over; draw(); });
  const named = picture.tokens && factor >= 11;
  const names = (kind) => element("ol", { class: kind, style: `--row:${factor}px` }, ...page.tokens.slice(0, width).map((token) => element("li", { text: token })));
  target.replaceChildren(
    element("h3", { text: `${picture.cell} ${picture.channels[cell]}` }),
    named ? element("div", { class: "named" }, names("column-names"), element("div", { class: "matrix" }, names("row-names"), box)) : box,
    picture.cell === "head" ? element("p", { class: "muted small", text: headNumbers(picture, all, cell) }) : "",
    over ? element("label", { class: "toggle" }, box2, "over the photo", strength) : "",
    element("p", { class: "muted small", text: `${sayCell(picture, all, cell).split(": ")[1]}, enlarged ${factor} times` }));
}

/* A mark on values that are no numbers, for those who cannot tell by the colour. */
function glyphs(box, picture, all, cell, factor) {
  const [, height, width] = picture.shape;
  cellValues(picture, all, cell).forEach((value, i) => {
    if (Number.isFinite(value)) return;
    const mark = Number.isNaN(value) ? "×" : value > 0 ? "+" : "−";
    const at = `left:${(i % width) * factor}px;top:${Math.floor(i / width) * factor}px;width:${factor}px;height:${factor}px`;
    box.append(element("span", { class: "glyph", style: `${at};font-size:${factor}px`, text: mark }));
  });
}
