const byId = (id) => document.getElementById(id);
const store = JSON.parse(byId("data").textContent);

/* an element with text, never with markup */
function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined && text !== null) element.textContent = String(text);
  if (className) element.className = className;
  return element;
}

/* ------------------------------------------------------------------------------------------------ tables */
const headsOf = (table) => [...table.tHead.rows[0].cells];

/* numbers before text, empty cells last in both directions */
function compare(a, b, sign) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const x = Number(a), y = Number(b), numbers = !Number.isNaN(x) && !Number.isNaN(y);
  return sign * (numbers ? x - y : a.localeCompare(b, "en", { numeric: true }));
}

function sortTable(table, place, direction) {
  const { bodies, rows } = table.first;
  headsOf(table).forEach((head) => head.removeAttribute("aria-sort"));
  bodies.forEach((body, i) => { body.replaceChildren(...rows[i]); table.append(body); });
  if (!direction) return;
  headsOf(table)[place].setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1, all = rows.flat().filter((row) => row.classList.contains("row"));
  all.sort((a, b) => compare(a.cells[place].dataset.v, b.cells[place].dataset.v, sign));
  bodies.slice(1).forEach((body) => body.remove());
  bodies[0].replaceChildren(...all);
}

function filterTable(box, table, words) {
  const all = table.first.rows.flat().filter((row) => row.classList.contains("row"));
  for (const row of all) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  const left = all.filter((row) => !row.hidden).length;
  box.querySelector(".count").textContent = words.length ? `${left} of ${all.length} rows` : "";
}

function csvOf(table) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const cells = (row) => [...row.cells].filter((cell) => !cell.hidden && cell.dataset.k !== "runs");
  const lines = [cells(table.tHead.rows[0]).map((head) => head.dataset.k)];
  for (const row of table.querySelectorAll("tr.row:not([hidden])")) lines.push(cells(row).map((cell) => cell.dataset.v));
  return lines.map((line) => line.map(quoted).join(",")).join("\n") + "\n";
}

/* a page from a file may have no clipboard of its own */
async function copy(text, button) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = make("textarea", text);
    document.body.append(area); area.select(); document.execCommand("copy"); area.remove();
  }
  button.textContent = "Copied";
}

for (const box of document.querySelectorAll("#tables details.table")) {
  const table = box.querySelector("table"), bodies = [...table.tBodies];
  table.first = { bodies, rows: bodies.map((body) => [...body.rows]) };
  box.querySelector(".filter").addEventListener("input", (e) => {
    filterTable(box, table, e.target.value.toLowerCase().split(/\s+/).filter(Boolean));
  });
  box.querySelector(".copy-csv").addEventListener("click", (e) => copy(csvOf(table), e.target));
  headsOf(table).forEach((head, place) => {
    const button = head.querySelector("button");
    if (!button) return;
    const order = head.classList.contains("number") ? ["descending", "ascending"] : ["ascending", "descending"];
    button.addEventListener("click", () => {
      sortTable(table, place, order[order.indexOf(head.getAttribute("aria-sort")) + 1]);
    });
    const label = make("label"), tick = make("input");
    tick.type = "checkbox"; tick.checked = true;
    tick.addEventListener("change", () => {
      const rows = table.first.rows.flat().filter((row) => row.classList.contains("row"));
      for (const row of [table.tHead.rows[0], ...rows]) row.cells[place].hidden = !tick.checked;
    });
    label.append(tick, ` ${button.textContent}`); box.querySelector(".columns .list").append(label);
  });
}

