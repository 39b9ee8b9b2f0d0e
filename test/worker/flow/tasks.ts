import type { UnitTask } from "../../../src/worker/index.ts";

/** Makes one unit of the next work spec. */
export const number: UnitTask = ({ name, data }) => ({ output: { [name]: { n: Number(data.i) + 1 } } });
