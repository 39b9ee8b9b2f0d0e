/**
 * Collects statements that write different rows, and sends them as one: a round trip instead of several. They all see the
 * database as it was before the first of them, and return no rows.
 */
import type { Row, Session } from "./connection.ts";

export class StatementBatch implements Session {
  readonly #steps: string[] = [];
  readonly #values: unknown[] = [];

  rows(sql: string, values: readonly unknown[]): Promise<Row[]> {
    const before = this.#values.length;
    this.#steps.push(
      before === 0 ? sql : sql.replace(/\$(\d+)/g, (_, number: string) => `$${Number(number) + before}`),
    );
    this.#values.push(...values);
    return Promise.resolve([]);
  }

  async send(tx: Session): Promise<void> {
    const [first, ...more] = this.#steps;
    if (first === undefined) return;
    const sql =
      more.length === 0
        ? first
        : `WITH ${more.map((step, i) => `step${i} AS (${step})`).join(", ")} ${first}`;
    await tx.rows(sql, this.#values);
  }
}
