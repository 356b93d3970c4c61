/* A photo on its way through a model: for each size of feature map the last module, and the channels that vary most. */

const MOST_STAGES = 5;

function stagesOf(list) {
  const bySize = new Map();
  for (const site of list) {
    const picture = site.pictures[0];
    if (!picture || picture.kind !== "maps" || picture.cell !== "channel") continue;
    const size = picture.full.split(" x ").slice(-2).join(" x ");
    if (!bySize.has(size)) bySize.set(size, []);
    bySize.get(size).push(site);
  }
  // Of sizes that are nearly the same, padded ones among them, the one that most modules have.
  const common = new Map();
  for (const [size, some] of bySize) {
    const side = Math.min(...size.split(" x ").map(Number));
    const octave = Math.round(Math.log2(side));
    if (octave > 0 && (!common.has(octave) || common.get(octave).some.length < some.length)) common.set(octave, { size, some });
  }
  const stages = [...common].sort((a, b) => b[0] - a[0]).map(([, stage]) => stage).filter(({ some }) => some.length > 1);
  const every = Math.max(1, Math.ceil(stages.length / MOST_STAGES));
  return stages
    .filter((_, number) => number % every === 0)
    // What is not negative, the result of an activation, shows more than what goes into one.
    .map(({ size, some }) => [size, some.findLast((site) => !site.pictures[0].signed) || some[some.length - 1]]);
}

function variance(part) {
  let sum = 0;
  let squares = 0;
  let number = 0;
  for (const value of part) {
    if (!Number.isFinite(value)) continue;
    sum += value;
    squares += value * value;
    number++;
  }
  return number ? squares / number - (sum / number) ** 2 : 0;
}

async function drawStages(target) {
  if (!target || !photo) return;
  for (const old of target.querySelectorAll(".stage")) old.remove();
  for (const [size, site] of stagesOf(page.sites)) {
    const picture = site.pictures[0];
    const all = await values(picture.data);
    const cells = [...Array(picture.shape[0]).keys()]
      .map((cell) => [cell, variance(cellValues(picture, all, cell))])
      .sort((a, b) => b[1] - a[1])
      .slice(0, 4);
    const row = element("div", { class: "stage" },
      element("span", { class: "stage-name" }, element("a", { href: hashOf(site.path), text: site.path }), element("span", { class: "muted small", text: size })));
    for (const [cell] of cells) {
      const canvas = element("canvas", { role: "img", "aria-label": `${site.path}, ${sayCell(picture, all, cell)}` });
      paint(canvas, all, picture, cell);
      readable(canvas, all, picture, cell);
      canvas.addEventListener("click", () => { chosenCell = cell; location.hash = hashOf(site.path); });
      row.append(canvas);
    }
    target.append(row);
  }
  target.hidden = !target.querySelector(".stage");
}
