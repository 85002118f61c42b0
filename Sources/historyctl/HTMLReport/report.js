"use strict";
// Everything from the store is inserted as text, never as HTML.
const element = (id) => document.getElementById(id);
const data = (id) => JSON.parse(element(id).textContent);
const make = (name, text, kind) => {
  const node = document.createElement(name);
  if (text !== undefined && text !== null) node.textContent = text;
  if (kind) node.className = kind;
  return node;
};
const draw = (name, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
};
const shown = (time) => (time === null ? "unknown" : new Date(time).toISOString().replace("T", " ").replace("Z", ""));
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

const record = data("record"), end = data("end");
// A row of the index: time, author, process, inserts, updates, deletes, kind. Its index is that of the item in
// its part.
const [TIME, AUTHOR, PROCESS, INSERT, UPDATE, DELETE, KIND] = [0, 1, 2, 3, 4, 5, 6];
const WHOLE = 0, MISSING = 1, ORPHANS = 2, MORE = 3, RECREATED = 4;
const parts = [...document.querySelectorAll("script.part")];
const rows = [];
document.querySelectorAll("script.index").forEach((script, part) => {
  JSON.parse(script.textContent).forEach((row, item) => rows.push({ row, part, item, order: rows.length }));
});
let last = { part: -1, items: [] };
function item(place) {
  if (last.part !== place.part) last = { part: place.part, items: JSON.parse(parts[place.part].textContent) };
  return last.items[place.item];
}
const size = ({ row }) => (row[KIND] === MISSING ? 0 : row[INSERT] + row[UPDATE] + row[DELETE]);
const lanes = { 1: end.authors, 2: end.processes };

function facts() {
  element("title").textContent = `History of ${record.file.split("/").pop()}`;
  document.title = element("title").textContent;
  const made = [
    ["Store", record.file], ["Kind", record.kind], ["Store id", record.description.storeID],
    ["SHA-256", record.sha256 ?? "unknown"], ["SHA-256 of the -wal", record.walSHA256],
    ["Transactions", end.transactions.toLocaleString("en")], ["Changes", end.changes.toLocaleString("en")],
    ["Made", `${record.made} by historyctl ${record.version}`], ["Command", record.command],
  ];
  for (const [name, value] of made) {
    if (value === undefined || value === null) continue;
    element("facts").append(make("dt", name), make("dd", value, name.startsWith("SHA") || name === "Command" ? "code" : ""));
  }
}

// Where a clock was set back by more than transactions of several processes overlap.
const steps = [];
function unknowns() {
  const list = [...end.problems];
  if (record.description.modelProblem) list.push(`The model: ${record.description.modelProblem}`);
  for (const entity of record.description.entities ?? [])
    if (entity.namesKnown === false) list.push(`Names of properties of ${entity.name}: the tables do not fit the model.`);
  const count = (kind) => rows.filter(({ row }) => row[KIND] === kind).length;
  if (count(MISSING)) list.push(`${plural(count(MISSING), "gap")} in the numbers of transactions; each stands in the table.`);
  if (count(ORPHANS)) list.push(`${plural(count(ORPHANS), "transaction")} are gone, and their changes are left.`);
  let before = null;
  for (const place of record.isReversed ? [...rows].reverse() : rows) {
    const time = place.row[TIME];
    if (time === null) continue;
    if (before !== null && before - time > 1000) steps.push(place);
    before = time;
  }
  if (steps.length) list.push(`The clock was set back, or another process has another one: ${plural(steps.length, "time")}.`);
  for (const text of list) element("unknowns").append(make("li", text));
  element("unknown").hidden = list.length === 0;
}

