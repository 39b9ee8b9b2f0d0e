/** The same random operations on the memory store and on the postgres store give the same answers. */
import type fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  Engine,
  hasLanes,
  ManualClock,
  type Candidates,
  type CandidatesRequest,
} from "../../src/core/index.ts";
import { MemoryStore } from "../../src/memory/index.ts";
import { openPostgres, type PostgresStore } from "../../src/postgres/index.ts";
import {
  floors,
  histories,
  historiesWithReopen,
  largeHistories,
  performAll,
  type Step,
} from "../model/differential.ts";
import { Ids } from "../model/ids.ts";
import { Measure } from "../model/measure.ts";
import type { Pair } from "../model/pair.ts";
import { checkRandom } from "../model/random.ts";
import { regressions } from "../model/regressions.ts";
import { openServer, query, type Server } from "./server.ts";
import { checkStanding } from "./standing.ts";

let server: Server;
let url: string;
let store: PostgresStore;
/** False: every verb goes by the rules of core, without the store's fast paths. */
let fastPaths = true;
const open = (): Promise<PostgresStore> => openPostgres({ url, notify: false, fastPaths });

beforeAll(async () => {
  server = await openServer();
  url = await server.createDatabase();
  store = await open();
}, 60_000);
afterAll(async () => {
  await store.close();
  await server.stop();
});

/**
 * The store, with looks that know of every work spec whether its partitions are held. It may leave that to the claim: then such a work
 * spec takes part in the draw, and another one is drawn than by a store that knows. Requests at the same moment are left alone: they name
 * the work spec that they want.
 */
const knowing = (): PostgresStore => {
  const looked = store;
  let asked = 0;
  let answered = 0;
  const candidates = async (ns: string, ask: CandidatesRequest, now: number): Promise<Candidates> => {
    const others = asked++ - answered;
    const found = await looked.candidates(ns, ask, now);
    const isAlone = others === 0 && asked === answered + 1;
    const open = found.candidates.filter(({ available, held = null }) => available > 0 && held === null);
    const mayDiffer = found.look === undefined && open.length > 1 && open.some(({ meta }) => hasLanes(meta));
    const known = mayDiffer && isAlone ? await looked.candidates(ns, { ...ask, fresh: true }, now) : found;
    answered++;
    return known;
  };
  return new Proxy(looked, {
    get: (_, key) => {
      if (key === "candidates") return candidates;
      const value: unknown = Reflect.get(looked, key);
      return typeof value === "function" ? (value.bind(looked) as unknown) : value;
    },
  });
};

let runs = 0;

/** Every run has a namespace of its own in one database, and a memory store of its own. */
async function compare(history: readonly Step[], measure: Measure): Promise<void> {
  const clock = new ManualClock(1_000_000);
  const memory = new MemoryStore();
  const draw = { value: 0 };
  const options = {
    clock,
    random: () => draw.value,
    workerRetentionMs: 5000,
  };
  const pair: Pair = {
    memory: new Engine(memory, options),
    other: new Engine(knowing(), options),
    clock,
    ns: `run ${runs++}`,
    draw,
    measure,
    tallyEvery: 4,
    ids: new Ids(),
    attempts: [],
    specIds: new Map(),
    lastRequest: 0,
    async reopen() {
      await store.close();
      store = await open();
      pair.other = new Engine(knowing(), options);
      // what had not been recorded is lost
      memory.historyCounts.take(Infinity);
      // an engine remembers which workers it has met
      pair.memory = new Engine(memory, options);
    },
  };
  try {
    await performAll(pair, history);
    expect(await checkStanding(url)).toEqual([]);
  } finally {
    await pair.other.deleteNamespace(pair.ns);
    // what was deleted stays for an hour, in case somebody is still looking at it; here nobody is
    await query(url, "UPDATE coordinate.spec SET died = died - interval '2 hours' WHERE dead");
    while (!(await store.purge(1000, clock.now())).done);
  }
}

const tables = [
  "namespace",
  "spec",
  "unit",
  "waiting",
  "lease",
  "ended",
  "history",
  "need",
  "tally",
  "log",
  "request",
  "worker",
  "lock",
  "lane",
  "note",
  "shared_limit",
];

function random(name: string, steps: fc.Arbitrary<Step[]>, fixed: number, fresh: number): void {
  const run = async (): Promise<void> => {
    const measure = new Measure();
    await checkRandom({
      prefix: "DIFFERENTIAL",
      file: "test/postgres/differential.test.ts",
      name,
      histories: steps,
      run: (history) => compare(history, measure),
      runs: { fixed, fresh },
    });
    if (process.env.DIFFERENTIAL_SHOW !== undefined) console.log(String(measure));
    if (process.env.DIFFERENTIAL_PATH === undefined) measure.check(floors);
    // all namespaces were deleted: no row is left behind
    for (const table of tables)
      expect(await query(url, `SELECT count(*)::int AS n FROM coordinate.${table}`), table).toEqual([
        { n: 0 },
      ]);
  };
  test(name, run, 3_600_000);
}

describe("memory and postgres", () => {
  random("answer the same to the same operations", histories, 15, 30);
  random("also when the store is closed and opened in between", historiesWithReopen, 2, 6);
  random("also with more units than are looked at in one step", largeHistories, 1, 2);

  describe("without the fast paths", () => {
    const reopen = async (fast: boolean): Promise<void> => {
      fastPaths = fast;
      await store.close();
      store = await open();
    };
    beforeAll(() => reopen(false));
    afterAll(() => reopen(true));
    random("as well", histories, 5, 15);
  });

  for (const { name, history } of regressions)
    test(`known case: ${name}`, () => compare(history, new Measure()));
});
