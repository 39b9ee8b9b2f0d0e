/**
 * A route: one row of the table from words to verbs. The server serves the rows, OpenAPI prints them, the tests of
 * who may do what walk them. What a handler is given has been checked; what it may do has been decided.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller, Coordinate, Shape, VerbScope } from "../core/index.ts";
import type { LargeRequests } from "../traffic/index.ts";
import type { Identity } from "./access.ts";

export type Method = "GET" | "POST" | "PUT" | "DELETE";

export interface Route {
  /** One word for it: in the document, in metrics, in the audit log. */
  id: string;
  method: Method;
  /** As OpenAPI writes it; names in braces are decoded before the handler sees them. */
  path: string;
  /** `open`: nothing to protect. `listed`: shows what the caller may read, of all namespaces. */
  scope: VerbScope | "open" | "listed";
  summary: string;
  family: "verb" | "go" | "stream" | "daemon";
  query?: Readonly<Record<string, Shape>>;
  body?: Shape;
  /** The type of the body, where it is not JSON. */
  bodyType?: string;
  answer?: Shape;
  answerType?: string;
  /** 200 where not given. */
  status?: number;
  handle(call: Call): Promise<Answer>;
}

export interface Call {
  coordinate: Coordinate;
  identity: Identity;
  /** The namespace in the path, decoded; the empty one where the path has none. */
  ns: string;
  /** Names in the path, decoded. */
  param(name: string): string;
  /** Values of a repeated query parameter, as they stand there. */
  query(name: string): string[];
  body: Readonly<Record<string, unknown>>;
  request: FastifyRequest;
  reply: FastifyReply;
  /** Aborts when the caller has gone. */
  gone(): AbortSignal;
  /** Who waits for the answer, as far as the verbs need to know. */
  readonly caller: Caller;
  /** The turns of large requests, for handlers that do much in pieces. */
  large: LargeRequests;
}

/** The text to send; null is an answer without a body, undefined one that the handler has sent itself. */
export type Answer = string | null | undefined;

/** A request that was answered: for metrics, the audit and the log. */
export interface Answered {
  readonly id: string;
  readonly method: string;
  /** With the query, if there is one. */
  readonly path: string;
  /** The row of the table that served it; null for a path that is not there. */
  readonly route: Route | null;
  readonly ns: string;
  readonly identity: Identity | null;
  /** Whether the caller showed a token, right or wrong. */
  readonly presented: boolean;
  readonly address: string;
  readonly status: number;
  readonly ms: number;
}
