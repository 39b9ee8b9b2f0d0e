/**
 * Error answers. One document serves both families of routes: `error` is a code that the Go client knows, `code` is the
 * complete code of this server.
 */
import { CoordinateError, type ErrorCode } from "../core/index.ts";

/** Truncates text that came from a caller and may be long. */
export const cut = (text: string): string => (text.length > 200 ? text.slice(0, 200) + "…" : text);

/** Errors of a request before a verb runs, and their HTTP statuses. */
const httpErrors = {
  bad_request: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  not_acceptable: 406,
  timeout: 408,
  unsupported_media_type: 415,
  wrong_host: 421,
  too_many_requests: 429,
  overloaded: 503,
  stopping: 503,
} as const;

export type HttpErrorCode = keyof typeof httpErrors;

export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly code: HttpErrorCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: HttpErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message);
    this.code = code;
    this.headers = headers;
  }

  get status(): number {
    return httpErrors[this.code];
  }
}

/** The codes that the Go client turns into its own errors. Of any other error it uses the message. */
const goErrors: Partial<Record<ErrorCode, string>> = {
  no_work_spec_name: "ErrNoWorkSpecName",
  bad_work_spec_name: "ErrBadWorkSpecName",
  changed_name: "ErrChangedName",
  no_such_work_spec: "ErrNoSuchWorkSpec",
  no_such_work_unit: "ErrNoSuchWorkUnit",
  lost_lease: "ErrLostLease",
  not_pending: "ErrNotPending",
  gone: "ErrGone",
};

export interface ErrorAnswer {
  status: number;
  text: string;
  headers: Readonly<Record<string, string>>;
  code: string;
}

/** The answer to an error that was expected; null for a bug, which the caller logs and answers as `internal`. */
export function errorAnswer(error: unknown): ErrorAnswer | null {
  if (error instanceof HttpError)
    return answer(error.status, "error", error.code, error.message, "", error.headers);
  if (error instanceof CoordinateError) return coordinateAnswer(error);
  return null;
}

/** The answer to a bug or an unexpected failure: has the request id, to find the error in the log. */
export const internalAnswer = (id: string): ErrorAnswer =>
  answer(500, "error", "internal", `Internal error; see the log for request id ${id}`, "", {});

function coordinateAnswer(error: CoordinateError): ErrorAnswer {
  const { code, value } = error;
  const go = goErrors[code] ?? "error";
  const headers: Record<string, string> = error.status === 503 ? { "retry-after": "1" } : {};
  return answer(error.status, go, code, messageOf(error), value, headers);
}

/** The message of the Go server, if it has one for this error. */
function messageOf({ code, value, message }: CoordinateError): string {
  if (code === "no_such_work_unit") return `No such work unit ${JSON.stringify(value)}`;
  return code === "no_such_attempt" ? "no such attempt" : message;
}

function answer(
  status: number,
  error: string,
  code: string,
  message: string,
  value: string,
  headers: Readonly<Record<string, string>>,
): ErrorAnswer {
  const text = JSON.stringify({ code, error, message, ...(value !== "" && { value }) });
  return { status, text, headers, code };
}
