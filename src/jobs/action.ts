/**
 * Actions: the functions that jobs run. Each distinct function is one record, keyed by the hash of its content; jobs
 * hold only the key. A record names an export of a module (the worker loads it from its own files), or holds the source
 * of a self-contained function.
 */
import { hash, sign, verify, type KeyLike } from "node:crypto";
import { CoordinateError, decodeData, encodeData, type ActionRow, type Data } from "../core/index.ts";

export type ActionKind = "module" | "inline";

/** `jumpscale.myjobs.action`. */
export interface Action {
  /** The sha256 of kind, module, methodname, code and, where it is known, version. */
  key: string;
  kind: ActionKind;
  /** The source of an inline function; "" for one of a module. */
  code: string;
  /** The export, or the name of the inline function. */
  methodname: string;
  /** The file or package of a module function; "" for an inline one. */
  module: string;
  /** The sha256 of the module's file when the job was scheduled; "" for an inline function, and where the file could not be read. */
  version: string;
  createdAt: number;
}

export type ActionContent = Omit<Action, "key" | "createdAt">;

export function actionKey({ kind, module, methodname, code, version }: ActionContent): string {
  return hash(
    "sha256",
    JSON.stringify([kind, module, methodname, code, ...(version === "" ? [] : [version])]),
    "hex",
  );
}

export function actionData({ kind, module, methodname, code, version }: ActionContent): Data {
  return encodeData({ kind, module, methodname, code, ...(version !== "" && { version }) });
}

/** Throws `bad_data` for a record that is not an action, or whose content does not match its key. */
export function readAction({ key, data, createdTime }: ActionRow): Action {
  const { kind, module, methodname, code, version = "" } = decodeData(data);
  if (kind !== "module" && kind !== "inline")
    throw new CoordinateError("bad_data", `action ${key}: expected kind module or inline`);
  const texts = [module, methodname, code, version].every((one) => typeof one === "string");
  if (!texts)
    throw new CoordinateError(
      "bad_data",
      `action ${key}: module, methodname, code and version must be strings`,
    );
  const content = { kind, module, methodname, code, version } as ActionContent;
  const action: Action = { key, ...content, createdAt: createdTime };
  verifyAction(action);
  return action;
}

/** Must be called before a function is loaded: an action whose content does not match its key must not run. */
export function verifyAction(action: Action): void {
  if (actionKey(action) !== action.key)
    throw new CoordinateError("bad_data", `action ${action.key}: its content does not match its key`);
}

/** Whether a key is that of a job's action. Other programs may store other records among the actions. */
export const isActionKey = (key: string): boolean => /^[0-9a-f]{64}$/.test(key);

/** An Ed25519 signature of the key. It vouches for the code, not for the arguments of a job. */
export const signAction = (key: string, privateKey: KeyLike): string =>
  sign(null, Buffer.from(key, "utf8"), privateKey).toString("base64");

export function isSigned(key: string, signature: string, publicKeys: readonly KeyLike[]): boolean {
  const bytes = Buffer.from(signature, "base64");
  return publicKeys.some((publicKey) => verify(null, Buffer.from(key, "utf8"), publicKey, bytes));
}
