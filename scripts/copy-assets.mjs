// What the build needs besides JavaScript: files of src that are not TypeScript, at the same place below dist.
//
// Run `node scripts/copy-assets.mjs [to]`, after tsc.

import { copyFileSync, mkdirSync } from "node:fs";
import path from "node:path";

/** Relative to src. */
const assets = ["worker/python/shim.py"];

const root = path.join(import.meta.dirname, "..");
const to = path.resolve(process.argv[2] ?? path.join(root, "dist"));
for (const asset of assets) {
  const target = path.join(to, asset);
  mkdirSync(path.dirname(target), { recursive: true });
  copyFileSync(path.join(root, "src", asset), target);
}
