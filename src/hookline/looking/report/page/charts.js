/* Charts: rows of features, single values, histograms, statistics over depth. */

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawMatrix(picture, all, widest = 32) {
  const [, height, width] = picture.shape;
  const tall = Math.max(1, Math.min(24, Math.floor(480 / height)));
  const wide = Math.max(1, Math.min(widest, Math.floor(760 / width)));
  const canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": `${height} rows, ${width} columns, ${sayCell(picture, all, 0).split(": ")[1]}` });
  canvas.style.width = `${width * wide}px`;
  canvas.style.height = `${height * tall}px`;
  paint(canvas, all, picture, 0);
  readable(canvas, all, picture, 0);
  const names = picture.tokens && tall >= 11
    ? element("ol", { class: "row-names", style: `--row:${tall}px` }, ...page.tokens.slice(0, height).map((token) => element("li", { text: token })))
    : null;
  const below = picture.columns && wide >= 18
    ? element("ol", { class: "below" }, ...picture.columns.map((path) => element("li", { style: `width:${wide}px`, title: path, text: path.split(".").pop() })))
    : null;
  return element("div", { class: "matrix" }, names, element("div", {}, canvas, below));
}

/* The norm of each token after each block. */
async function drawNorms(target) {
  if (!page.norms) return;
  const all = await values(page.norms.data);
  for (const old of target.querySelectorAll(".matrix, .colour-bar, .choices")) old.remove();
  const picture = drawMatrix(page.norms, all, 44);
  picture.querySelector("canvas").addEventListener("click", (event) => {
    const box = event.target.getBoundingClientRect();
    location.hash = hashOf(page.norms.columns[Math.floor(((event.clientX - box.left) / box.width) * page.norms.columns.length)]);
  });
  target.append(picture, colourBar(page.norms, all), element("p", { class: "choices", text: [...page.norms.said, `columns: ${page.norms.columns[0]} to ${page.norms.columns.at(-1)}`].join(" · ") }));
  target.hidden = false;
}

/* How spread a head's attention is, in nats, and how much of it goes to the first token: means over the rows. */
function headNumbers(picture, all, cell) {
  const [, height, width] = picture.shape;
  const part = cellValues(picture, all, cell);
  let entropy = 0;
  let first = 0;
  for (let y = 0; y < height; y++) {
    first += part[y * width];
    for (let x = 0; x < width; x++) {
      const share = part[y * width + x];
      if (share > 0) entropy -= share * Math.log(share);
    }
  }
  return `entropy ${shown(entropy / height)} nats, ${percent(first / height)} on ${page.tokens[0]}`;
}

/* Layers by heads. Where a module and one within it give the same weights, the inner one is shown. */
async function drawAttention(target) {
  const heads = page.sites.flatMap((site) => site.pictures.filter((picture) => picture.cell === "head").map((picture) => ({ site, picture })));
  const shownHeads = heads.filter(({ site }) => !heads.some((other) => other.site.path.startsWith(`${site.path}.`)));
  if (!shownHeads.length) return;
  for (const old of target.querySelectorAll(".layer")) old.remove();
  for (const { site, picture } of shownHeads) {
    const all = await values(picture.data);
    const row = element("div", { class: "layer" }, element("a", { class: "layer-name", href: hashOf(site.path), title: site.path, text: site.path }));
    for (let cell = 0; cell < picture.shape[0]; cell++) {
      const words = `${site.path}, head ${picture.channels[cell]}: ${headNumbers(picture, all, cell)}`;
      const canvas = element("canvas", { role: "img", "aria-label": words });
      paint(canvas, all, picture, cell);
      canvas.addEventListener("pointermove", (event) => say(words.split(/: |, /), event.clientX, event.clientY));
      canvas.addEventListener("pointerleave", hush);
      canvas.addEventListener("click", () => { chosenCell = cell; location.hash = hashOf(site.path); });
      row.append(canvas);
    }
    target.append(row);
  }
  target.hidden = false;
}

/* Values of one row as bars from 0; a value is found under the pointer, however many share a pixel. */
function drawVector(picture, all) {
  const width = 760;
  const height = 150;
  const scale = devicePixelRatio || 1;
  const canvas = element("canvas", { tabindex: "0", role: "img", class: "bars", "aria-label": `${all.length} values, ${sayCell(picture, all, 0).split(": ")[1]}` });
  canvas.width = width * scale;
  canvas.height = height * scale;
  const { low, high } = extent(all);
  const bottom = Math.min(0, low);
  const top = Math.max(0, high);
  const y = (value) => height - ((value - bottom) / (top - bottom || 1)) * height;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const bar = width / all.length;
  all.forEach((value, i) => {
    const finite = Number.isFinite(value);
    context.fillStyle = finite ? style.getPropertyValue("--bar") : "rgb(255 0 168)";
    const [from, to] = finite ? [y(0), y(value)] : [0, height];
    context.fillRect(i * bar, Math.min(from, to), Math.max(bar - (bar > 3 ? 1 : 0), 0.75), Math.max(Math.abs(to - from), 0.5));
  });
  context.fillStyle = style.getPropertyValue("--muted");
  context.fillRect(0, y(0) - 0.5, width, 1);
  readable(canvas, all, picture, 0);
  return element("div", { class: "vector" }, canvas,
    element("div", { class: "ends muted small" }, element("span", { text: `${shown(low)} to ${shown(high)}` })));
}

