/* How a skeleton in motion is drawn on a canvas: shared by the page of one clip and by the report. */
const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

/* arrays instead of the text that a page carries them as */
function unpackPanel(panel) {
  panel.x = new Int16Array(bytes(panel.x).buffer);
  panel.hidden = panel.hidden && bytes(panel.hidden);
  panel.drawn = panel.drawn && bytes(panel.drawn);
}

/* [right, up, towards the viewer] in metres from the panel's middle */
function seenFrom(state, x, y, z) {
  const cy = Math.cos(state.yaw), sy = Math.sin(state.yaw), cp = Math.cos(state.pitch), sp = Math.sin(state.pitch);
  const right = cy * x + sy * z, near = cy * z - sy * x;
  return [right, cp * y - sp * near, sp * y + cp * near];
}

/* one frame of a panel: that of state.share, from where state.yaw and state.pitch look; first: with its floor */
function drawPanel(scene, state, panel, canvas, first) {
  const J = scene.parents.length, seen = (x, y, z) => seenFrom(state, x, y, z);
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixels[0] || canvas.height !== pixels[1]) [canvas.width, canvas.height] = pixels;
  const style = getComputedStyle(document.documentElement), css = (name) => style.getPropertyValue(name).trim();
  const pen = canvas.getContext("2d"), zoom = height / (2 * scene.size), thick = Math.max(2.2, height / 95);
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const place = (p) => [width / 2 + p[0] * zoom, height / 2 - p[1] * zoom];
  const stroke = (a, b, colour, w) => {
    pen.strokeStyle = colour; pen.lineWidth = w; pen.lineCap = "round";
    pen.beginPath(); pen.moveTo(...place(a)); pen.lineTo(...place(b)); pen.stroke();
  };
  if (first) {
    const reach = scene.flat ? scene.size : Math.ceil(scene.size / 0.5) * 0.5, step = scene.flat ? 2 * reach : 0.5;
    for (let a = -reach; a <= reach + 1e-6; a += step) {
      if (!scene.flat) stroke(seen(a, scene.floor, -reach), seen(a, scene.floor, reach), css("--floor"), 1);
      if (!scene.flat) stroke(seen(-reach, scene.floor, a), seen(reach, scene.floor, a), css("--floor"), 1);
    }
    if (scene.flat) stroke(seen(-reach, scene.floor, 0), seen(reach, scene.floor, 0), css("--floor"), 1);
  }
  const frame = Math.round(state.share * (panel.frames - 1)), bones = [], dots = [];
  const token = panel.tokens ? Math.floor((frame * panel.tokens) / panel.frames) : 0;
  for (let m = 0; m < panel.bodies; m++) {
    const points = [], colours = scene.colours[m % scene.colours.length];
    const isHidden = (j) => panel.hidden && panel.hidden[(m * panel.tokens + token) * J + j];
    const isDrawn = (j) => !panel.drawn || panel.drawn[(m * panel.frames + frame) * J + j];
    for (let j = 0; j < J; j++) {
      const at = ((m * panel.frames + frame) * J + j) * 3;
      points.push(seen(panel.x[at] * panel.unit, panel.x[at + 1] * panel.unit, panel.x[at + 2] * panel.unit));
    }
    const there = points.filter((_, j) => isDrawn(j));
    if (there.every((p) => Math.abs(p[0]) * zoom > width / 2 || Math.abs(p[1]) * zoom > height / 2)) continue;
    for (let j = 0; j < J; j++) {
      if (!isDrawn(j)) continue;
      const parent = scene.parents[j], colour = colours[scene.sides[j]];
      dots.push({ at: points[j], colour, hidden: isHidden(j), size: scene.heads.includes(j) ? 2 : 1.1 });
      if (parent >= 0 && isDrawn(parent)) {
        const hidden = isHidden(j) || isHidden(parent);
        bones.push({ a: points[j], b: points[parent], colour, hidden, depth: points[j][2] + points[parent][2] });
      }
    }
  }
  bones.sort((p, q) => p.depth - q.depth);
  for (const bone of bones) {
    stroke(bone.a, bone.b, css("--paper"), 1.9 * thick);
    stroke(bone.a, bone.b, bone.hidden ? css("--hidden") : bone.colour, bone.hidden ? 0.35 * thick : thick);
  }
  for (const dot of dots.filter((d) => d.hidden).concat(dots.filter((d) => !d.hidden))) {
    pen.beginPath(); pen.arc(...place(dot.at), dot.size * thick * 0.75, 0, 2 * Math.PI);
    pen.fillStyle = dot.hidden ? css("--paper") : dot.colour; pen.fill();
    if (dot.hidden) { pen.strokeStyle = css("--hidden"); pen.lineWidth = 0.35 * thick; pen.stroke(); }
  }
}

/* calls moved(dx, dy), in radians, while a canvas is dragged */
function onDrag(canvas, moved) {
  let held = null;
  canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", (e) => {
    if (!held) return;
    moved((e.clientX - held[0]) * 0.01, (e.clientY - held[1]) * 0.01);
    held = [e.clientX, e.clientY];
  });
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = null; });
}

/* moves state.share from 0 to 1 in so many seconds; a button, a slider and the keys of an element control it */
function playback(state, seconds, frames, render, { play, time, keys }) {
  const jump = (share) => { state.playing = false; state.share = Math.min(1, Math.max(0, share)); };
  play.addEventListener("click", () => { state.playing = !state.playing; render(); });
  time.addEventListener("input", () => { jump(time.value / 1000); render(); });
  keys.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (["SELECT", "INPUT", "BUTTON"].includes(e.target.tagName) || (e.key !== " " && !step)) return;
    if (step) jump(state.share + step / frames); else state.playing = !state.playing;
    e.preventDefault(); render();
  });
  let before = null;
  function tick(now) {
    if (state.playing && before !== null) {
      state.share += ((now - before) / 1000 / seconds) * (state.speed || 1);
      if (state.share > 1) state.share = 0;
      render();
    }
    before = now;
    requestAnimationFrame(tick);
  }
  requestAnimationFrame(tick);
}
