/** The message queues and the action records of a namespace. */
import { createHash } from "node:crypto";
import {
  attemptId,
  nameFromBytes,
  nameToBytes,
  otherAction,
  sameData,
  type ActionInput,
  type ActionRow,
  type QueueMessage,
  type QueueRow,
  type Slice,
} from "../core/index.ts";
import type { Database, Row, Session } from "./connection.ts";
import { hasOverdueAcross } from "./standing.ts";
import { byteas, bytesData, dataBytes, int2s, int4s, int8s, textKey } from "./values.ts";
import { openNamespace } from "./work-specs.ts";

// ---- queues

export interface NewMessage extends Omit<QueueMessage, "seq"> {
  namespaceId: number;
  unit: number;
  number: number;
}

/** Takes numbers for messages. The call that uses them takes them: messages that were acknowledged before it began have lower numbers. */
export async function takeSeqs(session: Session, count: number): Promise<number[]> {
  const rows = await session.rows("SELECT nextval('@message_seq') FROM generate_series(1, $1::int)", [count]);
  return (rows as [number][]).map(([seq]) => seq);
}

export async function writeMessages(tx: Session, messages: readonly NewMessage[]): Promise<void> {
  const seqs = await takeSeqs(tx, messages.length);
  await tx.rows(
    `INSERT INTO @message (seq, namespace, unit, at, number, status, queue, spec, name, data)
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::smallint[], $7::bytea[],
       $8::bytea[], $9::bytea[], $10::bytea[])`,
    [
      int8s(seqs),
      int8s(messages.map(({ namespaceId }) => namespaceId)),
      int8s(messages.map(({ unit }) => unit)),
      int8s(messages.map(({ at }) => at)),
      int4s(messages.map(({ number }) => number)),
      int2s(messages.map(({ status }) => (status === "finished" ? 4 : 5))),
      byteas(messages.map(({ queue }) => nameToBytes(queue))),
      byteas(messages.map(({ workSpec }) => nameToBytes(workSpec))),
      byteas(messages.map(({ workUnit }) => nameToBytes(workUnit))),
      byteas(messages.map(({ data }) => dataBytes(data))),
    ],
  );
}

const columns = "seq, spec, name, unit, number, status, at, data";

const inQueue = (session: string): string =>
  `FROM @namespace n JOIN @message m ON m.namespace = n.id WHERE n.name = $1 AND NOT n.dead AND m.queue = $2 ${session}`;

/** Whether overdue units may have messages that are not written yet: then nothing is taken. $4 is the time. */
const across = `across AS MATERIALIZED (SELECT ${hasOverdueAcross("$4::bigint")} AS past)`;

/** The first messages of a queue. With SKIP LOCKED no call waits for another, and no message is given to two calls. */
const first = (condition = ""): string =>
  `SELECT m.seq ${inQueue(`AND m.request IS NULL ${condition}`)} ORDER BY m.seq LIMIT $3`;

const picked = (condition = ""): string =>
  `picked AS MATERIALIZED (${first(`AND NOT (SELECT past FROM across) ${condition}`)} FOR UPDATE OF m SKIP LOCKED)`;

const takeSql = `
  WITH ${across}, ${picked()}, taken AS (
    DELETE FROM @message m USING picked p WHERE m.seq = p.seq AND m.request IS NULL RETURNING m.*
  )
  SELECT across.past, ${columns} FROM across LEFT JOIN taken ON true ORDER BY seq`;

/** In `request`, the place of a work spec for requests that take messages. */
const takesSpec = -1;

/** The id of a take in `request`: that of its caller is unique in a queue. A hash, since an index entry is short. */
const takeKey = (queue: string, requestId: string): Buffer =>
  createHash("sha256")
    .update(textKey(`${queue.length} ${queue}${requestId}`))
    .digest();

/**
 * With a request id, messages are marked with it instead of deleted. The sweep deletes them with the old request ids. A call with
 * the same id on another daemon has not seen the marks: it waits for the row of `request`, fails, and finds them when it is retried.
 */
const takeOnceSql = `
  WITH ${across}, before AS MATERIALIZED (SELECT m.* ${inQueue("AND m.request = $5")}),
  ${picked("AND NOT EXISTS (SELECT 1 FROM before)")}, taken AS (
    UPDATE @message m SET request = $5, taken = $6 FROM picked p WHERE m.seq = p.seq AND m.request IS NULL RETURNING m.*
  ), noted AS (
    INSERT INTO @request (namespace, spec, id, time, answer)
    SELECT namespace, ${takesSpec}, $7::bytea, $6::bigint, '' FROM taken LIMIT 1
  )
  SELECT across.past, ${columns} FROM across LEFT JOIN (SELECT * FROM before UNION ALL SELECT * FROM taken) AS m ON true ORDER BY seq`;

