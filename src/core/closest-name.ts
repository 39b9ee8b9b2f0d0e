/**
 * The known word that is one typo away: one letter too many, too few or wrong, or two letters swapped. Null for a word that is
 * known itself, and when none is that close.
 */
export function closestName(given: string, known: Iterable<string>): string | null {
  let found: string | null = null;
  for (const word of known) {
    if (word === given) return null;
    if (found === null && isOneSlip(given, word)) found = word;
  }
  return found;
}

function isOneSlip(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  const rest = (text: string, skip: number): string => text.slice(at + skip);
  if (a.length !== b.length)
    return a.length > b.length ? rest(a, 1) === rest(b, 0) : rest(a, 0) === rest(b, 1);
  const swapped = a[at] === b[at + 1] && a[at + 1] === b[at] && rest(a, 2) === rest(b, 2);
  return swapped || rest(a, 1) === rest(b, 1);
}

const letters = (word: string): string => word.replaceAll(/[-_]/g, "").toLowerCase();

/** The known word that differs from a word in case and separators alone: `max_retries` of `maxRetries`. */
export function sameWordAs(given: string, known: Iterable<string>): string | undefined {
  for (const word of known) if (word !== given && letters(word) === letters(given)) return word;
  return undefined;
}
