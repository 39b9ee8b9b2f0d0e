/** The old protocol as one table: from the name that Python calls to the function that asks Coordinate. */
import type { Method } from "./call.ts";
import { doingWorkMethods } from "./methods/doing-work.ts";
import { lockMethods } from "./methods/locks.ts";
import { workerMethods } from "./methods/workers.ts";
import { workSpecMethods } from "./methods/work-specs.ts";
import { workUnitMethods } from "./methods/work-units.ts";

/** A map, so that no name finds what an object inherits. */
export const methods: ReadonlyMap<string, Method> = new Map<string, Method>(
  Object.entries({
    ...workSpecMethods,
    ...workUnitMethods,
    ...doingWorkMethods,
    ...workerMethods,
    ...lockMethods,
  }),
);