/** `catchUp` writes the messages of overdue units. */
export async function takeMessages(
  db: Database,
  ns: string,
  queue: string,
  max: number,
  requestId: string | null,
  now: number,
  catchUp: () => Promise<unknown>,
): Promise<QueueMessage[]> {
  const asked = [nameToBytes(ns), nameToBytes(queue), max];
  const take = async (time: number): Promise<{ past: boolean; messages: QueueMessage[] }> => {
    const rows =
      requestId === null
        ? await db.write(takeSql, [...asked, time], { repeatable: false })
        : await db.write(takeOnceSql, [...asked, time, textKey(requestId), now, takeKey(queue, requestId)], {
            repeatable: true,
          });
    const messages = rows.filter(([, seq]) => seq !== null).map((row) => readMessage(queue, row));
    return { past: rows[0]?.[0] === true, messages };
  };
  const { past, messages } = await take(now);
  if (!past || messages.length > 0) return messages;
  await catchUp();
  // what is still overdue is locked by another transaction, and must not keep the other messages back
  return (await take(0)).messages;
}

function readMessage(queue: string, row: Row): QueueMessage {
  const [, seq, spec, name, unit, number, status, at, data] = row as [
    boolean,
    number,
    Buffer,
    Buffer,
    number,
    number,
    number,
    number,
    Buffer | null,
  ];
  return {
    seq,
    queue,
    workSpec: nameFromBytes(spec),
    workUnit: nameFromBytes(name),
    attempt: attemptId(unit, number),
    status: status === 4 ? "finished" : "failed",
    data: bytesData(data),
    at,
  };
}

export async function countMessages(
  session: Session,
  ns: string,
  queues: readonly string[],
): Promise<number[]> {
  const rows = await session.rows(
    `SELECT (SELECT count(*) FROM @message m WHERE m.namespace = n.id AND m.queue = g.queue AND m.request IS NULL)
     FROM unnest($2::bytea[]) WITH ORDINALITY AS g (queue, at)
       LEFT JOIN @namespace n ON n.name = $1 AND NOT n.dead ORDER BY g.at`,
    [nameToBytes(ns), byteas(queues.map(nameToBytes))],
  );
  return (rows as [number][]).map(([count]) => count);
}

/** Skips from one queue name to the next in the index, and counts the messages of each queue. */
export async function listQueues(
  session: Session,
  ns: string,
  previous: string | null,
  limit: number,
): Promise<QueueRow[]> {
  const next = (after: string): string => `
    SELECT m.queue FROM @message m WHERE m.namespace = space.id AND m.request IS NULL AND m.queue > ${after}
    ORDER BY m.queue LIMIT 1`;
  const rows = await session.rows(
    `WITH RECURSIVE space AS MATERIALIZED (SELECT id FROM @namespace WHERE name = $1 AND NOT dead),
     names AS (
       SELECT (${next("$2::bytea")}) AS queue, 1 AS at FROM space
       UNION ALL
       SELECT (${next("names.queue")}), at + 1 FROM names, space WHERE names.queue IS NOT NULL AND at < $3::int
     )
     SELECT c.queue, q.messages, q.oldest FROM names c, space, LATERAL (
       SELECT count(*) AS messages, (
         SELECT m.at FROM @message m WHERE m.namespace = space.id AND m.queue = c.queue AND m.request IS NULL
         ORDER BY m.seq LIMIT 1) AS oldest
       FROM @message m WHERE m.namespace = space.id AND m.queue = c.queue AND m.request IS NULL
     ) q WHERE c.queue IS NOT NULL ORDER BY c.queue`,
    [nameToBytes(ns), previous === null ? Buffer.alloc(0) : nameToBytes(previous), limit],
  );
  return (rows as [Buffer, number, number][]).map(([name, messages, oldest]) => ({
    name: nameFromBytes(name),
    messages,
    oldest,
  }));
}

export async function clearQueue(db: Database, ns: string, queue: string, limit: number): Promise<Slice> {
  const rows = await db.write(
    `WITH picked AS MATERIALIZED (${first()} FOR UPDATE OF m SKIP LOCKED)
     DELETE FROM @message m USING picked p WHERE m.seq = p.seq AND m.request IS NULL RETURNING 1`,
    [nameToBytes(ns), nameToBytes(queue), limit],
    { repeatable: false },
  );
  return { deleted: rows.length, done: rows.length < limit };
}

// ---- actions

const readAction = (row: Row): ActionRow => {
  const data = bytesData(row[2] as Buffer);
  if (data === null) throw new Error("an action has no data");
  return { key: nameFromBytes(row[0] as Buffer), createdTime: row[1] as number, data };
};

