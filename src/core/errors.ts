/**
 * The one table of expected errors: code, message, HTTP status.
 *
 * Every wire carries the code; `{}` in a message is filled with the value that names what was wrong.
 * Anything that is not a `CoordinateError` is a bug: it is logged, answered as `internal`, and work goes on.
 */
const table = {
  // the request is invalid: nothing was changed
  bad_argument: [400, "Bad argument {}"],
  bad_name: [400, "Bad name: {}"],
  bad_data: [400, "Bad data: {}"],
  empty_query: [400, "The query has no conditions; to select every work unit, set all: true"],
  no_work_spec_name: [400, "No 'name' key in work spec"],
  bad_work_spec_name: [400, "Work spec 'name' must be a string"],
  changed_name: [409, "Cannot change work spec 'name'"],
  bad_work_spec: [422, "Bad work spec: {}"],
  bad_dependency: [422, "Bad dependency: {}"],
  dependency_cycle: [422, "Dependencies form a cycle: {}"],
  worker_cycle: [422, "Worker parents form a cycle: {}"],
  too_large: [413, "Too large: {}"],
  // the requested object does not exist
  no_such_namespace: [404, "No such namespace {}"],
  no_such_work_spec: [404, "No such work spec {}"],
  no_such_work_unit: [404, "No such work unit {}"],
  no_such_attempt: [404, "No such attempt {}"],
  no_such_worker: [404, "No such worker {}"],
  gone: [410, "Object no longer exists"],
  // the request conflicts with the current state
  not_pending: [409, "Attempt is not pending"],
  lost_lease: [409, "No longer the active attempt"],
  name_exists: [409, "Name already exists: {}"],
  queue_full: [429, "Queue is full: {}"],
  // the server cannot carry out the request
  unavailable: [503, "Not available: {}"],
  unknown_outcome: [503, "The outcome is not known: {}"],
  no_space: [507, "No space left: {}"],
  closed: [503, "Closed {}"],
  not_supported: [501, "Not supported: {}"],
  internal: [500, "Internal error"],
} as const satisfies Record<string, readonly [status: number, message: string]>;

export type ErrorCode = keyof typeof table;

export class CoordinateError extends Error {
  override readonly name = "CoordinateError";
  readonly code: ErrorCode;
  /** What the message is about: the missing name, the wrong field. Empty when the code says it all. */
  readonly value: string;

  constructor(code: ErrorCode, value = "", options?: ErrorOptions) {
    super(table[code][1].replace("{}", () => value).trimEnd(), options);
    this.code = code;
    this.value = value;
  }

  get status(): number {
    return table[this.code][0];
  }
}

/**
 * A store had to wait for other transactions, so that the `now` it was given is out of date, and did nothing. The engine tries
 * again with the current time until it has waited for `limitMs` in all; then this is an error like any other.
 */
export class WaitedError extends CoordinateError {
  readonly waitedMs: number;
  readonly limitMs: number;

  constructor(value: string, waitedMs: number, limitMs: number, options?: ErrorOptions) {
    super("unavailable", value, options);
    this.waitedMs = waitedMs;
    this.limitMs = limitMs;
  }
}

/** `unavailable`, because another process has the store open. */
export class InUseError extends CoordinateError {
  constructor(value: string, options?: ErrorOptions) {
    super("unavailable", value, options);
  }
}

export const errorCodes = Object.keys(table) as readonly ErrorCode[];

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(table, text);
}

/** Whether it is a `CoordinateError`, with one of these codes if any are given. */
export function isCoordinateError(error: unknown, ...codes: readonly ErrorCode[]): error is CoordinateError {
  return error instanceof CoordinateError && (codes.length === 0 || codes.includes(error.code));
}

/** Whether a request was understood and refused, and would be refused again. Any other failure may be temporary. */
export const isRefusal = (error: unknown): boolean => isCoordinateError(error) && error.status < 500;
