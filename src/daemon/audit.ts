/** The audit log: who changed what, when; and who was refused. A line of JSON each, without data. */
import { createWriteStream, type WriteStream } from "node:fs";
import { around, isCoordinateError, verbs, type Coordinate } from "../core/index.ts";
import type { Answered, Route } from "../rest/index.ts";

/** Of everything longer, the beginning. */
const longest = 200;

export class Audit {
  readonly #stream: WriteStream;
  readonly #all: boolean;

  constructor(file: string, all: boolean) {
    this.#stream = createWriteStream(file, { flags: "a", mode: 0o600 });
    this.#all = all;
  }

  /** Made once, read whenever something goes wrong with it: an audit that cannot be written must not go unseen. */
  onError(listener: (error: Error) => void): void {
    this.#stream.on("error", listener);
  }

  answered({ id, path, route, ns, identity, address, status }: Answered): void {
    const refused = status === 401 || status === 403 || status === 429;
    if (!refused && (route === null || !this.#isChange(route))) return;
    this.#write({
      request: id,
      token: identity?.id ?? null,
      address,
      namespace: ns,
      action: route?.id ?? null,
      // without the query: a client may have put a token there
      path: (path.split("?", 1)[0] ?? "").slice(0, longest),
      status,
    });
  }

  /**
   * The verbs that a connection of CBOR-RPC has carried out, those of its methods included. It takes no tokens: the address is
   * all that is known.
   */
  watch(coordinate: Coordinate, address: string): Coordinate {
    return around(coordinate, async (action, [namespace], next) => {
      const { scope } = verbs[action];
      if (scope === "read" || (scope === "work" && !this.#all)) return next();
      const note = (status: number): void => this.#write({ address, namespace, action, status });
      try {
        const answer = await next();
        note(200);
        return answer;
      } catch (error) {
        note(isCoordinateError(error) ? error.status : 500);
        throw error;
      }
    });
  }

  #write(line: {
    request?: string;
    token?: string | null;
    address: string;
    namespace: unknown;
    action: string | null;
    path?: string;
    status: number;
  }): void {
    const { request = null, token = null, address, namespace, action, path = null, status } = line;
    const ns = typeof namespace === "string" ? namespace.slice(0, longest) : "";
    const row = {
      time: new Date().toISOString(),
      request,
      token,
      address,
      namespace: ns,
      action,
      path,
      status,
    };
    this.#stream.write(JSON.stringify(row) + "\n");
  }

  #isChange({ scope, method, id }: Route): boolean {
    if (scope === "write" || scope === "admin") return method !== "GET";
    if (id === "go.namespace.create") return true;
    return this.#all && scope === "work" && method !== "GET";
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#stream.end(() => resolve()));
  }
}
