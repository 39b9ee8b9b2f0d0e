/**
 * Names that do not fit into an index. A B-tree entry holds about 2,700 bytes, and a unit's name may have 4,096. The key of a
 * name over `longestKey` bytes is its head, which is that many bytes, and a label: a number of 64 bytes that puts it in order
 * among the names of its work spec with the same head. The whole name is stored in `long_name`. So keys are in the order of
 * names, and queries in name order need no special case for long names.
 *
 * A label is made when its unit is added, between those of its neighbours, under the lock of the work spec's row.
 */
import { compareNames, nameFromBytes, nameToBytes } from "../core/index.ts";
import { isRow, type Session } from "./connection.ts";
import { atOf } from "./standing.ts";
import { emptyDelta, writeTallies } from "./tally.ts";
import { byteas, int8s, longestKey } from "./values.ts";

const labelBytes = 64;
const top = 1n << BigInt(labelBytes * 8);
/** The distance of a new label at either end: room for 2^71 names in order, and for 440 that each halve the same gap. */
const step = 1n << 440n;

const isLong = (name: string): boolean => nameToBytes(name).length > longestKey;
const headOf = (bytes: Buffer): Buffer => bytes.subarray(0, longestKey);
const keyOf = (head: Buffer, label: bigint): Buffer =>
  Buffer.concat([head, Buffer.from(label.toString(16).padStart(labelBytes * 2, "0"), "hex")]);
const labelOf = (key: Buffer): bigint => BigInt(`0x${key.toString("hex", longestKey)}`);

/** The highest label. */
const endSql = `decode(repeat('ff', ${labelBytes}), 'hex')`;
/**
 * Long names with the same head, worded like the index `unit_long`; the range of keys keeps a planner without statistics from
 * reading the whole work spec.
 */
const sameHead = `u.spec = $1 AND u.key > g.head AND u.key <= g.head || ${endSql} AND u.long_name IS NOT NULL
    AND sha256(substring(u.long_name FROM 1 FOR ${longestKey})) = sha256(g.head)`;
const tail = `substring(u.long_name FROM ${longestKey + 1})`;

interface Neighbours {
  same: Buffer | null;
  before: Buffer | null;
  after: Buffer | null;
}

async function findNeighbours(
  session: Session,
  spec: number,
  names: readonly Buffer[],
): Promise<Neighbours[]> {
  const rows = await session.rows(
    `SELECT
       (SELECT u.key FROM @unit u WHERE ${sameHead} AND ${tail} = g.tail),
       (SELECT u.key FROM @unit u WHERE ${sameHead} AND ${tail} < g.tail ORDER BY ${tail} DESC LIMIT 1),
       (SELECT u.key FROM @unit u WHERE ${sameHead} AND ${tail} > g.tail ORDER BY ${tail} LIMIT 1)
     FROM unnest($2::bytea[], $3::bytea[]) WITH ORDINALITY AS g (head, tail, at) ORDER BY g.at`,
    [spec, byteas(names.map(headOf)), byteas(names.map((name) => name.subarray(longestKey)))],
  );
  return rows.map(([same, before, after]) => ({ same, before, after }) as Neighbours);
}

/** The keys of these names. Long names that do not exist have no key. */
export async function findKeys(session: Session, spec: number, names: readonly string[]): Promise<Buffer[]> {
  const keys = names.map(nameToBytes);
  const long = keys.filter(({ length }) => length > longestKey);
  if (long.length === 0) return keys;
  const found = (await findNeighbours(session, spec, long)).flatMap(({ same }) => same ?? []);
  return [...keys.filter(({ length }) => length <= longestKey), ...found];
}

/** The names after this one are those with keys after the returned key. The name need not exist. */
export async function keyUpTo(session: Session, spec: number, name: string): Promise<Buffer> {
  const bytes = nameToBytes(name);
  if (bytes.length <= longestKey) return bytes;
  const [near] = await findNeighbours(session, spec, [bytes]);
  return near?.same ?? near?.before ?? headOf(bytes);
}

/**
 * Keys for long names that are to be added, by name. A name that was added concurrently gets its existing key, with which it
 * cannot be added again. If there is no room between two labels, all names with that head get new keys, which are also returned.
 */
export async function makeKeys(
  tx: Session,
  spec: number,
  given: readonly string[],
  now: number,
): Promise<Map<string, Buffer>> {
  const keys = new Map<string, Buffer>();
  const long = given.filter(isLong).sort(compareNames);
  if (long.length === 0) return keys;
  await tx.rows("SELECT 1 FROM @spec WHERE id = $1 FOR UPDATE", [spec]);
  const names = long.map(nameToBytes);
  for (let from = 0, to = 0; from < names.length; from = to) {
    const head = headOf(names[from]!);
    for (to = from + 1; to < names.length && headOf(names[to]!).equals(head); to++);
    for (const [name, key] of await groupKeys(tx, spec, names.slice(from, to), now))
      keys.set(nameFromBytes(name), key);
  }
  return keys;
}

