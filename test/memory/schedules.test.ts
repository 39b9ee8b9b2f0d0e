import { MemoryStore } from "../../src/memory/index.ts";
import { testClocksAhead } from "../core/clocks-ahead.ts";

testClocksAhead(async () => Promise.resolve({ store: new MemoryStore(), ns: "" }));
