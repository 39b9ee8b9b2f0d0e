import assert from "node:assert/strict";
import { encodeData } from "../../core/index.ts";
import type { CaseGroup } from "../stack.ts";

export const requests: CaseGroup = {
  concept: "requests",
  cases: [
    {
      name: "a repeated add with the same request id answers the same and changes nothing",
      async run(t) {
        await t.spec("s");
        const units = [{ name: "u", data: encodeData({ n: 1 }) }];
        const first = await t.c.addWorkUnits(t.ns, "s", units, { requestId: "r1" });
        await t.settled(await t.claimOne(), "finish");
        const again = await t.c.addWorkUnits(t.ns, "s", units, { requestId: "r1" });
        assert.deepEqual(again, first);
        assert.equal(await t.status("s", "u"), "finished");
      },
    },
    {
      name: "an add with another request id, or none, is carried out",
      async run(t) {
        await t.spec("s");
        await t.c.addWorkUnits(t.ns, "s", [{ name: "u" }], { requestId: "r1" });
        await t.settled(await t.claimOne(), "finish");
        await t.c.addWorkUnits(t.ns, "s", [{ name: "u" }], { requestId: "r2" });
        assert.equal(await t.status("s", "u"), "available");
      },
    },
    {
      name: "a request id of an add means nothing for another work spec",
      async run(t) {
        await t.spec("s");
        await t.spec("other");
        await t.c.addWorkUnits(t.ns, "s", [{ name: "u" }], { requestId: "r1" });
        await t.c.addWorkUnits(t.ns, "other", [{ name: "v" }], { requestId: "r1" });
        assert.deepEqual(await t.statuses("other"), { v: "available" });
      },
    },
    {
      name: "a repeated claim with the same request id gives the same attempts, and no others",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b", "c", "d");
        const first = await t.claim({ number: 2, requestId: "r1" });
        const again = await t.claim({ number: 2, requestId: "r1" });
        assert.deepEqual(again, first);
        assert.equal((await t.counts("s")).pending, 2);
      },
    },
    {
      name: "a repeated claim is answered also when nothing else is left",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        const first = await t.claim({ requestId: "r1" });
        assert.deepEqual(await t.claim({ requestId: "r1" }), first);
      },
    },
    {
      name: "a repeated claim leaves out what was settled since",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a", "b");
        const [a, b] = await t.claim({ number: 2, requestId: "r1" });
        assert.ok(a && b);
        await t.settled(a, "finish");
        assert.deepEqual(
          (await t.claim({ number: 2, requestId: "r1" })).map(({ id }) => id),
          [b.id],
        );
      },
    },
    {
      name: "a repeated request gets the whole answer, though its caller has emptied the list of the first one",
      async run(t) {
        await t.spec("s");
        const add = () =>
          t.c.addWorkUnits(t.ns, "s", [{ name: "u", queues: ["q"] }, { name: "v" }], { requestId: "r" });
        (await add()).length = 0;
        assert.deepEqual(
          (await add()).map(({ name }) => name),
          ["u", "v"],
        );
        await t.settled(await t.claimOne(), "finish");
        const take = () => t.c.takeMessages(t.ns, "q", { requestId: "r" });
        (await take()).length = 0;
        assert.equal((await take()).length, 1);
      },
    },
    {
      name: "a claim that found nothing is not remembered",
      async run(t) {
        await t.spec("s");
        assert.deepEqual(await t.claim({ requestId: "r1" }), []);
        await t.add("s", "a");
        assert.equal((await t.claim({ requestId: "r1" })).length, 1);
      },
    },
    {
      name: "request ids of one namespace mean nothing in another",
      async run(t) {
        await t.spec("s");
        await t.add("s", "a");
        await t.claim({ requestId: "r1" });
        const other = `${t.ns} other`;
        await t.c.setWorkSpecs(other, [{ data: encodeData({ name: "s" }) }]);
        assert.deepEqual(await t.c.requestAttempts(other, { worker: "w", requestId: "r1" }), []);
      },
    },
    {
      name: "request ids are forgotten after ten minutes",
      async run(t) {
        await t.spec("s");
        await t.c.addWorkUnits(t.ns, "s", [{ name: "u" }], { requestId: "r1" });
        await t.settled(await t.claimOne(), "finish");
        await t.advance(10 * 60_000 + 1);
        await t.sweep();
        await t.c.addWorkUnits(t.ns, "s", [{ name: "u" }], { requestId: "r1" });
        assert.equal(await t.status("s", "u"), "available");
      },
    },
    {
      name: "a request id that is too long is refused",
      async run(t) {
        await t.spec("s");
        await t.refuses(
          "too_large",
          t.c.addWorkUnits(t.ns, "s", [{ name: "u" }], { requestId: "x".repeat(201) }),
        );
      },
    },
  ],
};
