/** Namespaces keep applications apart: no state is shared between them. */
import type { DesiredState } from "./worker.ts";

/** `weighted`: priority, then a weighted draw. `python`: successors first, as the Python daemon meant it. */
export const schedulingPolicies = ["weighted", "python"] as const;
export type SchedulingPolicy = (typeof schedulingPolicies)[number];

/** What the weights of work specs divide: the choices of the scheduler, or the time that workers spend. */
export const shareKinds = ["choices", "time"] as const;
export type ShareKind = (typeof shareKinds)[number];

export interface NamespaceSettings {
  policy: SchedulingPolicy;
  share: ShareKind;
  /** What the workers of the namespace should do, unless they have their own setting. */
  desired: DesiredState;
}

export const defaultNamespaceSettings: Readonly<NamespaceSettings> = {
  policy: "weighted",
  share: "choices",
  desired: "run",
};

export interface NamespaceRow {
  name: string;
  settings: NamespaceSettings;
}
