const byId = (id) => document.getElementById(id);
const store = JSON.parse(byId("data").textContent);
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

/* an element with text, never with markup: names are anybody's */
function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = String(text);
  if (className) element.className = className;
  return element;
}

/* ------------------------------------------------------------------------------------------------ colours */
const themes = ["", "light", "dark"], said = { "": "as the system has them", light: "light", dark: "dark" };
const redraws = [];
function setTheme(theme, kept) {
  if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
  const button = byId("theme"), text = `Colours: ${said[theme]}`;
  button.textContent = { "": "◐", light: "☀", dark: "☾" }[theme];
  button.setAttribute("aria-label", text); button.title = text;
  if (!kept) try { localStorage.setItem("skelbench-theme", theme); } catch { /* a page from a file may keep nothing */ }
  for (const redraw of redraws) redraw();
}
let theme = "";
try { theme = localStorage.getItem("skelbench-theme") || ""; } catch { /* the same */ }
setTheme(themes.includes(theme) ? theme : "", true);
byId("theme").addEventListener("click", () => {
  setTheme(themes[(themes.indexOf(document.documentElement.dataset.theme || "") + 1) % themes.length]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/* ------------------------------------------------------------------------------------------------ tables */
const headsOf = (table) => [...table.tHead.rows[0].cells];
const valueOf = (row, place) => {
  const cell = row.cells[place];
  return cell && cell.dataset.v !== undefined ? cell.dataset.v : null;
};

/* numbers before words, nothing last whichever way round */
function compare(a, b, turn) {
  if (a === null || b === null) return (a === null) - (b === null);
  const x = Number(a), y = Number(b), numbers = !Number.isNaN(x) && !Number.isNaN(y);
  return turn * (numbers ? x - y : a.localeCompare(b, "en", { numeric: true }));
}

function sortTable(table, place, way) {
  const { bodies, rows } = table.first, head = headsOf(table)[place];
  headsOf(table).forEach((other) => other.removeAttribute("aria-sort"));
  bodies.forEach((body, i) => { body.replaceChildren(...rows[i]); table.append(body); });
  if (!way) return;
  head.setAttribute("aria-sort", way);
  const turn = way === "ascending" ? 1 : -1, all = rows.flat().filter((row) => row.classList.contains("row"));
  all.sort((a, b) => compare(valueOf(a, place), valueOf(b, place), turn));
  bodies.slice(1).forEach((body) => body.remove());
  bodies[0].replaceChildren(...all);
}

function showColumns(table, hidden) {
  const keys = headsOf(table).map((head) => head.dataset.k);
  for (const row of table.querySelectorAll("tr:not(.heading)"))
    [...row.cells].forEach((cell, i) => { cell.hidden = hidden.has(keys[i]); });
  for (const heading of table.querySelectorAll("tr.heading th")) heading.colSpan = keys.length - hidden.size;
}

function filterTable(box, table, words) {
  const rows = table.first.rows.flat(), ours = rows.filter((row) => row.classList.contains("row"));
  for (const row of ours) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  for (const list of table.first.rows)
    for (const row of list) if (row.classList.contains("heading")) row.hidden = list.every((r) => r === row || r.hidden);
  const left = ours.filter((row) => !row.hidden).length;
  box.querySelector(".count").textContent = words.length ? `${left} of ${ours.length} rows` : "";
}

const quoted = (text) => {
  const safe = /^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
function csvOf(table) {
  const cells = (row) => [...row.cells].filter((cell) => !cell.hidden);
  const lines = [cells(table.tHead.rows[0]).map((head) => head.dataset.k)];
  for (const row of table.querySelectorAll("tr.row:not([hidden])")) lines.push(cells(row).map((cell) => cell.dataset.v ?? ""));
  return lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
}

async function copy(text, button) {
  const before = button.textContent;
  try { await navigator.clipboard.writeText(text); } catch {
    const area = make("textarea", text); /* a page from a file may have no clipboard of its own */
    (button.closest("dialog") || document.body).append(area); area.select(); document.execCommand("copy"); area.remove();
  }
  button.textContent = "Copied"; setTimeout(() => { button.textContent = before; }, 1200);
}

for (const box of document.querySelectorAll("details.table")) {
  const table = box.querySelector("table"), bodies = [...table.tBodies], hidden = new Set(["run"]);
  table.first = { bodies, rows: bodies.map((body) => [...body.rows]) };
  headsOf(table).forEach((head, place) => head.querySelector("button").addEventListener("click", () => {
    const now = head.getAttribute("aria-sort"), first = head.classList.contains("number") ? "descending" : "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    sortTable(table, place, now === null ? first : now === first ? second : null);
  }));
  box.querySelector(".filter").addEventListener("input", (e) => {
    filterTable(box, table, e.target.value.toLowerCase().split(/\s+/).filter(Boolean));
  });
  const list = box.querySelector(".columns .list");
  for (const head of headsOf(table)) {
    const label = make("label"), tick = make("input");
    tick.type = "checkbox"; tick.checked = !hidden.has(head.dataset.k);
    tick.addEventListener("change", () => {
      if (tick.checked) hidden.delete(head.dataset.k); else hidden.add(head.dataset.k);
      showColumns(table, hidden);
    });
    label.append(tick, ` ${head.querySelector("button").textContent}`); list.append(label);
  }
  showColumns(table, hidden);
  box.querySelector(".copy-csv").addEventListener("click", (e) => copy(csvOf(table), e.target));
}
document.addEventListener("click", (e) => {
  for (const open of document.querySelectorAll("details.columns[open]")) if (!open.contains(e.target)) open.open = false;
});

addEventListener("beforeprint", () => document.querySelectorAll("details.more").forEach((more) => { more.open = true; }));

/* ------------------------------------------------------------------------------------------------ provenance */
const when = (seconds) => (seconds ? new Date(1000 * seconds).toISOString().slice(0, 16).replace("T", " ") + " UTC" : "");
const facts = (pairs) => {
  const list = make("dl");
  for (const [name, value] of pairs) {
    if (value === "" || value === null || value === undefined) continue;
    const shown = value instanceof Node ? make("dd") : make("dd", value);
    if (value instanceof Node) shown.append(value);
    list.append(make("dt", name), shown);
  }
  return list;
};
function copyable(text) {
  const line = make("span", null, "with-copy"), button = make("button", "Copy");
  button.type = "button"; button.addEventListener("click", () => copy(text, button));
  line.append(make("code", text), button);
  return text ? line : "";
}
function folded(title, value) {
  const box = make("details"), text = JSON.stringify(value, null, 1), button = make("button", "Copy");
  button.type = "button"; button.addEventListener("click", () => copy(text, button));
  box.append(make("summary", title), button, make("pre", text));
  return box;
}
const figure = (value) => (typeof value === "number" ? String(+value.toPrecision(6)) : JSON.stringify(value));

function describeRun(run) {
  const box = make("div", null, "run"), environment = run.environment || {}, packages = environment.packages || {};
  const changed = Object.entries(run.modified || {}).map(([key, value]) => `${key}=${figure(value)}`).join(", ");
  box.append(make("b", run.title), " ", make("code", run.name, "pale"));
  box.append(facts([
    ["Command", copyable(run.command)],
    ["Outcome", run.outcome + (run.reason ? `: ${run.reason}` : "")],
    ["Added", run.added && `not made here, but added from ${run.added}`],
    ["Suites", Object.entries(run.suites || {}).map(([name, hash]) => `${name}, hash ${hash}`).join("; ")],
    ["Budget", run.budget && `${run.budget.asked}: ${run.budget.steps.toLocaleString("en")} steps`],
    ["Preset", run.preset + (changed ? ` (${changed})` : "")],
    ["Seed", run.seed],
    ["Data", run.data],
    ["Fingerprint", copyable(run.fingerprint)],
    ["Run id", copyable(run.id)],
    ["Clips seen", run.clips_seen && run.clips_seen.toLocaleString("en")],
    ["Training", run.train_seconds && `${(run.train_seconds / 60).toFixed(1)} minutes on ${run.hardware}`],
    ["Finished", when(run.finished)],
    ["Made with", Object.entries({ skelbench: environment.skelbench, python: environment.python, ...packages })
      .filter(([, value]) => value).map(([name, value]) => `${name} ${value}`).join(", ")],
    ["Tags", (run.tags || []).join(", ")], ["Note", run.note],
  ]));
  for (const one of run.evaluations) {
    const entry = make("details");
    const at = one.checkpoint === "last" ? "" : `@${one.checkpoint}`;
    entry.append(make("summary", `${one.protocol}${at} on ${one.data}: ${(100 * one.metrics.accuracy).toFixed(1)} % (evaluation ${one.id})`));
    entry.append(facts([
      ["Command", copyable(one.command)], ["Data fingerprint", one.fingerprint], ["Finished", when(one.finished)],
      ...Object.entries(one.metrics).map(([name, value]) => [name, figure(value)]),
      ["Notes", (one.notes || []).join("; ")],
    ]), folded("Settings of the evaluation", one.spec));
    box.append(entry);
  }
  box.append(folded("Spec of the run: everything that its id is the hash of", run.spec), folded("Environment", environment));
  return box;
}

function showOrigin(title, lines, places) {
  byId("origin-title").textContent = title;
  const body = byId("origin-body");
  body.replaceChildren(...lines.map((line) => make("p", line)), ...places.map((place) => describeRun(store.runs[place])));
  if (!byId("origin").open) byId("origin").showModal();
  byId("origin").scrollTop = 0;
}
byId("close").addEventListener("click", () => byId("origin").close());
byId("origin").addEventListener("click", (e) => { if (e.target === byId("origin")) byId("origin").close(); });

const placesOf = (element) => (element.dataset.runs || "").split(",").filter(Boolean).map(Number);
function explain(row, cell) {
  const table = row.closest("table"), places = placesOf(row), head = cell && table.first && headsOf(table)[cell.cellIndex];
  if (!places.length && !(cell && cell.dataset.o)) return;
  const name = row.cells[0].firstElementChild?.textContent.trim() || row.cells[0].textContent.trim(), label = head && head.querySelector("button").textContent;
  const lines = [];
  if (cell && head) {
    const printed = cell.classList.contains("published");
    lines.push(`${label}: ${cell.textContent.trim()}${cell.dataset.v && cell.dataset.v !== cell.textContent.trim() ? ` (unrounded ${cell.dataset.v})` : ""}`);
    if (cell.dataset.o) lines.push((printed ? "Printed, not measured here. " : "Recorded as ") + cell.dataset.o);
    else if (head.classList.contains("number")) lines.push(printed ? "Printed, not measured here." : "Computed by the table from the runs below.");
  }
  showOrigin(name, lines, places);
}
document.addEventListener("click", (e) => {
  const link = e.target.closest("button.link[data-runs]");
  if (link) { showOrigin("Behind this sentence", [link.parentElement.firstChild.textContent.trim()], placesOf(link)); return; }
  const row = e.target.closest("tr.row");
  if (row && !getSelection().toString()) explain(row, e.target.closest("td"));
});
for (const row of document.querySelectorAll("tr.row.ours")) row.tabIndex = 0;
document.addEventListener("keydown", (e) => {
  if (e.key === "Enter" && e.target.matches && e.target.matches("tr.row")) explain(e.target, null);
});

/* ------------------------------------------------------------------------------------------------ figures */
const { points, ways, curves, confusion } = store.charts;
const colourOf = (method) => store.colours.lines[store.methods.indexOf(method) % store.colours.lines.length];
const symbols = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "pentagon"];
/* plotly reads some markup in labels: a name has none */
const label = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const unique = (values) => [...new Set(values)];
const settings = { displaylogo: false, responsive: true, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]], plotlyServerURL: "" };

function layout(more) {
  const axis = { gridcolor: css("--line"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--ink"), size: 12 },
    margin: { l: 56, r: 12, t: 8, b: 44 }, hovermode: "closest", modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--pale"), activecolor: css("--accent") }, legend: { orientation: "h", y: -0.27, yanchor: "top", font: { size: 11 } },
    hoverlabel: { bgcolor: css("--paper"), bordercolor: css("--line"), font: { color: css("--ink") } },
    ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis },
  };
}

/* selects above a figure; returns what is chosen of each */
function choices(box, wanted, redraw) {
  const tools = box.querySelector(".tools"), selects = {};
  for (const [name, options] of Object.entries(wanted)) {
    const select = make("select"), wrap = make("label", `${name} `);
    for (const [value, text] of options) { const option = make("option", text); option.value = value; select.append(option); }
    select.addEventListener("change", redraw); selects[name] = select;
    wrap.append(select); if (options.length > 1) tools.append(wrap);
  }
  return (name) => selects[name].value;
}
/* the most frequent first */
const named = (values) => {
  const counts = {};
  for (const value of values) counts[value] = (counts[value] || 0) + 1;
  return Object.keys(counts).sort((a, b) => counts[b] - counts[a]).map((value) => [value, value]);
};

/* ticks of a log axis from low to high that are read as they stand: 0.02, 0.05, 0.1 */
function ticks(low, high) {
  const found = [], steps = high / low > 300 ? [1] : high / low > 6 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.log10(high); decade++)
    for (const step of steps) { const at = step * 10 ** decade; if (at >= low && at <= high) found.push(at); }
  return { tickvals: found, ticktext: found.map((at) => String(+at.toPrecision(3))) };
}

