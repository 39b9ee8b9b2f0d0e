/** The program of worker processes, compiled to JavaScript: Node 20 cannot run the TypeScript sources. */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "../..");
/** The parent folder contains a package.json, as in the package. */
const out = path.join(root, "node_modules/.cache/jobs-test/dist");

const newest = (folder: string): number =>
  Math.max(
    ...readdirSync(folder, { recursive: true, encoding: "utf8" }).map(
      (file) => statSync(path.join(folder, file)).mtimeMs,
    ),
  );

/** A built file of the package: from dist/ if `npm run build` is up to date, or else from a build made here once. */
export function builtFile(file: string): string {
  const sources = newest(path.join(root, "src"));
  for (const place of [path.join(root, "dist"), out]) {
    const found = path.join(place, file);
    if (existsSync(found) && statSync(found).mtimeMs > sources) return found;
  }
  // types are checked elsewhere; without type checks the build takes two seconds
  const off = ["--incremental", "--declaration", "--sourceMap", "--inlineSources"].flatMap((name) => [
    name,
    "false",
  ]);
  const args = [
    "-p",
    "tsconfig.build.json",
    "--outDir",
    out,
    "--tsBuildInfoFile",
    "null",
    "--noCheck",
    ...off,
  ];
  mkdirSync(out, { recursive: true });
  copyFileSync(path.join(root, "package.json"), path.join(out, "../package.json"));
  execFileSync(process.execPath, [path.join(root, "node_modules/typescript/bin/tsc"), ...args], {
    cwd: root,
    stdio: "inherit",
  });
  return path.join(out, file);
}

export const childProgram = (): string => builtFile("jobs/child/main.js");
