import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";

const pages = path.join(import.meta.dirname, "../../src/dashboard/pages");

test("no two pages style the same selector: their style sheets stay loaded when the user opens another page", () => {
  const sheets = readdirSync(pages).filter((name) => name.endsWith(".css"));
  const selectors = sheets.flatMap((name) => {
    const text = readFileSync(path.join(pages, name), "utf8").replace(/\/\*[^]*?\*\//g, "");
    const lists = [...text.matchAll(/([^{};]+)\{/g)].map(([, list]) => list!);
    return [...new Set(lists.flatMap((list) => list.split(",").map((one) => one.trim())))];
  });
  const rules = selectors.filter((one) => !one.startsWith("@"));
  expect(rules.filter((one, i) => rules.indexOf(one) < i)).toEqual([]);
});
