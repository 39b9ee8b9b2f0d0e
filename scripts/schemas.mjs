// Writes the JSON Schemas that the package ships, from the tables that validate:
// node --import ./examples/typescript.mjs scripts/schemas.mjs

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { configurationSchema } from "../src/config/index.ts";
import { flowSchema, specSchema } from "../src/flow/index.ts";

const folder = path.join(import.meta.dirname, "..", "schema");
mkdirSync(folder, { recursive: true });
for (const [name, schema] of Object.entries({
  flow: flowSchema(),
  "work-spec": specSchema(),
  configuration: configurationSchema(),
}))
  writeFileSync(path.join(folder, `${name}.schema.json`), `${JSON.stringify(schema, null, 2)}\n`);
