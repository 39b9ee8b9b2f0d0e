/** Reads the lines of a request or an answer, with a limit on their length. Skips lines of white space. */
import { CoordinateError, readLines as readAnyLines, type Line } from "../core/index.ts";

/** Throws `bad_argument` for invalid UTF-8 and `too_large` for a line that is longer than `longest`. */
export async function* readLines(
  chunks: AsyncIterable<Uint8Array>,
  longest = Infinity,
): AsyncGenerator<Line> {
  for await (const lines of readLineBatches(chunks, longest)) yield* lines;
}

/** Yields all lines of a chunk at once: one step of the loop for a few hundred lines. */
export async function* readLineBatches(
  chunks: AsyncIterable<Uint8Array>,
  longest = Infinity,
): AsyncGenerator<Line[]> {
  for await (const lines of readAnyLines(chunks, longest)) {
    for (const { number, isText, tooLong } of lines) {
      if (tooLong) throw new CoordinateError("too_large", `line ${number}: more than ${longest} bytes`);
      if (!isText) throw new CoordinateError("bad_argument", `line ${number}: invalid UTF-8`);
    }
    yield lines.filter(({ text }) => text.trim() !== "");
  }
}
