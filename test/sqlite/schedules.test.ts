import { openSqlite } from "../../src/sqlite/index.ts";
import { testClocksAhead } from "../core/clocks-ahead.ts";

testClocksAhead(async () => ({ store: await openSqlite(":memory:", { durability: "off" }), ns: "" }));
