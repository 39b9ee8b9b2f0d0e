/** What a child process prints, line by line, and never more than can be looked at. */
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

export interface LineLimits {
  /** Characters of one line; the rest of it is left out. */
  readonly maxLength?: number;
  /** Lines in one second; more are counted and left out. */
  readonly maxPerSecond?: number;
}

/** Calls `onLine` for each line, without its end. What was left out is told in a line of its own. */
export function readLines(
  stream: Readable,
  onLine: (line: string) => void,
  { maxLength = 4096, maxPerSecond = 1000 }: LineLimits = {},
): void {
  const decoder = new StringDecoder("utf8");
  let line = "";
  let cut = 0;
  let second = 0;
  let inSecond = 0;
  let leftOut = 0;

  const emit = (): void => {
    const now = Math.floor(performance.now() / 1000);
    if (now !== second) {
      if (leftOut > 0) onLine(`(${leftOut} lines left out)`);
      [second, inSecond, leftOut] = [now, 0, 0];
    }
    inSecond += 1;
    const text = cut > 0 ? `${line} (${cut} characters left out)` : line;
    if (inSecond > maxPerSecond) leftOut += 1;
    else onLine(text.endsWith("\r") ? text.slice(0, -1) : text);
    [line, cut] = ["", 0];
  };
  const add = (text: string): void => {
    const room = Math.max(0, maxLength - line.length);
    line += text.slice(0, room);
    cut += Math.max(0, text.length - room);
  };
  const take = (text: string): void => {
    let start = 0;
    for (let end = text.indexOf("\n"); end >= 0; end = text.indexOf("\n", start)) {
      add(text.slice(start, end));
      emit();
      start = end + 1;
    }
    add(text.slice(start));
  };

  stream.on("data", (chunk: Buffer) => take(decoder.write(chunk)));
  // 'close' rather than 'end': a stream that was destroyed because a grandchild kept it open has no end
  stream.once("close", () => {
    take(decoder.end());
    if (line !== "") emit();
    if (leftOut > 0) onLine(`(${leftOut} lines left out)`);
  });
  // A pipe that breaks ends with its process; its exit is what is reported.
  stream.on("error", () => undefined);
}
