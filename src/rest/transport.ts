/** How a client reaches a server: one request, one answer. A failure tells whether the server can have received the request. */
import { NoAnswer } from "../core/index.ts";

export interface TransportRequest {
  method: string;
  /** Path and query. */
  path: string;
  headers: Readonly<Record<string, string>>;
  /** Text, or a stream of text with backpressure. */
  body?: string | AsyncIterable<string>;
  /** The timeout for silence; 0 is none. */
  timeoutMs: number;
  /** The server answers when something happens, which may take long. */
  waits?: boolean;
  signal?: AbortSignal | undefined;
  /** Returns `chunks` instead of `text`. */
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

/** `sent` is false if the request cannot have reached the server: then every request is safe to retry. */
export class TransportError extends NoAnswer {
  override readonly name = "TransportError";
}
