/** Drives a store process: asks for much at once, writes down what it asked and what was answered. */
import { spawn, type ChildProcess } from "node:child_process";
import { appendFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { seededRandom } from "../../../src/core/index.ts";

export interface Answered {
  error?: { code: string; message: string };
  answer?: unknown;
}

export interface StoreOptions {
  built: string;
  file: string;
  durability?: string;
  /** A program that runs the store, with its arguments: a tracer that makes system calls fail. */
  under?: string[];
}

export class StoreProcess {
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (answer: Answered | null) => void>();
  readonly exited: Promise<void>;
  #lastId = 0;
  #opened: (answer: { ready: boolean } & Answered) => void = () => undefined;
  readonly opened: Promise<{ ready: boolean } & Answered>;

  constructor({ built, file, durability = "full", under = [] }: StoreOptions) {
    const program = [process.execPath, path.join(import.meta.dirname, "store.mjs"), built, file, durability];
    const [command = "", ...args] = [...under, ...program];
    // a group of its own: a tracer that is killed lets the process it traces go on
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"], detached: true });
    this.opened = new Promise((resolve) => (this.#opened = resolve));
    this.exited = new Promise((resolve) => {
      // not before the last one that holds the pipes has ended: whoever looks at the file then must be alone with it
      this.#child.once("close", () => {
        this.#opened({ ready: false, error: { code: "killed", message: "" } });
        for (const answer of this.#waiting.values()) answer(null);
        this.#waiting.clear();
        resolve();
      });
    });
    this.#child.stdin?.on("error", () => undefined);
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      const said = JSON.parse(line) as { id?: number; ready?: boolean } & Answered;
      if (said.id === undefined) this.#opened(said as { ready: boolean } & Answered);
      else {
        this.#waiting.get(said.id)?.(said);
        this.#waiting.delete(said.id);
      }
    });
  }

  /** Null when the process died before it answered. */
  ask(verb: string, ...args: unknown[]): Promise<Answered | null> {
    const id = ++this.#lastId;
    return new Promise((resolve) => {
      if (this.#child.exitCode !== null || this.#child.signalCode !== null) return resolve(null);
      this.#waiting.set(id, resolve);
      this.#child.stdin?.write(`${JSON.stringify({ id, verb, args })}\n`);
    });
  }

  kill(): void {
    if (this.#child.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch (error) {
      // it has ended already
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

  /** Lets it end by itself. */
  end(): void {
    this.#child.stdin?.end();
  }
}

/** One file's history, over all the processes that had it open. */
export class Driver {
  readonly #ledger: string;
  readonly #random: () => number;
  /** Attempts that were acknowledged and of which nothing else was asked. */
  #held: string[] = [];
  #lastName = 0;
  /** Answers of each kind. */
  readonly done = { add: 0, claim: 0, settle: 0, unknown: 0, refused: 0 };
  readonly refusals: { code: string; message: string }[] = [];

  constructor(ledger: string, seed: number) {
    this.#ledger = ledger;
    this.#random = seededRandom(seed);
    appendFileSync(ledger, "");
  }

  #note(entry: object): void {
    appendFileSync(this.#ledger, `${JSON.stringify(entry)}\n`);
  }

  async start(store: StoreProcess): Promise<void> {
    await store.ask("setWorkSpecs", "", [
      { data: JSON.stringify({ name: "first", then: "second" }) },
      { data: JSON.stringify({ name: "second" }) },
    ]);
  }

  /** Several clients at once, each asking one thing after the other, until the store is gone or `until` says so. */
  async load(store: StoreProcess, clients: number, until: () => boolean): Promise<void> {
    const client = async (): Promise<void> => {
      while (!until()) {
        const alive = await this.#step(store);
        if (!alive) return;
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /** False when the process died, or no longer carries out anything. */
  async #step(store: StoreProcess): Promise<boolean> {
    const draw = this.#random();
    if (draw < 0.4) return this.#add(store);
    if (draw < 0.7 || this.#held.length === 0) return this.#claim(store);
    return this.#settle(store);
  }

  async #add(store: StoreProcess): Promise<boolean> {
    const names = Array.from(
      { length: 1 + Math.floor(this.#random() * 5) },
      () => `unit ${++this.#lastName}`,
    );
    this.#note({ op: "add", phase: "ask", names });
    const units = names.map((name, i) => ({
      name,
      data: JSON.stringify({ name }),
      priority: Math.floor(this.#random() * 3),
      ...(i % 2 === 0 && { queues: ["ends", "all"] }),
      ...(i % 3 === 0 && { labels: ["third"] }),
    }));
    const answer = await store.ask("addWorkUnits", "", "first", units);
    return this.#answered("add", answer, { names });
  }

  async #claim(store: StoreProcess): Promise<boolean> {
    const number = 1 + Math.floor(this.#random() * 4);
    const worker = `worker ${Math.floor(this.#random() * 3)}`;
    const answer = await store.ask("requestAttempts", "", {
      worker,
      number,
      workSpecs: ["first"],
      lifetimeMs: 3_600_000,
    });
    const attempts = ((answer?.answer ?? []) as { id: string }[]).map(({ id }) => id);
    const alive = this.#answered("claim", answer, { attempts });
    this.#held.push(...attempts);
    return alive;
  }

  async #settle(store: StoreProcess): Promise<boolean> {
    const at = Math.floor(this.#random() * this.#held.length);
    const attempts = this.#held.splice(at, 1 + Math.floor(this.#random() * 3));
    const changes = attempts.map((attempt) => {
      const draw = this.#random();
      const action = draw < 0.7 ? "finish" : draw < 0.85 ? "fail" : "retry";
      const output = [`out ${attempt} a`, `out ${attempt} b`];
      return { attempt, action, ...(action === "finish" && { data: JSON.stringify({ output }) }) };
    });
    this.#note({ op: "settle", phase: "ask", changes });
    const answer = await store.ask("settleAttempts", "", changes);
    const wrong = ((answer?.answer ?? []) as { error: string | null }[]).filter(
      ({ error }) => error !== null,
    );
    // who holds a lease that was acknowledged must be able to end it, whatever happened to the store meanwhile
    if (wrong.length > 0) throw new Error(`refused: ${JSON.stringify(wrong)}`);
    return this.#answered("settle", answer, { changes });
  }

  #answered(op: "add" | "claim" | "settle", answer: Answered | null, entry: object): boolean {
    if (answer === null) {
      this.done.unknown++;
      return false;
    }
    if (answer.error !== undefined) {
      // of an outcome that the store does not know nothing is written down: it stays asked for
      if (answer.error.code !== "unknown_outcome") this.#note({ op, phase: "refused", ...entry });
      this.done.refused++;
      this.refusals.push(answer.error);
      return false;
    }
    this.done[op]++;
    this.#note({ op, phase: "ok", ...entry });
    return true;
  }

  /** After a refused settle its attempts run on: they may be asked for again. */
  holdAgain(attempts: readonly string[]): void {
    this.#held.push(...attempts);
  }
}