/* a link to a run opens its details */
function openRun() {
  const target = location.hash.startsWith("#run-") && byId(location.hash.slice(1));
  if (target) { target.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", openRun);
addEventListener("beforeprint", () => document.querySelectorAll("details.more").forEach((more) => { more.open = true; }));

/* ------------------------------------------------------------------------------------------------ figures */
const { points, ways, curves, confusion } = store.charts;
const dark = matchMedia("(prefers-color-scheme: dark)"), redraws = [];
dark.addEventListener("change", () => redraws.forEach((redraw) => redraw()));
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colourOf = (method) => store.colours[store.methods.indexOf(method) % store.colours.length];
const symbols = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "pentagon"];
const dashes = ["solid", "dash", "dot", "dashdot"];
/* plotly reads some markup in labels: a name has none */
const label = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const unique = (values) => [...new Set(values)];

/* options of a select, the most frequent value first */
function byCount(values) {
  const counts = {};
  for (const value of values) counts[value] = (counts[value] || 0) + 1;
  return Object.keys(counts).sort((a, b) => counts[b] - counts[a]).map((value) => [value, value]);
}

/* selects above a figure; returns a function that gives the chosen value of each */
function choices(box, wanted, draw) {
  const selects = {};
  for (const [name, options] of Object.entries(wanted)) {
    const select = make("select"), wrap = make("label", `${name} `);
    for (const [value, text] of options) {
      const option = make("option", text);
      option.value = value; select.append(option);
    }
    select.addEventListener("change", draw);
    selects[name] = select; wrap.append(select);
    if (options.length > 1) box.querySelector(".tools").append(wrap);
  }
  return (name) => selects[name].value;
}

function plot(box, traces, more) {
  const target = box.querySelector(".plot");
  const axis = { gridcolor: css("--line"), zerolinecolor: css("--line"), linecolor: css("--line"), automargin: true };
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: css("--ink"), size: 12 },
    margin: { l: 56, r: 12, t: 8, b: 44 }, hovermode: "closest",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--pale"), activecolor: css("--accent") },
    legend: { orientation: "h", y: -0.27, yanchor: "top", font: { size: 11 } },
    hoverlabel: { bgcolor: css("--paper"), bordercolor: css("--line"), font: { color: css("--ink") } },
    annotations: traces.length ? [] : [
      { text: "No data for this choice", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 },
    ],
    ...more, xaxis: { ...axis, ...more.xaxis }, yaxis: { ...axis, ...more.yaxis },
  };
  Plotly.react(target, traces, layout, { displaylogo: false, responsive: true });
  if (target.heard) return;
  target.heard = true;
  target.on("plotly_click", ({ points: [hit] }) => {
    const [run] = hit.customdata || hit.data.meta || [];
    if (run !== undefined) { location.hash = `run-${run}`; openRun(); }
  });
}

/* 2, 5 and 10 on a log axis */
const ticks = (type) => (type === "log" ? { dtick: "D2" } : { nticks: 8 });

const COSTS = {
  gflops: "GFLOPs of the encoder, one body", pflops: "PFLOPs of pre-training, two bodies per clip",
  minutes: "Minutes of training", clips: "Clips seen in training",
};
function describe(p) {
  const at = p.checkpoint === "last" ? "" : ` at epoch ${p.checkpoint}`, seeds = `${p.seeds} ${p.seeds === 1 ? "seed" : "seeds"}`;
  return label(`${p.title}, ${p.tokens}${at}: ${p.accuracy.toFixed(1)} % (${p.protocol}, ${seeds})`);
}

/* one line per group of points, over a cost */
function series(kept, cost, groupOf) {
  const groups = {}, sameTokens = unique(kept.map((p) => p.tokens)).length < 2;
  for (const point of kept) (groups[groupOf(point)] ||= []).push(point);
  return Object.entries(groups).map(([name, group]) => {
    group.sort((a, b) => a[cost] - b[cost]);
    const { method, title, name: own } = group[0];
    const variant = unique(kept.filter((p) => p.method === method).map((p) => p.title)).indexOf(title);
    const symbol = symbols[store.methods.indexOf(method) % symbols.length];
    return {
      type: "scatter", mode: group.length > 1 ? "lines+markers+text" : "markers+text", name: label(own || name),
      x: group.map((p) => p[cost]), y: group.map((p) => p.accuracy), customdata: group.map((p) => p.runs),
      text: group.map((p) => (p.checkpoint === "last" && !sameTokens ? label(p.tokens) : "")),
      textposition: "top center", textfont: { size: 10, color: css("--pale") },
      hoverinfo: "text", hovertext: group.map(describe), cliponaxis: false,
      error_y: {
        type: "data", symmetric: false, visible: group.some((p) => p.seeds > 1), thickness: 1.2, width: 3,
        array: group.map((p) => p.most - p.accuracy), arrayminus: group.map((p) => p.accuracy - p.least),
      },
      line: { width: 2, color: colourOf(method), dash: dashes[variant % dashes.length] },
      marker: { size: 9, color: colourOf(method), symbol: variant ? `${symbol}-open` : symbol },
    };
  });
}

