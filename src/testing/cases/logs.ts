import assert from "node:assert/strict";
import { maxLogLines, type AttemptLog } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const lines = (...texts: string[]): { text: string }[] => texts.map((text) => ({ text }));
const textsOf = ({ lines: written }: AttemptLog): string[] => written.map(({ text }) => text);

async function logOf(t: Context, attempt: string, after = 0): Promise<AttemptLog> {
  const [log] = await t.c.getAttemptLogs(t.ns, [attempt], { after });
  return present(log ?? undefined);
}

export const logs: CaseGroup = {
  concept: "logs",
  cases: [
    {
      name: "an attempt has an empty log before its task writes, and one that was never made has none",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const { id } = await t.claimOne();
        assert.deepEqual(
          await t.c.getAttemptLogs(t.ns, [id, "999999.1", "nonsense", id.replace(/1$/, "2")]),
          [{ attempt: id, first: 1, total: 0, lines: [] }, null, null, null],
        );
      },
    },
    {
      name: "what was written is read in order, with level and time, by its number",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const { id } = await t.claimOne();
        const given = [{ text: "begin" }, { text: "hm", level: "warn" as const, time: 5 }];
        assert.deepEqual(await t.c.writeAttemptLogs(t.ns, [{ attempt: id, lines: given }]), [true]);
        await t.c.writeAttemptLogs(t.ns, [{ attempt: id, lines: lines("end") }]);
        assert.deepEqual(await logOf(t, id), {
          attempt: id,
          first: 1,
          total: 3,
          lines: [
            { time: t.now, level: "info", text: "begin" },
            { time: 5, level: "warn", text: "hm" },
            { time: t.now, level: "info", text: "end" },
          ],
        });
        const rest = await logOf(t, id, 2);
        assert.equal(rest.first, 3);
        assert.deepEqual(textsOf(rest), ["end"]);
        assert.deepEqual(textsOf(await logOf(t, id, 3)), []);
      },
    },
    {
      name: "a settle and a renew carry lines, and the lease of an attempt that writes stays as it is",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne({ lifetimeMs: 5000 });
        await t.c.writeAttemptLogs(t.ns, [{ attempt: attempt.id, lines: lines("one") }]);
        assert.equal((await t.attempt(attempt.id)).expirationTime, attempt.expirationTime);
        await t.settled(attempt, "renew", { log: { first: 2, lines: lines("two") } });
        await t.settled(attempt, "finish", { log: { first: 3, lines: lines("three") } });
        assert.deepEqual(textsOf(await logOf(t, attempt.id)), ["one", "two", "three"]);
      },
    },
    {
      name: "a line that arrives twice is stored once, and numbers that never came count as left out",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const { id } = await t.claimOne();
        await t.c.writeAttemptLogs(t.ns, [{ attempt: id, first: 1, lines: lines("1", "2") }]);
        await t.c.writeAttemptLogs(t.ns, [{ attempt: id, first: 1, lines: lines("1", "2", "3") }]);
        await t.c.writeAttemptLogs(t.ns, [{ attempt: id, first: 2, lines: lines("2") }]);
        assert.deepEqual(textsOf(await logOf(t, id)), ["1", "2", "3"]);
        await t.c.writeAttemptLogs(t.ns, [{ attempt: id, first: 10, lines: lines("10") }]);
        const { first, total, lines: left } = await logOf(t, id);
        assert.deepEqual({ first, total, count: left.length }, { first: 10, total: 10, count: 1 });
      },
    },
    {
      name: "an attempt keeps its newest lines, by number and by size, and says how many were left out",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u", "v");
        const [a, b] = await t.claim({ number: 2 });
        const many = Array.from({ length: maxLogLines }, (_, i) => `line ${i + 1}`);
        await t.c.writeAttemptLogs(t.ns, [
          { attempt: present(a).id, lines: lines(...many) },
          { attempt: present(a).id, lines: lines("x", "y") },
          { attempt: present(b).id, lines: lines(...Array.from({ length: 40 }, () => "é".repeat(1024))) },
        ]);
        const long = await logOf(t, present(a).id);
        assert.deepEqual([long.first, long.total, long.lines.length], [3, maxLogLines + 2, maxLogLines]);
        assert.deepEqual(textsOf(long).slice(-2), ["x", "y"]);
        const wide = await logOf(t, present(b).id);
        assert.deepEqual([wide.first, wide.total, wide.lines.length], [9, 40, 32]);
        await t.c.writeAttemptLogs(t.ns, [{ attempt: present(b).id, lines: lines("z".repeat(5000)) }]);
        const [last] = (await logOf(t, present(b).id, 40)).lines;
        assert.match(present(last).text, /^z{4096} \(904 characters left out\)$/);
      },
    },
    {
      name: "any text comes back as it was written",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const { id } = await t.claimOne();
        const texts = ["", "two\nlines", "a\0b", "<script>alert(1)</script>", "‮😀", '"\\'];
        await t.c.writeAttemptLogs(t.ns, [{ attempt: id, lines: lines(...texts) }]);
        assert.deepEqual(textsOf(await logOf(t, id)), texts);
      },
    },
    {
      name: "each attempt has its own log, also when another has taken its unit, until the unit is deleted",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const first = await t.claimOne();
        await t.c.writeAttemptLogs(t.ns, [{ attempt: first.id, lines: lines("first") }]);
        await t.settled(first, "retry");
        const second = await t.claimOne();
        await t.c.writeAttemptLogs(t.ns, [
          { attempt: second.id, lines: lines("second") },
          { attempt: first.id, lines: lines("late") },
        ]);
        assert.deepEqual(textsOf(await logOf(t, first.id)), ["first", "late"]);
        assert.deepEqual(textsOf(await logOf(t, second.id)), ["second"]);
        await t.c.deleteWorkUnits(t.ns, "s", { all: true });
        assert.deepEqual(await t.c.getAttemptLogs(t.ns, [first.id, second.id]), [null, null]);
        assert.deepEqual(await t.c.writeAttemptLogs(t.ns, [{ attempt: first.id, lines: lines("gone") }]), [
          false,
        ]);
        await t.add("s", "u");
        assert.equal((await logOf(t, (await t.claimOne()).id)).total, 0);
      },
    },
    {
      name: "another namespace does not see it",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const { id } = await t.claimOne();
        const other = t.ns + " other";
        assert.deepEqual(await t.c.writeAttemptLogs(other, [{ attempt: id, lines: lines("x") }]), [false]);
        assert.deepEqual(await t.c.getAttemptLogs(other, [id]), [null]);
        assert.equal((await logOf(t, id)).total, 0);
      },
    },
    {
      name: "lines that are no lines are refused, and nothing is changed",
      async run(t) {
        await t.spec("s");
        await t.add("s", "u");
        const attempt = await t.claimOne();
        const log = { first: 0, lines: lines("x") };
        await t.refuses("bad_argument", t.settle(attempt, "finish", { log }), /first/);
        const level = { lines: [{ text: "x", level: "loud" as "info" }] };
        await t.refuses("bad_argument", t.settle(attempt, "finish", { log: level }), /level/);
        assert.equal((await t.attempt(attempt.id)).status, "pending");
        assert.equal((await logOf(t, attempt.id)).total, 0);
      },
    },
  ],
};
