/** Listings to their end: every verb that lists begins after `previous` and answers with rows and where to go on. */
import type { Page } from "./work-unit.ts";

type ReadPage<Row> = (from: { previous?: string }) => Promise<Page<Row>>;

/** Every page of a listing. The next one is asked for when this one was dealt with. */
export async function* eachPage<Row>(read: ReadPage<Row>): AsyncGenerator<Page<Row>, void, undefined> {
  for (let from: { previous?: string } = {}; ;) {
    const page = await read(from);
    yield page;
    if (page.next === null) return;
    from = { previous: page.next };
  }
}

/** Every row of a listing, a page at a time. */
export async function* eachRow<Row>(read: ReadPage<Row>): AsyncGenerator<Row, void, undefined> {
  for await (const { rows } of eachPage(read)) yield* rows;
}
