/* ------------------------------------------------------------------------------------------------ tables */
const headsOf = (table) => [...table.tHead.rows[0].cells];

/* numbers before text, empty cells last in both directions */
function compare(a, b, sign) {
  if (a === "" || b === "") return (a === "") - (b === "");
  const x = Number(a), y = Number(b), numbers = !Number.isNaN(x) && !Number.isNaN(y);
  return sign * (numbers ? x - y : a.localeCompare(b, "en", { numeric: true }));
}

/* direction: ascending, descending, or undefined for the first order with its headings */
function sortTable({ table, bodies, rows }, place, direction) {
  headsOf(table).forEach((head) => head.removeAttribute("aria-sort"));
  bodies.forEach((body, i) => { body.replaceChildren(...rows[i]); table.append(body); });
  if (!direction) return;
  headsOf(table)[place].setAttribute("aria-sort", direction);
  const sign = direction === "ascending" ? 1 : -1, all = rows.flat().filter((row) => row.classList.contains("row"));
  all.sort((a, b) => compare(a.cells[place].dataset.v, b.cells[place].dataset.v, sign));
  bodies.slice(1).forEach((body) => body.remove());
  bodies[0].replaceChildren(...all);
}

for (const box of document.querySelectorAll("#tables details.table")) {
  const table = box.querySelector("table"), bodies = [...table.tBodies];
  const first = { table, bodies, rows: bodies.map((body) => [...body.rows]) };
  box.querySelector(".filter").addEventListener("input", (e) => {
    const words = e.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of first.rows.flat().filter((row) => row.classList.contains("row")))
      row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  headsOf(table).forEach((head, place) => {
    const order = head.classList.contains("number") ? ["descending", "ascending"] : ["ascending", "descending"];
    head.querySelector("button")?.addEventListener("click", () => {
      sortTable(first, place, order[order.indexOf(head.getAttribute("aria-sort")) + 1]);
    });
  });
}

/* ------------------------------------------------------------------------------------------------ runs */
/* a link to a run opens its details */
function openRun() {
  const target = location.hash.startsWith("#run-") && document.getElementById(location.hash.slice(1));
  if (target) { target.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", openRun);
addEventListener("beforeprint", () => document.querySelectorAll("details.more").forEach((more) => { more.open = true; }));
openRun();
