/** Locks on paths of a tree, with owners and deadlines. */
import assert from "node:assert/strict";
import { ManualClock, openMemory } from "../src/index.ts";

const clock = new ManualClock();
const coordinate = openMemory({ clock });
const namespace = coordinate.namespace("locks");

// `lock` locks all paths or none. It returns null on success.
const mine = { owner: "me", paths: [["accounts", "7"], ["index"]], timeoutMs: 30_000 };
assert.equal(await namespace.lock(mine), null);

// A locked path cannot be locked again, nor can any path above or below it.
for (const path of [["index"], ["accounts"], ["accounts", "7", "photo"]]) {
  const refused = await namespace.lock({ owner: "you", paths: [path] });
  console.log(path.join("/"), "refused, held by", refused?.owner ?? "a relative");
  assert.deepEqual(refused?.path, path);
}
// A sibling path is free.
assert.equal(await namespace.lock({ owner: "you", paths: [["accounts", "8"]] }), null);

// The owner must renew its locks before they expire, or it loses them.
clock.advance(20_000);
assert.equal(await namespace.renewLocks(mine), null);
clock.advance(20_000);
assert.deepEqual(await namespace.readLocks([["index"]]), ["me"]);
clock.advance(20_000);
assert.deepEqual(await namespace.readLocks([["index"]]), [null]);
assert.deepEqual(await namespace.renewLocks(mine), { path: ["accounts", "7"], owner: null });

// `lockSome` locks each path by itself and returns which were granted.
const granted = await namespace.lockSome({ owner: "me", paths: [["a"], ["a", "b"], ["c"]] });
console.log(granted);
assert.deepEqual(granted, [true, false, true]);
assert.equal(await namespace.unlock({ owner: "me", paths: [["a"], ["c"]] }), null);

await coordinate.close();