function timeline() {
  const by = Number(element("by").value), names = lanes[by];
  const timed = rows.filter(({ row }) => row[TIME] !== null);
  const body = element("lanes").tBodies[0];
  body.replaceChildren();
  element("timeline").replaceChildren();
  if (!timed.length) return;
  let first = Infinity, final = -Infinity;
  for (const { row } of timed) { first = Math.min(first, row[TIME]); final = Math.max(final, row[TIME]); }
  const columns = 160, width = 1200, left = 170, height = 34, step = Math.max(1, (final - first + 1) / columns);
  const found = new Map();
  for (const { row } of timed) {
    const name = row[by];
    if (!found.has(name)) found.set(name, { cells: new Map(), sums: [0, 0, 0, 0], first: row[TIME], last: row[TIME] });
    const lane = found.get(name), column = Math.min(columns - 1, Math.floor((row[TIME] - first) / step));
    if (!lane.cells.has(column)) lane.cells.set(column, [0, 0, 0]);
    const cell = lane.cells.get(column);
    for (let i = 0; i < 3; i++) { cell[i] += row[INSERT + i]; lane.sums[i + 1] += row[INSERT + i]; }
    if (row[KIND] !== MORE) lane.sums[0] += 1;
    lane.first = Math.min(lane.first, row[TIME]);
    lane.last = Math.max(lane.last, row[TIME]);
  }
  const order = [...found.entries()].sort((a, b) => b[1].sums[0] - a[1].sums[0]);
  const drawn = order.slice(0, 12);
  let most = 1;
  for (const [, lane] of drawn) for (const cell of lane.cells.values()) most = Math.max(most, cell[0] + cell[1] + cell[2]);
  const scale = (count) => (count === 0 ? 0 : Math.max(1.5, (height - 8) * Math.log1p(count) / Math.log1p(most)));
  const total = drawn.length * height + 24, pixel = (width - left) / columns;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${total}`, role: "img",
    "aria-label": `Changes over time, from ${shown(first)} to ${shown(final)}, in ${plural(drawn.length, "lane")}; the table below has the figures.` });
  drawn.forEach(([name, lane], number) => {
    const base = (number + 1) * height;
    const text = names[name] ?? "none";
    svg.append(draw("text", { x: 6, y: base - 10 }, text.length > 24 ? text.slice(0, 23) + "…" : text));
    for (const [column, cell] of lane.cells) {
      let y = base - 2;
      const all = cell[0] + cell[1] + cell[2], tall = scale(all);
      ["insert", "update", "delete"].forEach((kind, i) => {
        if (!cell[i]) return;
        const part = tall * cell[i] / all;
        y -= part;
        svg.append(draw("rect", { class: kind, x: left + column * pixel, y, width: Math.max(1, pixel - 1), height: part }));
      });
    }
  });
  const marks = [...rows.filter(({ row }) => row[KIND] === MISSING || row[KIND] === RECREATED), ...steps].slice(0, 400);
  let known = first;
  for (const place of marks) {
    // A gap is shown at the transaction before it.
    for (let i = place.order; i >= 0; i--) if (rows[i].row[TIME] !== null) { known = rows[i].row[TIME]; break; }
    const x = left + (known - first) / step * pixel;
    svg.append(draw("line", { class: "mark", x1: x, x2: x, y1: 0, y2: total - 22 }));
  }
  element("legend").textContent = `gaps, tables that were made again, clocks that were set back (${marks.length})`;
  for (let i = 0; i <= 4; i++)
    svg.append(draw("text", { class: "axis", x: left + (width - left) * i / 4, y: total - 7,
      "text-anchor": i === 0 ? "start" : i === 4 ? "end" : "middle" }, shown(first + (final - first) * i / 4).slice(...(final - first < 60000 ? [11] : [0, 19]))));
  for (let column = 0; column < columns; column++) {
    const choice = draw("rect", { class: "choice", x: left + column * pixel, y: 0, width: pixel, height: total - 22 });
    const [from, to] = [Math.ceil(first + column * step), Math.floor(first + (column + 1) * step)];
    choice.append(draw("title", {}, `${shown(from)} to ${shown(to)}: click to see these transactions`));
    choice.addEventListener("click", () => {
      element("from").value = new Date(from).toISOString();
      element("to").value = new Date(to).toISOString();
      filter();
    });
    svg.append(choice);
  }
  element("timeline").append(svg);
  for (const [name, lane] of order.slice(0, 200)) {
    const line = make("tr");
    line.append(make("td", names[name] ?? "none"));
    for (const count of lane.sums) line.append(make("td", count.toLocaleString("en"), "number"));
    line.append(make("td", shown(lane.first), "time optional"), make("td", shown(lane.last), "time optional"));
    body.append(line);
  }
}

// MARK: the table of transactions

let chosen = rows, page = 0, sorting = { by: "order", descending: false }, run = 0;
const pageSize = 100;
const time = (id) => {
  const text = element(id).value.trim();
  if (!text) return null;
  const known = Date.parse(/Z$|[+-]\d\d:?\d\d$/.test(text) ? text : text.length > 10 ? text + "Z" : text);
  element(id).setAttribute("aria-invalid", Number.isNaN(known));
  return Number.isNaN(known) ? null : known;
};

function filter() {
  const turn = ++run;
  const [from, to] = [time("from"), time("to")];
  const [author, process] = [element("author").value, element("process").value];
  const wanted = [element("insert").checked, element("update").checked, element("delete").checked];
  const [text, entity] = [element("text").value.toLowerCase(), element("entity").value];
  const all = wanted.every(Boolean);
  const candidates = rows.filter(({ row }) => {
    if (from !== null && (row[TIME] === null || row[TIME] < from)) return false;
    if (to !== null && (row[TIME] === null || row[TIME] > to)) return false;
    if (author !== "" && row[AUTHOR] !== Number(author)) return false;
    if (process !== "" && row[PROCESS] !== Number(process)) return false;
    return all || wanted.some((isWanted, i) => isWanted && row[INSERT + i] > 0);
  });
  if (!text && !entity) return show(candidates);
  // The text of transactions is searched part by part, so that the page stays responsive.
  const matches = [];
  let index = 0;
  element("count").textContent = "Searching …";
  (function go() {
    if (turn !== run) return;
    const until = performance.now() + 40;
    while (index < candidates.length && performance.now() < until) {
      const place = candidates[index++], found = item(place);
      if (entity && !(found.changes ?? []).some((change) => change.entityName === entity) && !(found.recreated ?? []).includes(entity)) continue;
      if (text && !JSON.stringify(found).toLowerCase().includes(text)) continue;
      matches.push(place);
    }
    if (index < candidates.length) setTimeout(go, 0);
    else show(matches);
  })();
}

function show(found) {
  const key = { order: (place) => place.order, time: (place) => place.row[TIME] ?? -Infinity, size }[sorting.by];
  chosen = [...found].sort((a, b) => key(a) - key(b) || a.order - b.order);
  if (sorting.descending) chosen.reverse();
  page = 0;
  turnTo();
}

function turnTo() {
  const count = Math.max(1, Math.ceil(chosen.length / pageSize));
  page = Math.min(Math.max(page, 0), count - 1);
  element("page").textContent = `Page ${page + 1} of ${count}`;
  element("back").disabled = page === 0;
  element("next").disabled = page === count - 1;
  const changes = chosen.reduce((sum, place) => sum + size(place), 0);
  element("count").textContent = `${plural(chosen.filter(({ row }) => row[KIND] !== MORE).length, "transaction")} with ${plural(changes, "change")}.`;
  element("transactions").tBodies[0].replaceChildren(...chosen.slice(page * pageSize, (page + 1) * pageSize).map(line));
}

function line(place) {
  const found = item(place), { row } = place, node = make("tr");
  if (row[KIND] === MISSING) {
    const cell = make("td", `Transactions ${found.missing.first} to ${found.missing.last} are missing.`, "mark");
    cell.colSpan = 6;
    node.append(cell);
    return node;
  }
  const number = make("td");
  const title = found.token.split(":").pop() + (row[KIND] === MORE ? " (more)" : row[KIND] === ORPHANS ? " (transaction missing)" : "");
  const opener = make("button", title, "opener");
  opener.type = "button";
  opener.setAttribute("aria-expanded", false);
  opener.addEventListener("click", () => {
    const isOpen = opener.getAttribute("aria-expanded") === "true";
    opener.setAttribute("aria-expanded", !isOpen);
    if (isOpen) return node.nextElementSibling.remove();
    const below = make("tr"), cell = make("td");
    cell.colSpan = 6;
    cell.append(table(found));
    below.append(cell);
    node.after(below);
  });
  number.append(opener);
  node.append(number, make("td", shown(row[TIME]), "time"), make("td", found.author ?? "none"),
    make("td", found.context ?? "", "optional"), make("td", [found.processID, found.bundleID].filter((each) => each !== undefined && each !== null).join(" "), "optional"));
  const counts = make("td", undefined, "number");
  ["insert", "update", "delete"].forEach((kind, i) => {
    if (row[INSERT + i]) counts.append(make("span", ` ${{ insert: "+", update: "~", delete: "−" }[kind]}${row[INSERT + i].toLocaleString("en")}`, kind));
  });
  if (!size(place)) counts.append(found.recreated ? "" : "none");
  node.append(counts);
  return node;
}

const said = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
function table(found) {
  const node = make("table", undefined, "changes"), head = make("tr");
  for (const title of ["Operation", "Entity", "Object", "What changed"]) head.append(make("th", title));
  node.append(head);
  for (const change of (found.changes ?? []).slice(0, 1000)) {
    const line = make("tr"), what = make("td");
    const key = Object.entries(change.objectID).map(([name, value]) => `${name} = ${said(value)}`).join(", ");
    const names = [...(change.changedProperties ?? []), ...(change.unnamedProperties ?? [])];
    what.append(names.join(", "));
    if (change.changedPropertiesUnknown && !change.unnamedProperties) what.append(make("em", names.length ? " and more that is not known" : "not known"));
    for (const [name, state] of [["before", change.before], ["after", change.after]].filter(([, each]) => each)) {
      for (const [property, value] of Object.entries(state.values)) what.append(make("div", `${property} ${name}: ${said(value)} (${state.source})`));
      for (const property of state.omitted ?? []) what.append(make("div", `${property} ${name}: too large to show (${state.source})`));
    }
    if (!change.before) for (const [name, value] of Object.entries(change.tombstone?.values ?? {})) what.append(make("div", `${name} was ${said(value)}`));
    line.append(make("td", change.operation, change.operation), make("td", change.entityName), make("td", change.label ? `${key}: ${change.label}` : key), what);
    node.append(line);
  }
  for (const entity of found.recreated ?? []) {
    const line = make("tr");
    line.append(make("td", "recreated", "mark"), make("td", entity), make("td"), make("td", "The table was made again, or changes of it were not recorded: its rows are to be read again."));
    node.append(line);
  }
  if ((found.changes ?? []).length > 1000) {
    const line = make("tr"), cell = make("td", `${plural(found.changes.length - 1000, "change")} more, in the source of this page.`);
    cell.colSpan = 4;
    line.append(cell);
    node.append(line);
  }
  return node;
}

function model() {
  for (const entity of record.description.entities ?? []) {
    const line = make("tr"), properties = make("td");
    const names = (entity.properties ?? []).map((each) => `${each.name}: ${each.type ?? each.destination ?? each.kind}`);
    if (names.length) {
      const details = make("details");
      details.append(make("summary", plural(names.length, "property").replace("propertys", "properties")), make("div", names.join(", "), "code"));
      properties.append(details);
    }
    line.append(make("td", entity.name), make("td", (entity.changes ?? 0).toLocaleString("en"), "number"), make("td", (entity.preserved ?? []).join(", ")), properties);
    element("model").tBodies[0].append(line);
    if (entity.changes) element("entity").append(new Option(entity.name, entity.name));
  }
}

facts();
unknowns();
model();
lanes[1].forEach((name, index) => element("author").append(new Option(name ?? "none", index)));
lanes[2].forEach((name, index) => element("process").append(new Option(name ?? "none", index)));
if (lanes[1].length < 2 && lanes[2].length > 1) element("by").value = "2";
timeline();
show(rows);
element("by").addEventListener("change", timeline);
element("filters").addEventListener("submit", (event) => event.preventDefault());
element("filters").addEventListener("input", filter);
element("filters").addEventListener("reset", () => setTimeout(filter, 0));
element("back").addEventListener("click", () => { page -= 1; turnTo(); });
element("next").addEventListener("click", () => { page += 1; turnTo(); });
for (const button of document.querySelectorAll("[data-sort]"))
  button.addEventListener("click", () => {
    const by = button.dataset.sort;
    sorting = { by, descending: sorting.by === by && !sorting.descending };
    for (const each of document.querySelectorAll("[data-sort]")) each.parentElement.removeAttribute("aria-sort");
    button.parentElement.setAttribute("aria-sort", sorting.descending ? "descending" : "ascending");
    show(chosen);
  });
document.documentElement.dataset.ready = "yes";
