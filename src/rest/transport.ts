/** How a client reaches a server: one request, one answer. Failures say whether the server can have seen anything. */
import { NoAnswer } from "../core/index.ts";

export interface TransportRequest {
  method: string;
  /** Path and query. */
  path: string;
  headers: Readonly<Record<string, string>>;
  /** Text, or a stream of it whose sender waits until it is taken. */
  body?: string | AsyncIterable<string>;
  /** Silence of this long is a failure; 0 is never. */
  timeoutMs: number;
  /** The server answers when something happens, which may take long. */
  waits?: boolean;
  signal?: AbortSignal | undefined;
  /** Answers with `chunks` in place of `text`. */
  stream?: boolean;
}

export interface TransportAnswer {
  status: number;
  header(name: string): string | undefined;
  text: string;
  chunks: AsyncIterable<Uint8Array>;
}

export interface Transport {
  send(request: TransportRequest): Promise<TransportAnswer>;
  close(): void;
}

/** `sent` is false when the request cannot have reached the server: asking again is safe whatever it was. */
export class TransportError extends NoAnswer {
  override readonly name = "TransportError";
}
