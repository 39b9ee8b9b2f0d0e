/**
 * The whole screen of a terminal, for a view that is redrawn continually. Restores the terminal however the view ends: by a key,
 * a signal or a bug.
 */
const enter = "\x1b[?1049h\x1b[?25l";
const leave = "\x1b[?25h\x1b[?1049l";

export interface Terminal {
  stdin: NodeJS.ReadStream;
  stdout: NodeJS.WriteStream;
}

export class Screen {
  readonly #terminal: Terminal;
  readonly #wasRaw: boolean;
  readonly #onKey: (key: string) => void;
  #open = true;

  constructor(terminal: Terminal, onKey: (key: string) => void) {
    this.#terminal = terminal;
    this.#wasRaw = terminal.stdin.isRaw;
    this.#onKey = onKey;
    // registered first: the calls below may fail
    process.once("exit", this.close);
    process.once("uncaughtExceptionMonitor", this.close);
    terminal.stdout.write(enter);
    if (terminal.stdin.isTTY) terminal.stdin.setRawMode(true);
    terminal.stdin.on("data", this.#read).resume();
  }

  /** Draws as many lines as fit the height; each must fit the width. */
  draw(lines: readonly string[]): void {
    if (!this.#open) return;
    const rows = this.#terminal.stdout.rows || 24;
    const body = lines
      .slice(0, rows)
      .map((line) => `${line}\x1b[K`)
      .join("\r\n");
    this.#terminal.stdout.write(`\x1b[H${body}\x1b[J`);
  }

  /** Idempotent. */
  readonly close = (): void => {
    if (!this.#open) return;
    this.#open = false;
    process.off("exit", this.close);
    process.off("uncaughtExceptionMonitor", this.close);
    const { stdin, stdout } = this.#terminal;
    stdin.off("data", this.#read).pause();
    if (stdin.isTTY) stdin.setRawMode(this.#wasRaw);
    stdout.write(leave);
  };

  readonly #read = (chunk: Buffer | string): void => {
    for (const key of chunk.toString()) this.#onKey(key);
  };
}
