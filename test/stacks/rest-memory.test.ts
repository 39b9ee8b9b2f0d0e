import { afterAll, beforeAll, describe, test } from "vitest";
import { MemoryStore } from "../../src/memory/index.ts";
import { conformance } from "../../src/testing/index.ts";
import { openRest } from "../rest/stack.ts";
import { failingOn } from "./failing.ts";

conformance(
  { name: "rest on memory", failing: failingOn("memory"), open: () => openRest(new MemoryStore()) },
  { describe, test, beforeAll, afterAll },
);
