/* Which view is shown, keys, theme. */

const overview = document.getElementById("overview");
const root = document.documentElement;
const keys = document.getElementById("keys");

function route() {
  const found = location.hash.match(/^#\/site\/(.*)$/);
  const site = found && sites.get(decodeURIComponent(found[1]));
  overview.hidden = Boolean(site);
  siteView.hidden = !site;
  for (const row of rows) row.line.classList.toggle("current", Boolean(site) && row.site === site);
  if (!site) {
    document.title = page.title;
    return;
  }
  document.title = `${site.path} · ${page.title}`;
  showSite(site);
  const row = rows.find((each) => each.site === site);
  for (let above = row && row.parent; above; above = above.parent) openTo(above, true);
  if (row) row.line.scrollIntoView({ block: "nearest" });
  document.getElementById("main").scrollTop = 0;
}

function redraw() {
  for (const row of rows) {
    if (!row.strip) continue;
    watcher.unobserve(row.strip);
    watcher.observe(row.strip);
  }
  drawCam();
  drawStages(document.getElementById("stages"));
  drawNorms(document.getElementById("norms"));
  drawAttention(document.getElementById("attention"));
  if (!siteView.hidden) route();
}

function switchTheme() {
  root.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem("hookline-theme", root.dataset.theme);
  } catch {
    /* A page without storage forgets it, that is all. */
  }
  redraw();
}

function step(by) {
  const found = location.hash.match(/^#\/site\/(.*)$/);
  const now = found ? sites.get(decodeURIComponent(found[1])) : null;
  const other = page.sites[now ? now.number + by : 0];
  if (other) location.hash = hashOf(other.path);
}

async function drawCam() {
  const cam = page.cam;
  const canvas = document.querySelector("#cam canvas");
  const strength = document.getElementById("cam-strength");
  if (!cam || !canvas || !strength) return;
  const all = await values(cam.data);
  canvas.hidden = false;
  paintOver(canvas, all, cam, 0, strength.value / 100);
  document.getElementById("cam-bar").replaceChildren(colourBar(cam, all));
  strength.oninput = () => paintOver(canvas, all, cam, 0, strength.value / 100);
  if (!canvas.dataset.read) readable(canvas, all, cam, 0);
  canvas.dataset.read = "yes";
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  if (event.target.matches("input:not([type=range]):not([type=checkbox])")) return;
  const actions = {
    "/": () => { search.focus(); search.select(); },
    o: () => (location.hash = "#/"),
    t: switchTheme,
    "?": () => keys.showModal(),
    "[": () => step(-1),
    "]": () => step(1),
    Escape: hush,
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});

document.getElementById("theme").addEventListener("click", switchTheme);
document.getElementById("help").addEventListener("click", () => keys.showModal());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
document.getElementById("main").addEventListener("scroll", hush);
addEventListener("hashchange", route);
const all = document.getElementById("all-findings");
if (all) all.addEventListener("click", () => { document.getElementById("findings").classList.remove("long"); all.remove(); });
try {
  const stored = localStorage.getItem("hookline-theme");
  if (stored) root.dataset.theme = stored;
} catch {
  /* No storage: the system's theme. */
}
buildTree();
drawDepth(document.getElementById("depth"));
drawCam();
drawStages(document.getElementById("stages"));
drawNorms(document.getElementById("norms"));
drawAttention(document.getElementById("attention"));
route();
root.dataset.ready = "yes";
