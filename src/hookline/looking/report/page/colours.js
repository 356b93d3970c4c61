/* Colours of values: one map and one range for all cells of a picture; what has no place on the map is off it. */

const maps = Object.fromEntries(
  Object.entries(page.maps).map(([name, text]) => [name, Uint8Array.from(atob(text), (c) => c.charCodeAt(0))])
);
const { notFinite: NOT_FINITE, masked: MASKED, beyond: BEYOND } = page;

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/* Signed values: a map whose middle, at 0, has the brightness of the page. */
function mapOf(picture) {
  return picture.signed ? (isDark() ? "berlin" : "RdBu_r") : "viridis";
}

function colour(value, picture, name, out, at) {
  let rgb;
  if (!Number.isFinite(value)) rgb = NOT_FINITE;
  else if (picture.cell === "head" && value === 0) rgb = MASKED;
  else if (picture.high === picture.low) {
    if (value < picture.low) rgb = BEYOND[name].under;
    else if (value > picture.high) rgb = BEYOND[name].over;
    else return copy(maps[name], picture.signed ? 128 : 0, out, at);
  } else if (value < picture.low) rgb = BEYOND[name].under;
  else if (value > picture.high) rgb = BEYOND[name].over;
  else {
    const share = (value - picture.low) / (picture.high - picture.low);
    return copy(maps[name], Math.min(255, Math.floor(share * 256)), out, at);
  }
  out[at] = rgb[0];
  out[at + 1] = rgb[1];
  out[at + 2] = rgb[2];
  out[at + 3] = 255;
}

function copy(map, index, out, at) {
  out[at] = map[3 * index];
  out[at + 1] = map[3 * index + 1];
  out[at + 2] = map[3 * index + 2];
  out[at + 3] = 255;
}

/* Paint one cell, a pixel a value: the page enlarges it by whole factors, without smoothing. */
function paint(canvas, all, picture, cell) {
  const [, height, width] = picture.shape;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const name = mapOf(picture);
  const first = cell * height * width;
  for (let i = 0; i < height * width; i++) colour(all[first + i], picture, name, image.data, 4 * i);
  context.putImageData(image, 0, 0);
}

/* Paint a cell over a photo: its opacity is the size of the value, so where that is 0 the photo is as it was. */
function paintOver(canvas, all, picture, cell, strength) {
  const [, height, width] = picture.shape;
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const name = mapOf(picture);
  const most = Math.max(Math.abs(picture.low), Math.abs(picture.high)) || 1;
  const first = cell * height * width;
  for (let i = 0; i < height * width; i++) {
    const value = all[first + i];
    colour(value, picture, name, image.data, 4 * i);
    const size = Number.isFinite(value) ? Math.min(1, Math.abs(value) / most) : 1;
    image.data[4 * i + 3] = Math.round(255 * size * strength);
  }
  context.putImageData(image, 0, 0);
}

/* The colour bar of a picture, with what lies beyond it. */
function colourBar(picture, all) {
  let under = 0;
  let over = 0;
  let other = 0;
  for (const value of all) {
    if (!Number.isFinite(value)) other++;
    else if (value < picture.low) under++;
    else if (value > picture.high) over++;
  }
  const name = mapOf(picture);
  const strip = element("canvas", { role: "img", "aria-label": `colours from ${shown(picture.low)} to ${shown(picture.high)}` });
  strip.width = 256;
  strip.height = 1;
  const context = strip.getContext("2d");
  const image = context.createImageData(256, 1);
  for (let i = 0; i < 256; i++) copy(maps[name], i, image.data, 4 * i);
  context.putImageData(image, 0, 0);
  const end = (count, which) => !count ? null :
    element("span", { class: "end", title: `${count} values beyond` },
      element("i", { style: `background:rgb(${BEYOND[name][which].join(" ")})` }),
      `${count} ${which === "under" ? "below" : "above"}`);
  return element("div", { class: "colour-bar" },
    end(under, "under"),
    element("span", { class: "tick", text: shown(picture.low) }),
    strip,
    element("span", { class: "tick", text: shown(picture.high) }),
    end(over, "over"),
    picture.cell === "head" && all.includes(0) ? element("span", { class: "end" }, element("i", { style: `background:rgb(${MASKED.join(" ")})` }), "masked, exactly 0") : null,
    other ? element("span", { class: "end bad" }, element("i", { text: "×" }), `${other} not finite`) : null,
    element("span", { class: "muted map-name", text: name }));
}
