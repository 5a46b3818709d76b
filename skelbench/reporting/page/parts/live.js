const byId = (id) => document.getElementById(id);
const runs = new Map(), cards = new Map();
let boot = "", tick = 0, wait = 2000;

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = String(text);
  if (className) element.className = className;
  return element;
}
const duration = (seconds) => {
  const whole = Math.round(seconds), h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60, s = whole % 60;
  return h ? `${h}:${String(m).padStart(2, "0")}:${String(s).padStart(2, "0")}` : `${m}:${String(s).padStart(2, "0")}`;
};
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const open = (state) => !["done", "failed", "diverged", "interrupted"].includes(state);

/* one line over the clips seen; where all of it is above 0 on a log axis */
function sketch(canvas, line) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, pen = canvas.getContext("2d");
  canvas.width = width * ratio; canvas.height = height * ratio;
  pen.scale(ratio, ratio);
  const [x, raw] = line, log = raw.every((y) => y === null || y > 0), y = raw.map((v) => (v === null ? null : log ? Math.log(v) : v));
  const seen = y.filter((v) => v !== null), low = Math.min(...seen), high = Math.max(...seen), span = high - low || 1, end = x[x.length - 1] || 1;
  pen.strokeStyle = css("--line"); pen.beginPath(); pen.moveTo(0, height - 0.5); pen.lineTo(width, height - 0.5); pen.stroke();
  pen.strokeStyle = css("--accent"); pen.lineWidth = 1.6; pen.lineJoin = "round"; pen.beginPath();
  let up = false;
  y.forEach((v, i) => {
    if (v === null) { up = false; return; }
    const at = [2 + (x[i] / end) * (width - 4), 4 + (1 - (v - low) / span) * (height - 10)];
    if (up) pen.lineTo(...at); else pen.moveTo(...at);
    up = true;
  });
  pen.stroke();
}

function card(run) {
  const box = make("article", null, "card"), name = byId("figure").value, line = run.lines[name];
  box.append(make("span", run.state, `state ${run.state === "probing" ? "running" : run.state}`));
  box.append(make("h3", `${run.title}, ${run.tokens} tokens, seed ${run.seed}`), make("div", `${run.data}, preset ${run.preset}`, "pale"));
  const meter = make("div", null, "meter"), bar = make("i"), share = Math.round(100 * run.share);
  meter.setAttribute("role", "progressbar"); meter.setAttribute("aria-valuenow", share); meter.setAttribute("aria-label", "trained");
  bar.style.width = `${share}%`; meter.append(bar); box.append(meter);
  const facts = [`${share} %`, `${Number(run.clips).toLocaleString("en")} clips`];
  if (run.rate && open(run.state)) facts.push(`${run.rate} clips/s`);
  if (run.left) facts.push(`${duration(run.left)} left`);
  box.append(make("div", facts.join(" · "), "pale"));
  if (run.reason) box.append(make("div", run.reason));
  if (line && line[0].length) {
    const canvas = make("canvas"), values = line[1].filter((v) => v !== null);
    canvas.setAttribute("role", "img"); canvas.setAttribute("aria-label", `${name} over clips seen`);
    box.append(canvas, make("div", `${name} ${values[values.length - 1]}, lowest ${Math.min(...values)}, highest ${Math.max(...values)}`, "pale"));
    requestAnimationFrame(() => sketch(canvas, line));
  }
  const found = Object.entries(run.accuracies).map(([protocol, value]) => `${protocol} ${value.toFixed(1)} %`);
  if (found.length) box.append(make("div", found.join(" · ")));
  return box;
}

function show() {
  const order = [...runs.values()].sort((a, b) => open(b.state) - open(a.state) || b.created - a.created);
  const only = byId("which").value === "open";
  byId("cards").replaceChildren(...order.filter((run) => !only || open(run.state)).map((run) => cards.get(run.name) || cards.set(run.name, card(run)).get(run.name)));
  byId("none").hidden = runs.size > 0;
}
function figures() {
  const names = [...new Set([...runs.values()].flatMap((run) => Object.keys(run.lines)))], select = byId("figure"), chosen = select.value || "loss";
  names.sort((a, b) => (b === "loss") - (a === "loss") || b.startsWith("rank") - a.startsWith("rank") || a.localeCompare(b));
  if (names.join() === [...select.options].map((option) => option.value).join()) return;
  select.replaceChildren(...names.map((name) => { const option = make("option", name); option.value = name; option.selected = name === chosen; return option; }));
  cards.clear();
}
function studies(found) {
  byId("studies").hidden = !found.length;
  byId("studies").querySelector("div").replaceChildren(...found.map((study) => {
    const box = make("details", null, "table"), counts = {};
    for (const trial of study.trials) counts[trial.state] = (counts[trial.state] || 0) + 1;
    box.open = study.trials.some((trial) => open(trial.state));
    box.append(make("summary", `${study.name}: ${study.trials.length} trials, ${Object.entries(counts).map(([state, n]) => `${n} ${state}`).join(", ")}`));
    const scroll = make("div", null, "scroll"), table = make("table"), body = make("tbody"), head = make("tr");
    for (const name of ["", "Trial", "State", "Trained"]) { const th = make("th", name); th.scope = "col"; head.append(th); }
    const top = make("thead"); top.append(head);
    study.trials.forEach((trial, i) => {
      const row = make("tr");
      row.append(make("td", i + 1), make("td", trial.title), make("td", trial.state), make("td", `${Math.round(100 * trial.share)} %`, "number"));
      body.append(row);
    });
    table.append(top, body); scroll.append(table); box.append(scroll);
    return box;
  }));
}

async function poll() {
  try {
    const answer = await fetch(`/state.json?boot=${encodeURIComponent(boot)}&since=${tick}`, { cache: "no-store" });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const state = await answer.json();
    if (state.boot !== boot) { runs.clear(); cards.clear(); }
    boot = state.boot; tick = state.tick; wait = 2000;
    for (const run of state.runs) { runs.set(run.name, run); cards.delete(run.name); }
    for (const name of [...runs.keys()]) if (!state.names.includes(name)) { runs.delete(name); cards.delete(name); }
    figures(); show(); studies(state.studies);
    byId("status").textContent = `as of ${new Date(1000 * state.at).toLocaleTimeString()}`;
  } catch (error) {
    byId("status").textContent = `no answer (${error.message}); trying again`;
    wait = Math.min(30000, 1.6 * wait);
  }
  setTimeout(poll, document.hidden ? 5 * wait : wait);
}
byId("figure").addEventListener("change", () => { cards.clear(); show(); });
byId("which").addEventListener("change", show);
addEventListener("resize", () => { cards.clear(); show(); });
poll();
