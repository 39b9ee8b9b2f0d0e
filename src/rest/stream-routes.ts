/** Loads and exports of any length: one line of JSON per unit, in constant memory, with backpressure. */
import { Readable } from "node:stream";
import {
  CoordinateError,
  shape,
  workUnitInput,
  workUnitRow,
  type DataLimits,
  type WorkUnitInput,
  type WorkUnitQuery,
  type WorkUnitStatus,
} from "../core/index.ts";
import { incomplete } from "./body.ts";
import type { LoadAnswer } from "./client.ts";
import { HttpError } from "./errors.ts";
import { readLineBatches } from "./lines.ts";
import { ndjson } from "./media.ts";
import { checkRights } from "./rights.ts";
import type { Call, Route } from "./route.ts";
import { nameFromUrl } from "./url-name.ts";
import { readWire, writeLine } from "./wire.ts";

/** Units per call to the store: enough to make the call cheap per unit, few enough to block other calls for at most 50 ms. */
const unitsAtOnce = 1000;
const charactersAtOnce = 4 * 1024 * 1024;
const longestLine = 32 * 1024 * 1024;
const rowsAtOnce = 500;

export const streamRoutes = (limits?: DataLimits): readonly Route[] => [
  {
    id: "loadWorkUnits",
    method: "POST",
    path: "/v1/namespace/{namespace}/work-spec/{spec}/work-units",
    scope: "write",
    family: "stream",
    summary:
      "Adds any number of work units, one per line. Stops at the first invalid line; the units before it stay.",
    query: {
      requestId: shape.text({
        description: "Identifies the load: a repeated load within ten minutes is not carried out twice",
      }),
    },
    body: workUnitInput,
    bodyType: ndjson,
    answer: shape.object<LoadAnswer>({ units: shape.integer, created: shape.integer }),
    handle: (call) => load(call, limits),
  },
  {
    id: "exportWorkUnits",
    method: "GET",
    path: "/v1/namespace/{namespace}/work-spec/{spec}/work-units",
    scope: "read",
    family: "stream",
    summary:
      "Exports all work units that match, in name order, one per line. Names in the query are encoded as in paths.",
    query: {
      status: shape.list(shape.text()),
      prefix: shape.text(),
      label: shape.text(),
      error: shape.text({ description: "The fingerprint of a failure group" }),
      endedSince: shape.text({
        description: "Only units that ended then or later, in milliseconds since 1970",
      }),
      previous: shape.text(),
    },
    answer: workUnitRow,
    answerType: ndjson,
    handle: exportUnits,
  },
];

async function load(call: Call, limits: DataLimits | undefined): Promise<string> {
  const { coordinate, ns, request, large } = call;
  const { socket } = request.raw;
  if (!(request.body instanceof Readable))
    throw new HttpError("unsupported_media_type", `Expected content type ${ndjson}`);
  const spec = call.param("spec");
  const [requestId] = call.query("requestId");
  const check = request.compileValidationSchema(workUnitInput);
  let units: WorkUnitInput[] = [];
  let characters = 0;
  let first = 1;
  let stored = 0;
  let created = 0;
  let batches = 0;
  let writing: Promise<void> = Promise.resolve();
  const write = async (batch: WorkUnitInput[], from: number, to: number): Promise<void> => {
    batches += 1;
    try {
      // a load may last for hours
      checkRights(call, "write");
      const options = requestId === undefined ? {} : { requestId: `${requestId}.${batches}` };
      const added = await large.turn(socket, () => coordinate.addWorkUnits(ns, spec, batch, options));
      stored += added.length;
      for (const one of added) if (one.created) created += 1;
    } catch (error) {
      throw located(error, batch.length === 1 ? `line ${from}` : `lines ${from} to ${to}`, stored);
    }
  };
  const flush = async (to: number): Promise<void> => {
    await writing;
    const batch = units;
    const from = first;
    large.charge(socket, characters);
    units = [];
    characters = 0;
    // one batch is written while the next is read
    writing = write(batch, from, to);
    // the next `await writing` throws the failure; this avoids an unhandled rejection until then
    writing.catch(() => undefined);
  };
  let last = 0;
  for await (const lines of readLineBatches(chunksOf(request.body), longestLine)) {
    for (const { text, number } of lines) {
      if (units.length === 0) first = number;
      try {
        const unit = readWire(text, limits);
        if (!check(unit)) throw new CoordinateError("bad_argument", violation(check.errors?.[0]));
        units.push(unit as WorkUnitInput);
      } catch (error) {
        if (units.length > 0) await flush(number - 1);
        await writing;
        throw located(error, `line ${number}`, stored);
      }
      last = number;
      characters += text.length;
      if (units.length >= unitsAtOnce || characters >= charactersAtOnce) await flush(number);
    }
  }
  // an empty load still checks that the work spec exists
  if (units.length > 0 || stored === 0) await flush(last);
  await writing;
  return JSON.stringify({ units: stored, created });
}

async function* chunksOf(body: Readable): AsyncGenerator<Uint8Array> {
  try {
    yield* body as AsyncIterable<Uint8Array>;
  } catch {
    // a body fails only if its caller disconnects, which is no bug
    throw incomplete();
  }
}

const violation = (error: { instancePath?: string; message?: string } | undefined): string =>
  `${(error?.instancePath ?? "").slice(1).replaceAll("/", ".")} ${error?.message ?? "not valid"}`.trim();

function located(error: unknown, where: string, stored: number): unknown {
  if (!(error instanceof CoordinateError) || error.status >= 500) return error;
  // their value is the name of a missing thing: a line number does not belong in it
  if (error.status === 404 || error.status === 410) return error;
  return new CoordinateError(error.code, `${where}: ${error.value} (${stored} units before it were stored)`, {
    cause: error,
  });
}

async function exportUnits(call: Call): Promise<undefined> {
  const { coordinate, ns, large } = call;
  const { socket } = call.request.raw;
  const spec = call.param("spec");
  const statuses = call.query("status") as WorkUnitStatus[];
  const [prefix] = call.query("prefix");
  const [label] = call.query("label");
  const [error] = call.query("error");
  const [endedSince] = call.query("endedSince");
  const [previous] = call.query("previous");
  const query: WorkUnitQuery = {
    limit: rowsAtOnce,
    ...(statuses.length > 0 && { statuses }),
    ...(prefix !== undefined && { prefix: nameFromUrl(prefix) }),
    ...(label !== undefined && { label: nameFromUrl(label) }),
    ...(error !== undefined && { error }),
    ...(endedSince !== undefined && { endedSince: Number(endedSince) }),
  };
  const read = (after: string | undefined) =>
    large.turn(socket, () => {
      checkRights(call, "read");
      return coordinate.listWorkUnits(ns, spec, {
        ...query,
        ...(after !== undefined && { previous: after }),
      });
    });
  // reads the first page before the first byte is sent: a failure is then an error answer, not a broken stream
  let page = await read(previous === undefined ? undefined : nameFromUrl(previous));
  const pages = async function* (): AsyncGenerator<string> {
    for (;;) {
      let text = "";
      for (const row of page.rows) text += writeLine(row);
      large.charge(socket, text.length);
      if (text !== "") yield text;
      if (page.next === null) return;
      page = await read(page.next);
    }
  };
  await call.reply
    .headers({ "content-type": ndjson, "cache-control": "no-store", "x-content-type-options": "nosniff" })
    .send(Readable.from(pages(), { objectMode: false, highWaterMark: 262_144 }));
  return undefined;
}
