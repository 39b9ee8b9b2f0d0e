/** The methods of the old protocol, by the names that Python clients call. */
import type { Method } from "./call.ts";
import { doingWorkMethods } from "./methods/doing-work.ts";
import { lockMethods } from "./methods/locks.ts";
import { workerMethods } from "./methods/workers.ts";
import { workSpecMethods } from "./methods/work-specs.ts";
import { workUnitMethods } from "./methods/work-units.ts";

/** A Map, so that no name finds an inherited member of an object. */
export const methods: ReadonlyMap<string, Method> = new Map<string, Method>(
  Object.entries({
    ...workSpecMethods,
    ...workUnitMethods,
    ...doingWorkMethods,
    ...workerMethods,
    ...lockMethods,
  }),
);
