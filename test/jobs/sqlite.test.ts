import { sqliteStack } from "./stack.ts";
import { actionSuite } from "./suite/action.ts";
import { jobSuite } from "./suite/job.ts";
import { poolSuite } from "./suite/pool.ts";
import { scenarioSuite } from "./suite/scenarios.ts";
import { workerSuite } from "./suite/worker.ts";

jobSuite(sqliteStack);
actionSuite(sqliteStack);
workerSuite(sqliteStack);
poolSuite(sqliteStack);
scenarioSuite(sqliteStack);
