/** Whatever a function throws becomes the outcome of its job. */
import { expect, test } from "vitest";
import { invoke, type RunRequest } from "../../src/jobs/child/invoke.ts";
import type { Loader } from "../../src/jobs/child/load.ts";
import type { JobOutcome } from "../../src/jobs/job.ts";

function thrown(value: unknown): Promise<JobOutcome> {
  const fn = (): never => {
    throw value;
  };
  const load = (): ReturnType<Loader["load"]> => Promise.resolve({ fn, version: "" });
  const request = { args: [], kwargs: {} } as unknown as RunRequest;
  const loader = { load } as unknown as Loader;
  return invoke(request, { loader, signal: new AbortController().signal, onProgress: () => undefined });
}

const getter = (name: string): Error =>
  Object.defineProperty(new Error("broken"), name, {
    get: () => {
      throw new Error(`${name} cannot be read`);
    },
  });

const revoked = (): object => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
};

const cannotBeRead = "the function threw an error that cannot be read";

/** Functions: the test runner must not look into such values. */
const cases: readonly (readonly [what: string, message: string, make: () => unknown])[] = [
  ["an error without a readable message", cannotBeRead, () => getter("message")],
  ["an error without a readable stack", "broken", () => getter("stack")],
  ["an error with an unreadable cause", "broken", () => new Error("broken", { cause: getter("message") })],
  ["a proxy that was revoked", cannotBeRead, revoked],
  ["an error with another stack", "broken", () => Object.assign(new Error("broken"), { stack: { at: 1 } })],
  ["an error with another message", "5", () => Object.assign(new Error("broken"), { message: 5 })],
];

for (const [what, message, make] of cases)
  test(what, async () => {
    const outcome = await thrown(make());
    expect(outcome).toMatchObject({
      state: "ERROR",
      category: "ERROR",
      error: { message, phase: "execute", traceback: expect.any(String) as string },
    });
  });
