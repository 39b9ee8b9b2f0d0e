/** Namespaces keep applications apart: no state is shared between them. */
import type { DesiredState } from "./worker.ts";

/** `weighted`: priority, then a weighted draw. `python`: successors first, as the Python daemon meant it. */
export const schedulingPolicies = ["weighted", "python"] as const;
export type SchedulingPolicy = (typeof schedulingPolicies)[number];

/** What the weights of work specs are shares of: of the choices that are made, or of the time that workers spend. */
export const shareKinds = ["choices", "time"] as const;
export type ShareKind = (typeof shareKinds)[number];

export interface NamespaceSettings {
  policy: SchedulingPolicy;
  share: ShareKind;
  /** What all workers of the namespace should do, where they have no setting of their own. */
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
