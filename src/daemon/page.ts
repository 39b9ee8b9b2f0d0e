/**
 * The page for browsers: what there is, how fast it goes, why nothing happens. One file of each kind, no build, no
 * package. Names and reasons come from users, so everything is put on the page as text and nothing as markup.
 */
import type { Route } from "../rest/index.ts";

export const pageHtml = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Coordinate</title>
<link rel="stylesheet" href="/page.css">
<script src="/page.js" defer></script>
</head>
<body>
<header>
<h1>Coordinate</h1>
<label>Namespace <select id="namespace"></select></label>
<span id="state" role="status">loading</span>
<a href="/docs">Interface</a>
<form id="login" hidden><label>Token <input id="token" type="password" autocomplete="off"></label><button>Use it</button></form>
</header>
<main>
<section aria-labelledby="h1"><h2 id="h1">Work specs</h2><div class="scroll"><table id="specs"></table></div></section>
<section aria-labelledby="h2"><h2 id="h2">What would a worker get now?</h2><div class="scroll"><table id="explain"></table></div></section>
<section aria-labelledby="h3"><h2 id="h3">Workers</h2><div class="scroll"><table id="workers"></table></div></section>
<section aria-labelledby="h4"><h2 id="h4">All namespaces</h2><div class="scroll"><table id="all"></table></div></section>
</main>
</body>
</html>
`;

const pageCss = `:root { color-scheme: light dark; --line: #8884; --soft: #888; --good: #2a7d46; --bad: #b3372f; }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 1rem; align-items: baseline; padding: .75rem 1.5rem; border-bottom: 1px solid var(--line); }
h1 { font-size: 1.2rem; margin: 0; }
h2 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
main { padding: 0 1.5rem 2rem; max-width: 90rem; }
#state { color: var(--soft); margin-left: auto; }
#state.bad { color: var(--bad); font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; color: var(--soft); font-size: .85rem; }
td.n, th.n { text-align: right; }
td.name { white-space: pre-wrap; overflow-wrap: anywhere; min-width: 10rem; max-width: 30rem; }
td.zero { color: var(--soft); }
td.bad { color: var(--bad); }
td.good { color: var(--good); }
.empty { color: var(--soft); }
pre { overflow-x: auto; background: #8881; padding: .6rem; border-radius: 4px; font-size: .85rem; }
details { border-bottom: 1px solid var(--line); padding: .3rem 0; }
summary { cursor: pointer; }
code { font-size: .9rem; }
.method { display: inline-block; width: 4.5rem; font-weight: 600; }
`;

const pageJs = String.raw`"use strict";
const get = (id) => document.getElementById(id);
const statuses = ["available", "delayed", "blocked", "pending", "finished", "failed"];
let before = new Map();
let timer = 0;

function urlName(name) {
  if (/^(?!\.{1,2}$)[A-Za-z0-9._:][A-Za-z0-9._:-]*$/.test(name)) return name;
  const bytes = [];
  for (const piece of name) {
    const unit = piece.charCodeAt(0);
    if (piece.length === 1 && unit >= 0xdc80 && unit <= 0xdcff) bytes.push(unit - 0xdc00);
    else bytes.push(...new TextEncoder().encode(piece));
  }
  return "-" + btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

async function ask(path, body) {
  const token = sessionStorage.getItem("token");
  const headers = { "content-type": "application/json" };
  if (token) headers.authorization = "Bearer " + token;
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body || {}) });
  const value = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(value.message), { status: answer.status });
  return value;
}

function fill(id, heads, rows, empty) {
  const table = get(id);
  table.replaceChildren();
  if (rows.length === 0) {
    const cell = table.insertRow().insertCell();
    cell.textContent = empty;
    cell.className = "empty";
    return;
  }
  const head = table.createTHead().insertRow();
  for (const { text, kind } of heads) {
    const cell = document.createElement("th");
    cell.textContent = text;
    cell.className = kind || "";
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach((value, i) => {
      const cell = line.insertCell();
      const { text, kind } = typeof value === "object" ? value : { text: value, kind: "" };
      cell.textContent = show(text);
      cell.className = [heads[i].kind || "", kind, text === 0 ? "zero" : ""].join(" ").trim();
    });
  }
}

