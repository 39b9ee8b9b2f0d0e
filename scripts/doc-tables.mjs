// The tables of the documentation that are made from tables of the code. `scripts/schemas.mjs` writes them into the pages,
// between the comments `<!-- NAME: made by npm run schemas -->` and `<!-- end -->`; a test sees that they are the same.

import { metaFields, wantedKind, workSpecKeys } from "../src/core/index.ts";

/** @param {readonly (readonly string[])[]} rows the first is the head */
const table = ([head = [], ...rows]) =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");

/** @param {string} name */
const code = (name) => `\`${name}\``;

const specific = Object.entries(workSpecKeys).filter(([, { forWorkers }]) => forWorkers !== true);
const forWorkers = Object.entries(workSpecKeys).filter(([, row]) => row.forWorkers === true);

/** @type {Readonly<Record<string, string | undefined>>} */
const dataUnits = { duration: "seconds", time: "seconds since 1970, or a date" };
/** @type {Readonly<Record<string, string | undefined>>} */
const metaUnits = { duration: ". In milliseconds", time: ". In milliseconds since 1970" };

/** @param {{ kind: string, unit?: string }} row */
const inUnit = ({ kind, unit = dataUnits[kind] }) => (unit === undefined ? "" : `, in ${unit}`);

/** @type {Readonly<Record<string, string>>} By the name that stands in the page's comment. */
export const docTables = {
  "work-spec keys": table([
    ["key", "type", "default", "meaning"],
    ...specific.map(([key, row]) => [
      code(key),
      wantedKind(row).replace(/^an? /, "") + inUnit(row),
      key === "name" ? "required" : row.default === undefined ? "" : code(JSON.stringify(row.default)),
      row.help,
    ]),
    [forWorkers.map(([key]) => code(key)).join(", "), "any", "", "Stored and handed to workers"],
  ]),
  "work-spec metadata": table([
    ["field", "from the key", "`coordinate set`", "meaning"],
    ...metaFields.map(({ field, key, name, aliases = [], metaOnly, settable, kind, help }) => [
      code(field),
      metaOnly === true ? "" : code(key),
      settable === true ? [name, ...aliases].map(code).join(", ") : "no",
      help + (metaUnits[kind] ?? ""),
    ]),
  ]),
};

/**
 * A page with its tables made anew.
 * @param {string} page
 */
export const withTables = (page) =>
  page.replace(
    /(<!-- (.+): made by npm run schemas -->\n\n)[^]*?(\n\n<!-- end -->)/g,
    (/** @type {string[]} */ ...[, before = "", name = "", after = ""]) => {
      const made = docTables[name];
      if (made === undefined) throw new Error(`no table is called ${name}`);
      return before + made + after;
    },
  );
