// Runs a page's script on a canvas that only remembers what is drawn, and prints what came of it as JSON.
"use strict";
const fs = require("fs"), vm = require("vm");
const html = fs.readFileSync(process.argv[2], "utf8");
const scene = html.match(/<script type="application\/json" id="scene">([\s\S]*?)<\/script>/)[1];
const script = html.match(/<script>\n([\s\S]*?)<\/script>/)[1];
const vars = { "--paper": "#fff", "--floor": "#eee", "--hidden": "#999" };
const canvases = [], ids = {}, frames = [];

function element(tag) {
  const self = { tagName: tag.toUpperCase(), style: {}, children: [], heard: {}, textContent: "", value: "" };
  self.append = (...more) => self.children.push(...more);
  self.addEventListener = (name, f) => { self.heard[name] = f; };
  self.setPointerCapture = () => {};
  if (tag === "canvas") {
    Object.assign(self, { clientWidth: 400, clientHeight: 200, dots: [], rings: 0, pointers: [] });
    let at = null, corner = null, style = {};
    const pen = {
      setTransform() {}, moveTo() { at = null; }, lineTo(x, y) { corner = [x, y]; }, beginPath() { at = corner = null; },
      clearRect() { self.dots = []; self.rings = 0; self.pointers = []; },
      arc(x, y) { at = [x, y]; },
      fill() { if (at) self.dots.push(at); else self.pointers.push(corner); },
      stroke() { if (at) self.rings += 1; },
    };
    self.getContext = () => new Proxy(pen, { set: (_, key, value) => { style[key] = value; return true; } });
    canvases.push(self);
  }
  return self;
}
const document = {
  documentElement: {}, title: "", createElement: element, addEventListener() {},
  getElementById: (id) => (id === "scene" ? { textContent: scene } : (ids[id] = ids[id] || element("div"))),
};
vm.runInNewContext(script, {
  document, window: { devicePixelRatio: 1, addEventListener() {} },
  ResizeObserver: class { constructor(f) { this.f = f; } observe(canvas) { canvas.resized = this.f; } },
  getComputedStyle: () => ({ getPropertyValue: (name) => vars[name] }),
  atob: (text) => Buffer.from(text, "base64").toString("binary"),
  requestAnimationFrame: (f) => frames.push(f),
});

const playing = ids.play.textContent;
ids.time.heard.input({ target: { value: "500" } });
const paused = ids.play.textContent, dots = canvases.map((c) => c.dots);
const hidden = canvases.reduce((sum, c) => sum + c.rings, 0), clock = ids.clock.textContent;
frames.shift()(0);
ids.play.heard.click();
frames.shift()(200);
const moved = ids.clock.textContent !== clock;
ids.time.heard.input({ target: { value: "500" } });
canvases[1].heard.pointerdown({ clientX: 0, clientY: 0, pointerId: 1 });
canvases[1].heard.pointermove({ clientX: 90, clientY: 0 });
const turned = canvases[0].dots.some((dot, i) => Math.abs(dot[0] - dots[0][i][0]) > 2);
ids.reset.heard.click();
const back = canvases[0].dots.every((dot, i) => Math.abs(dot[0] - dots[0][i][0]) < 1e-6);
for (const canvas of canvases) { canvas.clientHeight = 300; canvas.resized(); } // only the height
const undistorted = canvases.every((c) => c.width === c.clientWidth && c.height === c.clientHeight);
const legend = ids.legend.children.map((entry) => entry.children[1]);
console.log(JSON.stringify({
  title: document.title, canvases: canvases.length, dots, hidden, paused, playing, moved, turned: turned && back, legend,
  undistorted, pointers: canvases.map((c) => c.pointers),
}));