/** Keys of names with the same head; the names are in order. */
async function groupKeys(
  tx: Session,
  spec: number,
  names: readonly Buffer[],
  now: number,
): Promise<[Buffer, Buffer][]> {
  const near = await findNeighbours(tx, spec, names);
  const head = headOf(names[0]!);
  const keys: [Buffer, Buffer][] = [];
  for (let from = 0, to = 0; from < names.length; from = to) {
    const { same, before, after } = near[from]!;
    for (to = from + 1; to < names.length && isSame(near[to]?.after, after) && same === null; to++);
    if (same !== null) {
      keys.push([names[from]!, same]);
      continue;
    }
    const labels = between(before && labelOf(before), after && labelOf(after), to - from);
    if (labels === null) return spread(tx, spec, head, names, now);
    keys.push(...labels.map((label, i): [Buffer, Buffer] => [names[from + i]!, keyOf(head, label)]));
  }
  return keys;
}

const isSame = (a: Buffer | null | undefined, b: Buffer | null): boolean =>
  a === b || (a instanceof Buffer && b !== null && a.equals(b));

/** `count` labels in order between two others; null if there is no room. */
function between(before: bigint | null, after: bigint | null, count: number): bigint[] | null {
  const many = BigInt(count);
  let [low, high] = [before ?? 0n, after ?? top];
  if (after === null && (before ?? top / 2n) + step * (many + 1n) < top) {
    low = before ?? top / 2n;
    high = low + step * (many + 1n);
  } else if (before === null && high > step * (many + 1n)) low = high - step * (many + 1n);
  if (high - low <= many) return null;
  return Array.from({ length: count }, (_, i) => low + ((high - low) * BigInt(i + 1)) / (many + 1n));
}

/** Gives all names with the same head new labels, as far apart as possible. */
async function spread(
  tx: Session,
  spec: number,
  head: Buffer,
  names: readonly Buffer[],
  now: number,
): Promise<[Buffer, Buffer][]> {
  const rows = (await tx.rows(
    `SELECT id, long_name FROM @unit WHERE spec = $1 AND key > $2 AND key <= $2::bytea || ${endSql} ORDER BY id FOR UPDATE`,
    [spec, head],
  )) as unknown as [number, Buffer][];
  const all = [...new Set([...rows.map(([, name]) => name), ...names].map((name) => name.toString("latin1")))]
    .map((name) => Buffer.from(name, "latin1"))
    .sort((a, b) => Buffer.compare(a, b));
  const keys = new Map(
    all.map((name, i) => [
      name.toString("latin1"),
      keyOf(head, (top * BigInt(i + 1)) / BigInt(all.length + 1)),
    ]),
  );
  const values = [
    int8s(rows.map(([id]) => id)),
    byteas(rows.map(([, name]) => keys.get(name.toString("latin1")) ?? null)),
  ];
  await tx.rows(
    `WITH gone AS (
       DELETE FROM @waiting w USING unnest($1::bigint[], $2::bytea[]) AS g (id, key) JOIN @unit u ON ${isRow("u.id", "g.id")}
       WHERE w.spec = $3 AND w.status = u.status AND w.at = ${atOf} AND w.key = u.key RETURNING w.*, g.key AS new_key
     )
     INSERT INTO @waiting (unit, spec, at, status, tries, max_tries, begun, lane, key)
     SELECT unit, spec, at, status, tries, max_tries, begun, lane, new_key FROM gone`,
    [...values, spec],
  );
  // PostgreSQL checks a unique index after every row: an unused, longer key comes between the old and the new one
  for (const key of ["g.key || '\\x00'::bytea", "g.key"]) {
    const given = "unnest($1::bigint[], $2::bytea[]) AS g (id, key)";
    await tx.rows(`UPDATE @unit u SET key = ${key} FROM ${given} WHERE u.id = g.id`, values);
    for (const table of ["@label", "@failed"])
      await tx.rows(`UPDATE ${table} b SET key = ${key} FROM ${given} WHERE b.spec = $3 AND b.unit = g.id`, [
        ...values,
        spec,
      ]);
  }
  // a claim that begins at a remembered place may be past the new keys
  const delta = { ...emptyDelta(), arrivals: 1, first: { place: -Infinity, key: head } };
  await writeTallies(tx, new Map([[spec, delta]]), now);
  return all.map((name) => [name, keys.get(name.toString("latin1"))!]);
}
