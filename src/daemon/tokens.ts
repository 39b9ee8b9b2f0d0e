/**
 * Access tokens and their scopes in namespaces. A token is a public id and 32 random bytes. The file has the id, a hash of
 * the bytes and the grants, so that the file is no use to a reader. 256 random bits need no slow hash. The file is reloaded
 * when it changes: a revoked token stops working within a second, in every daemon that shares the file.
 */
import { Buffer } from "node:buffer";
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { chmodSync, chownSync, readFileSync, renameSync, statSync, writeFileSync, type Stats } from "node:fs";
import path from "node:path";
import { isMapping } from "../config/index.ts";
import { HttpError, includesScope, scopes, type Access, type Identity, type Scope } from "../rest/index.ts";
import type { FastifyRequest } from "fastify";
import { ConfigError } from "./config-error.ts";
import { makeDirectory } from "./make-directory.ts";

export interface Grant {
  /** A name, or `*` for all. */
  namespace: string;
  scopes: readonly Scope[];
}

export interface TokenRow {
  id: string;
  /** The purpose of the token, for people. */
  name: string;
  grants: readonly Grant[];
  /** Milliseconds since 1970; 0 is never. */
  created: number;
  expires: number;
}

interface StoredToken extends TokenRow {
  /** SHA-256 of the secret part, hex. */
  hash: string;
}

const tokenText = /^cjt_([A-Za-z0-9]{12})_([A-Za-z0-9_-]{43})$/;
const idLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Makes a token and adds it to the file. Only this call returns its text: it cannot be recovered later. */
export function createToken(
  file: string,
  given: { name: string; grants: readonly Grant[]; expires?: number },
  now = Date.now(),
): { token: string; row: TokenRow } {
  for (const { scopes: wanted } of given.grants) {
    for (const scope of wanted) if (!scopes.includes(scope)) throw new Error(`no such scope: ${scope}`);
  }
  if (given.grants.length === 0) throw new Error("a token needs at least one grant");
  const id = [...randomBytes(12)].map((byte) => idLetters[byte % idLetters.length]).join("");
  const secret = randomBytes(32).toString("base64url");
  const row: TokenRow = {
    id,
    name: given.name,
    grants: given.grants,
    created: now,
    expires: given.expires ?? 0,
  };
  write(file, [...read(file), { ...row, hash: hashOf(secret).toString("hex") }]);
  return { token: `cjt_${id}_${secret}`, row };
}

export const listTokens = (file: string): TokenRow[] => read(file).map(({ hash: _hash, ...row }) => row);

/** False when there is no such token. */
export function revokeToken(file: string, id: string): boolean {
  const before = read(file);
  const left = before.filter((token) => token.id !== id);
  if (left.length === before.length) return false;
  write(file, left);
  return true;
}

const hashOf = (secret: string): Buffer => createHash("sha256").update(secret).digest();

/** Undefined if there is no such file. Throws if that cannot be found out: such a file does not count as absent. */
const statOf = (file: string): Stats | undefined => statSync(file, { throwIfNoEntry: false });

function read(file: string): StoredToken[] {
  const stat = statOf(file);
  if (stat === undefined) return [];
  // a secret that Kubernetes mounts belongs to root and is readable by the group of the pod
  const forbidden = stat.uid === 0 && process.getuid?.() !== 0 ? 0o037 : 0o077;
  if ((stat.mode & forbidden) !== 0 && process.platform !== "win32") {
    throw new ConfigError(`${file}: other users can read or write this file; run chmod 600 on it`);
  }
  const text = readFileSync(file, "utf8");
  let document: { version?: unknown; tokens?: unknown } | null;
  try {
    document = JSON.parse(text) as typeof document;
  } catch {
    document = null;
  }
  if (document?.version !== 1 || !Array.isArray(document.tokens) || !document.tokens.every(isStoredToken))
    throw new ConfigError(`${file}: not a token file; create one with coordinate token create`);
  return document.tokens;
}

const isStoredToken = (row: unknown): row is StoredToken =>
  isMapping(row) &&
  typeof row.id === "string" &&
  typeof row.hash === "string" &&
  /^[0-9a-f]{64}$/.test(row.hash) &&
  Array.isArray(row.grants) &&
  typeof row.expires === "number";

/** Writes to a temporary file and renames it: a daemon may read the file at this moment. */
function write(file: string, tokens: readonly StoredToken[]): void {
  makeDirectory(path.dirname(file));
  const next = `${file}.${randomBytes(6).toString("hex")}`;
  writeFileSync(next, JSON.stringify({ version: 1, tokens }, null, 2) + "\n", { mode: 0o600, flag: "wx" });
  chmodSync(next, 0o600);
  if (process.getuid?.() === 0) {
    // root creates tokens for a daemon that runs as another user
    const { uid, gid } = statSync(path.dirname(file));
    chownSync(next, uid, gid);
  }
  renameSync(next, file);
}

export interface TokenAccessOptions {
  now?: () => number;
  /** Called if the file cannot be used, once for each reason. */
  onError?: (error: unknown) => void;
}

interface KnownToken {
  token: StoredToken;
  hash: Buffer;
  rights: Pick<Identity, "may" | "somewhere">;
  /** Has the rights as long as the token is valid. */
  identity: Identity;
}

/**
 * Identifies callers by the tokens of a file. A file that can no longer be used has no valid tokens. It does not open the
 * daemon: a deleted file, a failed mount or a typing mistake must not give everyone full access.
 */
export class TokenAccess implements Access {
  readonly #file: string;
  readonly #now: () => number;
  readonly #onError: (error: unknown) => void;
  readonly #failures: Failures;
  #tokens = new Map<string, KnownToken>();
  #required = false;
  /** Identifies the content that was read last; null if it must be read again. */
  #version: string | null = null;
  #problem = "";
  #lookedAt = -Infinity;

