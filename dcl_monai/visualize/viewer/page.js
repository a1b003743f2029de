"use strict";
// Shows the slices that the server sends: bytes of the image, then of each layer. Nothing comes from elsewhere.

const $ = (id) => document.getElementById(id);
const HATCH = 6; // screen pixels between the stripes of filled labels
const state = { album: null, number: 0, info: null, axis: 2, index: 0, frame: 0, slices: null, hidden: new Set(), off: false };
let asked = 0;

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

function rgb(colour) {
  return [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));
}

function colourOf(value) {
  const { classes, union, values } = state.album;
  if (value === values.union) return rgb(union.colour);
  return value > 0 && value < classes.length ? rgb(classes[value].colour) : null;
}

function nameOf(value) {
  const { classes, union, values } = state.album;
  if (value === values.nothing) return "not annotated";
  return value === values.union ? union.name : classes[value].name;
}

// ---- images ----

function fail(error) {
  $("note").textContent = error.message;
  $("note").className = "error";
  document.body.dataset.shown = "error";
}

function listCases() {
  const wanted = $("filter").value.toLowerCase();
  const list = $("cases");
  list.replaceChildren();
  state.album.cases.forEach((entry, number) => {
    if (!`${entry.name} ${entry.note}`.toLowerCase().includes(wanted)) return;
    const button = document.createElement("button");
    button.textContent = entry.name;
    if (entry.marked) button.className = "marked";
    if (entry.note) {
      const note = document.createElement("small");
      note.textContent = entry.note;
      button.append(note);
    }
    button.setAttribute("aria-current", number === state.number);
    button.onclick = () => openCase(number);
    const row = document.createElement("li");
    row.append(button);
    list.append(row);
  });
}

async function openCase(number) {
  if (number < 0 || number >= state.album.cases.length) return;
  const request = ++asked;
  state.number = number;
  state.info = state.slices = null;
  history.replaceState(null, "", `#${number + 1}`);
  listCases();
  const current = document.querySelector('[aria-current="true"]');
  if (current) current.scrollIntoView({ block: "nearest" });
  const entry = state.album.cases[number];
  $("note").textContent = `${entry.name}: reading ...`;
  $("note").className = "";
  $("place").textContent = "";
  $("picture").width = $("picture").height = 0;
  try {
    const info = await (await ask(`case/${number}`)).json();
    if (request !== asked) return;
    state.info = info;
  } catch (error) {
    if (request === asked) fail(error);
    return;
  }
  $("note").textContent = entry.note ? `${entry.name}: ${entry.note}` : entry.name;
  const spacing = state.info.spacing.map((size) => Math.round(size * 100) / 100);
  const thickest = spacing.indexOf(Math.max(...spacing)); // slices are thicker than their pixels are wide
  state.axis = spacing.every((size) => size === spacing[0]) ? 2 : thickest;
  state.frame = 0;
  $("plane").value = state.axis;
  $("frames").hidden = state.info.shape[3] < 2;
  $("frame").max = state.info.shape[3] - 1;
  $("frame").value = 0;
  listLayers();
  turn();
}

function turn() {
  $("slice").max = state.info.shape[state.axis] - 1;
  show(state.info.start[state.axis]);
}

async function show(index) {
  const { info, axis } = state;
  if (!info) return;
  index = Math.max(0, Math.min(info.shape[axis] - 1, index));
  state.index = index;
  $("slice").value = index;
  const request = ++asked;
  try {
    const bytes = new Uint8Array(await (await ask(`slice/${state.number}/${axis}/${index}/${state.frame}`)).arrayBuffer());
    if (request !== asked) return; // another slice was asked for meanwhile
    const [columns, rows] = [0, 1, 2].filter((other) => other !== axis);
    const width = info.shape[columns], height = info.shape[rows], size = width * height;
    const planes = info.layers.map((_, layer) => bytes.subarray((layer + 1) * size, (layer + 2) * size));
    const aspect = info.spacing[rows] / info.spacing[columns];
    state.slices = { width, height, aspect, image: bytes.subarray(0, size), planes };
    draw();
    tell();
    document.body.dataset.shown = `${state.number}/${axis}/${index}/${state.frame}`;
  } catch (error) {
    if (request === asked) fail(error);
  }
}

// ---- drawing ----

