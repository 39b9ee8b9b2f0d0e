/**
 * Synchronises a work spec with a list of units: adds new units, adds changed units again and, only with `prune`, deletes units
 * that the list no longer has. Both sides are read in name order, so memory use is constant.
 *
 * Content is compared by its meaning. If a worker has overwritten the data of a unit, the manifest of the last sync is compared
 * instead. Without a manifest, such a unit is not changed and counted as `uncompared`.
 */
import type { WorkUnitInput, WorkUnitRow } from "../core/index.ts";
import { compareNames, eachRow } from "../core/index.ts";
import { BulkError } from "./bulk-error.ts";
import type { Entry } from "./entry.ts";
import type { BadEntry, LoadTarget } from "./load.ts";
import { contentHash, ManifestWriter, readManifest, type ManifestRow } from "./manifest.ts";
import { UnitSorter, type SortOptions } from "./sort.ts";

export interface SyncOptions {
  /** For messages: the name of the input. */
  name: string;
  /** The file of the manifest; no manifest is read or written when absent. */
  manifest?: string;
  /** Deletes units that the list does not have. Refused if the list has bad lines, even with `keepGoing`. */
  prune?: boolean;
  /** Allows pruning with an empty list, which deletes every unit. */
  allowEmpty?: boolean;
  /** Compares and counts, but changes nothing. */
  dryRun?: boolean;
  keepGoing?: boolean;
  onBad?: (bad: BadEntry) => void;
  onProgress?: (progress: SyncResult) => void;
  signal?: AbortSignal;
  sort?: SortOptions;
}

export interface SyncResult {
  /** Units of the list, each name once. */
  listed: number;
  added: number;
  changed: number;
  same: number;
  /** Units whose content could not be compared, because a worker wrote to it; they were not changed. */
  uncompared: number;
  /** Stored units that are not in the list. */
  vanished: number;
  deleted: number;
  bad: number;
}

const pageSize = 1000;
const requestSize = 1024 * 1024;

export async function syncUnits(
  target: LoadTarget,
  entries: AsyncIterable<readonly Entry[]>,
  options: SyncOptions,
): Promise<SyncResult> {
  const sorter = new UnitSorter(options.sort);
  const manifest =
    options.manifest === undefined || options.dryRun === true ? null : new ManifestWriter(options.manifest);
  try {
    const result = await new Sync(target, options, manifest).run(entries, sorter);
    await manifest?.commit();
    return result;
  } catch (error) {
    manifest?.discard();
    throw error;
  } finally {
    sorter.close();
  }
}

