"use strict";
// NiiVue draws; this page chooses what, and in which style. Nothing comes from elsewhere.

const $ = (id) => document.getElementById(id);
const viewer = new niivue.Niivue({
  clipPlaneHotKey: "",
  crosshairColor: [0.3, 0.75, 1, 1],
  crosshairGap: 10,
  crosshairWidthUnit: "percent",
  cycleClipPlaneHotKey: "",
  dragAndDropEnabled: false,
  fontColor: [0.75, 0.8, 0.84, 1],
  isRadiologicalConvention: true,
  loadingText: "",
  logLevel: "error",
  sagittalNoseLeft: true,
  showAllOrientationMarkers: true,
  viewModeHotKey: "",
});
// What a person drew is plain. What a model filled in or predicts has outlines, which NiiVue has for its "drawing" alone.
const INSIDE = { filled: 0.5, prediction: 0.02 }; // part of the opacity inside of the outlines
const state = { album: null, number: 0, info: null, axis: 2, volumes: [], outlined: null, hidden: new Set(), off: false };
let asked = 0;

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

function fail(error) {
  $("note").textContent = error.message;
  $("note").className = "error";
  document.body.dataset.shown = "error";
}

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const known = (value) => (value === state.album.values.union ? state.album.union : state.album.classes[value]);
const uncertain = (plane) => state.info.layers[plane - 1]?.kind === "uncertainty"; // plane 0 is the image

// ---- images ----

function listCases() {
  const wanted = $("filter").value.toLowerCase();
  $("cases").replaceChildren(...state.album.cases.flatMap(({ name, note, marked }, number) => {
    if (!`${name} ${note}`.toLowerCase().includes(wanted)) return [];
    const button = element("button", { className: marked ? "marked" : "", onclick: () => openCase(number) }, name);
    if (note) button.append(element("small", {}, note));
    button.setAttribute("aria-current", number === state.number);
    return [element("li", {}, button)];
  }));
}

async function openCase(number, structure) {
  const entry = state.album.cases[number];
  if (!entry) return;
  const request = ++asked;
  Object.assign(state, { number, info: null, volumes: [], outlined: null });
  history.replaceState(null, "", `#${number + 1}`);
  listCases();
  document.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
  $("note").textContent = `${entry.name}: reading ...`;
  $("note").className = $("place").textContent = "";
  viewer.closeDrawing();
  viewer.volumes.slice().forEach((volume) => viewer.removeVolume(volume));
  try {
    const info = await (await ask(`case/${number}`)).json();
    const volumes = await Promise.all([null, ...info.layers].map(async (_, plane) => {
      const file = await (await ask(`case/${number}/${plane}.nii`)).arrayBuffer();
      return niivue.NVImage.loadFromUrl({ url: file, name: `${plane}.nii`, colormap: "gray" });
    }));
    if (request !== asked) return; // another image was asked for meanwhile
    Object.assign(state, { info, volumes });
    showLayers();
    const spacing = volumes[0].pixDimsRAS.slice(1, 4).map((size) => Math.round(size * 100));
    const thickest = spacing.indexOf(Math.max(...spacing)); // slices are thicker than their pixels are wide
    $("plane").value = spacing.every((size) => size === spacing[0]) ? 2 : thickest;
    const frames = Math.max(...volumes.map((volume) => volume.nFrame4D));
    $("frames").hidden = frames < 2;
    $("frame").max = frames - 1;
    $("frame").value = 0;
    showWindow();
    showPlane();
    showFrame();
    goTo(info.start);
    $("note").textContent = entry.note ? `${entry.name}: ${entry.note}` : entry.name;
    if (structure) await showStructure(structure);
  } catch (error) {
    if (request === asked) fail(error);
  }
}