function plot(box, traces, more) {
  const target = box.querySelector(".plot");
  window.Plotly.react(target, traces, layout(more), settings);
  if (target.heard) return;
  target.heard = true;
  target.on("plotly_click", ({ points: [hit] }) => {
    const about = hit.customdata || hit.data.meta;
    if (about) showOrigin(about.title, [about.said], about.runs);
  });
}
const COSTS = { gflops: "GFLOPs of the encoder, one body", pflops: "PFLOPs of pre-training, two bodies per clip", minutes: "Minutes of training", clips: "Clips seen in training" };
const sentence = (p) => `${p.title}, ${p.tokens}${p.checkpoint === "last" ? "" : ` at epoch ${p.checkpoint}`}: ${p.accuracy.toFixed(1)} % (${p.protocol}, ${p.seeds} ${p.seeds === 1 ? "seed" : "seeds"})`;
const about = (p) => ({ title: p.title, said: sentence(p), runs: p.runs });

function series(kept, cost, joined) {
  const groups = {}, alike = unique(kept.map((p) => p.tokens)).length < 2; /* then a label says nothing */
  for (const point of kept) (groups[joined(point)] ||= []).push(point);
  return Object.entries(groups).map(([name, group]) => {
    group.sort((a, b) => a[cost] - b[cost]);
    const of = group[0], variants = unique(kept.filter((p) => p.method === of.method).map((p) => p.title));
    return {
      type: "scatter", mode: group.length > 1 ? "lines+markers+text" : "markers+text", name: label(of.name || name),
      x: group.map((p) => p[cost]), y: group.map((p) => p.accuracy), customdata: group.map(about),
      text: group.map((p) => label(p.checkpoint === "last" && !alike ? p.tokens : "")), textposition: "top center", textfont: { size: 10, color: css("--pale") },
      hoverinfo: "text", hovertext: group.map((p) => label(sentence(p))), cliponaxis: false,
      error_y: { type: "data", symmetric: false, array: group.map((p) => p.most - p.accuracy), arrayminus: group.map((p) => p.accuracy - p.least), thickness: 1.2, width: 3, visible: group.some((p) => p.seeds > 1) },
      line: { width: 2, color: colourOf(of.method), dash: ["solid", "dash", "dot", "dashdot"][variants.indexOf(of.title) % 4] },
      marker: { size: 9, color: colourOf(of.method), symbol: symbols[store.methods.indexOf(of.method) % symbols.length], ...(variants.indexOf(of.title) ? { symbol: `${symbols[store.methods.indexOf(of.method) % symbols.length]}-open` } : {}) },
    };
  });
}

