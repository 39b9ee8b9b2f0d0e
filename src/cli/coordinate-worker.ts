#!/usr/bin/env node
/** The program `coordinate-worker`: `coordinate worker`, with the Python runtime unless `--tasks` or `--runtime` is given. */
const words = process.argv.slice(2);
const says = (option: string): boolean =>
  words.some((word) => word === option || word.startsWith(`${option}=`));
const python =
  says("--tasks") || says("--runtime") || says("--help") || says("-h") ? [] : ["--runtime", "python"];
process.argv.splice(2, Infinity, "worker", ...python, ...words);
await import("./main.ts");

export {};
