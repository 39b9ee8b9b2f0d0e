import { each } from "../../../src/worker/index.ts";

/** Makes one unit of the next work spec. */
export const number = each(({ name, data }) => ({ output: { [name]: { n: Number(data.i) + 1 } } }));