/* what has none of this cost, as coordinates without a network: a line across */
function level(p, ends) {
  return {
    type: "scatter", mode: "lines", name: label(`${p.title} ${p.tokens}`), x: ends, y: [p.accuracy, p.accuracy], customdata: [about(p), about(p)],
    hoverinfo: "text", hovertext: [label(sentence(p)), label(sentence(p))], line: { width: 1.5, dash: "dot", color: colourOf(p.method) },
  };
}

function overCost(id, found, costs, joined, log) {
  const box = byId(id), there = found.filter((p) => p.accuracy !== null);
  const blocks = named(there.map((p) => p.block)), protocols = named(there.map((p) => p.protocol));
  protocols.sort((a, b) => (b[0] === "linear") - (a[0] === "linear"));
  const usable = Object.entries(costs).filter(([cost]) => there.some((p) => p[cost] > 0));
  const draw = () => {
    const cost = chosen("Cost");
    const here = there.filter((p) => p.block === chosen("Data") && p.protocol === chosen("Probe"));
    const kept = here.filter((p) => p[cost] > 0), free = here.filter((p) => !(p[cost] > 0));
    const ends = kept.map((p) => p[cost]), low = Math.min(...ends), high = Math.max(...ends), wide = high > 1.5 * low;
    const range = log && ends.length ? [Math.log10(low / (wide ? 1.25 : 2)), Math.log10(high * (wide ? 1.25 : 2))] : undefined;
    plot(box, [...series(kept, cost, joined), ...free.map((p) => level(p, kept.length ? [low / 2, high * 2] : [1, 2]))], {
      xaxis: { title: { text: costs[cost] }, type: log ? "log" : "linear", ...(range ? { range, ...ticks(10 ** range[0], 10 ** range[1]) } : { rangemode: "tozero" }) },
      yaxis: { title: { text: "Accuracy, %" } }, ...(here.length ? {} : empty("No evaluation by this probe on these data")),
    });
  };
  const chosen = choices(box, { Data: blocks, Probe: protocols, Cost: usable }, draw);
  draw(); redraws.push(draw);
}
const empty = (text) => ({ annotations: [{ text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5, font: { color: css("--pale") } }] });

