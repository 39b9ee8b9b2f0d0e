import { sqliteStack } from "./stack.ts";
import { jobSuite } from "./suite/job.ts";

jobSuite(sqliteStack);
