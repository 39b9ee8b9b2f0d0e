import { afterAll, beforeAll, describe, test } from "vitest";
import { openPostgres } from "../../src/postgres/index.ts";
import { conformance } from "../../src/testing/index.ts";
import { openServer } from "../postgres/server.ts";
import { openRest } from "../rest/stack.ts";

conformance(
  {
    name: "rest on postgres",
    async open() {
      const server = await openServer();
      const subject = await openRest(await openPostgres({ url: await server.createDatabase() }));
      return {
        ...subject,
        async close() {
          await subject.close();
          await server.stop();
        },
      };
    },
  },
  { afterAll, beforeAll, describe, test },
);
