/** Adds units from text. Lines are parsed as on the command line; errors are reported by line. */
import { isCoordinateError, readUnitLine, type WorkUnitInput } from "../../core/index.ts";
import { client, messageOf } from "./connection.ts";

export interface LineError {
  readonly line: number;
  readonly message: string;
}

export interface ReadUnits {
  readonly units: readonly { readonly line: number; readonly unit: WorkUnitInput }[];
  readonly errors: readonly LineError[];
}

/** Parses lines of JSON; when the first line is no JSON, each line is a name. */
export function readUnits(text: string): ReadUnits & { readonly asNames: boolean } {
  const lines = text.split(/\r?\n/);
  const first = lines.find((line) => line.trim() !== "")?.trim() ?? "";
  const asNames = first !== "" && !/^[[{"]/.test(first);
  const units: { line: number; unit: WorkUnitInput }[] = [];
  const errors: LineError[] = [];
  lines.forEach((written, i) => {
    const line = i + 1;
    if (written.trim() === "") return;
    try {
      const read = asNames ? readUnitLine(JSON.stringify(written.trim())) : readUnitLine(written);
      for (const unit of read) units.push({ line, unit });
    } catch (error) {
      errors.push({ line, message: messageOf(error) });
    }
  });
  return { units, errors, asNames };
}

/** The text of a file; a .gz file is decompressed. */
export async function readFile(file: File): Promise<string> {
  if (!file.name.endsWith(".gz")) return file.text();
  return new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

export interface AddProgress {
  readonly done: number;
  readonly created: number;
  readonly errors: readonly LineError[];
}

/**
 * Adds units in batches of a thousand; stops when the signal aborts. A refused batch is halved until the bad lines are found; the
 * other lines are added.
 */
export async function addUnits(
  ns: string,
  spec: string,
  units: ReadUnits["units"],
  onProgress: (progress: AddProgress) => void,
  signal: AbortSignal,
): Promise<AddProgress> {
  let progress: AddProgress = { done: 0, created: 0, errors: [] };
  const add = async (batch: ReadUnits["units"]): Promise<void> => {
    if (signal.aborted || batch.length === 0) return;
    try {
      const added = await client.addWorkUnits(
        ns,
        spec,
        batch.map(({ unit }) => unit),
      );
      progress = {
        ...progress,
        done: progress.done + batch.length,
        created: progress.created + added.filter(({ created }) => created).length,
      };
    } catch (error) {
      const isTheirs = isCoordinateError(error) && error.status < 500 && error.status !== 404;
      if (!isTheirs) throw error;
      if (batch.length > 1) {
        const half = Math.ceil(batch.length / 2);
        await add(batch.slice(0, half));
        await add(batch.slice(half));
        return;
      }
      const failed = { line: batch[0]?.line ?? 0, message: messageOf(error) };
      progress = { ...progress, done: progress.done + 1, errors: [...progress.errors, failed] };
    }
    onProgress(progress);
  };
  for (let at = 0; at < units.length; at += 1000) await add(units.slice(at, at + 1000));
  return progress;
}
