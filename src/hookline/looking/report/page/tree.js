/* The modules as a tree, with the first channels of each as small pictures. */

const tree = document.getElementById("tree");
const search = document.getElementById("search");
const count = document.getElementById("count");
const sites = new Map(page.sites.map((site, number) => [site.path, Object.assign(site, { number })]));
const rows = [];

/* Open so much of the tree that it fills a screen, level by level. */
function openFirst(roots) {
  let level = roots;
  let visible = level.length;
  while (level.length) {
    const below = level.flatMap((node) => node.children);
    if (visible + below.length > 42 && level !== roots) break;
    for (const node of level) node.open = node.children.length > 0;
    visible += below.length;
    level = below;
  }
}

/* A list of modules is not called itself, but they are. */
function holder(node) {
  return node.children.some((child) => sites.has(child.path) || holder(child));
}

function branch(node, depth) {
  const site = sites.get(node.path);
  const strip = site && site.pictures.length ? element("canvas", { class: "strip", "aria-hidden": "true" }) : null;
  const label = element("span", { class: "names" },
    element("span", { class: "name", text: node.name }),
    element("span", { class: "type", text: site ? `${node.type}  ${site.shape}` : holder(node) ? node.type : `${node.type}, not called` }));
  const line = element("div", { class: site || holder(node) ? "row" : "row uncalled", style: `--depth:${depth}` },
    element("span", { class: "twig", "aria-hidden": "true", onclick: (event) => { event.stopPropagation(); toggle(row); } }),
    label,
    site && site.flags.length ? element("i", { class: "flag", title: site.flags.join("\n") }) : null,
    strip);
  const inner = element("ul", { role: "group" });
  const item = element("li", { role: "treeitem", tabindex: "-1", "aria-level": depth + 1 }, line,
    node.children.length ? inner : null);
  item.setAttribute("aria-label", `${node.path}, ${node.type}${site || holder(node) ? "" : ", not called"}`);
  const row = { node, site, item, line, strip, parent: null, below: [] };
  line.addEventListener("click", () => {
    focusRow(row);
    if (site) location.hash = hashOf(site.path);
    else toggle(row);
  });
  item.addEventListener("focus", () => rows.forEach((other) => (other.item.tabIndex = other === row ? 0 : -1)));
  rows.push(row);
  for (const child of node.children) {
    const made = branch(child, depth + 1);
    made.parent = row;
    row.below.push(made);
    inner.append(made.item);
  }
  openTo(row, node.open);
  return row;
}

function openTo(row, open) {
  if (!row.node.children.length) return;
  row.node.open = open;
  row.item.setAttribute("aria-expanded", String(Boolean(open)));
}

function toggle(row) {
  openTo(row, !row.node.open);
}

function visibleRows() {
  return rows.filter((row) => row.item.offsetParent !== null);
}

function focusRow(row) {
  row.item.focus({ preventScroll: true });
  row.line.scrollIntoView({ block: "nearest" });
}

function hashOf(path) {
  return `#/site/${encodeURIComponent(path)}`;
}

tree.addEventListener("keydown", (event) => {
  const now = rows.find((row) => row.item === document.activeElement);
  if (!now) return;
  const seen = visibleRows();
  const at = seen.indexOf(now);
  const actions = {
    ArrowDown: () => seen[at + 1] && focusRow(seen[at + 1]),
    ArrowUp: () => (at > 0 ? focusRow(seen[at - 1]) : search.focus()),
    ArrowRight: () => (now.node.children.length && !now.node.open ? toggle(now) : now.below.length && focusRow(now.below[0])),
    ArrowLeft: () => (now.node.open && now.node.children.length ? toggle(now) : now.parent && focusRow(now.parent)),
    Home: () => focusRow(seen[0]),
    End: () => focusRow(seen[seen.length - 1]),
    Enter: () => (now.site ? (location.hash = hashOf(now.site.path)) : toggle(now)),
    " ": () => toggle(now),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
});

/* What is typed is part of an address, or with * a pattern for the whole of it. */
function find(text) {
  const typed = text.trim().toLowerCase();
  const pattern = typed.includes("*")
    ? new RegExp(`^${typed.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*")}$`)
    : null;
  const fits = (row) => (pattern ? pattern.test(row.node.path.toLowerCase()) : row.node.path.toLowerCase().includes(typed));
  let found = 0;
  for (const row of rows) {
    row.hit = !typed || fits(row);
    row.line.classList.toggle("hit", Boolean(typed) && row.hit);
    found += row.hit ? 1 : 0;
  }
  const within = (row) => row.hit || row.below.some(within);
  tree.classList.toggle("searching", Boolean(typed));
  for (const row of rows) row.item.classList.toggle("out", !within(row));
  count.textContent = typed ? `${found} of ${rows.length} modules` : `${rows.length} modules`;
  return rows.filter((row) => row.hit);
}

search.addEventListener("input", () => find(search.value));
search.addEventListener("keydown", (event) => {
  const hits = rows.filter((row) => row.hit && row.site);
  if (event.key === "Enter" && search.value.trim() && hits.length) location.hash = hashOf(hits[0].site.path);
  else if (event.key === "ArrowDown" && visibleRows().length) focusRow(visibleRows()[0]);
  else if (event.key === "Escape") {
    search.value = "";
    find("");
    search.blur();
  } else return;
  event.preventDefault();
  event.stopPropagation();
});

/* Small pictures are drawn when they come into sight. */
const SMALL = 26;
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    const row = rows.find((each) => each.strip === entry.target);
    if (row && row.drawn !== isDark()) drawStrip(row);
  }
});

async function drawStrip(row) {
  row.drawn = isDark();
  const picture = row.site.pictures[0];
  const all = await values(picture.data);
  const [cells, height, width] = picture.shape;
  const canvas = row.strip;
  const scale = devicePixelRatio || 1;
  const shownCells = picture.kind === "maps" ? Math.min(3, cells) : 1;
  const wide = picture.kind === "maps" ? SMALL : 3 * SMALL + 4;
  const total = shownCells * wide + (shownCells - 1) * 2;
  canvas.width = total * scale;
  canvas.height = SMALL * scale;
  canvas.style.width = `${total}px`;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  const cell = document.createElement("canvas");
  for (let i = 0; i < shownCells; i++) {
    paint(cell, all, picture, i);
    context.drawImage(cell, i * (wide + 2) * scale, 0, wide * scale, SMALL * scale);
  }
}

function buildTree() {
  openFirst([page.tree]);
  tree.append(branch(page.tree, 0).item);
  rows[0].item.tabIndex = 0;
  for (const row of rows) if (row.strip) watcher.observe(row.strip);
  find("");
}
