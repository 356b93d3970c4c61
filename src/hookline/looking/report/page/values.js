"use strict";

/* The values of the pictures: 24 bits each, in planes of bytes, deflated, base64. Read when they are first looked at. */

const page = JSON.parse(document.getElementById("page").textContent);
const read = new Map();

function values(number) {
  if (!read.has(number)) read.set(number, decode(document.getElementById(`v${number}`).textContent));
  return read.get(number);
}

async function decode(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const count = planes.length / 3;
  const bits = new Uint32Array(count);
  for (let i = 0; i < count; i++) {
    bits[i] = (planes[i] << 24) | (planes[count + i] << 16) | (planes[2 * count + i] << 8);
  }
  return new Float32Array(bits.buffer);
}

/* Four digits: of 24 bits a fifth would not be right. */
function shown(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(3) : String(Number(value.toPrecision(4)));
  return text.replace("-", "−");
}

function percent(share) {
  if (share === null || share === undefined) return "–";
  if (share === 0 || share === 1) return `${100 * share} %`;
  if (share < 0.001) return "< 0.1 %";
  if (share > 0.999) return "> 99.9 %";
  return `${(100 * share).toFixed(1)} %`;
}

/* Where a value lies in its tensor, e.g. [0, 12, 34, 56]. */
function place(picture, cell, y, x) {
  const at = { c: picture.channels[cell], y: y * picture.step[0], x: x * picture.step[1] };
  return `[${picture.index.map((axis) => (typeof axis === "string" ? at[axis] : axis)).join(", ")}]`;
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}