export async function putActions(
  tx: Session,
  ns: string,
  actions: readonly ActionInput[],
  now: number,
): Promise<boolean[]> {
  const distinct = new Map<string, ActionInput>();
  for (const action of actions) if (!distinct.has(action.key)) distinct.set(action.key, action);
  const namespace = await openNamespace(tx, ns, "FOR SHARE");
  // in key order, so that concurrent puts of the same keys wait for each other and do not deadlock
  const sorted = [...distinct.values()]
    .map(({ key, data }) => ({ key: nameToBytes(key), data: dataBytes(data) }))
    .sort((a, b) => Buffer.compare(a.key, b.key));
  const added = await tx.rows(
    `INSERT INTO @action (namespace, key, created, data)
     SELECT $1, g.key, $2, g.data FROM unnest($3::bytea[], $4::bytea[]) AS g (key, data)
     ON CONFLICT (namespace, key) DO NOTHING RETURNING key`,
    [namespace, now, byteas(sorted.map(({ key }) => key)), byteas(sorted.map(({ data }) => data))],
  );
  const fresh = new Set((added as [Buffer][]).map(([key]) => nameFromBytes(key)));
  const there = new Map([...distinct].map(([key, { data }]) => [key, data]));
  const old = [...distinct.keys()].filter((key) => !fresh.has(key));
  if (old.length > 0)
    for (const row of await getActions(tx, ns, old)) if (row !== null) there.set(row.key, row.data);
  // the error names the first conflict in the order given
  for (const { key, data } of actions) if (!sameData(there.get(key) ?? data, data)) throw otherAction(key);
  return actions.map((action) => fresh.has(action.key) && distinct.get(action.key) === action);
}

export async function getActions(
  session: Session,
  ns: string,
  keys: readonly string[],
): Promise<(ActionRow | null)[]> {
  const rows = await session.rows(
    `SELECT a.key, a.created, a.data FROM @namespace n JOIN @action a ON a.namespace = n.id
     WHERE n.name = $1 AND NOT n.dead AND a.key = ANY ($2::bytea[])`,
    [nameToBytes(ns), byteas([...new Set(keys)].map(nameToBytes))],
  );
  const found = new Map(rows.map(readAction).map((row) => [row.key, row]));
  return keys.map((key) => found.get(key) ?? null);
}

export async function listActions(
  session: Session,
  ns: string,
  previous: string | null,
  limit: number,
): Promise<ActionRow[]> {
  const rows = await session.rows(
    `SELECT a.key, a.created, a.data FROM @namespace n JOIN @action a ON a.namespace = n.id
     WHERE n.name = $1 AND NOT n.dead AND a.key > $2 ORDER BY a.key LIMIT $3`,
    [nameToBytes(ns), previous === null ? Buffer.alloc(0) : nameToBytes(previous), limit],
  );
  return rows.map(readAction);
}

export async function deleteActions(db: Database, ns: string, keys: readonly string[]): Promise<boolean[]> {
  const rows = await db.write(
    `DELETE FROM @action a USING @namespace n
     WHERE a.namespace = n.id AND n.name = $1 AND NOT n.dead AND a.key = ANY ($2::bytea[]) RETURNING a.key`,
    [nameToBytes(ns), byteas([...new Set(keys)].map(nameToBytes))],
    { repeatable: false },
  );
  const gone = new Set((rows as [Buffer][]).map(([key]) => nameFromBytes(key)));
  return keys.map((key) => gone.delete(key));
}

// ---- housekeeping

/** Messages of deleted namespaces. `condition` and the order are those of an index, which would not be used without them. */
const messagesOfDead = (condition: string): string => `
         SELECT p.seq FROM gone, LATERAL (
           SELECT m.seq FROM @message m WHERE m.namespace = gone.id AND ${condition}
           ORDER BY m.queue LIMIT $1 FOR UPDATE SKIP LOCKED
         ) p`;

/** Whether a namespace `n` has no messages, worded for the indexes. */
export const hasNoMessages = `NOT EXISTS (SELECT 1 FROM @message m WHERE m.namespace = n.id AND m.request IS NULL)
               AND NOT EXISTS (SELECT 1 FROM @message m WHERE m.namespace = n.id AND m.request IS NOT NULL)`;

export const purgeQueuesSql = `
     WITH gone AS MATERIALIZED (SELECT id FROM @namespace WHERE dead),
     messages AS (
       DELETE FROM @message WHERE seq = ANY (ARRAY(${messagesOfDead("m.request IS NULL")}
         UNION ALL ${messagesOfDead("m.request IS NOT NULL")} LIMIT $1))
       RETURNING 1
     ), actions AS (
       DELETE FROM @action WHERE ctid = ANY (ARRAY(
         SELECT p.ctid FROM gone, LATERAL (
           SELECT a.ctid FROM @action a WHERE a.namespace = gone.id LIMIT $1 FOR UPDATE SKIP LOCKED
         ) p LIMIT $1))
       RETURNING 1
     )
     SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM actions)`;

/** Deletes messages and actions of deleted namespaces, at most `limit` of each. Returns how many. */
export async function purgeQueues(tx: Session, limit: number): Promise<number> {
  const [row] = await tx.rows(purgeQueuesSql, [limit]);
  return (row?.[0] as number | undefined) ?? 0;
}
