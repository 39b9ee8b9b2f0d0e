/**
 * A route: one row of the table that maps paths to handlers. The server serves the rows, OpenAPI prints them, and the
 * authorisation tests iterate over them. A handler runs only after authorisation, with input that has been checked.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller, Coordinate, Shape, VerbScope } from "../core/index.ts";
import type { LargeRequests } from "../traffic/index.ts";
import type { Identity } from "./access.ts";

export type Method = "GET" | "POST" | "PUT" | "DELETE";

export interface Route {
  /** Its name in the OpenAPI document, in metrics and in the audit log. */
  id: string;
  method: Method;
  /** In OpenAPI syntax. The values of names in braces are decoded before the handler sees them. */
  path: string;
  /** `open`: needs no authorisation. `listed`: shows only namespaces that the caller may read. */
  scope: VerbScope | "open" | "listed";
  summary: string;
  family: "verb" | "go" | "stream" | "daemon";
  query?: Readonly<Record<string, Shape>>;
  body?: Shape;
  /** The media type of the body, if it is not JSON. */
  bodyType?: string;
  answer?: Shape;
  answerType?: string;
  /** Default 200. */
  status?: number;
  handle(call: Call): Promise<Answer>;
}

export interface Call {
  coordinate: Coordinate;
  identity: Identity;
  /** The namespace in the path, decoded; empty if the path has none. */
  ns: string;
  /** Names in the path, decoded. */
  param(name: string): string;
  /** The values of a query parameter, which may be repeated. Names in them are not decoded. */
  query(name: string): string[];
  body: Readonly<Record<string, unknown>>;
  request: FastifyRequest;
  reply: FastifyReply;
  /** Aborts when the caller has disconnected, or the server stops. */
  gone(): AbortSignal;
  /** The state of the caller, as far as verbs need it. */
  readonly caller: Caller;
  /** For handlers that do a lot of work: each piece waits for a turn as a large request. */
  large: LargeRequests;
}

/** The text to send. Null: an answer without a body. Undefined: the handler has sent the answer itself. */
export type Answer = string | null | undefined;

/** The status of a request whose caller disconnected before it was answered. It may have been carried out. */
export const unansweredStatus = 499;

/** A request that was answered: for metrics, the audit and the log. */
export interface Answered {
  readonly id: string;
  readonly method: string;
  /** With the query, if there is one. */
  readonly path: string;
  /** The route that served it; null for an unknown path. */
  readonly route: Route | null;
  readonly ns: string;
  readonly identity: Identity | null;
  /** Whether the caller sent a token, valid or not. */
  readonly presented: boolean;
  readonly address: string;
  readonly status: number;
  readonly ms: number;
}
