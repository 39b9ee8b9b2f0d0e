/** An in-memory coordinate with a manual clock that records which verbs were called. */
import { expect } from "vitest";
import {
  CoordinateHandle,
  ManualClock,
  openMemory,
  type Coordinate,
  type ErrorCode,
  type Namespace,
} from "../../src/index.ts";

export interface Setup {
  clock: ManualClock;
  coordinate: CoordinateHandle;
  ns: Namespace;
  /** The verbs called so far, in order. */
  calls: string[];
}

export function setup(name = "test"): Setup {
  const clock = new ManualClock();
  const calls: string[] = [];
  const coordinate = new CoordinateHandle(counted(openMemory({ clock, random: () => 0 }).verbs, calls));
  return { clock, coordinate, ns: coordinate.namespace(name), calls };
}

function counted(verbs: Coordinate, calls: string[]): Coordinate {
  return new Proxy(verbs, {
    get: (target, verb) => {
      const value: unknown = Reflect.get(target, verb, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        calls.push(String(verb));
        return Reflect.apply(value, target, args);
      };
    },
  });
}

export async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export async function expectError(code: ErrorCode, promise: Promise<unknown>): Promise<void> {
  await expect(promise).rejects.toMatchObject({ name: "CoordinateError", code });
}
