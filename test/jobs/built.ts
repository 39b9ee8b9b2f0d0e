/** The program of worker processes as JavaScript: a process cannot run the sources themselves on Node 20. */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import path from "node:path";

const root = path.join(import.meta.dirname, "../..");
/** With a package.json above it, as the package has it. */
const out = path.join(root, "node_modules/.cache/jobs-test/dist");

const newest = (folder: string): number =>
  Math.max(
    ...readdirSync(folder, { recursive: true, encoding: "utf8" }).map(
      (file) => statSync(path.join(folder, file)).mtimeMs,
    ),
  );

/** A file of the package as it is built: after `npm run build` from there, else made here once. */
export function builtFile(file: string): string {
  const sources = newest(path.join(root, "src"));
  for (const place of [path.join(root, "dist"), out]) {
    const found = path.join(place, file);
    if (existsSync(found) && statSync(found).mtimeMs > sources) return found;
  }
  // types are checked elsewhere; without that it takes two seconds
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
