import assert from "node:assert/strict";
import { decodeData, encodeData, type QueueMessage } from "../../core/index.ts";
import { present, type CaseGroup, type Context } from "../stack.ts";

const brief = (messages: readonly QueueMessage[]): string[] =>
  messages.map(({ workUnit, status }) => `${workUnit} ${status}`);

const take = async (t: Context, queue: string, max?: number): Promise<string[]> =>
  brief(await t.c.takeMessages(t.ns, queue, max === undefined ? {} : { max }));

/** Adds units of one spec, each with these queues. */
async function queued(t: Context, queues: readonly string[], ...names: string[]): Promise<void> {
  await t.spec("s");
  await t.add("s", ...names.map((name) => ({ name, queues })));
}

export const queues: CaseGroup = {
  concept: "queues",
  cases: [
    {
      name: "a unit that is finished appends a message to each of its queues",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", data: encodeData({ n: 1 }), queues: ["a", "b"] });
        const attempt = await t.claimOne();
        await t.advance(5);
        await t.settled(attempt, "finish", { data: encodeData({ result: 2 }) });
        for (const queue of ["a", "b"]) {
          const [message, ...others] = await t.c.takeMessages(t.ns, queue);
          const { seq, data, ...rest } = present(message);
          assert.ok(Number.isSafeInteger(seq) && seq > 0);
          assert.deepEqual(others, []);
          assert.deepEqual(rest, {
            queue,
            workSpec: "s",
            workUnit: "u",
            attempt: attempt.id,
            status: "finished",
            at: t.now,
          });
          assert.deepEqual(decodeData(present(data)), { result: 2 });
        }
      },
    },
    {
      name: "the message has the unit's own data when the attempt brought none",
      async run(t) {
        await t.spec("s");
        await t.add(
          "s",
          { name: "u", data: encodeData({ n: 1 }), queues: ["q"] },
          { name: "v", queues: ["q"] },
        );
        for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "finish");
        const [first, second] = await t.c.takeMessages(t.ns, "q");
        assert.deepEqual(decodeData(present(present(first).data)), { n: 1 });
        assert.equal(present(second).data, null);
      },
    },
    {
      name: "a unit that failed tells so, and again when the same attempt finishes after all",
      async run(t) {
        await queued(t, ["q"], "u");
        const attempt = await t.claimOne();
        await t.settled(attempt, "fail");
        await t.settled(attempt, "fail");
        await t.settled(attempt, "finish", { data: encodeData({ done: true }) });
        await t.settled(attempt, "finish");
        assert.deepEqual(await take(t, "q"), ["u failed", "u finished"]);
      },
    },
    {
      name: "the message of a unit that fails as late is there at that time, though nothing else was read",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "late", queues: ["q"], expires: t.now + 1000 });
        await t.advance(1000);
        assert.deepEqual(await take(t, "q"), ["late failed"]);
        await t.add("s", { name: "again", queues: ["q"], expires: t.now + 1000 });
        await t.advance(1000);
        const once = await t.c.takeMessages(t.ns, "q", { requestId: "one" });
        assert.deepEqual(brief(once), ["again failed"]);
        assert.deepEqual(await t.c.takeMessages(t.ns, "q", { requestId: "one" }), once);
      },
    },
    {
      name: "queues are counted, listed and cleared with the messages of units that fail as late until then",
      async run(t) {
        await t.spec("s");
        const late = async (name: string): Promise<void> => {
          await t.add("s", { name, queues: [name], expires: t.now + 1000 });
          await t.advance(1000);
        };
        await late("counted");
        assert.deepEqual(await t.c.countMessages(t.ns, ["counted"]), [1]);
        await late("listed");
        assert.deepEqual(
          (await t.c.listQueues(t.ns)).rows.map(({ name }) => name),
          ["counted", "listed"],
        );
        await late("cleared");
        assert.equal(await t.c.clearQueue(t.ns, "cleared"), 1);
      },
    },
    {
      name: "a late finish appends a message, and renewing, expiring and retrying append none",
      async run(t) {
        await queued(t, ["q"], "u");
        const first = await t.claimOne({ lifetimeMs: 1000 });
        await t.settled(first, "renew", { lifetimeMs: 2000 });
        await t.settled(first, "retry");
        const second = await t.claimOne({ lifetimeMs: 1000 });
        await t.advance(1000);
        assert.deepEqual(await take(t, "q"), []);
        await t.settled(second, "finish");
        assert.deepEqual(await take(t, "q"), ["u finished"]);
      },
    },
    {
      name: "a unit that was tried too often tells so, met by a claim or by housekeeping",
      async run(t) {
        await t.spec("s", { max_retries: 1 });
        await t.add("s", { name: "a", queues: ["q"] }, { name: "b", queues: ["q"] });
        for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "retry");
        assert.deepEqual(await t.claimNames({ number: 1 }), []);
        await t.sweep();
        assert.deepEqual((await take(t, "q")).sort(), ["a failed", "b failed"]);
      },
    },
    {
      name: "units that fail with what they wait for tell so, all the way down",
      async run(t) {
        await queued(t, ["q"], "a");
        await t.add(
          "s",
          { name: "b", queues: ["q"], dependencies: [{ workUnit: "a" }] },
          { name: "c", queues: ["q", "other"], dependencies: [{ workUnit: "b" }] },
          { name: "d", queues: ["q"], dependencies: [{ workUnit: "b", kind: "soft" }] },
        );
        await t.settled(await t.claimOne(), "fail");
        assert.deepEqual((await take(t, "q")).sort(), ["a failed", "b failed", "c failed"]);
        const [message] = await t.c.takeMessages(t.ns, "other");
        const { attempt, data } = present(message);
        assert.match(String((decodeData(present(data)) as { traceback: unknown }).traceback), /dependency b/);
        assert.equal((await t.attempt(present(attempt))).status, "failed");
      },
    },
    {
      name: "a unit that fails the moment it is added tells so",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        await t.settled(await t.claimOne(), "fail");
        await t.add("s", { name: "b", queues: ["q"], dependencies: [{ workUnit: "a" }] });
        assert.deepEqual(await take(t, "q"), ["b failed"]);
        // and once more when it is added again
        await t.add("s", { name: "b", queues: ["q"] });
        assert.deepEqual(await take(t, "q"), ["b failed"]);
      },
    },
    {
      name: "a unit that fails because what it waits for is deleted tells so",
      async run(t) {
        await queued(t, ["q"], "a");
        await t.add("s", { name: "b", queues: ["q"], dependencies: [{ workUnit: "a" }] });
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["a"] });
        assert.deepEqual(await take(t, "q"), ["b failed"]);
      },
    },
    {
      name: "the queues of a unit that is added again are those of the new add",
      async run(t) {
        await queued(t, ["old"], "a", "b");
        await t.add("s", { name: "a", queues: ["new"] }, "b");
        assert.deepEqual((await t.unit("s", "a")).queues, ["new"]);
        assert.deepEqual((await t.unit("s", "b")).queues, []);
        for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "finish");
        assert.deepEqual(await take(t, "old"), []);
        assert.deepEqual(await take(t, "new"), ["a finished"]);
      },
    },
    {
      name: "a pending unit that is added again tells the new queues",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", { name: "b", queues: ["old"] });
        const attempts = await t.claim({ number: 2 });
        await t.add("s", { name: "a", queues: ["new"] }, "b");
        for (const attempt of attempts) await t.settled(attempt, "finish");
        assert.deepEqual(await take(t, "new"), ["a finished"]);
        assert.deepEqual(await take(t, "old"), []);
      },
    },
    {
      name: "a unit shows its queues, each once, in the order given",
      async run(t) {
        await queued(t, ["b", "a", "b"], "u");
        assert.deepEqual((await t.unit("s", "u")).queues, ["b", "a"]);
        assert.deepEqual((await t.c.listWorkUnits(t.ns, "s")).rows[0]?.queues, ["b", "a"]);
        await t.settled(await t.claimOne(), "finish");
        assert.equal((await take(t, "b")).length, 1);
      },
    },
    {
      name: "messages are taken in the order they came, as many as asked for",
      async run(t) {
        await queued(t, ["q"], "a", "b", "c", "d", "e");
        const attempts = await t.claim({ number: 5 });
        for (const attempt of attempts.reverse()) await t.settled(attempt, "finish");
        assert.deepEqual(await take(t, "q", 2), ["e finished", "d finished"]);
        assert.deepEqual(await take(t, "q", 2), ["c finished", "b finished"]);
        assert.deepEqual(await take(t, "q", 2), ["a finished"]);
        assert.deepEqual(await take(t, "q", 2), []);
      },
    },
    {
      name: "one settle of many appends one message for each, and numbers rise",
      async run(t) {
        const names = Array.from({ length: 40 }, (_, i) => `u${String(i).padStart(2, "0")}`);
        await queued(t, ["q"], ...names);
        await t.add("s", ...Array.from({ length: 10 }, (_, i) => `plain ${i}`));
        const attempts = await t.claim({ number: 50 });
        await t.c.settleAttempts(
          t.ns,
          attempts.map(({ id }, i) => ({ attempt: id, action: i % 2 === 0 ? "finish" : "fail" })),
        );
        const messages = await t.c.takeMessages(t.ns, "q", { max: 1000 });
        assert.deepEqual(messages.map(({ workUnit }) => workUnit).sort(), names);
        const seqs = messages.map(({ seq }) => seq);
        assert.deepEqual(
          seqs,
          [...new Set(seqs)].sort((a, b) => a - b),
        );
        for (const { workUnit, status } of messages) assert.equal(await t.status("s", workUnit), status);
      },
    },
    {
      name: "a finish and its outputs and its messages come together",
      async run(t) {
        await t.spec("a", { then: "b" });
        await t.spec("b");
        await t.add("a", { name: "u", queues: ["q"] });
        await t.settled(await t.claimOne(), "finish", { data: encodeData({ output: ["x"] }) });
        assert.deepEqual(await t.statuses("b"), { x: "available" });
        assert.deepEqual(await take(t, "q"), ["u finished"]);
      },
    },
    {
      name: "a repeated request id answers the same messages for ten minutes, and no others",
      async run(t) {
        await queued(t, ["q", "r"], "a", "b", "c");
        for (const attempt of await t.claim({ number: 3 })) await t.settled(attempt, "finish");
        const first = await t.c.takeMessages(t.ns, "q", { max: 2, requestId: "one" });
        assert.equal(first.length, 2);
        assert.deepEqual(await t.c.takeMessages(t.ns, "q", { max: 2, requestId: "one" }), first);
        assert.deepEqual(await t.c.countMessages(t.ns, ["q"]), [1]);
        // a request id applies to one queue only, and another id takes the remaining messages
        assert.equal((await t.c.takeMessages(t.ns, "r", { requestId: "one" })).length, 3);
        assert.deepEqual(brief(await t.c.takeMessages(t.ns, "q", { requestId: "two" })), ["c finished"]);
        await t.advance(9 * 60_000);
        await t.sweep();
        assert.deepEqual(await t.c.takeMessages(t.ns, "q", { max: 2, requestId: "one" }), first);
        await t.advance(2 * 60_000);
        await t.sweep();
        assert.deepEqual(await t.c.takeMessages(t.ns, "q", { max: 2, requestId: "one" }), []);
      },
    },
    {
      name: "a request that was given nothing is not remembered",
      async run(t) {
        await queued(t, ["q"], "a");
        assert.deepEqual(await t.c.takeMessages(t.ns, "q", { requestId: "one" }), []);
        await t.settled(await t.claimOne(), "finish");
        assert.equal((await t.c.takeMessages(t.ns, "q", { requestId: "one" })).length, 1);
      },
    },
    {
      name: "who waits for messages is answered when one comes, or with none when the time is over",
      async run(t) {
        await queued(t, ["q"], "a");
        const attempt = await t.claimOne();
        const answer = t.c.takeMessages(t.ns, "q", { waitMs: 60_000 });
        const other = t.c.takeMessages(t.ns, "empty", { waitMs: 5000 });
        await t.untilWaiting(2);
        await t.settled(attempt, "finish");
        assert.deepEqual(brief(await answer), ["a finished"]);
        await t.advance(5000);
        assert.deepEqual(await other, []);
      },
    },
    {
      name: "of several who wait for one queue each message goes to one",
      async run(t) {
        await queued(t, ["q"], "a", "b", "c");
        const attempts = await t.claim({ number: 3 });
        const answers: Promise<QueueMessage[]>[] = [];
        for (let i = 1; i <= 4; i++) {
          answers.push(t.c.takeMessages(t.ns, "q", { max: 1, waitMs: 60_000 }));
          await t.untilWaiting(i);
        }
        for (const attempt of attempts) await t.settled(attempt, "finish");
        await t.untilWaiting(1);
        await t.advance(60_000);
        const taken = (await Promise.all(answers)).flatMap(brief);
        assert.deepEqual(taken.sort(), ["a finished", "b finished", "c finished"]);
      },
    },
    {
      name: "a wait for messages that is ended loses none",
      async run(t) {
        await queued(t, ["q"], "a");
        const attempt = await t.claimOne();
        const stop = new AbortController();
        const answer = t.c.takeMessages(t.ns, "q", { waitMs: 60_000, signal: stop.signal });
        await t.untilWaiting(1);
        stop.abort();
        assert.deepEqual(await answer, []);
        await t.untilWaiting(0);
        await t.settled(attempt, "finish");
        assert.deepEqual(await take(t, "q"), ["a finished"]);
      },
    },
    {
      name: "messages outlive their unit and its work spec, not the namespace",
      async run(t) {
        await queued(t, ["q"], "a", "b");
        for (const attempt of await t.claim({ number: 2 })) await t.settled(attempt, "finish");
        await t.c.deleteWorkUnits(t.ns, "s", { names: ["a"] });
        await t.c.deleteWorkSpecs(t.ns, ["s"]);
        assert.deepEqual(await take(t, "q", 1), ["a finished"]);
        await t.c.deleteNamespace(t.ns);
        assert.deepEqual(await t.c.countMessages(t.ns, ["q"]), [0]);
        assert.deepEqual(await take(t, "q"), []);
        await t.spec("s");
        assert.deepEqual(await take(t, "q"), []);
        assert.deepEqual((await t.c.listQueues(t.ns)).rows, []);
      },
    },
    {
      name: "queues are counted, listed by page, and cleared",
      async run(t) {
        await t.spec("s");
        await t.add("s", { name: "u", queues: ["c", "a"] }, { name: "v", queues: ["a", "b"] });
        const start = t.now;
        for (const attempt of await t.claim({ number: 2 })) {
          await t.settled(attempt, "finish");
          await t.advance(10);
        }
        assert.deepEqual(await t.c.countMessages(t.ns, ["a", "none", "b", "a"]), [2, 0, 1, 2]);
        const { rows, next } = await t.c.listQueues(t.ns, { limit: 2 });
        assert.deepEqual(rows, [
          { name: "a", messages: 2, oldest: start },
          { name: "b", messages: 1, oldest: start + 10 },
        ]);
        const rest = await t.c.listQueues(t.ns, { previous: present(next) });
        assert.deepEqual(rest, { rows: [{ name: "c", messages: 1, oldest: start }], next: null });
        assert.equal(await t.c.clearQueue(t.ns, "a"), 2);
        assert.equal(await t.c.clearQueue(t.ns, "a"), 0);
        assert.deepEqual(await take(t, "a"), []);
        assert.deepEqual(
          (await t.c.listQueues(t.ns)).rows.map(({ name }) => name),
          ["b", "c"],
        );
        await t.c.takeMessages(t.ns, "b", { requestId: "one" });
        assert.deepEqual(
          (await t.c.listQueues(t.ns)).rows.map(({ name }) => name),
          ["c"],
        );
      },
    },
    {
      name: "queues of two namespaces have nothing to do with each other",
      async run(t) {
        await queued(t, ["q"], "u");
        await t.settled(await t.claimOne(), "finish");
        assert.deepEqual(await t.c.takeMessages(`${t.ns} other`, "q"), []);
        assert.deepEqual(await take(t, "q"), ["u finished"]);
      },
    },
    {
      name: "two who take at the same time never get the same message",
      async run(t) {
        const names = Array.from({ length: 60 }, (_, i) => `u${i}`);
        await queued(t, ["q"], ...names);
        const attempts = await t.claim({ number: 60 });
        const seen: number[] = [];
        const taker = async (): Promise<void> => {
          while (seen.length < 60)
            seen.push(...(await t.c.takeMessages(t.ns, "q", { max: 3 })).map(({ seq }) => seq));
        };
        const settling = (async () => {
          for (const { id } of attempts) await t.c.settleAttempts(t.ns, [{ attempt: id, action: "finish" }]);
        })();
        await Promise.all([settling, taker(), taker(), taker()]);
        assert.equal(new Set(seen).size, 60);
        assert.equal(seen.length, 60);
      },
    },
    {
      name: "what is no queue is refused, and nothing is added",
      async run(t) {
        await t.spec("s");
        await t.refuses("bad_name", t.c.takeMessages(t.ns, ""), /queue/);
        await t.refuses("too_large", t.c.takeMessages(t.ns, "q".repeat(1025)), /queue/);
        await t.refuses("bad_argument", t.c.takeMessages(t.ns, "q", { max: 0 }), /max/);
        await t.refuses("bad_argument", t.c.takeMessages(t.ns, "q", { waitMs: -1 }), /waitMs/);
        await t.refuses(
          "too_large",
          t.c.takeMessages(t.ns, "q", { requestId: "r".repeat(201) }),
          /requestId/,
        );
        await t.refuses(
          "too_large",
          t.c.addWorkUnits(t.ns, "s", [
            { name: "ok" },
            { name: "u", queues: Array.from({ length: 17 }, (_, i) => `${i}`) },
          ]),
          /item 1: queues/,
        );
        await t.refuses("bad_name", t.c.addWorkUnits(t.ns, "s", [{ name: "u", queues: [""] }]), /queue/);
        assert.deepEqual(await t.statuses("s"), {});
      },
    },
  ],
};
