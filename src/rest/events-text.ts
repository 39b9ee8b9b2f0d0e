/** Events as text/event-stream: written by the server, read by the client. */
import { readLines } from "./lines.ts";

/**
 * A change in a namespace. One event reports one request, however large: `count` is the number of changed things, and
 * `items` has at most a hundred of them. The items of a `tally` are all rows of the verb `tally`.
 */
export interface CoordinateEvent {
  type: "workSpecs" | "workUnits" | "attempts" | "workers" | "namespace" | "swept" | "reset" | "tally";
  /** The verb that made the change; `sweep` for the daemon's housekeeping. */
  verb: string;
  /** Milliseconds since 1970. */
  time: number;
  workSpec?: string;
  count?: number;
  items?: readonly unknown[];
}

export interface StreamedEvent extends CoordinateEvent {
  /** The cursor to continue after this event; empty in a stream of gathered events. */
  id: string;
}

/** A null id: no stream can continue after this event. */
export const writeEvent = (id: string | null, event: CoordinateEvent): string =>
  `${id === null ? "" : `id: ${id}\n`}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

export async function* readEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<StreamedEvent> {
  let id = "";
  for await (const { text } of readLines(chunks)) {
    if (text.startsWith("id: ")) id = text.slice(4);
    else if (text.startsWith("data: ")) yield { id, ...(JSON.parse(text.slice(6)) as CoordinateEvent) };
  }
}