function overCost(id, there, costs, groupOf, type) {
  const box = byId(id), protocols = byCount(there.map((p) => p.protocol));
  protocols.sort((a, b) => (b[0] === "linear") - (a[0] === "linear"));
  const draw = () => {
    const cost = chosen("Cost");
    const here = there.filter((p) => p.block === chosen("Data") && p.protocol === chosen("Probe"));
    const kept = here.filter((p) => p[cost] > 0), ends = kept.map((p) => p[cost]);
    /* points without this cost, such as raw coordinates without a network: a line across */
    const across = ends.length ? [Math.min(...ends) / 1.3, Math.max(...ends) * 1.3] : [1, 2];
    const levels = here.filter((p) => !(p[cost] > 0)).map((p) => ({
      type: "scatter", mode: "lines", name: label(`${p.title} ${p.tokens}`), x: across, y: [p.accuracy, p.accuracy],
      customdata: [p.runs, p.runs], hoverinfo: "text", hovertext: [describe(p), describe(p)],
      line: { width: 1.5, dash: "dot", color: colourOf(p.method) },
    }));
    const xaxis = { title: { text: costs[cost] }, type, rangemode: "tozero", ...ticks(type) };
    plot(box, [...series(kept, cost, groupOf), ...levels], { xaxis, yaxis: { title: { text: "Accuracy, %" } } });
  };
  const usable = Object.entries(costs).filter(([cost]) => there.some((p) => p[cost] > 0));
  const chosen = choices(box, { Data: byCount(there.map((p) => p.block)), Probe: protocols, Cost: usable }, draw);
  draw(); redraws.push(draw);
}

function drawCurves() {
  const box = byId("curves"), rank = (name) => (name === "loss" ? 0 : name.startsWith("rank") ? 1 : 2);
  const names = unique(curves.flatMap((run) => Object.keys(run.lines)));
  names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const draw = () => {
    const name = chosen("Figure"), here = curves.filter((run) => run.block === chosen("Data") && run.lines[name]);
    const signed = here.some((run) => run.lines[name][1].filter((y) => y < 0).length > 0.1 * run.lines[name][1].length);
    const type = signed ? "linear" : chosen("Axis"), seen = {};
    const traces = here.map((run) => {
      const [x, y] = run.lines[name], earlier = (seen[run.method] = (seen[run.method] ?? -1) + 1);
      return {
        type: "scatter", mode: x.length > 1 ? "lines" : "markers", name: label(run.title), x, y, meta: run.runs,
        line: { width: 1.7, color: colourOf(run.method), dash: dashes[earlier % dashes.length] },
        hovertemplate: "%{x:,} clips: %{y:.4g}<extra>%{fullData.name}</extra>",
      };
    });
    plot(box, traces, { xaxis: { title: { text: "Clips seen" } }, yaxis: { title: { text: label(name) }, type, ...ticks(type) } });
  };
  const wanted = {
    Data: byCount(curves.map((run) => run.block)), Figure: names.map((name) => [name, name]),
    Axis: [["log", "logarithmic"], ["linear", "linear"]],
  };
  const chosen = choices(box, wanted, draw);
  draw(); redraws.push(draw);
}

function drawConfusion() {
  const box = byId("confusion");
  const draw = () => {
    const one = confusion[Number(chosen("Evaluation"))], names = one.names, narrow = box.clientWidth < 480;
    const places = names.map((_, i) => i), every = names.length > 40 ? 10 : narrow && names.length > 12 ? 5 : 1;
    const kept = places.filter((i) => i % every === 0), axis = { showgrid: false, zeroline: false, tickvals: kept };
    const short = (i) => (narrow || every > 1 ? String(i) : label(`${i} ${names[i].slice(0, 40)}`));
    const hover = (i, j, share) => `${label(names[i])} taken for ${label(names[j])}: ${share} %`;
    plot(box, [{
      type: "heatmap", x: places, y: places, hoverinfo: "text", zmin: 0, zmax: 10, meta: one.runs,
      z: one.share.map((line) => line.map((share) => (share === null ? null : Math.sqrt(share)))),
      text: one.share.map((line, i) => line.map((share, j) => (share === null ? "no test clip" : hover(i, j, share)))),
      colorscale: dark.matches ? [[0, "#172036"], [1, "#8ab4ff"]] : [[0, "#f1f5fb"], [1, "#08306b"]],
      colorbar: { tickvals: [0, 2.236, 3.162, 5, 7.071, 10], ticktext: ["0", "5", "10", "25", "50", "100"] },
    }], {
      xaxis: { ...axis, title: { text: "Predicted label" }, ticktext: kept.map(String), tickangle: 0 },
      yaxis: { ...axis, autorange: "reversed", ticktext: kept.map(short) },
    });
  };
  const options = confusion.map((one, i) => [String(i), `${one.title}: ${one.accuracy.toFixed(1)} %`]);
  const chosen = choices(box, { Evaluation: options }, draw);
  draw(); redraws.push(draw);
}

