export { BulkError } from "./bulk-error.ts";
export { columnTargets, readMapping, type ColumnMapping, type CsvOptions } from "./csv.ts";
export type { Entries, Entry } from "./entry.ts";
export { findFormat, formats, readEntries, type Format, type FormatOptions } from "./format.ts";
export { Journal, type JournalHeader } from "./journal.ts";
export {
  loadUnits,
  mustBeAdded,
  type BadEntry,
  type LoadOptions,
  type LoadProgress,
  type LoadResult,
  type LoadStep,
  type LoadTarget,
} from "./load.ts";
export { openSource, standardInput, type Source } from "./source.ts";
export { exportLines, exportVersion, type ExportCounts, type ExportOptions } from "./export.ts";
export { importLines, type ImportOptions, type ImportResult } from "./import.ts";
export { contentHash } from "./manifest.ts";
export {
  acceptReplay,
  addToReplay,
  compareReplay,
  isBegun,
  prepareReplay,
  type Comparison,
  type Difference,
  type Replay,
} from "./replay.ts";
export { UnitSorter, type SortOptions } from "./sort.ts";
export { syncUnits, type SyncOptions, type SyncResult } from "./sync.ts";
