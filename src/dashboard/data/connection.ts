/** The connection to the daemon that served this page, by the project's REST client. The token is kept for the lifetime of the tab. */
import { useSyncExternalStore } from "react";
import { fetchTransport, RestClient, RestError, TransportError } from "../../rest/client.ts";
import { isCoordinateError } from "../../core/index.ts";

const key = "coordinate.token";
const transport = fetchTransport(location.origin);
const listeners = new Set<() => void>();

let token = sessionStorage.getItem(key);
export let client = connect();

function connect(): RestClient {
  return new RestClient(location.origin, {
    transport: () => transport,
    ...(token !== null && { token }),
    retries: 2,
  });
}

export function setToken(next: string | null): void {
  token = next;
  if (next === null) sessionStorage.removeItem(key);
  else sessionStorage.setItem(key, next);
  client = connect();
  for (const listener of listeners) listener();
}

export const useToken = (): string | null =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => token,
  );

/** Reads a document about the daemon itself, for which there is no verb, over the same transport. */
export const readText = (path: string): Promise<string> => send("GET", path);

export async function send(method: "GET" | "DELETE", path: string): Promise<string> {
  const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` };
  const answer = await transport.send({ method, path, headers, timeoutMs: 30_000 });
  if (answer.status === 200) return answer.text;
  let document: { code?: unknown; message?: unknown } = {};
  try {
    document = JSON.parse(answer.text) as typeof document;
  } catch {
    // not JSON, probably the page of a proxy: report the status alone
  }
  const { code, message } = document;
  throw new RestError(
    answer.status,
    typeof code === "string" ? code : "not_coordinate",
    typeof message === "string" ? message : `HTTP status ${answer.status}`,
  );
}

export const isUnauthorized = (error: unknown): boolean => error instanceof RestError && error.status === 401;
export const isForbidden = (error: unknown): boolean => error instanceof RestError && error.status === 403;

/** Whether a retry may help: the daemon was not reached, or cannot answer now. */
export const isTransient = (error: unknown): boolean =>
  error instanceof TransportError ||
  isCoordinateError(error, "unavailable") ||
  isCoordinateError(error, "closed") ||
  (error instanceof RestError && (error.status === 429 || error.status >= 500));

/** A message for people: what went wrong, and what to do about it where that is known. */
export function sayError(error: unknown): string {
  if (isForbidden(error)) return `${messageOf(error)}. Sign in with a token that has this right.`;
  if (isUnauthorized(error)) return "The daemon does not accept this token. Sign in again.";
  if (error instanceof RestError && error.status === 429) return "Too many requests. Wait a minute.";
  if (isTransient(error)) return `The daemon is not responding (${messageOf(error)}). Retrying.`;
  return messageOf(error);
}

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
