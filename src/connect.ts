/** Opens a Coordinate by URL: a daemon, a file, a database, or the memory of this process. */
import {
  checkOptions,
  CoordinateError,
  describeValue,
  Engine,
  isCoordinateError,
  systemClock,
  type Coordinate,
} from "./core/index.ts";
import { HousekeptHandle } from "./housekept.ts";
import { MemoryStore } from "./memory/index.ts";
import type { CoordinateHandle } from "./objects/index.ts";
import { handles } from "./objects/index.ts";

export interface ConnectOptions {
  /** An access token, if the daemon requires one. It may also be the password in the URL. */
  token?: string;
  /** For stores that this process opens itself: the interval of the housekeeping that a daemon would do. Default 1000. */
  housekeepingMs?: number;
}

type Open = (url: string, options: ConnectOptions) => Promise<CoordinateHandle>;

const housekeeping = ({ housekeepingMs = 1000 }: ConnectOptions): { everyMs: number } => ({
  everyMs: housekeepingMs,
});

const openMemory: Open = async (_url, options) =>
  new HousekeptHandle(new Engine(new MemoryStore(), { clock: systemClock() }), housekeeping(options));

const openSqlite: Open = async (url, options) => {
  const file = url.slice("sqlite:".length);
  if (file === "") throw new CoordinateError("bad_argument", 'url: expected "sqlite:PATH", got "sqlite:"');
  const sqlite = await import("./sqlite/index.ts");
  const engine = new Engine(await sqlite.openSqlite(file), { clock: systemClock() });
  return new HousekeptHandle(engine, housekeeping(options));
};

const openPostgres: Open = async (url, options) => {
  const postgres = await import("./postgres/index.ts");
  const store = await postgres.openPostgres({ url });
  // processes that share a database use its clock for leases
  const clock = await store.clock();
  return new HousekeptHandle(new Engine(store, { clock }), {
    ...housekeeping(options),
    upkeep: () => clock.sync(),
  });
};

const openRest: Open = async (url, { token }) => {
  const { RestClient } = await import("./rest/client.ts");
  const [address, password] = url.startsWith("unix:") ? [url, ""] : withoutPassword(url);
  const given = token ?? password;
  const client = new RestClient(address, given === "" ? {} : { token: given });
  return answering(client, () => client.listNamespaces(), address, given);
};

const openCbor: Open = async (url, { token }) => {
  const { connectCbor } = await import("./cbor/index.ts");
  const [, password = "", address = ""] =
    /^cbor-?rpc:(?:\/\/)?(?:(?:[^:@/]*:)?([^@/]*)@)?(.*?)\/?$/.exec(url) ?? [];
  const given = token ?? decodeURIComponent(password);
  const shown = `cborrpc://${address}`;
  let client: Coordinate;
  try {
    client = await connectCbor(address, given === "" ? {} : { token: given });
  } catch (error) {
    throw await inWords(error, shown, given);
  }
  return answering(client, () => client.getNamespace(""), shown, given);
};

/** The timeout of the first request: a server of another protocol may accept a connection and never answer. */
const answerMs = 10_000;

/** Sends a first request, so that a wrong address or token fails here and not in the first task. */
async function answering(
  client: Coordinate,
  ask: () => Promise<unknown>,
  address: string,
  token: string,
): Promise<CoordinateHandle> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const silence = `${address} takes connections and does not answer; is it a Coordinate daemon?`;
    timer = setTimeout(() => reject(new CoordinateError("unavailable", silence)), answerMs);
  });
  try {
    await Promise.race([ask(), late]);
  } catch (error) {
    await client.close();
    throw await inWords(error, address, token);
  } finally {
    clearTimeout(timer);
  }
  return handles(client);
}

/** The same error, with a message that explains its cause and what to do about it. */
async function inWords(error: unknown, address: string, token: string): Promise<unknown> {
  const { connectionProblem } = await import("./rest/connection-problem.ts");
  const problem = await connectionProblem(error, address, token !== "");
  const said = problem === null ? null : `${problem.message}; ${problem.hint}`;
  if (isCoordinateError(error, "unavailable")) {
    const asked = error.value.startsWith(address) ? "" : `; is a daemon running at ${address}?`;
    return new CoordinateError("unavailable", said ?? error.value + asked, { cause: error });
  }
  const { RestError } = await import("./rest/client.ts");
  if (!(error instanceof RestError) || error.code !== "unauthorized") return error;
  return new RestError(
    error.status,
    error.code,
    said ?? `${error.message}; give one: connect(url, { token })`,
  );
}

function withoutPassword(text: string): [address: string, password: string] {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new CoordinateError("bad_argument", `url: expected http://HOST:PORT, got ${JSON.stringify(text)}`);
  }
  const password = decodeURIComponent(url.password || url.username);
  url.username = url.password = "";
  return [url.href, password];
}

/** By scheme. The modules of a store or protocol are loaded only when it is used. */
const schemes: Readonly<Record<string, Open>> = {
  "http:": openRest,
  "https:": openRest,
  "unix:": openRest,
  "cborrpc:": openCbor,
  "cbor-rpc:": openCbor,
  "sqlite:": openSqlite,
  "postgres:": openPostgres,
  "postgresql:": openPostgres,
  "memory:": openMemory,
};

const forms =
  "http://HOST:PORT, https://…, unix:/PATH, cborrpc://HOST:PORT, sqlite:PATH, postgres://… or memory:";

/**
 * Opens a Coordinate by its URL: a daemon (`http://`, `https://`, `unix:`, `cborrpc://`), or a store that this process opens
 * itself (`sqlite:`, `postgres://`, `memory:`). Rejects with `bad_argument` for any other URL, and with `unavailable` when
 * no daemon or store can be reached there. Close it when done; an open one does not keep the process alive.
 */
export async function connect(url: string, options: ConnectOptions = {}): Promise<CoordinateHandle> {
  // a JavaScript caller may pass anything, such as an unset environment variable
  if (typeof url !== "string")
    throw new CoordinateError("bad_argument", `url: expected ${forms}, got ${describeValue(url)}`);
  checkOptions("connect", options, ["token", "housekeepingMs"]);
  const { token, housekeepingMs } = options as Readonly<Record<string, unknown>>;
  if (token !== undefined && typeof token !== "string")
    throw new CoordinateError("bad_argument", `token: expected a string, got ${describeValue(token)}`);
  if (housekeepingMs !== undefined && !(typeof housekeepingMs === "number" && housekeepingMs > 0))
    throw new CoordinateError(
      "bad_argument",
      `housekeepingMs: expected milliseconds, more than 0, got ${describeValue(housekeepingMs)}`,
    );
  // the scheme of a URL may be in either case
  const scheme = /^[a-z][a-z-]*:/i.exec(url)?.[0].toLowerCase() ?? "";
  const open = schemes[scheme];
  if (open !== undefined) return open(scheme + url.slice(scheme.length), options);
  const isPlain = /^([^/:]+|\[[^\]]+\]):\d+$/.test(url);
  const hint = isPlain ? `; did you mean http://${url}?` : "";
  const shown = url.replace(/(:\/\/[^/@:]*):[^@/]*@/, "$1:***@");
  throw new CoordinateError("bad_argument", `url: expected ${forms}, got ${JSON.stringify(shown)}${hint}`);
}
