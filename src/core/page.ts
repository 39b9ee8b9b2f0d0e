/** Listings come in pages; here are the ways to go through them. */

/** One page; `next` is the `previous` of the following page, null on the last. */
export interface Page<Row> {
  rows: Row[];
  next: string | null;
}

/** Where a page begins: at the start, or after the page before. */
export interface PageStart {
  previous?: string;
}

/** What a listing is asked for. Without `limit`, pages have a default size. */
export interface PageQuery extends PageStart {
  limit?: number;
}

/** Yields every page of a listing. Reads the next page only when the caller asks for it. */
export async function* eachPage<Row>(
  read: (from: PageStart) => Promise<Page<Row>>,
): AsyncGenerator<Row[], void, undefined> {
  for (let from: PageStart = {}; ;) {
    const { rows, next } = await read(from);
    yield rows;
    if (next === null) return;
    from = { previous: next };
  }
}

/** Every row of a listing, a page at a time. */
export async function* eachRow<Row>(
  read: (from: PageStart) => Promise<Page<Row>>,
): AsyncGenerator<Row, void, undefined> {
  for await (const rows of eachPage(read)) yield* rows;
}

/** The page size where the caller wants a total number of rows, however many come at once. */
const rowsAtOnce = 1000;

/** Where a page begins, and the most rows that it may have. */
export interface PageRequest extends PageStart {
  limit: number;
}

/** The pages with the first `max` rows after `from`; `next` of the last one tells whether there are more. */
export async function* firstPages<Row>(
  max: number,
  read: (request: PageRequest) => Promise<Page<Row>>,
  from: PageStart = {},
): AsyncGenerator<Page<Row>, void, undefined> {
  for (let left = max, start = from; left > 0;) {
    const page = await read({ ...start, limit: Math.min(left, rowsAtOnce) });
    yield page;
    if (page.next === null) return;
    left -= page.rows.length;
    start = { previous: page.next };
  }
}

/** The first `max` rows after `from`, and whether there are more. */
export async function firstRows<Row>(
  max: number,
  read: (request: PageRequest) => Promise<Page<Row>>,
  from: PageStart = {},
): Promise<{ rows: Row[]; more: boolean }> {
  const rows: Row[] = [];
  let more = false;
  for await (const page of firstPages(max, read, from)) {
    for (const row of page.rows) rows.push(row);
    more = page.next !== null;
  }
  return { rows, more };
}