function drawCurves() {
  const box = byId("curves"), there = curves.filter((run) => Object.keys(run.lines).length);
  const names = unique(there.flatMap((run) => Object.keys(run.lines)));
  const rank = (name) => (name === "loss" ? 0 : name.startsWith("rank") ? 1 : 2);
  names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const draw = () => {
    const name = chosen("Figure"), here = there.filter((run) => run.block === chosen("Data") && run.lines[name]);
    const signed = here.some((run) => run.lines[name][1].filter((y) => y < 0).length > 0.1 * run.lines[name][1].length);
    const log = chosen("Axis") === "log" && !signed;
    const traces = here.map((run, i, all) => ({
      type: "scatter", mode: run.lines[name][0].length > 1 ? "lines" : "markers", name: label(run.title), x: run.lines[name][0],
      y: run.lines[name][1].map((y) => (log && y <= 0 ? null : y)),
      line: { width: 1.7, color: colourOf(run.method), dash: ["solid", "dash", "dot", "dashdot"][all.slice(0, i).filter((o) => o.method === run.method).length % 4] },
      meta: { title: run.title, said: `${name} of ${run.title}, as logged in metrics.jsonl`, runs: run.runs }, hovertemplate: "%{x:,} clips: %{y:.4g}<extra>%{fullData.name}</extra>",
    }));
    const seen = traces.flatMap((trace) => trace.y).filter((y) => y !== null), low = seen.reduce((a, b) => Math.min(a, b), Infinity), high = seen.reduce((a, b) => Math.max(a, b), -Infinity);
    plot(box, traces, { xaxis: { title: { text: "Clips seen" } }, yaxis: { title: { text: label(name) }, type: log ? "log" : "linear", ...(log && seen.length ? ticks(low / 1.2, high * 1.2) : {}) }, ...(traces.length ? {} : empty("Not logged by these runs")) });
  };
  const chosen = choices(box, { Data: named(there.map((run) => run.block)), Figure: names.map((name) => [name, name]), Axis: [["log", "logarithmic"], ["linear", "linear"]] }, draw);
  draw(); redraws.push(draw);
}

