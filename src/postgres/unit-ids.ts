/** Takes unit ids from the database by the block. The ids that are left of a block when a daemon ends are never used. */
import type { Session } from "./connection.ts";
import { unitBlock } from "./working-set.ts";

export class UnitIds {
  readonly #session: Session;
  #next = 1;
  #end = 0;
  readonly #spare: number[] = [];

  constructor(session: Session) {
    this.#session = session;
  }

  /** Uses the given session: a transaction must not wait for another connection. */
  async take(count: number, session: Session = this.#session): Promise<number[]> {
    const ids: number[] = [];
    const fill = (): void => {
      while (ids.length < count && this.#next <= this.#end) ids.push(this.#next++);
    };
    fill();
    while (ids.length < count) {
      const blocks = Math.ceil((count - ids.length) / unitBlock);
      const rows = await session.rows(
        "SELECT nextval('@unit_block') FROM generate_series(1, $1::int) ORDER BY 1",
        [blocks],
      );
      for (const [block] of rows as [number][]) {
        const start = (block - 1) * unitBlock + 1;
        // a concurrent call may have taken a block meanwhile: the rest of that block is used first
        if (this.#next > this.#end) [this.#next, this.#end] = [start, start + unitBlock - 1];
        else for (let id = start; id < start + unitBlock; id++) this.#spare.push(id);
        fill();
      }
      while (ids.length < count && this.#spare.length > 0) ids.push(this.#spare.shift() ?? 0);
    }
    return ids;
  }
}
