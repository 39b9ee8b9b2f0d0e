/** Workloads for this system alone: rates by queue length, bytes per unit, the cost of idle workers, jobs, shares, recovery. */
import { cpuSeconds, quantile, residentBytes, sleep } from "../machine.ts";
import { startSubject } from "../subjects.ts";
import type { Place, System, SystemName } from "../systems.ts";
import { forSystems, scaled, type Case, type Measured, type Scale, type Workload } from "./workload.ts";

interface Beside {
  before(at: Place): void;
  after(at: Place): Record<string, number>;
}

async function runProbe(
  system: System,
  at: Place,
  probe: string,
  { factor }: Scale,
  beside?: Beside,
): Promise<Measured> {
  const subject = startSubject(system.name, at.address, { role: "probe", probe, factor });
  try {
    await subject.ready;
    beside?.before(at);
    const { value, ...detail } = await subject.result;
    return { value, detail: { ...detail, ...beside?.after(at) } };
  } finally {
    subject.process.kill("SIGKILL");
  }
}

const probe = (
  name: string,
  unit: string,
  names: readonly SystemName[],
  beside?: () => Beside,
): ((scale: Scale) => Case[]) => {
  return (scale) =>
    forSystems(names, (system) => ({
      name,
      unit,
      measure: (at) => runProbe(system, at, name, scale, beside?.()),
    }));
};

/** The processor use of the daemon while a probe runs. */
function daemonUse(): Beside {
  let cpu = 0;
  let since = 0;
  return {
    before({ pid }) {
      cpu = cpuSeconds(pid) ?? NaN;
      since = performance.now();
    },
    after({ pid }) {
      const used = (cpuSeconds(pid) ?? NaN) - cpu;
      return { "daemon, % of a processor": (used * 100_000) / (performance.now() - since) };
    },
  };
}

/** The lease of the worker that is killed. */
const leaseMs = 5000;
/** The measurement fails after this time. */
const recoveryLimitMs = 60_000;

async function recover(system: System, { address }: Place, scale: Scale): Promise<Measured> {
  const units = scaled(1000, scale, 20);
  const holder = startSubject(system.name, address, { role: "hold", units, lifetimeMs: leaseMs });
  await holder.ready;
  const listener = startSubject(system.name, address, { role: "drain", units });
  await listener.ready;
  const killed = performance.timeOrigin + performance.now();
  holder.process.kill("SIGKILL");
  try {
    const { times } = await Promise.race([
      listener.result,
      sleep(recoveryLimitMs).then(() => {
        throw new Error(`not all units had begun again after ${recoveryLimitMs} ms`);
      }),
    ]);
    const after = times.map((time) => time - killed);
    return { value: quantile(after, 1), detail: { p50: quantile(after, 0.5), "lease ms": leaseMs } };
  } finally {
    listener.process.kill("SIGKILL");
  }
}

async function fillDaemon(system: System, at: Place, scale: Scale): Promise<Measured> {
  const units = scaled(1_000_000, scale, 1000);
  const before = residentBytes(at.pid) ?? NaN;
  const filler = startSubject(system.name, at.address, { role: "add", units, inFlight: 0, seconds: 0 });
  try {
    const { rate } = await filler.result;
    await sleep(500);
    const resident = residentBytes(at.pid) ?? NaN;
    return { value: resident / 1e6, detail: { "bytes a unit": (resident - before) / units, "adds/s": rate } };
  } finally {
    filler.process.kill("SIGKILL");
  }
}

const memoryCases = (scale: Scale): Case[] =>
  forSystems(["daemon_memory", "daemon"], (system) => ({
    name: "1,000,000 units wait",
    unit: "MB",
    measure: (at) => fillDaemon(system, at, scale),
  }));
const recoveryCases = (scale: Scale): Case[] =>
  forSystems(["daemon", "postgres"], (system) => ({
    name: "the last of 1,000 units begins again",
    unit: "ms",
    measure: (at) => recover(system, at, scale),
  }));

export const own: readonly Workload[] = [
  {
    name: "flat",
    title: "With 1,000,000 units waiting",
    about:
      "Adds, claims and finishes in batches of 100, in turns in one store, with 10,000 and with 1,000,000 units waiting. The figure is the lowest of the three ratios of the rates; the ratios of the processor time are the worker's alone.",
    cases: probe("flat", "ratio", ["memory", "sqlite", "postgres"]),
  },
  {
    name: "flat10",
    title: "With 10,000,000 units waiting",
    about: "The same with 10,000,000, once.",
    cases: (scale) =>
      probe("flat10", "ratio", ["memory", "sqlite", "postgres"])(scale).map((one) => ({
        ...one,
        once: true,
      })),
  },
  {
    name: "partitions",
    title: "With 10,000 partitions",
    about:
      "Claims and finishes in batches of 100 with limits, rates and turns over 10,000 partitions, beside a work spec without them, in turns in one store. The figure is the ratio of the rates. Tenant first: unit names begin with the partition, so that a work spec without rules takes units from everywhere as well.",
    cases: probe("partitions", "ratio", ["memory", "sqlite", "postgres"]),
  },
  {
    name: "fairness",
    title: "One tenant with 1,000,000 units",
    about:
      "How long 99 tenants with 100 units each take beside one with 1,000,000, where partitions take turns, and alone. The figure is the ratio of the times: 1 is as if they were alone.",
    cases: probe("fairness", "ratio", ["memory", "sqlite", "postgres"]),
  },
  {
    name: "routes",
    title: "Single requests beside a bare route",
    about:
      "Claims and finishes of one unit over REST, beside a route of Fastify that answers a constant, in turns. The figure is the lowest of the three ratios.",
    cases: probe("routes", "ratio", ["daemon_memory"]),
  },
  {
    name: "wires",
    title: "Both wires",
    about:
      "Claims and finishes one by one, ten at once, client and server in one process. The figure is CBOR-RPC / REST.",
    cases: probe("wires", "ratio", ["memory"]),
  },
  {
    name: "jobs",
    title: "Jobs",
    about:
      "A function that adds two numbers, two worker processes; 64 callers schedule it and wait for the result.",
    cases: probe("jobs", "round trips/s", ["sqlite"]),
  },
  {
    name: "mixed",
    title: "Everything at once",
    about:
      "Two callers add one by one and one adds hundreds; workers chain, five tasks renew their leases, a page is looked at 20 times a second.",
    cases: probe("mixed", "units/s", ["daemon_memory", "daemon", "postgres"]),
  },
  {
    name: "sharing",
    title: "Shares by weight",
    about:
      "Four work specs of weight 1 to 4, 2,000 claims, 40 running. The figure is the largest deviation of a share from its weight.",
    cases: probe("sharing", "%", ["memory", "sqlite", "postgres"]),
  },
  {
    name: "footprint",
    title: "What a finished unit takes",
    about: "100,000 units are added, claimed and finished in batches of 1,000; the files afterwards.",
    cases: probe("footprint", "bytes", ["sqlite", "postgres"]),
  },
  {
    name: "ram",
    title: "Memory of the daemon",
    about: "After a bulk load of 1,000,000 units.",
    cases: memoryCases,
  },
  {
    name: "idle",
    title: "100 idle workers",
    about: "Each with its own connection. The figure is the processor of all of them together.",
    cases: probe("idle", "% of a processor", ["daemon"], daemonUse),
  },
  {
    name: "recovery",
    title: "A worker is killed",
    about: "It holds 1,000 units with a lease of 5 s; another worker waits. The time is from the kill.",
    cases: recoveryCases,
  },
];
