/** Adding units from text: every line is read by the rule of the command line, and those that cannot be are told by line. */
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

/** As lines of JSON; or, where the first line is no JSON, a name on each line. */
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

/** A file as text; what ends in .gz is unpacked here. */
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
 * Adds them a thousand at a time; stops when the signal aborts. A batch that is refused is halved until the lines that
 * are to blame are found; the others are added.
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
