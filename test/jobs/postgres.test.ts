import { openPostgres } from "../../src/postgres/index.ts";
import { openServer } from "../postgres/server.ts";
import { engineOn, housekept, type Stack } from "./stack.ts";
import { actionSuite } from "./suite/action.ts";
import { jobSuite } from "./suite/job.ts";
import { poolSuite } from "./suite/pool.ts";
import { scenarioSuite } from "./suite/scenarios.ts";
import { workerSuite } from "./suite/worker.ts";

const stack: Stack = {
  name: "engine on the postgres store",
  async open() {
    const server = await openServer();
    const coordinate = engineOn(await openPostgres({ url: await server.createDatabase() }));
    const handle = housekept(coordinate);
    return {
      coordinate,
      async close() {
        await handle.close();
        await server.stop();
      },
    };
  },
};

jobSuite(stack);
actionSuite(stack);
workerSuite(stack);
poolSuite(stack);
scenarioSuite(stack);
