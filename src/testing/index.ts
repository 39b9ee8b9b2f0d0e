export { caseGroups, conformance, type Runner } from "./conformance.ts";
export { Context, type Case, type CaseGroup, type Stack, type Subject } from "./stack.ts";