function drawFigures() {
  const final = points.filter((p) => p.checkpoint === "last");
  const drawn = {
    cost: final.some((p) => p.gflops > 0) && (() => overCost("cost", final, COSTS, (p) => p.title, "log")),
    scaling: ways.length && (() => overCost("scaling", ways, { clips: COSTS.clips, pflops: COSTS.pflops }, (p) => p.way, "linear")),
    curves: curves.length && drawCurves,
    confusion: confusion.length && drawConfusion,
  };
  for (const id in drawn) byId(id).hidden = !drawn[id]; /* all first: a neighbor decides the width of a figure */
  for (const draw of Object.values(drawn)) if (draw) draw();
  byId("drawing").textContent = Object.values(drawn).some(Boolean) ? "" : "Nothing to draw yet: no run has logged or was evaluated.";
}

/* ------------------------------------------------------------------------------------------------ skeletons */
function showNeighbours(example) {
  const state = { share: 0, playing: !matchMedia("(prefers-reduced-motion: reduce)").matches, query: 0, yaw: 0, pitch: 0 };
  const player = byId("player"), rows = byId("rows"), play = make("button"), choose = make("select"), time = make("input");
  let canvases = [];
  for (const scene of Object.values(example.clips)) scene.panels.forEach(unpackPanel);
  const nameOf = (clip) => example.classes[example.labels[clip]];
  example.queries.forEach((clip, i) => choose.append(new Option(`Query ${i + 1}: ${nameOf(clip)}`, i)));
  play.type = "button"; time.type = "range"; time.max = 1000;
  choose.setAttribute("aria-label", "Query"); time.setAttribute("aria-label", "Time");
  player.append(choose, play, time);

  function card(clip, note, kind) {
    const box = make("div", null, `clip ${kind}`), canvas = make("canvas"), text = make("p");
    text.append({ right: "✓ ", wrong: "✗ " }[kind] || "", make("b", nameOf(clip)), make("br"), make("span", note, "pale"));
    box.append(canvas, text);
    canvases.push([canvas, example.clips[clip]]);
    onDrag(canvas, (dx, dy) => {
      state.yaw += dx; state.pitch = Math.min(1.2, Math.max(-1.2, state.pitch + dy)); render();
    });
    return box;
  }
  function build() {
    canvases = [];
    const query = example.queries[state.query], isRight = (clip) => example.labels[clip] === example.labels[query];
    rows.replaceChildren(...example.runs.map((run) => {
      const box = make("div"), clips = make("div", null, "clips"), nearest = run.nearest[state.query];
      const hits = `${nearest.filter(isRight).length} of ${nearest.length}`;
      box.append(make("h3", `${run.title}: ${hits} neighbors are of the query's class`), clips);
      clips.append(card(query, `query, test clip ${query}`, ""));
      nearest.forEach((clip, k) => {
        const similarity = run.similarity[state.query][k].toFixed(3);
        clips.append(card(clip, `neighbor ${k + 1}, similarity ${similarity}`, isRight(clip) ? "right" : "wrong"));
      });
      return box;
    }));
    render();
  }
  function render() {
    for (const [canvas, scene] of canvases) {
      const turn = scene.flat ? { yaw: 0, pitch: 0 } : { yaw: scene.yaw + state.yaw, pitch: scene.pitch + state.pitch };
      drawPanel(scene, { share: state.share, ...turn }, scene.panels[0], canvas, true);
    }
    play.textContent = state.playing ? "Pause" : "Play"; time.value = Math.round(1000 * state.share);
  }
  choose.addEventListener("change", () => { state.query = Number(choose.value); build(); });
  redraws.push(render);
  rows.tabIndex = 0;
  playback(state, 3.5, 60, render, { play, time, keys: rows });
  build();
  new ResizeObserver(render).observe(rows);
}
if (store.neighbours) showNeighbours(store.neighbours);
setTimeout(() => { drawFigures(); openRun(); document.documentElement.dataset.drawn = "yes"; }, 30);
