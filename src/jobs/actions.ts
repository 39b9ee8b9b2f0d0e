/** A per-process cache of the actions of a namespace. It avoids writing or reading the same action repeatedly. */
import { CoordinateError, type Coordinate } from "../core/index.ts";
import { actionData, actionKey, readAction, type Action, type ActionContent } from "./action.ts";

const maxKept = 1000;
/** Another process may delete actions, so an action is written again when its last write is older than this. */
const freshMs = 60_000;

export class Actions {
  readonly #verbs: Coordinate;
  readonly #ns: string;
  readonly #written = new Map<string, number>();
  readonly #read = new Map<string, Action>();

  constructor(verbs: Coordinate, ns: string) {
    this.#verbs = verbs;
    this.#ns = ns;
  }

  /** Makes sure that the actions are stored. Returns their keys, in order. */
  async put(contents: readonly ActionContent[], now: number): Promise<string[]> {
    const keys = contents.map(actionKey);
    const missing = new Map<string, ActionContent>();
    keys.forEach((key, i) => {
      const content = contents[i];
      if (content !== undefined && now - (this.#written.get(key) ?? -Infinity) > freshMs)
        missing.set(key, content);
    });
    if (missing.size === 0) return keys;
    await this.#verbs.putActions(
      this.#ns,
      [...missing].map(([key, content]) => ({ key, data: actionData(content) })),
    );
    for (const key of missing.keys()) keep(this.#written, key, now);
    return keys;
  }

  /** Throws `bad_argument` for an unknown key, and `bad_data` when the content does not match the key. */
  async get(key: string): Promise<Action> {
    const known = this.#read.get(key);
    if (known !== undefined) return known;
    const [row] = await this.#verbs.getActions(this.#ns, [key]);
    if (row === undefined || row === null)
      throw new CoordinateError("bad_argument", `action ${key} does not exist`);
    const action = readAction(row);
    keep(this.#read, key, action);
    return action;
  }

  forget(): void {
    this.#written.clear();
    this.#read.clear();
  }
}

function keep<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > maxKept && oldest !== undefined) map.delete(oldest);
}