class Sync {
  readonly #target: LoadTarget;
  readonly #options: SyncOptions;
  readonly #manifest: ManifestWriter | null;
  readonly #result: SyncResult = {
    listed: 0,
    added: 0,
    changed: 0,
    same: 0,
    uncompared: 0,
    vanished: 0,
    deleted: 0,
    bad: 0,
  };
  #adds: WorkUnitInput[] = [];
  #size = 0;
  #deletes: string[] = [];

  constructor(target: LoadTarget, options: SyncOptions, manifest: ManifestWriter | null) {
    this.#target = target;
    this.#options = options;
    this.#manifest = manifest;
  }

  async run(entries: AsyncIterable<readonly Entry[]>, sorter: UnitSorter): Promise<SyncResult> {
    await this.#gather(entries, sorter);
    const { coordinate, ns, workSpec } = this.#target;
    const listed = new Cursor(sorter.sorted());
    const stored = new Cursor(
      eachRow((from) => coordinate.listWorkUnits(ns, workSpec, { limit: pageSize, ...from })),
    );
    const before = new Cursor(readManifest(this.#options.manifest ?? ""));
    await Promise.all([listed.next(), stored.next(), before.next()]);
    while (listed.row !== null || stored.row !== null) {
      this.#options.signal?.throwIfAborted();
      const order = orderOf(listed.row, stored.row);
      const name = (order <= 0 ? listed.row?.name : stored.row?.name) ?? "";
      while (before.row !== null && compareNames(before.row.name, name) < 0) await before.next();
      if (order <= 0) {
        const known = before.row?.name === name ? before.row : null;
        await this.#listed(listed.row, order === 0 ? stored.row : null, known);
        await listed.next();
      } else if (stored.row !== null) await this.#vanished(stored.row);
      if (order >= 0) await stored.next();
    }
    await this.#flush();
    await this.#flushDeletes();
    this.#options.onProgress?.({ ...this.#result });
    return this.#result;
  }

  /** Reads the whole list first, so that a bad list changes nothing. */
  async #gather(entries: AsyncIterable<readonly Entry[]>, sorter: UnitSorter): Promise<void> {
    const { keepGoing = false, onBad, name, signal, prune = false, allowEmpty = false } = this.#options;
    let found = 0;
    for await (const some of entries) {
      signal?.throwIfAborted();
      for (const { units, line, problem, size } of some) {
        if (problem !== "") {
          if (!keepGoing) throw new BulkError(`${name}:${line}: ${problem}`);
          this.#result.bad += 1;
          onBad?.({ line, problem });
        }
        for (const unit of units) sorter.add(unit, size / Math.max(1, units.length));
        found += units.length;
      }
    }
    const { bad } = this.#result;
    if (bad > 0 && prune)
      throw new BulkError(
        `${name}: ${bad} bad ${bad === 1 ? "line" : "lines"}, whose units --prune would delete; nothing was added or deleted`,
      );
    if (found === 0 && prune && !allowEmpty)
      throw new BulkError(
        `${name}: the list is empty, so --prune would delete every unit; use --yes to do that`,
      );
  }

  async #listed(
    unit: WorkUnitInput | null,
    row: WorkUnitRow | null,
    known: ManifestRow | null,
  ): Promise<void> {
    if (unit === null) return;
    const result = this.#result;
    result.listed += 1;
    const hash = contentHash(unit.data ?? null);
    await this.#manifest?.write({ name: unit.name, hash });
    const verdict = row === null ? "added" : compare(unit, hash, row, known);
    result[verdict] += 1;
    if (verdict === "added" || verdict === "changed") {
      this.#adds.push(unit);
      this.#size += unit.data?.length ?? 0;
      if (this.#adds.length >= pageSize || this.#size >= requestSize) await this.#flush();
    }
    if (result.listed % pageSize === 0) this.#options.onProgress?.({ ...result });
  }

  async #vanished({ name }: WorkUnitRow): Promise<void> {
    this.#result.vanished += 1;
    if (this.#options.prune !== true) return;
    this.#deletes.push(name);
    if (this.#deletes.length >= pageSize) await this.#flushDeletes();
  }

  async #flush(): Promise<void> {
    const { coordinate, ns, workSpec } = this.#target;
    const units = this.#adds;
    this.#adds = [];
    this.#size = 0;
    if (units.length === 0 || this.#options.dryRun === true) return;
    await coordinate.addWorkUnits(ns, workSpec, units);
  }

  async #flushDeletes(): Promise<void> {
    const { coordinate, ns, workSpec } = this.#target;
    const names = this.#deletes;
    this.#deletes = [];
    if (names.length === 0 || this.#options.dryRun === true) return;
    this.#result.deleted += await coordinate.deleteWorkUnits(ns, workSpec, { names });
  }
}

function compare(
  unit: WorkUnitInput,
  hash: string,
  row: WorkUnitRow,
  known: ManifestRow | null,
): "same" | "changed" | "uncompared" {
  const ended = row.status === "finished" || row.status === "failed";
  // a different priority or partition is no reason to run an ended unit again
  const moved =
    !ended &&
    ((unit.priority !== undefined && unit.priority !== row.priority) ||
      (unit.partition !== undefined && unit.partition !== row.partition));
  if (unit.data === row.data || contentHash(row.data) === hash) return moved ? "changed" : "same";
  // without an active attempt, its data is what was added
  if (row.activeAttempt === null) return "changed";
  if (known === null) return "uncompared";
  return known.hash === hash ? "same" : "changed";
}

function orderOf(listed: WorkUnitInput | null, stored: WorkUnitRow | null): number {
  if (listed === null) return 1;
  return stored === null ? -1 : compareNames(listed.name, stored.name);
}

class Cursor<Row> {
  row: Row | null = null;
  readonly #rows: AsyncIterator<Row>;

  constructor(rows: AsyncGenerator<Row>) {
    this.#rows = rows;
  }

  async next(): Promise<void> {
    const next = await this.#rows.next();
    this.row = next.done === true ? null : next.value;
  }
}
