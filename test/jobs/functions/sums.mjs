// The functions that the tests of jobs run, in separate processes.
import { appendFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/**
 * The same as `currentJob()` of the package, which this file cannot import.
 * @returns {import("../../../src/jobs/index.ts").CurrentJob}
 */
function currentJob() {
  /** @typedef {{ getStore(): import("../../../src/jobs/index.ts").CurrentJob }} Storage */
  const holder = /** @type {Record<symbol, Storage>} */ (/** @type {unknown} */ (globalThis));
  const storage = holder[Symbol.for("coordinate.jobs.current")];
  if (storage === undefined) throw new Error("no job runs here");
  return storage.getStore();
}

/** @type {(a: number, b: number) => number} */
export const add = (a, b) => a + b;

/** @param {number} a @param {{ b: number, c: number }} named */
export function withKwargs(a, { b, c }) {
  return { sum: a + b + c };
}

/** @param {number} a @param {number} b */
export function divide(a, b) {
  if (b === 0) throw new RangeError("division by zero");
  return a / b;
}

/** @param {number} ms @param {unknown} value */
export async function sleep(ms, value = "OK") {
  await delay(ms);
  return value;
}

/** Blocks the event loop forever. */
export function spin() {
  for (;;);
}

export const nothing = () => undefined;
/** @param {unknown[]} args */
export const echo = (...args) => args;
/** @param {number} length */
export const long = (length) => "x".repeat(length);
export const bigint = () => 10n;
export const cycle = () => {
  /** @type {Record<string, unknown>} */
  const made = {};
  made.self = made;
  return made;
};
export const aFunction = () => ({ call: () => 1 });
export const notANumber = () => ({ ratio: NaN });
/** @type {(code: number) => never} */
export const exit = (code) => process.exit(code);
/** Crashes its process by a rejection that nothing handles, after a lot of other output. */
export const reject = () => {
  console.error("noise ".repeat(10_000));
  void Promise.reject(new Error("nobody awaited this"));
  return delay(60_000);
};
export const kill = () => process.kill(process.pid, "SIGKILL");
export const environment = () => process.env;
export const pid = () => process.pid;
export const text = "not a function";
/** @param {string} line */
export const print = (line) => {
  console.log(line);
  return null;
};
export const throwText = () => {
  // eslint-disable-next-line @typescript-eslint/only-throw-error -- anything can be thrown
  throw "only text";
};

/** Records that it ran. @param {string} file @param {string} line */
export function note(file, line) {
  appendFileSync(file, `${line}\n`);
  return line;
}

/** @param {string} file @param {string} line @param {number} ms */
export async function noteAndSleep(file, line, ms) {
  note(file, line);
  await delay(ms);
  return line;
}

/** @param {string} file @param {number} times */
export function failTimes(file, times) {
  appendFileSync(file, "x");
  const { attempt } = currentJob();
  if (attempt <= times) throw new Error(`attempt ${attempt} fails`);
  return attempt;
}

export function dependencies() {
  return currentJob().dependencies.map(({ result, state }) => [state, result]);
}

/** Reports progress. */
export async function progress() {
  const job = currentJob();
  job.progress({ done: 1, of: 2 });
  await delay(20);
  job.progress({ done: 2, of: 2 });
  return job.name;
}

/** Runs until its signal aborts, and records that. @param {string} file */
export async function untilSignal(file) {
  const { signal } = currentJob();
  appendFileSync(file, "begun\n");
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  appendFileSync(file, "told\n");
}

export default function main() {
  return "the default";
}
