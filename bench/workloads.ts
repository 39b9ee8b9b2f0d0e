/** All workloads, in the order in which they are run and shown. */
import { adding } from "./workloads/adding.ts";
import { latency } from "./workloads/latency.ts";
import { own } from "./workloads/own.ts";
import { bare, noop, single, tasks } from "./workloads/processing.ts";
import type { Workload } from "./workloads/workload.ts";

/** The workloads needed to compute the ratios. */
export const quickWorkloads: readonly Workload[] = [noop, single, latency];

export const workloads: readonly Workload[] = [noop, single, latency, adding, tasks, bare, ...own];
