import { MemoryStore } from "../../src/memory/index.ts";
import { testLateRenewals } from "../core/late-renewals.ts";

testLateRenewals(async () => ({ store: new MemoryStore(), ns: "" }));