// control characters and bytes that are no text would otherwise be invisible
function show(value) {
  if (typeof value === "number") return value.toLocaleString("en");
  return String(value).replace(/[\u0000-\u001f\u007f\u200b-\u200f\u202a-\u202e\udc80-\udcff]/g,
    (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

const n = (text) => ({ text, kind: "n" });
const column = (text) => ({ text });

function rate(row, now) {
  const key = JSON.stringify([row.namespace, row.workSpec]);
  const done = row.counts.finished + row.counts.failed + row.removed.finished + row.removed.failed;
  const history = (before.get(key) || []).filter(({ at }) => now - at < 30000);
  history.push({ at: now, done });
  before.set(key, history);
  const first = history[0];
  return now - first.at < 1000 ? 0 : Math.round(((done - first.done) * 1000 / (now - first.at)) * 10) / 10;
}

async function refresh() {
  const select = get("namespace");
  const [namespaces, tally] = await Promise.all([ask("/v1/list-namespaces"), ask("/v1/tally")]);
  const names = namespaces.map(({ name }) => name);
  const chosen = select.value === "" ? (location.hash ? decodeURIComponent(location.hash.slice(1)) : "") : JSON.parse(select.value);
  const ns = names.includes(chosen) ? chosen : names[0];
  if (JSON.stringify([...select.options].map(({ value }) => value)) !== JSON.stringify(names.map((name) => JSON.stringify(name)))) {
    select.replaceChildren(...names.map((name) => {
      const option = document.createElement("option");
      option.value = JSON.stringify(name);
      option.textContent = name === "" ? "(default)" : show(name);
      option.selected = name === ns;
      return option;
    }));
  }
  const now = Date.now();
  const rates = new Map(tally.map((row) => [row, rate(row, now)]));
  const counts = statuses.map(n);
  fill("all", [column("Namespace"), column("Work spec"), ...counts, n("done/s")],
    tally.slice(0, 500).map((row) => [{ text: row.namespace || "(default)", kind: "name" }, { text: row.workSpec, kind: "name" },
      ...statuses.map((status) => row.counts[status]), rates.get(row)]), "There is no work spec in any namespace.");
  if (ns === undefined) {
    for (const id of ["specs", "explain", "workers"]) fill(id, [], [], "There is no namespace yet.");
    return;
  }
  const base = "/v1/namespace/" + urlName(ns);
  const [specs, explain, workers] = await Promise.all([
    ask(base + "/list-work-specs", { limit: 500 }), ask(base + "/explain"), ask(base + "/list-workers", { limit: 200, active: true }),
  ]);
  const mine = new Map(tally.filter(({ namespace }) => namespace === ns).map((row) => [row.workSpec, row]));
  fill("specs", [column("Work spec"), ...counts, n("done/s"), n("weight"), n("priority"), column("then"), column("notes")],
    specs.rows.map(({ name, meta }) => {
      const row = mine.get(name);
      return [{ text: name, kind: "name" },
        ...statuses.map((status) => ({ text: row ? row.counts[status] : 0, kind: status === "failed" && row && row.counts.failed > 0 ? "bad" : "" })),
        row ? rates.get(row) : 0, meta.weight, meta.priority, meta.nextWorkSpecName,
        [meta.paused ? "paused" : "", meta.continuous ? "continuous" : "", meta.runtime].filter(Boolean).join(", ")];
    }), "This namespace has no work spec.");
  fill("explain", [column("Work spec"), n("chance"), column("because it")],
    explain.map((one) => [{ text: one.workSpec, kind: "name" },
      { text: Math.round(one.chance * 1000) / 10 + " %", kind: one.chance > 0 ? "good" : "" }, one.reason]), "There is nothing to choose from.");
  fill("workers", [column("Worker"), column("mode"), column("parent"), column("last seen"), column("should")],
    workers.rows.map((worker) => [{ text: worker.name, kind: "name" }, worker.mode, worker.parent === null ? "" : worker.parent,
      new Date(worker.lastUpdate).toLocaleString(), worker.desired]), "No worker is active.");
}

async function loop() {
  clearTimeout(timer);
  const state = get("state");
  try {
    await refresh();
    state.textContent = "as of " + new Date().toLocaleTimeString();
    state.className = "";
    get("login").hidden = true;
  } catch (error) {
    state.textContent = error.message;
    state.className = "bad";
    if (error.status === 401) get("login").hidden = false;
  }
  timer = setTimeout(loop, document.hidden ? 15000 : 2000);
}

get("namespace").addEventListener("change", (event) => {
  location.hash = encodeURIComponent(JSON.parse(event.target.value));
  loop();
});
get("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", get("token").value.trim());
  loop();
});
document.addEventListener("visibilitychange", loop);
loop();
`;

const docsHtml = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Coordinate: the REST interface</title>
<link rel="stylesheet" href="/page.css">
<script src="/docs.js" defer></script>
</head>
<body>
<header><h1>The REST interface</h1><a href="/">Back</a><a href="/openapi.json">OpenAPI document</a></header>
<main id="main"></main>
</body>
</html>
`;

const docsJs = String.raw`"use strict";
const add = (parent, tag, text, kind) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (kind) element.className = kind;
  parent.append(element);
  return element;
};
async function main() {
  const document_ = await (await fetch("/openapi.json")).json();
  const main = document.getElementById("main");
  add(main, "p", document_.info.description);
  for (const tag of document_.tags) {
    add(main, "h2", tag.description);
    for (const [path, item] of Object.entries(document_.paths)) {
      for (const [method, operation] of Object.entries(item)) {
        if (!operation.tags.includes(tag.name)) continue;
        const details = add(main, "details");
        const summary = add(details, "summary");
        add(summary, "span", method.toUpperCase(), "method");
        add(summary, "code", path);
        add(details, "p", operation.summary + " Scope: " + operation["x-scope"] + ".");
        for (const parameter of operation.parameters || []) add(details, "p", parameter.in + " parameter " + parameter.name);
        const show = (title, content) => {
          for (const [type, { schema }] of Object.entries(content || {})) {
            if (!schema) continue;
            add(details, "p", title + ", " + type);
            add(details, "pre", JSON.stringify(schema, null, 2));
          }
        };
        show("Request", operation.requestBody && operation.requestBody.content);
        for (const [status, answer] of Object.entries(operation.responses)) show("Answer " + status, answer.content);
      }
    }
  }
}
main();
`;

const file = (path: string, id: string, type: string, text: string): Route => ({
  id,
  method: "GET",
  path,
  scope: "open",
  family: "daemon",
  summary: "A file of the pages for browsers.",
  answerType: type,
  handle: async () => text,
});

export const pageRoutes: readonly Route[] = [
  file("/page.css", "page.css", "text/css; charset=utf-8", pageCss),
  file("/page.js", "page.js", "text/javascript; charset=utf-8", pageJs),
  file("/docs", "docs", "text/html; charset=utf-8", docsHtml),
  file("/docs.js", "docs.js", "text/javascript; charset=utf-8", docsJs),
];
