/** Child processes cannot run TypeScript on Node 20: compiles the sources they need to JavaScript, once. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";

const root = path.join(import.meta.dirname, "../../..");

/** Builds into node_modules, so that the imports of the store's packages resolve. */
export function build(): string {
  const cache = path.join(root, "node_modules/.cache");
  mkdirSync(cache, { recursive: true });
  const target = mkdtempSync(path.join(cache, "crash-"));
  writeFileSync(path.join(target, "package.json"), `{ "type": "module" }`);
  for (const folder of ["core", "sqlite"]) {
    mkdirSync(path.join(target, folder));
    for (const name of readdirSync(path.join(root, "src", folder))) {
      const { outputText } = ts.transpileModule(readFileSync(path.join(root, "src", folder, name), "utf8"), {
        compilerOptions: {
          target: ts.ScriptTarget.ES2022,
          module: ts.ModuleKind.ESNext,
          rewriteRelativeImportExtensions: true,
          verbatimModuleSyntax: true,
        },
      });
      writeFileSync(path.join(target, folder, name.replace(/\.ts$/, ".js")), outputText);
    }
  }
  return target;
}