function openPlace() { // #3/RV: RV in the third image
  const [, first, structure] = decodeURIComponent(location.hash).match(/^#(\d+)\/?(.*)/) ?? [];
  openCase(state.album.cases[first - 1] ? first - 1 : 0, structure);
}

function showLayers() {
  const { info, volumes } = state;
  const lut = new Uint8ClampedArray(4 * 256);
  for (let value = 1; value < 256; value++) {
    const colour = known(value)?.colour;
    if (colour) lut.set([...[1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16)), 255], 4 * value);
  }
  // NiiVue shows the first colours of many like the third: four that never occur come first
  const shifted = { lut: new Uint8ClampedArray([...Array(4 * 4).fill(0), ...lut]), min: -4, max: 255 };
  state.outlined = volumes.find((_, plane) => info.layers[plane - 1]?.kind in INSIDE);
  volumes.forEach((volume, plane) => {
    if (uncertain(plane)) volume.colormap = "redyell";
    else if (plane) volume.colormapLabel = shifted;
    if (volume !== state.outlined) viewer.addVolume(volume);
  });
  if (state.outlined) {
    viewer.createEmptyDrawing();
    viewer.drawRimOpacity = 1;
    viewer.drawLut = { lut, labels: [] };
  }
  $("layers").replaceChildren(...info.layers.map(({ kind, title }, place) => {
    const box = element("input", { type: "checkbox", checked: !state.hidden.has(title) });
    box.onchange = () => {
      state.hidden[box.checked ? "delete" : "add"](title);
      fade();
    };
    const most = uncertain(place + 1) ? ` (up to ${volumes[place + 1].cal_max.toPrecision(2)})` : "";
    return element("label", {}, box, element("span", { className: `swatch ${kind}` }), title + most);
  }));
  fade();
}

function fade() {
  const opacity = Number($("opacity").value);
  state.info?.layers.forEach(({ kind, title }, place) => {
    const volume = state.volumes[place + 1], shown = state.off || state.hidden.has(title) ? 0 : opacity;
    if (volume === state.outlined) viewer.setDrawOpacity(shown * INSIDE[kind]);
    else if (volume.opacity !== shown) viewer.setOpacity(viewer.volumes.indexOf(volume), shown);
  });
  showCross();
}

function showCross() {
  viewer.setCrosshairWidth(state.off ? 0 : 0.4 / $("zoom").value);
}

// ---- where ----

// NiiVue turns files of any orientation: its voxels go to the right, to the front and up
const turned = (place, axis) => {
  const { dimsRAS, permRAS } = state.volumes[0];
  return permRAS[axis] < 0 ? dimsRAS[axis + 1] - 1 - place : place;
};
const axisInFile = (axis) => Math.abs(state.volumes[0].permRAS[axis]) - 1;

function goTo(voxel) {
  viewer.scene.crosshairPos = viewer.vox2frac([0, 1, 2].map((axis) => turned(voxel[axisInFile(axis)], axis)));
  zoom();
  viewer.createOnLocationChange();
}

function step(count) {
  if (state.info) viewer.moveCrosshairInVox(...[0, 1, 2].map((axis) => (axis === state.axis ? count : 0)));
}

async function showStructure(name) {
  const { classes, union, values } = state.album;
  const value = name === union.name ? values.union : classes.findIndex((entry) => entry.name === name);
  if (value < 1 || !state.info) return;
  const request = asked, voxel = await (await ask(`case/${state.number}/where/${value}`)).json();
  if (request !== asked) return;
  history.replaceState(null, "", `#${state.number + 1}/${encodeURIComponent(name)}`);
  goTo(voxel);
}

function showPlane() {
  state.axis = Number($("plane").value);
  const main = 2 - state.axis; // NiiVue counts axial, coronal, sagittal
  const [above, below] = [0, 1, 2].filter((type) => type !== main);
  viewer.setCustomLayout([
    { sliceType: main, position: [0, 0, 0.68, 1] },
    { sliceType: above, position: [0.68, 0, 0.32, 0.5] },
    { sliceType: below, position: [0.68, 0.5, 0.32, 0.5] },
  ]);
  if (!state.info) return;
  $("slice").max = state.volumes[0].dimsRAS[state.axis + 1] - 1;
  viewer.createOnLocationChange();
}

function showFrame() {
  const { info, outlined, volumes } = state;
  if (!info) return;
  for (const volume of volumes) volume.frame4D = Math.min(Number($("frame").value), volume.nFrame4D - 1);
  if (outlined) {
    const { frame4D, nVox3D } = outlined, bytes = outlined.img2RAS(frame4D); // of all frames if nothing is turned
    viewer.drawBitmap.set(bytes.length > nVox3D ? bytes.subarray(frame4D * nVox3D, (frame4D + 1) * nVox3D) : bytes);
    viewer.refreshDrawing(false);
  }
  viewer.updateGLVolume();
  viewer.createOnLocationChange();
}

