// The lists of the documentation that are generated from tables of the code. `scripts/schemas.mjs` writes them into the pages,
// between the comments `<!-- NAME: made by npm run schemas -->` and `<!-- end -->`. A test checks that the pages are up to date.

import { metaFields, wantedKind, workSpecKeys } from "../src/core/index.ts";

/** Lists, not tables: the description of a key is often too long for a cell.
 * @param {readonly string[]} items */
const list = (items) => items.map((item) => `- ${item}`).join("\n");

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

/** @type {Readonly<Record<string, string>>} By the name in the page's comment. */
export const docTables = {
  "work-spec keys": list([
    ...specific.map(([key, row]) => {
      const kind = wantedKind(row).replace(/^an? /, "") + inUnit(row);
      const otherwise =
        row.default === undefined ? "" : `; ${code(JSON.stringify(row.default))} if not given`;
      return `${code(key)} (${kind}${key === "name" ? "; required" : otherwise}): ${row.help}`;
    }),
    `${forWorkers.map(([key]) => code(key)).join(", ")}: stored and handed to workers`,
  ]),
  "work-spec metadata": list(
    metaFields.map(({ field, key, name, aliases = [], metaOnly, settable, kind, help }) => {
      const from = metaOnly === true ? "" : `from the key ${code(key)}; `;
      const set = settable === true ? `set as ${[name, ...aliases].map(code).join(" or ")}` : "cannot be set";
      return `${code(field)} (${from}${set}): ${help}${metaUnits[kind] ?? ""}`;
    }),
  ),
};

/**
 * The page with its tables generated again.
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
