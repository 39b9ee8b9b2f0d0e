/** A probe measures this system alone, in a separate process. `value` is the main figure of its row, the others are details. */
export type Figures = { value: number } & Record<string, number>;

export type Probe = (address: string, factor: number) => Promise<Figures>;

export const probes: Record<string, () => Promise<Probe>> = {
  fairness: async () => (await import("./fairness.ts")).fairness,
  flat: async () => (await import("./flat.ts")).flat,
  flat10: async () => (await import("./flat.ts")).flat10,
  footprint: async () => (await import("./footprint.ts")).footprint,
  idle: async () => (await import("./idle.ts")).idle,
  jobs: async () => (await import("./jobs.ts")).jobs,
  mixed: async () => (await import("./mixed.ts")).mixed,
  partitions: async () => (await import("./partitions.ts")).partitioned,
  routes: async () => (await import("./routes.ts")).routes,
  sharing: async () => (await import("./sharing.ts")).sharing,
  wires: async () => (await import("./wires.ts")).wires,
};