function drawHistogram(histogram) {
  const counts = histogram.counts;
  const most = Math.max(1, ...counts, histogram.zeros);
  const height = 110;
  const bar = 9;
  const gap = 26;
  const picture = svg("svg", { viewBox: `0 0 ${gap + bar * counts.length + 2} ${height + 2}`, class: "histogram", role: "img", "aria-label": `Histogram: ${histogram.zeros} exact zeros; the others from ${shown(histogram.low)} to ${shown(histogram.high)}` });
  const add = (x, count, kind, lines) => {
    const tall = count ? Math.max(1.5, (count / most) * height) : 0;
    const column = svg("g", {}, svg("rect", { x, y: 0, width: bar, height, class: "catch" }), svg("rect", { x: x + 0.5, y: height - tall, width: bar - 1, height: tall, class: kind }));
    column.addEventListener("pointermove", (event) => say([count.toLocaleString("en"), ...lines], event.clientX, event.clientY));
    column.addEventListener("pointerleave", hush);
    picture.append(column);
  };
  add(2, histogram.zeros, "zeros", ["exactly 0"]);
  const width = (histogram.high - histogram.low) / counts.length;
  counts.forEach((number, i) => add(gap + i * bar, number, "bin", [`${shown(histogram.low + i * width)} to ${shown(histogram.low + (i + 1) * width)}`]));
  const other = [["NaN", histogram.nan], ["+∞", histogram.positive_infinity], ["−∞", histogram.negative_infinity]].filter(([, number]) => number);
  return element("figure", { class: "histogram-box" }, picture,
    element("div", { class: "ends muted small" },
      element("span", { class: "zero-label", text: `0: ${histogram.zeros.toLocaleString("en")}` }),
      element("span", { text: shown(histogram.low) }), element("span", { class: "grow" }), element("span", { text: shown(histogram.high) })),
    element("figcaption", { class: "muted small" }, "All values of the tensor; the bar on the left counts exact zeros",
      other.length ? element("strong", { class: "bad", text: `; not finite: ${other.map(([name, number]) => `${number} ${name}`).join(", ")}` }) : ""));
}

/* Statistics of all modules, one column each, in the order of their first call. */
function drawDepth(target) {
  const list = page.sites.filter((site) => site.rows[0].rms !== null || site.rows[0].nonfinite);
  if (!list.length) return;
  const row = (site) => site.rows[0];
  const width = 1000;
  const column = width / list.length;
  const sizes = list.map((site) => row(site).rms).filter((value) => value > 0);
  const low = Math.floor(Math.log10(Math.min(...sizes, 1)) * 2) / 2;
  const high = Math.ceil(Math.log10(Math.max(...sizes, 1)) * 2) / 2;
  const logarithm = (value) => (value > 0 ? (Math.log10(value) - low) / (high - low || 1) : 0);
  const charts = [
    { name: "rms", ends: [shown(10 ** low), shown(10 ** high)], tall: 96, of: (site) => logarithm(row(site).rms), dot: true },
    { name: "zero", ends: ["0 %", "100 %"], tall: 56, of: (site) => row(site).zero || 0 },
    { name: "dead channels", ends: ["0 %", "100 %"], tall: 40, of: (site) => row(site).dead || 0 },
  ];
  for (const chart of charts) {
    const picture = svg("svg", { viewBox: `0 0 ${width} ${chart.tall}`, preserveAspectRatio: "none", class: "depth", style: `height:${chart.tall}px`, role: "img", "aria-label": `${chart.name} of ${list.length} modules in execution order` });
    list.forEach((site, i) => {
      const y = chart.tall - chart.of(site) * (chart.tall - 4) - 2;
      const bad = row(site).nonfinite > 0;
      picture.append(svg("rect", chart.dot
        ? { x: i * column + column * 0.1, y: y - 2, width: Math.max(column * 0.8, 1), height: 4, class: bad ? "mark bad" : "mark" }
        : { x: i * column + column * 0.1, y, width: Math.max(column * 0.8, 1), height: chart.tall - y, class: "mark soft" }));
    });
    const cursor = svg("rect", { y: 0, width: column, height: chart.tall, class: "cursor", visibility: "hidden" });
    picture.prepend(cursor);
    const at = (event) => {
      const box = picture.getBoundingClientRect();
      return Math.max(0, Math.min(list.length - 1, Math.floor(((event.clientX - box.left) / box.width) * list.length)));
    };
    picture.addEventListener("pointermove", (event) => {
      const i = at(event);
      for (const other of target.querySelectorAll(".cursor")) {
        other.setAttribute("x", i * column);
        other.setAttribute("visibility", "visible");
      }
      const facts = row(list[i]);
      say([list[i].path, list[i].type, `rms ${shown(facts.rms)}`, `zero ${percent(facts.zero)}`, `dead channels ${percent(facts.dead)}`], event.clientX, event.clientY);
    });
    picture.addEventListener("pointerleave", () => {
      hush();
      for (const other of target.querySelectorAll(".cursor")) other.setAttribute("visibility", "hidden");
    });
    picture.addEventListener("click", (event) => (location.hash = hashOf(list[at(event)].path)));
    target.append(element("div", { class: "depth-row" },
      element("div", { class: "axis" }, element("span", { text: chart.ends[1] }), element("strong", { text: chart.name }), element("span", { text: chart.ends[0] })), picture));
  }
}