function zoom() { // the cross stays where it is
  const factor = Number($("zoom").value), [x, y, z] = viewer.frac2mm(viewer.scene.crosshairPos);
  viewer.setPan2Dxyzmm([...[x, y, z].map((mm) => mm * (1 - factor)), factor]);
  showCross();
}

function showWindow() {
  const [image] = state.volumes;
  if (image) [$("black").value, $("white").value] = [image.cal_min, image.cal_max].map((grey) => Number(grey.toPrecision(4)));
}

viewer.onIntensityChange = showWindow;
viewer.onLocationChange = ({ vox }) => {
  const { info, axis, volumes } = state;
  if (!info) return;
  const inFile = [];
  vox.forEach((place, other) => { inFile[axisInFile(other)] = turned(place, other) + 1; });
  const words = volumes.map((volume, plane) => {
    const value = volume.getValue(...vox, volume.frame4D);
    if (!plane) return `grey value ${Number(value.toPrecision(4))}`;
    const { kind, title } = info.layers[plane - 1];
    const name = known(value)?.name ?? (kind === "filled" ? "as drawn" : "not annotated");
    return `${title}: ${uncertain(plane) ? Number(value.toPrecision(2)) : name}`;
  });
  const slice = turned(vox[axis], axis) + 1, frame = Number($("frame").value) + 1;
  if (!$("frames").hidden) words.unshift(`frame ${frame} of ${Number($("frame").max) + 1}`);
  words.unshift(`slice ${slice} of ${volumes[0].dimsRAS[axis + 1]}`, `voxel ${inFile.join(", ")}`);
  $("place").textContent = words.join(" · ");
  $("slice").value = vox[axis];
  document.body.dataset.shown = [state.number, axis, slice - 1, frame - 1].join("/");
};

// ---- controls ----

$("filter").oninput = listCases;
$("opacity").oninput = fade;
$("plane").onchange = showPlane;
$("slice").oninput = () => step(Number($("slice").value) - viewer.frac2vox(viewer.scene.crosshairPos)[state.axis]);
$("frame").oninput = showFrame;
$("zoom").oninput = zoom;
$("voxels").onchange = () => viewer.setInterpolation($("voxels").checked);
$("black").onchange = $("white").onchange = () => {
  if (!state.info) return;
  Object.assign(state.volumes[0], { cal_min: Number($("black").value), cal_max: Number($("white").value) });
  viewer.updateGLVolume();
};
$("picture").addEventListener("mouseup", showWindow);
const { crosshair, pan, windowing } = niivue.DRAG_MODE;
viewer.setMouseEventConfig({ leftButton: { primary: crosshair, withShift: pan }, rightButton: windowing, centerButton: pan });
document.addEventListener("keydown", (event) => { // before NiiVue, which has other keys
  if (["INPUT", "SELECT"].includes(event.target.tagName) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.stopPropagation();
  const action = {
    ArrowUp: () => step(1),
    ArrowDown: () => step(-1),
    ArrowLeft: () => openCase(state.number - 1),
    ArrowRight: () => openCase(state.number + 1),
    " ": () => {
      state.off = !state.off;
      fade();
    },
  }[event.key];
  if (!action) return;
  event.preventDefault();
  action();
}, true);

(async () => {
  try {
    if (!document.createElement("canvas").getContext("webgl2")) {
      throw new Error("This browser shows no WebGL 2: use a current Firefox, Chrome or Edge, and turn on its graphics acceleration.");
    }
    state.album = await (await ask("album")).json();
    await viewer.attachToCanvas($("picture"));
  } catch (error) {
    fail(error);
    return;
  }
  document.title = $("title").textContent = state.album.title;
  $("legend").replaceChildren(...[...state.album.classes.slice(1), state.album.union].map(({ name, colour }) => {
    const swatch = element("span", { className: "swatch" });
    swatch.style.setProperty("--colour", colour);
    return element("li", {}, element("button", { onclick: () => showStructure(name).catch(fail) }, swatch, name));
  }));
  window.onhashchange = openPlace;
  openPlace();
})();
