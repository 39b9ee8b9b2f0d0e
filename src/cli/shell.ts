/**
 * The interactive shell: the same commands, one connection for all of them, a history that is kept in a file. When a command
 * fails, the shell prints its error and reads the next line.
 */
import { appendFileSync, mkdirSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { createInterface, type Interface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import { complete } from "./complete.ts";
import type { Session } from "./context.ts";
import { exit, UsageError } from "./failure.ts";
import { printError } from "./print-error.ts";
import { runLine } from "./program.ts";

const prompt = "coordinate> ";
const maxHistory = 1000;

export async function runShell(session: Session): Promise<number> {
  const { stdin, stdout } = session.streams;
  const file = historyFile(session.streams.env);
  const history = readHistory(file);
  stdout.write("Coordinate. Type help for a list of commands, quit or Ctrl-D to leave.\n");
  let last = 0;
  const typedAhead: string[] = [];
  let interrupt = new AbortController();
  process.on("SIGINT", () => interrupt.abort());
  for (;;) {
    const line = typedAhead.shift() ?? (await readLine(session, history, typedAhead));
    if (line === null) break;
    const typed = line.trim();
    if (typed === "") continue;
    remember(history, typed);
    appendHistory(file, typed);
    const words = readWords(session, typed);
    if (words === null) last = exit.usage;
    if (words === null || words.length === 0) continue;
    if (isEnd(words)) break;
    session.ask = (question) => ask(session, question, typedAhead);
    session.interrupted = interrupt.signal;
    last = await Promise.race([runLine(session, words), givenUp(interrupt.signal)]);
    interrupt = new AbortController();
    stdin.pause();
  }
  session.ask = null;
  return last;
}

/**
 * Runs the lines of standard input, one command each, as the Python tool did. When a command fails, its error is printed and the
 * next line runs. Returns the exit code of the last command, null when there was no line at all.
 */
export async function runLines(session: Session): Promise<number | null> {
  const { stdin } = session.streams;
  let last: number | null = null;
  // a question reads its answer from the next line, so lines are read on demand
  const lines: AsyncIterator<string, undefined> = createInterface({ input: stdin, terminal: false })[
    Symbol.asyncIterator
  ]();
  const next = async (): Promise<string | null> => (await lines.next()).value ?? null;
  session.ask = async (question) => {
    session.streams.stderr.write(question);
    return next();
  };
  for (let line = await next(); line !== null; line = await next()) {
    const typed = line.trim();
    if (typed === "" || typed.startsWith("#")) continue;
    const words = readWords(session, typed);
    if (words !== null && isEnd(words)) break;
    last = words === null ? exit.usage : await runLine(session, words);
  }
  session.ask = null;
  return last;
}

const isEnd = ([word]: readonly string[]): boolean => word === "quit" || word === "exit";

/** Returns null and prints the error for a line that cannot be split. */
function readWords(session: Session, typed: string): string[] | null {
  try {
    const words = splitWords(typed);
    if (words[0] === "coordinate") words.shift();
    return words;
  } catch (error) {
    printError(session, session.defaults, error);
    return null;
  }
}

/** How long a command may take to end after Ctrl-C. The shell then goes on without waiting for it. */
const patienceMs = 500;

async function givenUp(signal: AbortSignal): Promise<number> {
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  await wait(patienceMs);
  return 130;
}

/**
 * Opens a new reader for every line, so that a running command has the terminal to itself. Lines that were pasted together arrive
 * together: those after the first are put into `ahead`.
 */
function readLine(session: Session, history: readonly string[], ahead: string[]): Promise<string | null> {
  const { stdin, stdout } = session.streams;
  return new Promise((resolve) => {
    const reader = createInterface({
      input: stdin,
      output: stdout,
      prompt,
      history: [...history],
      historySize: maxHistory,
      completer: (line: string, done: (error: null, result: [string[], string]) => void) => {
        void candidates(session, line).then((found) => done(null, found));
      },
    });
    onEnd(reader, resolve, stdout, ahead);
    reader.prompt();
  });
}

function onEnd(
  reader: Interface,
  resolve: (line: string | null) => void,
  stdout: NodeJS.WriteStream,
  ahead: string[],
): void {
  let answered = false;
  reader.on("line", (line) => {
    if (answered) {
      ahead.push(line);
      return;
    }
    answered = true;
    setImmediate(() => {
      reader.close();
      resolve(line);
    });
  });
  // Ctrl-C discards the line, as in other shells
  reader.on("SIGINT", () => {
    answered = true;
    stdout.write("^C\n");
    reader.close();
    resolve("");
  });
  reader.once("close", () => {
    if (answered) return;
    stdout.write("\n");
    resolve(null);
  });
}

/** A line typed before the question answers it, as in any program that reads a terminal. */
function ask(
  { streams: { stdin, stdout } }: Session,
  question: string,
  ahead: string[],
): Promise<string | null> {
  const typed = ahead.shift();
  if (typed !== undefined) {
    stdout.write(`${question}${typed}\n`);
    return Promise.resolve(typed);
  }
  return new Promise((resolve) => {
    const reader = createInterface({ input: stdin, output: stdout, prompt: question });
    onEnd(reader, resolve, stdout, ahead);
    reader.prompt();
  });
}

async function candidates(session: Session, line: string): Promise<[string[], string]> {
  let words: string[];
  try {
    words = splitWords(line);
  } catch {
    return [[], line];
  }
  // a space at the end begins a new word
  if (line === "" || /\s$/.test(line)) words.push("");
  const last = words.at(-1) ?? "";
  const found = await complete(session, words);
  return [found.map((one) => (found.length === 1 ? `${one} ` : one)), last];
}

/** Splits words as a shell does: quotes of both kinds, and a backslash outside of single quotes. */
export function splitWords(line: string): string[] {
  const words: string[] = [];
  let word = "";
  let begun = false;
  let quote = "";
  for (let at = 0; at < line.length; at++) {
    const unit = line[at] ?? "";
    if (quote === "'") {
      if (unit === "'") quote = "";
      else word += unit;
    } else if (unit === "\\" && (quote === "" || /["\\$`]/.test(line[at + 1] ?? ""))) {
      at += 1;
      word += line[at] ?? "";
      begun = true;
    } else if (quote === '"') {
      if (unit === '"') quote = "";
      else word += unit;
    } else if (unit === "'" || unit === '"') {
      quote = unit;
      begun = true;
    } else if (/\s/.test(unit)) {
      if (begun) words.push(word);
      word = "";
      begun = false;
    } else {
      word += unit;
      begun = true;
    }
  }
  if (quote !== "") throw new UsageError(`missing closing ${quote}`);
  if (begun) words.push(word);
  return words;
}

// ---- history, newest first as readline has it

function historyFile(env: Readonly<Record<string, string | undefined>>): string | null {
  if (env.COORDINATE_HISTORY !== undefined)
    return env.COORDINATE_HISTORY === "" ? null : env.COORDINATE_HISTORY;
  const home = env.HOME ?? homedir();
  return path.join(env.XDG_STATE_HOME ?? path.join(home, ".local", "state"), "coordinate", "history");
}

function readHistory(file: string | null): string[] {
  try {
    return file === null
      ? []
      : readFileSync(file, "utf8").split("\n").filter(Boolean).reverse().slice(0, maxHistory);
  } catch {
    // there is no history file yet
    return [];
  }
}

function remember(history: string[], line: string): void {
  if (history[0] !== line && !isSecret(line)) history.unshift(line);
  history.length = Math.min(history.length, maxHistory);
}

/** Appends each line at once: a crash loses one line at most. */
function appendHistory(file: string | null, line: string): void {
  if (file === null || isSecret(line)) return;
  try {
    mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
    appendFileSync(file, `${line}\n`, { mode: 0o600 });
  } catch {
    // when the directory is not writable the history is lost; the shell goes on
  }
}

const isSecret = (line: string): boolean => /--token[ =]/.test(line);
