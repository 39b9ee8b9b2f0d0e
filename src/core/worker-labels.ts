/**
 * Labels of workers and what work specs require of them: `gpu`, `zone=eu`, `version=2.3.1` against `gpu`, `zone=eu`,
 * `version>=2.3`. A work spec is given to workers that meet all that it requires.
 */

export const maxWorkerLabels = 100;

const requirement = /^([^\s=<>!]+)(?:(>=|<=|!=|=|>|<)(\S.*))?$/;

/** Whether it is of the form `name`, `name=value`, `name!=value`, `name>=version`, or with `>`, `<=` or `<`. */
export const isRequirement = (text: string): boolean => requirement.test(text);

/** Whether it is of the form `name` or `name=value`. */
export const isWorkerLabel = (text: string): boolean => /^[^\s=<>!]+(?:=.*)?$/.test(text);

/** The first of the requirements that a worker with these labels does not meet; null when it meets all. */
export const unmetRequirement = (requires: readonly string[], labels: readonly string[]): string | null =>
  requires.find((one) => !isMet(one, labels)) ?? null;

function isMet(text: string, labels: readonly string[]): boolean {
  const [, name = "", relation, wanted = ""] = requirement.exec(text) ?? [];
  const values = labels.flatMap((label) => {
    const [own = "", ...value] = label.split("=");
    return own === name ? [value.join("=")] : [];
  });
  // a label without a value has no version
  const versions = values.filter((value) => value !== "");
  switch (relation) {
    case undefined:
      return values.length > 0;
    case "=":
      return values.includes(wanted);
    case "!=":
      return !values.includes(wanted);
    case ">=":
      return versions.some((value) => compareVersions(value, wanted) >= 0);
    case "<=":
      return versions.some((value) => compareVersions(value, wanted) <= 0);
    case ">":
      return versions.some((value) => compareVersions(value, wanted) > 0);
    default:
      return versions.some((value) => compareVersions(value, wanted) < 0);
  }
}

/** The labels with the name of the requirement, as text for people. */
export function labelsLike(text: string, labels: readonly string[]): string {
  const name = requirement.exec(text)?.[1] ?? "";
  const like = labels.filter((label) => label === name || label.startsWith(`${name}=`));
  return like.length === 0 ? `no label ${name}` : like.join(", ");
}

/**
 * Compares versions part by part: `1.10` is later than `1.9`. A part that is missing is 0, and one that is not a number comes
 * before all numbers, so that `2.0-rc1` is earlier than `2.0`. A leading `v` does not matter.
 */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [partsOf(a), partsOf(b)];
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const [one, other] = [left[i] ?? "0", right[i] ?? "0"];
    if (one === other) continue;
    const [isNumber, isOther] = [isDigits(one), isDigits(other)];
    if (isNumber !== isOther) return isNumber ? 1 : -1;
    // numbers of any size: without leading zeros, the longer one is larger
    if (isNumber && one.length !== other.length) return one.length < other.length ? -1 : 1;
    return one < other ? -1 : 1;
  }
  return 0;
}

const isDigits = (part: string): boolean => /^\d+$/.test(part);

const partsOf = (version: string): string[] =>
  version
    .replace(/^v(?=\d)/i, "")
    .split(/[.+-]/)
    .map((part) => (isDigits(part) ? part.replace(/^0+(?=.)/, "") : part));
