/* The little sign beside the pointer that says the value under it. */

const probe = document.getElementById("probe");

function say(lines, x, y) {
  probe.replaceChildren(...lines.map((line, number) => element(number ? "span" : "strong", { text: line })));
  probe.hidden = false;
  const box = probe.getBoundingClientRect();
  const left = x + 16 + box.width > innerWidth ? x - box.width - 12 : x + 16;
  const top = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
  probe.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

function hush() {
  probe.hidden = true;
}

function described(picture, all, cell, y, x) {
  const [, height, width] = picture.shape;
  const value = all[cell * height * width + y * width + x];
  const beyond = value < picture.low ? ", below the range" : value > picture.high ? ", above the range" : "";
  const lines = [shown(value) + beyond];
  if (picture.kind === "maps") lines.push(`${picture.cell} ${picture.channels[cell]}`);
  if (picture.tokens && picture.kind === "maps") lines.push(`${page.tokens[y]} → ${page.tokens[x]}`);
  if (picture.tokens && picture.kind === "matrix") lines.push(`token ${page.tokens[y]}`);
  if (picture.columns) lines.push(`norm after ${picture.columns[x]}`);
  else lines.push(place(picture, cell, y, x));
  return lines;
}

/* Let the pointer, or the arrow keys, read the values of a canvas with a pixel a value. */
function readable(canvas, all, picture, cell) {
  const [, height, width] = picture.shape;
  let at = { x: 0, y: 0 };
  const tell = (x, y) => say(described(picture, all, cell, at.y, at.x), x, y);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    at = {
      x: Math.max(0, Math.min(width - 1, Math.floor(((event.clientX - box.left) / box.width) * width))),
      y: Math.max(0, Math.min(height - 1, Math.floor(((event.clientY - box.top) / box.height) * height))),
    };
    tell(event.clientX, event.clientY);
  });
  canvas.addEventListener("pointerleave", hush);
  canvas.addEventListener("blur", hush);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    at = { x: Math.max(0, Math.min(width - 1, at.x + step[0])), y: Math.max(0, Math.min(height - 1, at.y + step[1])) };
    const box = canvas.getBoundingClientRect();
    tell(box.left + ((at.x + 0.5) / width) * box.width, box.top + ((at.y + 0.5) / height) * box.height);
  });
}
