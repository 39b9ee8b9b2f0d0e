/** Routes for administrators: the tokens and the audit log of the daemon. They need scope `admin` in all namespaces. */
import { open } from "node:fs/promises";
import { shape } from "../core/index.ts";
import { HttpError, scopes, type Route, type Scope } from "../rest/index.ts";
import { listTokens, revokeToken, type Grant, type TokenRow } from "./tokens.ts";

export interface AdminSources {
  readonly tokensFile: string;
  readonly auditFile: string;
}

interface AuditRow {
  time: string;
  request: string | null;
  token: string | null;
  address: string;
  namespace: string;
  action: string | null;
  path: string | null;
  status: number;
  count?: number;
}

/** The newest lines first. `next` is the cursor of older lines, null at the beginning of the file. */
export interface AuditPage {
  rows: AuditRow[];
  next: string | null;
}

const maxLines = 1000;
/** Bytes of the file that are read at once: a line has a few hundred. */
const chunkBytes = 256 * 1024;

/** Reads lines backwards from the end of a file, or from a position. Reads at most one chunk. */
export async function readAudit(file: string, limit: number, before?: number): Promise<AuditPage> {
  const handle = await open(file, "r").catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  });
  if (handle === null) return { rows: [], next: null };
  try {
    const { size } = await handle.stat();
    const end = Math.min(before ?? size, size);
    const start = Math.max(0, end - chunkBytes);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(end - start), 0, end - start, start);
    const bytes = buffer.subarray(0, bytesRead);
    // only whole lines: the first line of the chunk may begin before it, the last one may still be being written
    let at = bytes.lastIndexOf(0x0a);
    const rows: AuditRow[] = [];
    while (at >= 0 && rows.length < limit) {
      const lineStart = at === 0 ? 0 : bytes.lastIndexOf(0x0a, at - 1) + 1;
      if (lineStart === 0 && start > 0) break;
      const row = readLine(bytes.toString("utf8", lineStart, at));
      if (row !== null) rows.push(row);
      at = lineStart - 1;
    }
    // skips a chunk without a whole line
    const next = start + (rows.length === 0 ? 0 : at + 1);
    return { rows, next: next === 0 ? null : String(next) };
  } finally {
    await handle.close();
  }
}

/** Null for a line that was cut short by a full disk. */
function readLine(text: string): AuditRow | null {
  try {
    return JSON.parse(text) as AuditRow;
  } catch {
    return null;
  }
}

const grant = shape.object<Grant>({
  namespace: shape.text({ description: "A name, or * for all" }),
  scopes: shape.list(shape.oneOf(scopes)),
});
const tokenRow = shape.object<TokenRow>({
  id: shape.text(),
  name: shape.text(),
  grants: shape.list(grant),
  created: shape.number(),
  expires: shape.number({ description: "Milliseconds since 1970; 0 is never" }),
});
const auditRow = shape.object<AuditRow>({
  time: shape.text(),
  request: shape.nullable(shape.text()),
  token: shape.nullable(shape.text({ description: "The id of a token" })),
  address: shape.text(),
  namespace: shape.text(),
  action: shape.nullable(shape.text()),
  path: shape.nullable(shape.text()),
  status: shape.integer,
  count: shape.maybe(shape.integer),
});

const mayAll = ({ grants, expires }: TokenRow, now: number): boolean =>
  (expires === 0 || expires > now) &&
  grants.some(
    ({ namespace, scopes: granted }) => namespace === "*" && granted.includes("admin" satisfies Scope),
  );

export function adminRoutes({ tokensFile, auditFile }: AdminSources): Route[] {
  const common = { scope: "admin", family: "daemon" } as const;
  return [
    {
      ...common,
      id: "tokens",
      method: "GET",
      path: "/v1/tokens",
      summary: "The tokens of the daemon, without their secrets. Needs scope admin in all namespaces.",
      answer: shape.list(tokenRow),
      handle: async () => JSON.stringify(listTokens(tokensFile)),
    },
    {
      ...common,
      id: "token.revoke",
      method: "DELETE",
      path: "/v1/tokens/{token}",
      summary:
        "Revokes a token, except the last one with scope admin in all namespaces. Needs scope admin in all namespaces.",
      handle: async (call) => {
        const id = call.param("token");
        const tokens = listTokens(tokensFile);
        if (!tokens.some((token) => token.id === id)) throw new HttpError("not_found", `No such token ${id}`);
        // without it, no one could administer tokens over the network, and without any token the daemon would be open
        if (!tokens.some((token) => token.id !== id && mayAll(token, Date.now())))
          throw new HttpError(
            "forbidden",
            "The last token with scope admin in all namespaces can only be revoked with coordinate token revoke",
          );
        revokeToken(tokensFile, id);
        return "{}";
      },
    },
    {
      ...common,
      id: "audit",
      method: "GET",
      path: "/v1/audit",
      summary:
        "The audit log: changes and refused requests, newest first. Needs scope admin in all namespaces.",
      query: {
        limit: shape.text({ description: `Maximum number of lines, up to ${maxLines}; default 200` }),
        before: shape.text({ description: "The `next` of the previous page" }),
      },
      answer: shape.object<AuditPage>({ rows: shape.list(auditRow), next: shape.nullable(shape.text()) }),
      handle: async (call) => {
        const number = (name: string): number | undefined => {
          const [given] = call.query(name);
          if (given === undefined) return undefined;
          if (!/^\d{1,15}$/.test(given))
            throw new HttpError("bad_request", `${name}: expected a whole number, got ${given.slice(0, 40)}`);
          return Number(given);
        };
        const limit = Math.min(Math.max(1, number("limit") ?? 200), maxLines);
        return JSON.stringify(await readAudit(auditFile, limit, number("before")));
      },
    },
  ];
}