  /** Throws if there is a file that cannot be used. */
  constructor(file: string, { now = Date.now, onError = () => undefined }: TokenAccessOptions = {}) {
    this.#file = file;
    this.#now = now;
    this.#onError = onError;
    this.#failures = new Failures(now);
    this.#load();
  }

  /** Whether callers need a token. Stays true until the daemon restarts, even if all tokens are revoked. */
  get required(): boolean {
    this.#refresh();
    return this.#required;
  }

  identify(request: FastifyRequest): Identity {
    return this.identityOf(presented(request.headers.authorization) ?? "", request.ip);
  }

  /** The identity of a token. Throws an `HttpError` for an unknown token. */
  identityOf(token: string, address: string): Identity {
    const match = tokenText.exec(token);
    const known = this.#valid(match?.[1] ?? "");
    // the same work for an unknown id, so that the time it takes reveals nothing
    const same = timingSafeEqual(hashOf(match?.[2] ?? ""), known?.hash ?? nothing);
    if (known !== undefined && same) return known.identity;
    const wait = this.#failures.count(address);
    if (wait > 0)
      throw new HttpError("too_many_requests", "Too many wrong tokens", { "retry-after": String(wait) });
    throw new HttpError("unauthorized", "This needs a token", {
      "www-authenticate": 'Bearer realm="coordinate"',
    });
  }

  #valid(id: string): KnownToken | undefined {
    this.#refresh();
    const known = this.#tokens.get(id);
    const isValid = known !== undefined && (known.token.expires === 0 || known.token.expires > this.#now());
    return isValid ? known : undefined;
  }

  #known(token: StoredToken): KnownToken {
    const { id } = token;
    const identity: Identity = {
      id,
      may: (scope, ns) => this.#valid(id)?.rights.may(scope, ns) === true,
      somewhere: (scope) => this.#valid(id)?.rights.somewhere(scope) === true,
    };
    return { token, hash: Buffer.from(token.hash, "hex"), rights: rightsOf(token), identity };
  }

  #refresh(): void {
    const now = this.#now();
    // also after the clock was set back
    if (Math.abs(now - this.#lookedAt) < 1000) return;
    this.#lookedAt = now;
    try {
      this.#load();
      this.#problem = "";
    } catch (error) {
      this.#required = true;
      this.#tokens = new Map();
      this.#version = null;
      const problem = String(error);
      if (problem !== this.#problem) this.#onError(error);
      this.#problem = problem;
    }
  }

  #load(): void {
    const stat = statOf(this.#file);
    if (stat === undefined && this.#required) throw new ConfigError(`${this.#file}: the file is missing`);
    const version = stat === undefined ? "" : `${stat.ino} ${stat.mtimeMs} ${stat.size}`;
    if (version === this.#version) return;
    const tokens = read(this.#file);
    this.#tokens = new Map(tokens.map((token) => [token.id, this.#known(token)]));
    this.#required ||= tokens.length > 0;
    this.#version = version;
  }
}

const nothing = Buffer.alloc(32);

/** The token of a bearer header, or the password of basic authentication, which is all that a URL in a Go client can have. */
function presented(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const [kind = "", value = ""] = header.split(" ");
  if (kind.toLowerCase() === "bearer") return value;
  if (kind.toLowerCase() !== "basic") return undefined;
  const pair = Buffer.from(value, "base64").toString("utf8");
  return pair.slice(pair.indexOf(":") + 1);
}

function rightsOf({ grants }: StoredToken): KnownToken["rights"] {
  const byNamespace = new Map<string, Scope[]>();
  for (const { namespace, scopes: granted } of grants) {
    byNamespace.set(namespace, [...(byNamespace.get(namespace) ?? []), ...granted]);
  }
  const everywhere = byNamespace.get("*") ?? [];
  return {
    may: (scope, ns) =>
      includesScope(everywhere, scope) || (ns !== null && includesScope(byNamespace.get(ns) ?? [], scope)),
    somewhere: (scope) => [...byNamespace.values()].some((granted) => includesScope(granted, scope)),
  };
}

/** Allows ten wrong tokens a minute from one address, so that guessing is pointless. */
class Failures {
  readonly #now: () => number;
  #minute = 0;
  #counts = new Map<string, number>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Counts one more wrong token. Returns the seconds that the caller should wait, 0 within the limit. */
  count(address: string): number {
    const now = this.#now();
    const minute = Math.floor(now / 60_000);
    if (minute !== this.#minute || this.#counts.size > 100_000) {
      this.#minute = minute;
      this.#counts = new Map();
    }
    const count = (this.#counts.get(address) ?? 0) + 1;
    this.#counts.set(address, count);
    return count > 10 ? 60 - Math.floor((now / 1000) % 60) : 0;
  }
}

/** Limits the requests per second of one caller, with bursts of twice that. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #left = new Map<string, { tokens: number; at: number }>();

  constructor(perSecond: number) {
    this.#perSecond = perSecond;
  }

  /** Throws if the caller has exceeded the limit. */
  take(caller: string): void {
    // not the wall clock, which may be set back
    const now = performance.now();
    const burst = this.#perSecond * 2;
    const had = this.#left.get(caller) ?? { tokens: burst, at: now };
    const tokens = Math.min(burst, had.tokens + ((now - had.at) / 1000) * this.#perSecond);
    if (this.#left.size > 10_000) this.#left.clear();
    this.#left.set(caller, { tokens: Math.max(0, tokens - 1), at: now });
    if (tokens < 1) throw new HttpError("too_many_requests", "Too many requests", { "retry-after": "1" });
  }
}
