/**
 * The long run: `node --expose-gc --import ./examples/typescript.mjs test/cbor/fuzz-run.ts [frames] [seed]`.
 * Prints figures and memory use during the run. Any crash, unhandled rejection or internal error ends the run.
 */
import { fuzz } from "./fuzz.ts";

const frames = Number(process.argv[2] ?? 2_000_000);
const seed = Number(process.argv[3] ?? 1);
let last = 0;

function memory(): string {
  globalThis.gc?.();
  const { heapUsed, rss, external } = process.memoryUsage();
  const mb = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1);
  return `heap ${mb(heapUsed)} MB, external ${mb(external)} MB, rss ${mb(rss)} MB`;
}

process.on("unhandledRejection", (error) => {
  console.error("unhandled rejection", error);
  process.exit(1);
});

const figures = await fuzz({
  frames,
  seed,
  onRound: ({ frames: done, seconds }) => {
    if (done - last < 200_000) return;
    last = done;
    console.log(`${done} frames in ${seconds.toFixed(0)} s, ${memory()}`);
  },
});
console.log(JSON.stringify(figures), memory());