function draw() {
  if (!state.slices) return;
  const { width, height, aspect, image, planes } = state.slices;
  const room = $("stage").getBoundingClientRect();
  const zoom = Math.max(0.1, Math.min(room.width / width, room.height / (height * aspect)));
  const w = Math.max(1, Math.floor(width * zoom)), h = Math.max(1, Math.floor(height * aspect * zoom));
  const canvas = $("picture");
  canvas.width = w;
  canvas.height = h;
  const context = canvas.getContext("2d");
  const picture = context.createImageData(w, h);
  const pixels = picture.data;
  const gain = $("contrast").value / 100, shift = 127.5 + Number($("brightness").value);
  const opacity = $("opacity").value / 100;
  const colours = Array.from({ length: 256 }, (_, value) => colourOf(value));
  const layers = state.off ? [] : state.info.layers.map((layer, place) => ({ ...layer, plane: planes[place], place }))
    .filter((layer) => !state.hidden.has(layer.title));
  const drawn = state.info.layers.findIndex((layer) => layer.kind === "drawn");
  const known = drawn < 0 ? null : planes[drawn];
  const nothing = state.album.values.nothing;
  const xs = Array.from({ length: w }, (_, x) => Math.min(width - 1, Math.floor((x * width) / w)));
  const ys = Array.from({ length: h }, (_, y) => Math.min(height - 1, Math.floor((y * height) / h)));
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const voxel = ys[y] * width + xs[x], at = 4 * (y * w + x);
      const grey = (image[voxel] - 127.5) * gain + shift;
      let red = grey, green = grey, blue = grey;
      const blend = (colour, part) => {
        red += (colour[0] - red) * part;
        green += (colour[1] - green) * part;
        blue += (colour[2] - blue) * part;
      };
      for (const layer of layers) {
        const value = layer.plane[voxel];
        if (layer.kind === "uncertainty") {
          if (value > 12) blend(heat(value), opacity * Math.min(1, value / 128));
          continue;
        }
        if (layer.kind === "filled" && known && known[voxel] !== nothing) continue;
        const colour = colours[value];
        if (!colour) continue;
        if (layer.kind === "drawn") blend(colour, opacity);
        else if (layer.kind === "filled") blend(colour, (x + y) % HATCH < HATCH / 2 ? Math.min(1, opacity * 1.5) : opacity * 0.3);
        else if (edge(layer.plane, value, x, y)) blend(colour, Math.min(1, opacity * 2));
      }
      pixels[at] = red;
      pixels[at + 1] = green;
      pixels[at + 2] = blue;
      pixels[at + 3] = 255;
    }
  }
  context.putImageData(picture, 0, 0);

  function edge(plane, value, x, y) { // within two screen pixels of a voxel of another value
    const row = ys[y] * width;
    return plane[row + xs[Math.max(0, x - 2)]] !== value || plane[row + xs[Math.min(w - 1, x + 2)]] !== value ||
      plane[ys[Math.max(0, y - 2)] * width + xs[x]] !== value || plane[ys[Math.min(h - 1, y + 2)] * width + xs[x]] !== value;
  }
}

function heat(value) {
  return [255, Math.max(0, 2 * (value - 96)), Math.max(0, 40 - value / 4)];
}

function tell(event) {
  const { slices, info } = state;
  if (!slices) return;
  let words = `slice ${state.index + 1} of ${info.shape[state.axis]}`;
  if (info.shape[3] > 1) words += `, frame ${state.frame + 1} of ${info.shape[3]}`;
  if (event) {
    const box = $("picture").getBoundingClientRect();
    const x = Math.floor(((event.clientX - box.left) / box.width) * slices.width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * slices.height);
    if (x < 0 || y < 0 || x >= slices.width || y >= slices.height) return;
    info.layers.forEach((layer, place) => {
      const value = slices.planes[place][y * slices.width + x];
      const text = layer.kind === "uncertainty" ? ((value / 255) * layer.largest).toPrecision(2) : nameOf(value);
      words += ` · ${layer.title}: ${text}`;
    });
  }
  $("place").textContent = words;
}

// ---- layers and legend ----

function swatch(colour, kind) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 14;
  const context = canvas.getContext("2d");
  context.fillStyle = context.strokeStyle = colour;
  if (kind === "prediction") {
    context.lineWidth = 3;
    context.strokeRect(1.5, 1.5, 11, 11);
  } else if (kind === "filled") {
    context.lineWidth = 2;
    for (let place = -14; place < 28; place += 5) {
      context.beginPath();
      context.moveTo(place, 14);
      context.lineTo(place + 14, 0);
      context.stroke();
    }
  } else context.fillRect(0, 0, 14, 14);
  return canvas;
}

function listLayers() {
  $("layers").replaceChildren(...state.info.layers.map((layer) => {
    const label = document.createElement("label"), box = document.createElement("input");
    box.type = "checkbox";
    box.checked = !state.hidden.has(layer.title);
    box.onchange = () => {
      state.hidden[box.checked ? "delete" : "add"](layer.title);
      draw();
    };
    const most = layer.kind === "uncertainty" ? ` (up to ${layer.largest.toPrecision(2)})` : "";
    label.append(box, swatch(layer.kind === "uncertainty" ? "#ff5010" : "#c8ced4", layer.kind), layer.title + most);
    return label;
  }));
}

function listClasses() {
  const { classes, union } = state.album;
  const entries = [...classes.slice(1), union];
  $("legend").replaceChildren(...entries.map((entry) => {
    const row = document.createElement("li");
    row.append(swatch(entry.colour, "drawn"), entry.name);
    return row;
  }));
}

// ---- controls ----

$("filter").oninput = listCases;
$("plane").onchange = () => {
  state.axis = Number($("plane").value);
  if (state.info) turn();
};
$("slice").oninput = () => show(Number($("slice").value));
$("frame").oninput = () => {
  state.frame = Number($("frame").value);
  show(state.index);
};
for (const id of ["brightness", "contrast", "opacity"]) $(id).oninput = draw;
window.onresize = draw;
$("picture").onmousemove = tell;
$("stage").addEventListener("wheel", (event) => {
  event.preventDefault();
  show(state.index + Math.sign(event.deltaY));
}, { passive: false });
document.onkeydown = (event) => {
  if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
  const steps = {
    ArrowUp: () => show(state.index + 1),
    ArrowDown: () => show(state.index - 1),
    ArrowLeft: () => openCase(state.number - 1),
    ArrowRight: () => openCase(state.number + 1),
    " ": () => {
      state.off = !state.off;
      draw();
    },
  };
  if (!steps[event.key]) return;
  event.preventDefault();
  steps[event.key]();
};

(async () => {
  try {
    state.album = await (await ask("album")).json();
  } catch (error) {
    fail(error);
    return;
  }
  document.title = $("title").textContent = state.album.title;
  listClasses();
  const first = parseInt(location.hash.slice(1), 10);
  await openCase(first >= 1 && first <= state.album.cases.length ? first - 1 : 0);
})();
