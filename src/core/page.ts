/** Listings come in pages; here is the one way to go through all of them. */

/** One page; `next` is the `previous` of the following page, null on the last. */
export interface Page<Row> {
  rows: Row[];
  next: string | null;
}

/** Where a page begins: at the start, or after the page before. */
export interface PageStart {
  previous?: string;
}

/** Every page of a listing: the next is asked for when this one was taken. */
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
