/** The audit log of changes and refused requests. One line of JSON per entry, without data. */
import { createWriteStream, type WriteStream } from "node:fs";
import path from "node:path";
import { around, isCoordinateError, verbs, type BreakerEvent, type Coordinate } from "../core/index.ts";
import type { Answered, Route } from "../rest/index.ts";
import { makeDirectory } from "./make-directory.ts";
import { Refusals } from "./refusals.ts";

/** Longer strings are truncated. */
const longest = 200;

export interface AuditOptions {
  /** Whether to log claims and settles, too. */
  all: boolean;
  /** Whether to log. Called each time, since the first token may be created while the daemon runs. */
  wanted: () => boolean;
  /** Called if the log cannot be written, which must not go unnoticed. */
  onError: (error: unknown) => void;
}

interface Line {
  request?: string;
  token?: string | null;
  address: string;
  namespace: unknown;
  action: string | null;
  path?: string;
  status: number;
  /** Of a line that stands for several requests. */
  count?: number;
}

export class Audit {
  readonly #file: string;
  readonly #all: boolean;
  readonly #wanted: () => boolean;
  readonly #onError: (error: unknown) => void;
  readonly #refusals = new Refusals((address, count) =>
    this.#write({ address, namespace: "", action: "refused", status: 401, count }),
  );
  #stream: WriteStream | null = null;

  constructor(file: string, { all, wanted, onError }: AuditOptions) {
    this.#file = file;
    this.#all = all;
    this.#wanted = wanted;
    this.#onError = onError;
  }

  answered({ id, path, route, ns, identity, address, status, presented }: Answered): void {
    const refused =
      (status === 401 || status === 403 || status === 429) &&
      // the dashboard uses this route to find out whether to sign in: not an attempt to log
      (presented || route?.id !== "session");
    if (!refused && (route === null || !this.#isChange(route))) return;
    const line: Line = {
      request: id,
      token: identity?.id ?? null,
      address,
      namespace: ns,
      action: route?.id ?? null,
      // without the query: a client may have put a token there
      path: (path.split("?", 1)[0] ?? "").slice(0, longest),
      status,
    };
    if (refused && identity === null) this.#writeRefusal(line);
    else this.#write(line);
  }

  /** Logs that the breaker of a work spec tripped or closed. */
  breaker({ namespace, workSpec, state }: BreakerEvent): void {
    const action = state.since === undefined ? "breaker.closed" : "breaker.tripped";
    this.#write({
      address: "",
      namespace,
      action,
      path: `work_spec/${workSpec}`.slice(0, longest),
      status: 200,
    });
  }

  /**
   * Logs the verbs that a CBOR-RPC connection runs, directly or through its methods. Of callers without a token, only the
   * address is known.
   */
  watch(coordinate: Coordinate, address: string, token: string | null): Coordinate {
    return around(coordinate, async (action, [namespace], next) => {
      const { scope } = verbs[action];
      const isChange = scope === "write" || scope === "admin" || (scope === "work" && this.#all);
      const note = (status: number): void => {
        const line: Line = { token, address, namespace, action, status };
        if (status === 401) this.#writeRefusal(line);
        else this.#write(line);
      };
      try {
        const answer = await next();
        if (isChange) note(200);
        return answer;
      } catch (error) {
        const status = isCoordinateError(error) ? error.status : 500;
        if (isChange || status === 401 || status === 403) note(status);
        throw error;
      }
    });
  }

  /** Logs a call of CBOR-RPC that was refused because its connection has sent no valid token. */
  refused(method: string, address: string): void {
    this.#writeRefusal({ address, namespace: "", action: method.slice(0, longest), status: 401 });
  }

  /** Writes the refusal of a caller without a valid token, or only counts it. */
  #writeRefusal(line: Line): void {
    if (this.#wanted() && this.#refusals.count(line.address, this.#stream?.writableNeedDrain === true))
      this.#write(line);
  }

  #write(line: Line): void {
    if (!this.#wanted()) return;
    const { request = null, token = null, address, namespace, action, path: at = null, status, count } = line;
    const ns = typeof namespace === "string" ? namespace.slice(0, longest) : "";
    const row = {
      time: new Date().toISOString(),
      request,
      token,
      address,
      namespace: ns,
      action,
      path: at,
      status,
      count,
    };
    try {
      this.#open().write(JSON.stringify(row) + "\n");
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Opens the file for the first line: without tokens there is no file. */
  #open(): WriteStream {
    if (this.#stream !== null) return this.#stream;
    makeDirectory(path.dirname(this.#file));
    const stream = createWriteStream(this.#file, { flags: "a", mode: 0o600 });
    stream.on("error", (error) => {
      // a stream that failed drops all further lines; the next one opens the file again
      if (this.#stream === stream) this.#stream = null;
      this.#onError(error);
    });
    return (this.#stream = stream);
  }

  #isChange({ scope, method, id }: Route): boolean {
    if (scope === "write" || scope === "admin") return method !== "GET";
    if (id === "go.namespace.create") return true;
    return this.#all && scope === "work" && method !== "GET";
  }

  async close(): Promise<void> {
    this.#refusals.flush();
    const stream = this.#stream;
    if (stream !== null) await new Promise<void>((resolve) => stream.end(() => resolve()));
  }
}
