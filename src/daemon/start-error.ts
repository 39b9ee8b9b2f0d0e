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
    text: "another process listens there; stop it, or choose another address (a daemon may be running already: coordinate doctor)",
  },
  EADDRNOTAVAIL: {
    text: "this machine has no such address; ip addr lists those that it has, and 0.0.0.0 is all of them",
  },
  ENOTFOUND: { text: "there is no such host; give an address of this machine" },
  EAI_AGAIN: { text: "the name of the host cannot be looked up; give an address of this machine" },
  EACCES: {
    text: "this user may not listen there; choose a port above 1023, or a socket in a directory that exists and that this user may write",
    exitCode: exitCodes.noPermission,
  },
  ENOENT: { text: "there is no such directory; make it first" },
  EINVAL: { text: "this is no path for a socket; it may have about 100 bytes" },
};

/** Causes of failures to open a file or a store. */
const opening: Readonly<Record<string, Cause>> = {
  EACCES: {
    text: "this user may not write there; run as the owner, or choose another place",
    exitCode: exitCodes.noPermission,
  },
  EPERM: {
    text: "this user may not write there; run as the owner, or choose another place",
    exitCode: exitCodes.noPermission,
  },
  EROFS: { text: "the file system is read-only; choose another place", exitCode: exitCodes.noPermission },
  ENOENT: { text: "there is no such directory, and it cannot be made; choose another place" },
  ENOTDIR: { text: "a part of the path is a file; choose another place" },
  ENOSPC: { text: "no space is left; make room, or choose another place" },
  ECONNREFUSED: { text: "no server answers there; start it, or correct the address" },
  ENOTFOUND: { text: "there is no such host; correct the address" },
  "28P01": { text: "the password is wrong for this user" },
  "28000": { text: "this user may not connect; see pg_hba.conf of the server" },
  "3D000": { text: "there is no such database; createdb makes one" },
  "42501": {
    text: "this user may not create the tables; grant it CREATE on the database",
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
