export { nextOf, readFlow, withConfiguration, type Flow, type FlowSpec } from "./flow-file.ts";
export {
  applyPlan,
  chainsOutOfFile,
  planFlow,
  type Difference,
  type FlowOptions,
  type FlowPlan,
  type PlannedSpec,
  type VanishedSpec,
} from "./plan.ts";
export { printPlan, printVanished } from "./print-plan.ts";
export { flowSchema, specSchema } from "./schema.ts";
export { readSpecFile, type SpecFile } from "./spec-file.ts";
