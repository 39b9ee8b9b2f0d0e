/** Adds units: by the fast path if all of them are new and plain, otherwise by the rules of core. */
import {
  addUnits,
  ages,
  batchOf,
  hasLanes,
  missingWorkSpec,
  type AddedWorkUnit,
  type Rule,
  type WorkSpecRef,
  type WorkUnitPut,
} from "../core/index.ts";
import { Caution } from "./caution.ts";
import { isUniqueViolation, manyUnits, type Row, type Session } from "./connection.ts";
import type { Context } from "./context.ts";
import type { LookedUp } from "./expiry.ts";
import {
  copyFromUnits,
  copyUnits,
  hasExtras,
  insertNamedSql,
  insertSql,
  insertValues,
  inWriteOrder,
  isNamed,
  namedValues,
} from "./fast-paths.ts";
import { foldAfterAdd } from "./lanes.ts";
import { few } from "./merge.ts";
import { readSpec, specColumnCount, specColumns, type Spec } from "./units.ts";
import { longestKey, textKey } from "./values.ts";
import type { PostgresSet } from "./working-set.ts";

export class Adds {
  readonly #context: Context;
  /** Work specs whose adds met existing units. */
  readonly #upserts = new Caution<number>(16);

  constructor(context: Context) {
    this.#context = context;
  }

