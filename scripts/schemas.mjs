// Writes the JSON Schemas that the package ships, from the tables that validate: run after `npm run build`.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { configurationSchema } from "../dist/config/index.js";
import { flowSchema, specSchema } from "../dist/flow/index.js";

const folder = path.join(import.meta.dirname, "..", "schema");
mkdirSync(folder, { recursive: true });
for (const [name, schema] of Object.entries({
  flow: flowSchema(),
  "work-spec": specSchema(),
  configuration: configurationSchema(),
}))
  writeFileSync(path.join(folder, `${name}.schema.json`), `${JSON.stringify(schema, null, 2)}\n`);
