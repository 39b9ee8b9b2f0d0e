/**
 * Late renewals by engines whose clocks differ: a lease may have expired by one clock and not by another. In any order of events, no
 * more attempts run than the limits allow.
 */
import { expect, test } from "vitest";
import { encodeData, Engine, ManualClock, type Store } from "../../src/core/index.ts";

interface Limited {
  name: string;
  /** The keys of the work spec except its name. */
  spec: object;
  limits?: { name: string; maxRunning: number }[];
  /** The work specs of the two units. */
  of?: [string, string];
}

const limited: Limited[] = [
  { name: "max_running", spec: { max_running: 1 } },
  { name: "max_running_per_partition", spec: { max_running_per_partition: 1 } },
  { name: "a limit", spec: { limits: ["x"] }, limits: [{ name: "x", maxRunning: 1 }] },
  {
    name: "a limit that two work specs share",
    spec: { limits: ["x"] },
    limits: [{ name: "x", maxRunning: 1 }],
    of: ["first", "second"],
  },
];

/** `open` returns a store, or two stores on the same database, and an empty namespace in it. */
export function testLateRenewals(open: () => Promise<{ store: Store; other?: Store; ns: string }>): void {
  for (const { name, spec, limits = [], of = ["first", "first"] } of limited) {
    const prepare = async (): Promise<{
      ns: string;
      ahead: Engine;
      behind: Engine;
      clock: ManualClock;
      late: ManualClock;
      attempts: string[];
    }> => {
      const { store, other = store, ns } = await open();
      const [clock, late] = [new ManualClock(1_000_000), new ManualClock(999_990)];
      const ahead = new Engine(store, { clock, random: () => 0 });
      const behind = new Engine(other, { clock: late, random: () => 0 });
      const attempts: string[] = [];
      if (limits.length > 0) await ahead.setLimits(ns, limits);
      for (const one of new Set(of))
        await ahead.setWorkSpecs(ns, [{ data: encodeData({ name: one, ...spec }) }]);
      // the second unit takes the slot of the first, whose lease has expired; then the lease of the second expires by one clock only
      for (const [i, one] of of.entries()) {
        await ahead.addWorkUnits(ns, one, [{ name: `unit ${9 - i}`, partition: "p" }]);
        const [given] = await ahead.requestAttempts(ns, { worker: one, workSpecs: [one], lifetimeMs: 100 });
        if (given !== undefined) attempts.push(given.id);
        clock.advance(100);
        late.advance(100);
      }
      return { ns, ahead, behind, clock, late, attempts };
    };
    const renew = async (engine: Engine, ns: string, attempt = ""): Promise<string | null> => {
      const [answer] = await engine.settleAttempts(ns, [{ attempt, action: "renew", lifetimeMs: 1000 }]);
      return answer?.error ?? null;
    };

    test(`${name}: a place that a late renewal took is not renewed by an engine whose clock is behind`, async () => {
      const { ns, ahead, behind, attempts } = await prepare();
      const [first, second] = attempts;
      expect(await renew(ahead, ns, first)).toBe(null);
      expect(await renew(behind, ns, second)).toBe("lost_lease");
      expect(await renew(ahead, ns, second)).toBe("lost_lease");
    });

    test(`${name}: a late renewal waits for the place that an engine whose clock is behind has renewed`, async () => {
      const { ns, ahead, behind, attempts } = await prepare();
      const [first, second] = attempts;
      expect(await renew(behind, ns, second)).toBe(null);
      expect(await renew(ahead, ns, first)).toBe("lost_lease");
    });

    test(`${name}: of late renewals at once, one succeeds`, async () => {
      const { ns, ahead, behind, late, attempts } = await prepare();
      late.advance(20);
      const engines = [ahead, behind, ahead, behind];
      const answers = await Promise.all(
        engines.flatMap((engine, i) => [renew(engine, ns, attempts[i % 2]), renew(engine, ns, attempts[0])]),
      );
      const running = (await ahead.tally(ns)).reduce((sum, { counts }) => sum + counts.pending, 0);
      expect(running).toBe(1);
      expect(answers).toContain(null);
    });
  }
}