  async add(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    requestId: string | null,
    now: number,
  ): Promise<AddedWorkUnit[]> {
    const given = requestId === null ? null : textKey(requestId);
    const last = this.#lastSeen(ns, ref, puts, given);
    if (last === undefined) return this.#addUnits(ns, ref, puts, given, now);
    const request = given ?? (await this.#ownRequest());
    const answer = await this.#insertUnits(last.spec, puts, request, last.seen, now);
    if (answer !== null) return answer;
    this.#context.forget(ns, ref);
    return this.#addUnits(ns, ref, puts, request, now);
  }

  async #addUnits(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    given: Buffer | null,
    now: number,
  ): Promise<AddedWorkUnit[]> {
    const { db } = this.#context;
    const spec = await this.#context.lookUp(db, ns, ref, now);
    const isFew = puts.length <= few && this.#isPlain(spec, puts);
    const request = given ?? (isFew ? await this.#ownRequest() : null);
    const inserted = await this.#insertUnits(spec, puts, request, null, now);
    if (inserted !== null) return inserted;
    const added = await this.#context.apply(
      db,
      now,
      (set, tx) => addByRules(set, tx, spec, ref, puts, request),
      { repeatable: request !== null, large: puts.length >= manyUnits },
    );
    this.#upserts.used(
      spec.id,
      added.some(({ created }) => !created),
    );
    return added;
  }

  /**
   * The work spec as last read, if an add may go without reading it again: its statement checks that the spec is unchanged. An
   * add of many units reads it again, and so does one without a request id that is not for the fast path.
   */
  #lastSeen(
    ns: string,
    ref: WorkSpecRef,
    puts: readonly WorkUnitPut[],
    request: Buffer | null,
  ): LookedUp | undefined {
    if (puts.length >= copyFromUnits) return undefined;
    const found = this.#context.lastSeen(ns, ref);
    if (found === undefined || found.seen === null) return undefined;
    return request !== null || (puts.length <= few && this.#isPlain(found.spec, puts)) ? found : undefined;
  }

  /**
   * A request id for an add of a few units without one: it can be sent again when its connection breaks. Its length is odd and that of
   * a `textKey` even, so no caller can give the same one.
   */
  async #ownRequest(): Promise<Buffer> {
    const { db, allocate } = this.#context;
    const [id = 0] = await allocate(1, db);
    const key = Buffer.alloc(9);
    key.writeBigInt64BE(BigInt(id), 1);
    return key;
  }

  /** Whether the fast path may apply, as far as this is known without the database. */
  #isPlain(spec: Spec, puts: readonly WorkUnitPut[]): boolean {
    const { fastPaths, borrowed } = this.#context;
    // the rules enforce the limit of waiting units, and compute the place of a unit whose priority grows
    if (!fastPaths || spec.meta.maxWaiting > 0 || ages(spec.meta)) return false;
    if (this.#upserts.isNeeded(spec.id) || borrowed) return false;
    if (
      puts.length === 0 ||
      puts.some(
        ({ dependencies, labels, timing }) =>
          (dependencies !== null && dependencies.length > 0) ||
          batchOf(labels) !== null ||
          timing !== undefined,
      )
    )
      return false;
    return puts.length === 1 || new Set(puts.map(({ name }) => name)).size === puts.length;
  }

  /**
   * The fast path, for new units without dependencies. Returns null if it does not apply, or if the work spec has changed since
   * it was `seen`.
   */
  async #insertUnits(
    spec: Spec,
    puts: readonly WorkUnitPut[],
    request: Buffer | null,
    seen: string | null,
    now: number,
  ): Promise<AddedWorkUnit[] | null> {
    if (!this.#isPlain(spec, puts)) return null;
    const { db, allocate } = this.#context;
    const ids = await allocate(puts.length, db);
    const rows = inWriteOrder(spec.meta, puts, ids);
    if (rows.some(({ key }) => key.length > longestKey)) return null;
    const idOf = new Map(rows.map(({ id, put }) => [put, id]));
    const answer = puts.map((put): AddedWorkUnit => {
      const status = put.notBefore > now ? "delayed" : "available";
      return { name: put.name, id: idOf.get(put)!, created: true, status };
    });
    const note = request === null ? null : { id: request, answer: JSON.stringify(answer) };
    try {
      if (puts.length >= copyFromUnits && !puts.some(hasExtras)) {
        const done = await db.transaction((tx) => copyUnits(tx, spec, rows, note, now), {
          repeatable: request !== null,
          conflicts: false,
        });
        if (!done) return null;
        db.historyCounts.note(spec.id, "added", now, -1, puts.length);
        if (hasLanes(spec.meta)) await foldAfterAdd(db, spec, puts.length, now);
        return answer;
      }
      const named = hasLanes(spec.meta) || puts.some(isNamed);
      const values = insertValues(spec.id, rows, note, seen, now);
      const written = await db.write(
        named ? insertNamedSql : insertSql,
        named ? [...values, ...namedValues(spec, rows, now)] : values,
        { repeatable: request !== null, conflicts: false },
      );
      if (written.length === 0) return null;
      db.historyCounts.note(spec.id, "added", now, -1, puts.length);
      return answer;
    } catch (error) {
      if (!isUniqueViolation(error)) throw error;
      this.#upserts.failed(spec.id);
      return null;
    }
  }
}

/** An add in which the rules of core decide. */
function* addByRules(
  set: PostgresSet,
  tx: Session,
  { id }: Spec,
  ref: WorkSpecRef,
  puts: readonly WorkUnitPut[],
  request: Buffer | null,
): Rule<AddedWorkUnit[]> {
  let row: Row | undefined;
  yield tx
    .rows(
      `SELECT ${specColumns},
         (SELECT r.answer FROM @request r WHERE r.namespace = s.namespace AND r.spec = s.id AND r.id = $2::bytea)
       FROM @spec s JOIN @namespace n ON n.id = s.namespace WHERE s.id = $1 AND NOT s.dead`,
      [id, request],
    )
    .then((rows) => (row = rows[0]));
  if (row === undefined) throw missingWorkSpec(ref);
  const before = row[specColumnCount] as string | null;
  if (before !== null) return JSON.parse(before) as AddedWorkUnit[];
  const spec = readSpec(id, row);
  const answer = yield* addUnits(set, spec, puts);
  if (request !== null)
    yield tx.rows("INSERT INTO @request (namespace, spec, id, time, answer) VALUES ($1, $5, $2, $3, $4)", [
      spec.namespaceId,
      request,
      set.now,
      JSON.stringify(answer),
      id,
    ]);
  return answer;
}
