import { openSqlite } from "../../src/sqlite/index.ts";
import { testLateRenewals } from "../core/late-renewals.ts";

testLateRenewals(async () => ({ store: await openSqlite(":memory:", { durability: "off" }), ns: "" }));
