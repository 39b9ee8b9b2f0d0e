/** Why a daemon cannot start: one line that names the option, the cause, and what to do. */
import { CoordinateError } from "../core/index.ts";
import { ConfigError } from "./config-error.ts";

/** Exit codes of sysexits.h. */
export const exitCodes = { unavailable: 69, bug: 70, noPermission: 77, badConfig: 78 } as const;

export class StartError extends Error {
  override readonly name = "StartError";
  readonly exitCode: number;

  constructor(message: string, exitCode: number, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

interface Cause {
  text: string;
  exitCode?: number;
}

/** Causes of failures to listen on an address. */
const listening: Readonly<Record<string, Cause>> = {
  EADDRINUSE: {
    text: "another process uses this address; stop it, or choose another address (a daemon may already be running: see coordinate doctor)",
  },
  EADDRNOTAVAIL: {
    text: "this machine has no such address; ip addr lists its addresses, and 0.0.0.0 means all of them",
  },
  ENOTFOUND: { text: "no such host; use an address of this machine" },
  EAI_AGAIN: { text: "the host name cannot be resolved; use an address of this machine" },
  EACCES: {
    text: "permission denied; choose a port above 1023, or a socket in a directory that this user can write to",
    exitCode: exitCodes.noPermission,
  },
  ENOENT: { text: "no such directory; create it first" },
  EINVAL: { text: "not a valid socket path; it can have at most about 100 bytes" },
};

/** Causes of failures to open a file or a store. */
const opening: Readonly<Record<string, Cause>> = {
  EACCES: {
    text: "permission denied; run as the owner, or choose another location",
    exitCode: exitCodes.noPermission,
  },
  EPERM: {
    text: "permission denied; run as the owner, or choose another location",
    exitCode: exitCodes.noPermission,
  },
  EROFS: { text: "the file system is read-only; choose another location", exitCode: exitCodes.noPermission },
  ENOENT: { text: "the directory does not exist and cannot be created; choose another location" },
  ENOTDIR: { text: "part of the path is a file; choose another location" },
  ENOSPC: { text: "no space left on the disk; free some space, or choose another location" },
  ECONNREFUSED: { text: "connection refused; start the server, or correct the address" },
  ENOTFOUND: { text: "no such host; correct the address" },
  "28P01": { text: "wrong password for this user" },
  "28000": { text: "this user is not allowed to connect; see pg_hba.conf on the server" },
  "3D000": { text: "no such database; create it with createdb" },
  "42501": {
    text: "this user is not allowed to create tables; grant it CREATE on the database",
    exitCode: exitCodes.noPermission,
  },
};

export const listenStep = <Answer>(what: string, step: () => Promise<Answer>): Promise<Answer> =>
  startStep(what, step, listening);

export const openStep = <Answer>(what: string, step: () => Promise<Answer>): Promise<Answer> =>
  startStep(what, step, opening);

/** Runs one step of the start. A known failure becomes a `StartError` that begins with `what`; other errors are rethrown. */
async function startStep<Answer>(
  what: string,
  step: () => Promise<Answer>,
  causes: Readonly<Record<string, Cause>>,
): Promise<Answer> {
  try {
    return await step();
  } catch (error) {
    if (error instanceof ConfigError || error instanceof StartError) throw error;
    for (let at: unknown = error; at instanceof Error; at = at.cause) {
      const cause = "code" in at && typeof at.code === "string" ? causes[at.code] : undefined;
      if (cause !== undefined)
        throw new StartError(`${what}: ${cause.text}`, cause.exitCode ?? exitCodes.unavailable, {
          cause: error,
        });
    }
    if (error instanceof CoordinateError && error.code === "unavailable")
      throw new StartError(`${what}: ${withoutPlace(what, oneLine(error.value))}`, exitCodes.unavailable, {
        cause: error,
      });
    // an error answer of the daemon that is the backend of this one
    if (error instanceof Error && "status" in error)
      throw new StartError(`${what}: ${oneLine(error.message)}`, exitCodes.unavailable, { cause: error });
    throw error;
  }
}

/** Removes the file name at the start of a store's message: `what` has it already. */
function withoutPlace(what: string, text: string): string {
  const at = text.indexOf(": ");
  return at > 0 && what.endsWith(text.slice(0, at)) ? text.slice(at + 2) : text;
}

const oneLine = (text: string): string => text.replace(/\s*\n\s*/g, " ");
