/** Finds secrets, which must not be shown or stored where others can read them: by the name of the key, or as a password in a URL. */
import { isMapping, setOwn } from "./document.ts";

const secretKey =
  /(^|[_.-]|(?<=[a-z]))(passw(or)?d|passphrase|secret|token|credentials?|api[_-]?key|access[_-]?key|private[_-]?key)s?$/i;
const passwordInUrl = /([a-z][a-z0-9+.-]*:\/\/[^/@:\s]*):[^@/\s]+@/gi;

export const isSecretKey = (key: string): boolean => secretKey.test(key);

export const redactUrl = (text: string): string => text.replace(passwordInUrl, "$1:***@");

/** The value without its secrets, and the dotted names of the secrets that were left out. Secrets that `keep` names stay. */
export function withoutSecrets(
  value: unknown,
  keep: ReadonlySet<string> = new Set(),
  at: readonly string[] = [],
): { value: unknown; left: string[] } {
  if (keep.has(at.join("."))) return { value, left: [] };
  if (Array.isArray(value)) {
    const items = value.map((item, i) => withoutSecrets(item, keep, [...at, String(i)]));
    return {
      value: items.filter(({ value: kept }) => kept !== undefined).map(({ value: kept }) => kept),
      left: items.flatMap(({ left }) => left),
    };
  }
  if (typeof value === "string") {
    // a URL without its password is useless: leave it out instead of writing it with stars
    return redactUrl(value) === value ? { value, left: [] } : { value: undefined, left: [at.join(".")] };
  }
  if (!isMapping(value)) return { value, left: [] };
  const result: Record<string, unknown> = {};
  const left: string[] = [];
  for (const [key, inside] of Object.entries(value)) {
    const there = [...at, key];
    // a mapping called "tokens" holds settings: look for secrets by the names inside it
    if (isSecretKey(key) && !isMapping(inside) && inside !== null && !keep.has(there.join("."))) {
      left.push(there.join("."));
      continue;
    }
    const kept = withoutSecrets(inside, keep, there);
    left.push(...kept.left);
    if (kept.value !== undefined) setOwn(result, key, kept.value);
  }
  return { value: result, left };
}

/** The value with its secrets replaced by stars, for display. */
export function starred(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(starred);
  if (typeof value === "string") return redactUrl(value);
  if (!isMapping(value)) return value;
  const result: Record<string, unknown> = {};
  for (const [key, inside] of Object.entries(value)) {
    const secret = isSecretKey(key) && !isMapping(inside) && inside !== null && inside !== "";
    setOwn(result, key, secret ? "***" : starred(inside));
  }
  return result;
}
