/** What may be done to the model and to the real thing at once. Each compares the answers. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { encodeData, type AttemptAction, type Coordinate, type ManualClock } from "../../src/core/index.ts";
import type { Model, ModelAttempt } from "./model.ts";

export interface Real {
  coordinate: Coordinate;
  clock: ManualClock;
  /** The names under which attempts were handed out. */
  ids: Map<ModelAttempt, string>;
  ns: string;
}

type Command = fc.AsyncCommand<Model, Real>;

export const specNames = ["a", "b"];
const spec = fc.constantFrom(...specNames);
const name = fc.constantFrom("1", "2", "3", "4", "5", "6");
const data = fc.option(
  fc
    .oneof(fc.record({ n: fc.nat({ max: 9 }) }), fc.record({ output: fc.array(name, { maxLength: 3 }) }))
    .map((value) => encodeData(value)),
);
const priority = fc.constantFrom(-1, 0, 0, 0.5, 1);
const span = fc.constantFrom(0, 10, 100, 1000);

class Step implements Command {
  readonly #text: string;
  readonly #run: (model: Model, real: Real) => Promise<void>;

  constructor(text: string, run: (model: Model, real: Real) => Promise<void>) {
    this.#text = text;
    this.#run = run;
  }

  check(): boolean {
    return true;
  }

  async run(model: Model, real: Real): Promise<void> {
    await this.#run(model, real);
    await compare(model, real);
  }

  toString(): string {
    return this.#text;
  }
}

/** Where several dependencies are broken, which of them the traceback names is not promised. */
const anyDependency = (data: unknown): unknown =>
  typeof data === "string"
    ? data.replace(/dependency \d of work spec \w (failed|was deleted)/, "dependency")
    : data;

const row = (unit: {
  name: string;
  status: string;
  data: unknown;
  priority: number;
  attempts: number;
}): object => ({
  name: unit.name,
  status: unit.status,
  data: anyDependency(unit.data),
  priority: unit.priority,
  attempts: unit.attempts,
});

/** Everything that can be seen is the same. */
async function compare(model: Model, { coordinate, ids, ns }: Real): Promise<void> {
  const tallies = await coordinate.tally(ns);
  for (const { workSpec, counts } of tallies) {
    const { rows } = await coordinate.listWorkUnits(ns, workSpec);
    assert.deepEqual(rows.map(row), model.list(workSpec).map(row));
    const counted = { available: 0, delayed: 0, blocked: 0, pending: 0, finished: 0, failed: 0 };
    for (const { status } of rows) counted[status]++;
    assert.deepEqual(counts, counted);
  }
  const known = [...ids].filter(([attempt]) => !attempt.unit.deleted).slice(-12);
  const attempts = await coordinate.getAttempts(
    ns,
    known.map(([, id]) => id),
  );
  assert.deepEqual(
    attempts.map((one) => [one?.status, anyDependency(one?.data)]),
    known.map(([attempt]) => [model.attemptStatus(attempt), anyDependency(attempt.data)]),
  );
}

const queueNames = ["p", "q"];
const queues = fc.option(fc.subarray(queueNames), { nil: undefined });
const named = (given: readonly string[] | undefined): { queues?: readonly string[] } =>
  given === undefined ? {} : { queues: given };

const add = fc
  .tuple(
    spec,
    fc.array(fc.record({ name, data, priority, delayMs: span, queues }), { minLength: 1, maxLength: 4 }),
  )
  .map(
    ([spec, units]) =>
      new Step(`add to ${spec}: ${JSON.stringify(units)}`, async (model, { coordinate, ns }) => {
        for (const unit of units)
          model.add(
            spec,
            unit.name,
            unit.data as string | null,
            unit.priority,
            unit.delayMs,
            undefined,
            unit.queues,
          );
        await coordinate.addWorkUnits(
          ns,
          spec,
          units.map(({ queues, ...unit }) => ({ ...unit, ...named(queues) })),
        );
      }),
  );

/** Units wait only for lower names, so there are no cycles: those have tests of their own. */
const addWaiting = fc
  .tuple(spec, name, fc.array(fc.record({ name, hard: fc.boolean() }), { maxLength: 2 }), queues)
  .map(
    ([spec, unit, needs, queues]) =>
      new Step(
        `add to ${spec}: ${unit} after ${JSON.stringify(needs)}`,
        async (model, { coordinate, ns }) => {
          const known = needs.filter((need) => need.name < unit && model.find(spec, need.name) !== undefined);
          model.add(spec, unit, null, 0, 0, known, queues);
          const dependencies = known.map((need) => ({
            workUnit: need.name,
            kind: need.hard ? ("hard" as const) : ("soft" as const),
          }));
          await coordinate.addWorkUnits(ns, spec, [{ name: unit, dependencies, ...named(queues) }]);
        },
      ),
  );

