// Writes the files generated from tables of the code: the JSON Schemas that the package ships, and tables of the docs.
// node --import ./examples/typescript.mjs scripts/schemas.mjs

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { configurationSchema } from "../src/config/index.ts";
import { flowSchema, specSchema } from "../src/flow/index.ts";
import { withTables } from "./doc-tables.mjs";

const folder = path.join(import.meta.dirname, "..", "schema");
mkdirSync(folder, { recursive: true });
for (const [name, schema] of Object.entries({
  flow: flowSchema(),
  "work-spec": specSchema(),
  configuration: configurationSchema(),
}))
  writeFileSync(path.join(folder, `${name}.schema.json`), `${JSON.stringify(schema, null, 2)}\n`);

for (const name of ["work-specs"]) {
  const page = path.join(import.meta.dirname, "..", "docs", `${name}.md`);
  writeFileSync(page, withTables(readFileSync(page, "utf8")));
}
