/** Suggests the nearest known name: "; did you mean weight?". Empty when no name is near. */
export function didYouMean(given: string, known: Iterable<string>): string {
  const best = nearest(given, known);
  return best === null ? "" : `; did you mean ${best}?`;
}

/**
 * Near means at most a third of the letters differ, but at least two are allowed; up to four letters only one, since two make
 * another word.
 */
export function nearest(given: string, known: Iterable<string>): string | null {
  let best: string | null = null;
  let min = (given.length <= 4 ? 1 : Math.max(2, Math.floor(given.length / 3))) + 1;
  for (const name of known) {
    // the difference in length is a lower bound of the distance, and saves most comparisons
    if (Math.abs(name.length - given.length) >= min) continue;
    const distance = editDistance(given.toLowerCase(), name.toLowerCase());
    // with two letters to change, any short word would be near any other
    if (distance >= min || distance >= Math.max(given.length, name.length) / 2) continue;
    best = name;
    min = distance;
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  let before: number[] = [];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1] ? 0 : 1;
      let min = Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + same);
      // two swapped letters are one typo
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        min = Math.min(min, (before[j - 2] ?? 0) + 1);
      next[j] = min;
    }
    before = row;
    row = next;
  }
  return row[b.length] ?? 0;
}
