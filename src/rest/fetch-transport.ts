/** HTTP with `fetch`, for browsers, which have no node:http. */
import { TransportError, type Transport, type TransportAnswer, type TransportRequest } from "./transport.ts";

export function fetchTransport(address: string): Transport {
  const base = address.replace(/\/$/, "");
  const send = async (asked: TransportRequest): Promise<TransportAnswer> => {
    const signals = [asked.signal, asked.timeoutMs > 0 ? AbortSignal.timeout(asked.timeoutMs) : undefined];
    const body =
      typeof asked.body === "string" || asked.body === undefined ? asked.body : await gather(asked.body);
    try {
      const response = await fetch(base + asked.path, {
        method: asked.method,
        headers: asked.headers,
        signal: AbortSignal.any(signals.filter((signal) => signal !== undefined)),
        ...(body !== undefined && { body }),
      });
      const isStream = asked.stream === true && response.ok;
      return {
        status: response.status,
        header: (name) => response.headers.get(name) ?? undefined,
        text: isStream ? "" : await response.text(),
        chunks: chunksOf(response.body),
      };
    } catch (error) {
      // fetch does not tell whether the request was sent: assume that it was
      throw new TransportError(error instanceof Error ? error.message : String(error), true, {
        cause: error,
      });
    }
  };
  return { send, close: () => undefined };
}

/** Uses a reader, since not every browser can iterate over a stream. Cancels the stream if the caller stops early. */
async function* chunksOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (body === null) return;
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

/** Reads the whole body: browsers cannot stream request bodies over HTTP/1. */
async function gather(parts: AsyncIterable<string>): Promise<string> {
  let text = "";
  for await (const part of parts) text += part;
  return text;
}
