/** A page about the REST interface, made from the OpenAPI document. Everything is inserted as text, never as HTML. */
import type { Route } from "../rest/index.ts";

const docsCss = `:root { color-scheme: light dark; --line: #8884; --soft: #888; --good: #2a7d46; --bad: #b3372f; }
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

const docsHtml = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Coordinate: the REST interface</title>
<link rel="stylesheet" href="/docs.css">
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

const file = (path: string, type: string, text: string): Route => ({
  id: path.slice(1),
  method: "GET",
  path,
  scope: "open",
  family: "daemon",
  summary: "A file of the API documentation page.",
  answerType: type,
  handle: async () => text,
});

export const docsRoutes: readonly Route[] = [
  file("/docs", "text/html; charset=utf-8", docsHtml),
  file("/docs.css", "text/css; charset=utf-8", docsCss),
  file("/docs.js", "text/javascript; charset=utf-8", docsJs),
];