function drawConfusion() {
  const box = byId("confusion");
  const draw = () => {
    const one = confusion[Number(chosen("Evaluation"))], short = one.names.map((name, i) => `${i} ${name.length > 40 ? `${name.slice(0, 24)}…${name.slice(-15)}` : name}`);
    const count = one.names.length, places = one.names.map((_, i) => i), narrow = box.clientWidth < 480;
    const every = count > 40 ? 10 : narrow && count > 12 ? 5 : 1, kept = places.filter((i) => i % every === 0);
    const asked = document.documentElement.dataset.theme, night = asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const hover = one.share.map((line, i) => line.map((share, j) => (share === null ? "no test clip" : `${label(one.names[i])} taken for ${label(one.names[j])}: ${share} %`)));
    plot(box, [{
      type: "heatmap", z: one.share.map((line) => line.map((share) => (share === null ? null : Math.sqrt(share)))), x: places, y: places,
      text: hover, hoverinfo: "text", zmin: 0, zmax: 10, xgap: count < 30 ? 1 : 0, ygap: count < 30 ? 1 : 0,
      colorscale: night ? [[0, "#172036"], [1, "#8ab4ff"]] : [[0, "#f1f5fb"], [1, "#08306b"]],
      colorbar: { tickvals: [0, 2.236, 3.162, 5, 7.071, 10], ticktext: ["0", "5", "10", "25", "50", "100"], thickness: 10, outlinewidth: 0 },
      meta: { title: one.title, said: `${one.title}: ${one.accuracy} % of the test clips are right`, runs: one.runs },
    }], {
      margin: { l: 40, r: 8, t: 30, b: 44 },
      xaxis: { title: { text: "Taken for (label)" }, showgrid: false, zeroline: false, tickvals: kept, ticktext: kept.map(String), tickangle: 0, tickfont: { size: 9 } },
      yaxis: { autorange: "reversed", showgrid: false, zeroline: false, tickvals: kept, ticktext: kept.map((i) => (narrow || every > 1 ? String(i) : label(short[i]))), tickfont: { size: count > 24 ? 7 : 10 } },
    });
  };
  const chosen = choices(box, { Evaluation: confusion.map((one, i) => [String(i), `${one.title}: ${one.accuracy.toFixed(1)} %`]) }, draw);
  draw(); redraws.push(draw);
}

