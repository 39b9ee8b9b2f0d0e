import { expect, test } from "vitest";
import { readable } from "../../src/daemon/log.ts";

test("text of callers in a log for people cannot change the terminal or fake a line", () => {
  const line = JSON.stringify({
    time: "2026-01-02T03:04:05.678Z",
    level: 40,
    msg: "slow\u001b[2J",
    namespace: "a\n03:04:05.679 info  all is well",
    names: ["\u202e", "\u009b31m", "é😀"],
  });
  expect(readable(line)).toBe(
    '03:04:05.678 warn  slow\\u{1b}[2J namespace=a\\u{a}03:04:05.679 info  all is well names=["\\u{202e}","\\u{9b}31m","é😀"]\n',
  );
});
