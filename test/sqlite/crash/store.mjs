// The store in a separate process that can be killed: reads one request per line and writes one response per line.
//   node store.mjs BUILT FILE DURABILITY
import path from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [built = "", file = "", durability = "full"] = process.argv.slice(2);
/**
 * @param {string} name
 * @returns {Promise<unknown>}
 */
const load = (name) => import(pathToFileURL(path.join(built, name)).href);
const { Engine } = /** @type {typeof import("../../../src/core/index.ts")} */ (await load("core/index.js"));
const { openSqlite } = /** @type {typeof import("../../../src/sqlite/index.ts")} */ (
  await load("sqlite/index.js")
);

/** @param {unknown} answer */
const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);
/** @param {unknown} error */
const told = (error) => ({
  code: error instanceof Error && "code" in error ? error.code : "internal",
  message: String(error),
});

try {
  const store = await openSqlite(file, {
    durability: /** @type {import("../../../src/sqlite/index.ts").Durability} */ (durability),
    // as in the daemon
    reserveLog: durability === "full",
  });
  const engine = /** @type {Record<string, (...args: unknown[]) => Promise<unknown>>} */ (
    /** @type {unknown} */ (new Engine(store))
  );
  say({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    /** @type {unknown} */
    const read = JSON.parse(line);
    const { id, verb, args } = /** @type {{ id: number, verb: string, args: unknown[] }} */ (read);
    engine[verb]?.(...args).then(
      (answer) => say({ id, answer }),
      (/** @type {unknown} */ error) => say({ id, error: told(error) }),
    );
  }
} catch (error) {
  say({ ready: false, error: told(error) });
}
