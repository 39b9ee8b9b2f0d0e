/** Random operations that read and change units. */
import fc from "fast-check";
import type { Page, Tally } from "../../../src/core/index.ts";
import { both } from "../pair.ts";
import { busy, by, name, nameOf, priority, seldom, selected, selection, span } from "../vocabulary.ts";
import { done, operation, ref, some } from "./operation.ts";

operation(
  "list",
  4,
  0.3,
  fc.record({ spec: busy, by, selection, limit: fc.integer({ min: 1, max: 80 }), previous: seldom(name, 4) }),
  async (pair, { spec, by, selection, limit, previous }) => {
    const { all: _all, ...where } = selected(selection);
    const query = { ...where, limit, ...(previous !== undefined && { previous: nameOf(previous) }) };
    const page = await both(pair, (side) => side.engine.listWorkUnits(side.ns, ref(side, spec, by), query));
    return done(page) && (page as Page<unknown>).rows.length > 0;
  },
);

operation(
  "get",
  2,
  0.3,
  fc.record({ spec: busy, by, names: fc.array(name, { minLength: 1, maxLength: 5 }) }),
  async (pair, { spec, by, names }) => {
    const rows = await both(pair, (side) =>
      side.engine.getWorkUnits(side.ns, ref(side, spec, by), names.map(nameOf)),
    );
    return done(rows) && (rows as unknown[]).some((row) => row !== null);
  },
);

operation(
  "count",
  2,
  0.4,
  fc.record({ spec: busy, by, selection }),
  async (pair, { spec, by, selection }) => {
    const counts = await both(pair, (side) =>
      side.engine.countWorkUnits(side.ns, ref(side, spec, by), selected(selection)),
    );
    return done(counts) && Object.values(counts as Tally).some((count) => count > 0);
  },
);

operation(
  "prioritize",
  3,
  0.4,
  fc.record({
    spec: busy,
    by,
    selection,
    change: fc.oneof(
      priority.map((set) => ({ set })),
      fc.constantFrom(-1, 1).map((adjust) => ({ adjust })),
    ),
  }),
  async (pair, { spec, by, selection, change }) =>
    some(
      await both(pair, (side) =>
        side.engine.setWorkUnitPriorities(side.ns, ref(side, spec, by), selected(selection), change),
      ),
    ),
);

operation(
  "delay",
  3,
  0.25,
  fc.record({ spec: busy, by, selection, ms: span }),
  async (pair, { spec, by, selection, ms }) =>
    some(
      await both(pair, (side) =>
        side.engine.setWorkUnitDelays(
          side.ns,
          ref(side, spec, by),
          selected(selection),
          ms === 0 ? 0 : side.clock.now() + ms,
        ),
      ),
    ),
);

operation("cancel", 1, 0.2, fc.record({ spec: busy, by, selection }), async (pair, { spec, by, selection }) =>
  some(
    await both(pair, (side) =>
      side.engine.cancelWorkUnits(side.ns, ref(side, spec, by), selected(selection), { why: "test" }),
    ),
  ),
);

operation("reset", 2, 0.2, fc.record({ spec: busy, by, selection }), async (pair, { spec, by, selection }) =>
  some(
    await both(pair, (side) => side.engine.resetWorkUnits(side.ns, ref(side, spec, by), selected(selection))),
  ),
);

operation(
  "delete",
  1,
  0.3,
  fc.record({
    spec: busy,
    by,
    // deleting everything too often would leave no work
    selection: fc.oneof(
      {
        weight: 5,
        arbitrary: fc.uniqueArray(name, { minLength: 2, maxLength: 4 }).map((names) => ({ names })),
      },
      { weight: 1, arbitrary: selection },
    ),
  }),
  async (pair, { spec, by, selection }) =>
    some(
      await both(pair, (side) =>
        side.engine.deleteWorkUnits(side.ns, ref(side, spec, by), selected(selection)),
      ),
    ),
);
