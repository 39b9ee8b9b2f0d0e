/** The Python methods about locks on paths of a tree. */
import { Buffer } from "node:buffer";
import { cborData, CoordinateError, type LockPath } from "../../core/index.ts";
import { method, no, number, optionalName, pair, RpcError, yes } from "../call.ts";
import type { Item } from "../item.ts";
import { Writer } from "../write.ts";

const longestTimeout = 1_000_000;

/** The timeout in milliseconds. Absent, null and 0 use the default of the verb, a minute. */
function readTimeout(item: Item | undefined): number {
  if (item === undefined || item.isNull) return 0;
  const seconds = Math.trunc(item.number("timeout"));
  if (Number.isNaN(seconds)) throw new RpcError("timeout must be a number");
  return Math.min(Math.max(seconds, -longestTimeout), longestTimeout) * 1000;
}

interface Key {
  path: LockPath;
  /** The labels in their original encoding, for the answer. */
  labels: readonly Uint8Array[];
}

const maxKeys = 100_000;
const maxLabels = 1000;

function readKeys(item: Item | undefined): Key[] {
  if (item?.kind !== "list") throw new RpcError("cannot decode key paths");
  const keys: Key[] = [];
  for (const one of item.items()) {
    if (keys.length === maxKeys) throw new CoordinateError("too_large", `more than ${maxKeys} key paths`);
    keys.push(readKey(one));
  }
  return keys;
}

function readKey(item: Item): Key {
  if (item.kind !== "list") throw new RpcError("cannot decode key paths");
  const labels = item.some(maxLabels);
  if (labels.length > maxLabels)
    throw new CoordinateError("too_large", `a key path of more than ${maxLabels} labels`);
  return { path: labels.map(labelText), labels: labels.map((label) => label.slice()) };
}

/** The prefix of labels that are not text: a character that no text has. */
const mark = "\ufdd0";

/**
 * A label as a string; different labels give different strings. Text and bytes of the same content are the same label: Python
 * clients mix them without noticing. Numbers and all other values differ by type and value.
 */
function labelText(label: Item): string {
  if (label.kind === "string") {
    const text = label.text("label");
    return text.startsWith(mark) ? mark + text : text;
  }
  // a label may be any value and is sent back unchanged, so it must be one that the client can read
  if (label.kind === "list" || label.kind === "map" || label.kind === "other")
    cborData(Buffer.concat([Buffer.of(0xa1, 0x00), label.slice()]));
  const isFloat = label.bytes[label.at]! >= 0xf9;
  const bytes =
    label.kind === "number"
      ? isFloat
        ? new Writer().float(label.number("label")).content()
        : new Writer().number(label.number("label")).content()
      : label.slice();
  return mark + Buffer.from(bytes).toString("hex");
}

/** A list as Go prints it. */
const show = (path: LockPath): string => `[${path.join(" ")}]`;

const lock = method(3, 3, async ({ coordinate, ns }, [id, timeout, keys]) => {
  const owner = optionalName(id, "locker_id");
  const paths = readKeys(keys).map(({ path }) => path);
  const refused = await coordinate.lock(ns, { owner, timeoutMs: readTimeout(timeout), paths });
  return refused === null ? yes : no(`${show(refused.path)} is not lockable`);
});

const locksome = method(3, 3, async ({ coordinate, ns }, [id, timeout, keys]) => {
  const owner = optionalName(id, "locker_id");
  const read = readKeys(keys);
  const paths = read.map(({ path }) => path);
  const granted = await coordinate.lockSome(ns, { owner, timeoutMs: readTimeout(timeout), paths });
  return pair((to) => {
    to.array(read.length);
    read.forEach(({ labels }, i) => {
      if (granted[i] !== true) to.null();
      else {
        to.array(labels.length);
        for (const label of labels) to.raw(label);
      }
    });
  });
});

const renew = method(3, 3, async ({ coordinate, ns }, [id, timeout, keys]) => {
  const owner = optionalName(id, "locker_id");
  const paths = readKeys(keys).map(({ path }) => path);
  const refused = await coordinate.renewLocks(ns, { owner, timeoutMs: readTimeout(timeout), paths });
  return refused === null ? yes : no(`${show(refused.path)} is held by ${refused.owner ?? "None"}`);
});

const unlock = method(2, 2, async ({ coordinate, ns }, [id, keys]) => {
  const owner = optionalName(id, "locker_id");
  const paths = readKeys(keys).map(({ path }) => path);
  const refused = await coordinate.unlock(ns, { owner, paths });
  if (refused === null) return yes;
  return no(
    refused.owner === null
      ? `${show(refused.path)} is not held`
      : `${show(refused.path)} is held by ${refused.owner}`,
  );
});

const readlock = method(1, 1, async ({ coordinate, ns }, [keys]) => {
  const owners = await coordinate.readLocks(
    ns,
    readKeys(keys).map(({ path }) => path),
  );
  return (to) => {
    to.array(owners.length);
    for (const owner of owners) {
      if (owner === null) to.null();
      else to.name(owner);
    }
  };
});

/** Releases all locks below a first label, whoever holds them. Unrelated to the namespaces of Coordinate. */
const deleteNamespace = method(1, 1, async ({ coordinate, ns }, [label]) => {
  if (label === undefined) throw new RpcError("cannot decode key paths");
  await coordinate.clearLocks(ns, [labelText(label)]);
  return number(0);
});

export const lockMethods = { lock, locksome, renew, unlock, readlock, delete_namespace: deleteNamespace };
