/**
 * Histories that were found to be answered differently by two stores, or wrongly, made as short as they go. They are literal,
 * so that they stay what they are when the generators change.
 */
import type { Step } from "./differential.ts";

export interface Regression {
  name: string;
  history: readonly Step[];
  /** The stores that still answer differently from the memory store; a test fails when one of them agrees. */
  differs?: readonly ("sqlite" | "postgres")[];
}

export const regressions: readonly Regression[] = [];
