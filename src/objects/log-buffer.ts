/** Log lines of an attempt that are not known to be stored, numbered from 1. Keeps the newest lines, up to the size of a log. */
import { maxLogBytes, maxLogLines, type AttemptLines, type LogLineInput } from "../core/index.ts";

export class LogBuffer {
  #lines: LogLineInput[] = [];
  /** The number of the first line in the buffer. */
  #first = 1;
  #bytes = 0;

  add(line: LogLineInput): void {
    this.#lines.push(line);
    this.#bytes += bytesOf(line);
    while (this.#lines.length > maxLogLines || this.#bytes > maxLogBytes) this.#drop(1);
  }

  get unstored(): AttemptLines | null {
    return this.#lines.length === 0 ? null : { first: this.#first, lines: [...this.#lines] };
  }

  /** Removes lines that have been stored. */
  stored({ first = 1, lines }: AttemptLines): void {
    this.#drop(Math.min(this.#lines.length, first + lines.length - this.#first));
  }

  #drop(count: number): void {
    if (count <= 0) return;
    for (const line of this.#lines.splice(0, count)) this.#bytes -= bytesOf(line);
    this.#first += count;
  }
}

const bytesOf = ({ text }: LogLineInput): number => Buffer.byteLength(text, "utf8");