/* the library is in the page as compressed text; it runs as the policy names its hash */
async function drawFigures() {
  const status = byId("drawing");
  try {
    if (!window.DecompressionStream) throw new Error("this browser cannot unpack them");
    status.textContent = "Drawing …";
    const packed = bytes(byId("plotly").textContent.trim());
    const script = make("script");
    script.textContent = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
    document.head.append(script);
    if (!window.Plotly) throw new Error("the drawing library did not start");
    const final = points.filter((p) => p.checkpoint === "last");
    const drawn = {
      cost: final.some((p) => p.gflops > 0) && (() => overCost("cost", final, COSTS, (p) => p.title, true)),
      scaling: ways.length && (() => overCost("scaling", ways, { clips: COSTS.clips, pflops: COSTS.pflops }, (p) => p.way, false)),
      curves: curves.some((run) => Object.keys(run.lines).length) && drawCurves,
      confusion: confusion.length && drawConfusion,
    };
    for (const id in drawn) byId(id).hidden = !drawn[id]; /* all first: what is beside a figure decides its width */
    for (const draw of Object.values(drawn)) if (draw) draw();
    status.textContent = byId("figures").querySelector("figure:not([hidden])") ? "" : "Nothing to draw yet: no run has logged or was evaluated.";
    status.hidden = !status.textContent;
  } catch (error) {
    status.textContent = `Figures are not drawn: ${error.message}. The tables hold the same numbers.`;
  }
  document.documentElement.dataset.drawn = "yes";
}

