/** Splits the output of a child process into lines, with limits on their length and number. */
import type { Readable } from "node:stream";
import { StringDecoder } from "node:string_decoder";

export interface LineLimits {
  /** Most characters of one line; the rest is left out. */
  readonly maxLength?: number;
  /** Most lines in one second; further lines are counted and left out. */
  readonly maxPerSecond?: number;
}

/** Calls `onLine` for each line, without its line ending. An extra line tells how many lines were left out. */
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
  // 'close' rather than 'end': a stream that is destroyed because a grandchild keeps it open never emits 'end'
  stream.once("close", () => {
    take(decoder.end());
    if (line !== "") emit();
    if (leftOut > 0) onLine(`(${leftOut} lines left out)`);
  });
  // ignore errors of the pipe: the exit of the process is reported
  stream.on("error", () => undefined);
}
