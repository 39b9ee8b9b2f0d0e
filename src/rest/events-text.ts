/** Events as text/event-stream: written by the server, read by the client. */
import { readLines } from "./lines.ts";

/**
 * Something that happened in a namespace. `items` are at most a hundred of the `count` things that it happened to:
 * one event tells of one request, however large. The items of a `tally` are the rows of the verb `tally`, all of them.
 */
export interface CoordinateEvent {
  type: "workSpecs" | "workUnits" | "attempts" | "workers" | "namespace" | "swept" | "reset" | "tally";
  /** The verb that made the change; `sweep` is the daemon's own. */
  verb: string;
  /** Milliseconds since 1970. */
  time: number;
  workSpec?: string;
  count?: number;
  items?: readonly unknown[];
}

export interface StreamedEvent extends CoordinateEvent {
  /** Where to go on after this one; empty in a stream of gathered events. */
  id: string;
}

/** Without an id where no stream can go on after it. */
export const writeEvent = (id: string | null, event: CoordinateEvent): string =>
  `${id === null ? "" : `id: ${id}\n`}event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

export async function* readEvents(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<StreamedEvent> {
  let id = "";
  for await (const { text } of readLines(chunks)) {
    if (text.startsWith("id: ")) id = text.slice(4);
    else if (text.startsWith("data: ")) yield { id, ...(JSON.parse(text.slice(6)) as CoordinateEvent) };
  }
}
