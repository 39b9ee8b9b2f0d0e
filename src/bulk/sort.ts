/**
 * Sorts any number of units by name: pieces that fit into memory are sorted, written to disk, and merged at the end. It needs as
 * much disk as the input has text, and memory for one piece.
 */
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { compareNames, readLines, type WorkUnitInput } from "../core/index.ts";
import { readWire, writeLine } from "../rest/wire.ts";

export interface SortOptions {
  /** Text of one piece, in characters; 8 million by default. */
  pieceSize?: number;
  /** Pieces that are merged at once; 64 by default. */
  fanIn?: number;
  directory?: string;
}

/** Takes units one by one and returns them in name order. Of several units with the same name, the last is kept. */
export class UnitSorter {
  readonly #pieceSize: number;
  readonly #fanIn: number;
  readonly #base: string;
  #directory: string | null = null;
  #units: WorkUnitInput[] = [];
  #size = 0;
  /** In the order in which they were written: of two units with the same name, the one in the later piece is newer. */
  #pieces: string[] = [];
  #made = 0;

  constructor({ pieceSize = 8_000_000, fanIn = 64, directory = tmpdir() }: SortOptions = {}) {
    this.#pieceSize = pieceSize;
    this.#fanIn = fanIn;
    this.#base = directory;
  }

  /** `size` is the approximate number of characters. */
  add(unit: WorkUnitInput, size: number): void {
    this.#units.push(unit);
    this.#size += size + 100;
    if (this.#size >= this.#pieceSize) this.#spill();
  }

  /** Yields all units. Can be called only once. */
  async *sorted(): AsyncGenerator<WorkUnitInput> {
    if (this.#pieces.length === 0) {
      yield* this.#sortedPiece();
      return;
    }
    this.#spill();
    while (this.#pieces.length > this.#fanIn) await this.#mergeSome();
    yield* merge(this.#pieces);
  }

  /** Deletes the pieces. */
  close(): void {
    if (this.#directory !== null) rmSync(this.#directory, { recursive: true, force: true });
    this.#directory = null;
    this.#units = [];
  }

  #sortedPiece(): WorkUnitInput[] {
    // the sort is stable: of units with the same name, the last stays last
    const units = this.#units.sort((a, b) => compareNames(a.name, b.name));
    return units.filter(({ name }, i) => units[i + 1]?.name !== name);
  }

  #spill(): void {
    if (this.#units.length === 0) return;
    const file = this.#newPiece();
    writeFileSync(file, this.#sortedPiece().map(writeLine).join(""), { mode: 0o600 });
    this.#pieces.push(file);
    this.#units = [];
    this.#size = 0;
  }

  #newPiece(): string {
    this.#directory ??= mkdtempSync(path.join(this.#base, "coordinate-sort-"));
    this.#made += 1;
    return path.join(this.#directory, `${this.#made}.jsonl`);
  }

  /** Merges the oldest pieces into one, which stays the oldest. */
  async #mergeSome(): Promise<void> {
    const some = this.#pieces.splice(0, this.#fanIn);
    const file = this.#newPiece();
    const handle = await open(file, "w", 0o600);
    try {
      let text = "";
      for await (const unit of merge(some)) {
        text += writeLine(unit);
        if (text.length < 262_144) continue;
        await handle.write(text);
        text = "";
      }
      await handle.write(text);
    } finally {
      await handle.close();
    }
    for (const one of some) rmSync(one);
    this.#pieces.unshift(file);
  }
}

async function* readPiece(file: string): AsyncGenerator<WorkUnitInput> {
  for await (const lines of readLines(createReadStream(file, { highWaterMark: 65_536 })))
    for (const { text } of lines)
      if (text !== "") yield readWire(text, { maxBytes: Infinity, maxDepth: 1024 }) as WorkUnitInput;
}

async function* merge(files: readonly string[]): AsyncGenerator<WorkUnitInput> {
  const heads = await Promise.all(
    files.map(async (file, age) => {
      const units = readPiece(file);
      return { units, age, unit: await nextOf(units) };
    }),
  );
  let open = heads.filter(({ unit }) => unit !== null);
  let last: WorkUnitInput | null = null;
  while (open.length > 0) {
    // a few dozen pieces at most: a linear search is no slower than a heap, and simpler
    let best = open[0]!;
    for (const head of open) {
      const order = compareNames(head.unit?.name ?? "", best.unit?.name ?? "");
      if (order < 0 || (order === 0 && head.age < best.age)) best = head;
    }
    const unit = best.unit;
    if (unit !== null) {
      // units with the same name come in the order of their pieces: the last one is the newest
      if (last !== null && last.name !== unit.name) yield last;
      last = unit;
    }
    best.unit = await nextOf(best.units);
    if (best.unit === null) open = open.filter((head) => head !== best);
  }
  if (last !== null) yield last;
}

async function nextOf<Item>(items: AsyncIterator<Item>): Promise<Item | null> {
  const next = await items.next();
  return next.done === true ? null : next.value;
}