const claim = fc
  .tuple(spec, fc.integer({ min: 1, max: 4 }), fc.constantFrom(10, 100, 1000), fc.constantFrom("w1", "w2"))
  .map(
    ([spec, number, lifetimeMs, worker]) =>
      new Step(
        `${worker} claims ${number} of ${spec} for ${lifetimeMs}`,
        async (model, { coordinate, ids, ns }) => {
          const expected = model.claim(spec, number, lifetimeMs, worker);
          const got = await coordinate.requestAttempts(ns, { worker, number, lifetimeMs, workSpecs: [spec] });
          assert.deepEqual(
            got.map((one) => [one.workUnit, one.number, one.worker, one.data, one.expirationTime]),
            expected.map((one) => [one.unit.name, one.number, one.worker, one.data, one.expiration]),
          );
          expected.forEach((attempt, i) => ids.set(attempt, got[i]!.id));
        },
      ),
  );

const settle = fc
  .tuple(
    fc.nat({ max: 11 }),
    fc.constantFrom<AttemptAction>("finish", "finish", "fail", "retry", "expire", "renew"),
    data,
    span,
  )
  .map(
    ([back, action, data, time]) =>
      new Step(
        `${action} the attempt ${back} back with ${String(data)}, ${time}`,
        async (model, { coordinate, ids, ns }) => {
          const [attempt, id] = [...ids].at(-1 - back) ?? [];
          if (attempt === undefined || id === undefined) return;
          const expected = model.settle(attempt, action, data as string | null, time);
          const [answer] = await coordinate.settleAttempts(ns, [
            { attempt: id, action, data: data, delayMs: time, lifetimeMs: time },
          ]);
          assert.deepEqual([answer?.error, answer?.changed], [expected.error, expected.changed]);
        },
      ),
  );

const advance = fc.constantFrom(1, 10, 100, 1000).map(
  (ms) =>
    new Step(`advance ${ms}`, async (model, { clock }) => {
      model.now += ms;
      model.failBroken();
      clock.advance(ms);
    }),
);

const reset = fc.tuple(spec, name).map(
  ([spec, unit]) =>
    new Step(`reset ${unit} of ${spec}`, async (model, { coordinate, ns }) => {
      const found = model.find(spec, unit);
      const expected = found !== undefined && model.reset(found) ? 1 : 0;
      assert.equal(await coordinate.resetWorkUnits(ns, spec, { names: [unit] }), expected);
    }),
);

const remove = fc.tuple(spec, name).map(
  ([spec, unit]) =>
    new Step(`delete ${unit} of ${spec}`, async (model, { coordinate, ns }) => {
      const found = model.find(spec, unit);
      if (found !== undefined) model.delete(found);
      assert.equal(
        await coordinate.deleteWorkUnits(ns, spec, { names: [unit] }),
        found === undefined ? 0 : 1,
      );
    }),
);

const prioritize = fc.tuple(spec, name, priority).map(
  ([spec, unit, priority]) =>
    new Step(`priority ${priority} for ${unit} of ${spec}`, async (model, { coordinate, ns }) => {
      const found = model.find(spec, unit);
      if (found !== undefined) found.priority = priority;
      await coordinate.setWorkUnitPriorities(ns, spec, { names: [unit] }, { set: priority });
    }),
);

const limits = fc
  .tuple(
    spec,
    fc.record({
      paused: fc.constantFrom(false, false, true),
      maxRunning: fc.constantFrom(0, 1, 2),
      maxGetwork: fc.constantFrom(0, 1, 3),
      maxRetries: fc.constantFrom(0, 1, 2),
    }),
  )
  .map(
    ([spec, change]) =>
      new Step(`set ${spec} to ${JSON.stringify(change)}`, async (model, { coordinate, ns }) => {
        Object.assign(model.spec(spec), change);
        await coordinate.setWorkSpecMeta(ns, spec, change);
      }),
  );

/** Of units that end in one step the order is not promised, nor which of several broken dependencies is named. */
const takeAll = fc.constantFrom(...queueNames).map(
  (queue) =>
    new Step(`take all of ${queue}`, async (model, { coordinate, ns }) => {
      const messages = await coordinate.takeMessages(ns, queue, { max: 1000 });
      const got = messages.map(({ workSpec, workUnit, status, data }) =>
        anyDependency(`${workSpec} ${workUnit} ${status} ${data === null ? "none" : String(data)}`),
      );
      const expected = (model.queues.get(queue) ?? []).map(anyDependency);
      assert.deepEqual(got.sort(), expected.sort());
      assert.ok(messages.every(({ seq }, i) => i === 0 || seq > (messages[i - 1]?.seq ?? 0)));
      model.queues.delete(queue);
    }),
);

export const commands = fc.commands(
  [
    add,
    add,
    addWaiting,
    claim,
    claim,
    settle,
    settle,
    settle,
    advance,
    reset,
    remove,
    prioritize,
    limits,
    takeAll,
  ],
  {
    maxCommands: 100,
    size: "max",
  },
);