/* ------------------------------------------------------------------------------------------------ skeletons */
function showNeighbours(example) {
  const state = { share: 0, playing: !calm, query: 0, turn: 0, pitch: 0 }, canvases = [];
  for (const scene of Object.values(example.clips)) scene.panels.forEach(unpackPanel);
  const player = byId("player"), rows = byId("rows"), play = make("button"), choose = make("select"), time = make("input");
  const nameOf = (clip) => example.classes[example.labels[clip]];
  play.type = "button"; choose.setAttribute("aria-label", "Query"); time.type = "range"; time.max = 1000; time.setAttribute("aria-label", "Time");
  example.queries.forEach((clip, i) => { const option = make("option", `Query ${i + 1}: ${nameOf(clip)}`); option.value = i; choose.append(option); });
  player.append(choose, play, time);

  function card(clip, heading, note, kind) {
    const box = make("div", null, `clip ${kind}`), canvas = make("canvas"), text = make("p"), mark = { right: "✓ ", wrong: "✗ " }[kind];
    if (mark) text.append(make("span", mark, "mark"));
    text.append(make("b", heading), make("br"), make("span", note, "pale"));
    canvas.setAttribute("role", "img"); canvas.setAttribute("aria-label", `${heading}, ${note}${kind ? `, ${kind}` : ""}`);
    box.append(canvas, text);
    let held = null;
    canvas.addEventListener("pointerdown", (e) => { held = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", (e) => {
      if (!held) return;
      state.turn += (e.clientX - held[0]) * 0.01; state.pitch = Math.min(1.2, Math.max(-1.2, state.pitch + (e.clientY - held[1]) * 0.01));
      held = [e.clientX, e.clientY]; render();
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { held = null; });
    canvases.push([canvas, example.clips[clip]]);
    return box;
  }
  function build() {
    canvases.length = 0;
    const query = example.queries[state.query];
    rows.replaceChildren(...example.runs.map((run) => {
      const box = make("div"), clips = make("div", null, "clips"), hits = run.nearest[state.query].filter((clip) => example.labels[clip] === example.labels[query]).length;
      box.append(make("h3", `${run.title}: ${hits} of ${run.nearest[state.query].length} neighbours are of the query's class`), clips);
      clips.append(card(query, nameOf(query), `query, test clip ${query}`, ""));
      run.nearest[state.query].forEach((clip, k) => clips.append(card(clip, nameOf(clip), `${k + 1}. neighbour, similarity ${run.similarity[state.query][k].toFixed(3)}`, example.labels[clip] === example.labels[query] ? "right" : "wrong")));
      return box;
    }));
    render();
  }
  function render() {
    for (const [canvas, scene] of canvases) {
      const look = scene.flat ? { share: state.share, yaw: 0, pitch: 0 } : { share: state.share, yaw: scene.yaw + state.turn, pitch: scene.pitch + state.pitch };
      drawPanel(scene, look, scene.panels[0], canvas, true);
    }
    play.textContent = state.playing ? "Pause" : "Play"; time.value = Math.round(1000 * state.share);
  }
  play.addEventListener("click", () => { state.playing = !state.playing; render(); });
  choose.addEventListener("change", () => { state.query = Number(choose.value); build(); });
  time.addEventListener("input", () => { state.playing = false; state.share = time.value / 1000; render(); });
  byId("skeletons").addEventListener("keydown", (e) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (["SELECT", "INPUT", "BUTTON"].includes(e.target.tagName)) return;
    if (e.key === " ") state.playing = !state.playing; else if (step) { state.playing = false; state.share = Math.min(1, Math.max(0, state.share + step / 60)); } else return;
    e.preventDefault(); render();
  });
  rows.tabIndex = 0; rows.setAttribute("role", "group"); rows.setAttribute("aria-label", "Query and neighbours");
  let visible = true, before = null;
  new IntersectionObserver(([entry]) => { visible = entry.isIntersecting; }).observe(rows);
  new ResizeObserver(render).observe(rows); redraws.push(render);
  const seconds = 3.5;
  function tick(now) {
    if (state.playing && visible && before !== null) { state.share += (now - before) / 1000 / seconds; if (state.share > 1) state.share = 0; render(); }
    before = now; requestAnimationFrame(tick);
  }
  build(); requestAnimationFrame(tick);
}
if (store.neighbours) showNeighbours(store.neighbours);
setTimeout(drawFigures, 30);
