/** Drives a store process: sends many requests at once, and records requests and responses in a ledger. */
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
  /** A program, with its arguments, that runs the store: a tracer that makes system calls fail. */
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
    // a separate process group, so that `kill` reaches both: a killed tracer lets the traced process go on
    this.#child = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"], detached: true });
    this.opened = new Promise((resolve) => (this.#opened = resolve));
    this.exited = new Promise((resolve) => {
      // "close" comes when the last process with the pipes has ended: after that no process has the file open
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

  /** Resolves with null if the process died before it responded. */
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
      // the process has already ended
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }

  /** Closes its input, so that the process ends by itself. */
  end(): void {
    this.#child.stdin?.end();
  }
}

/** The history of one file, over all processes that had it open. */
export class Driver {
  readonly #ledger: string;
  readonly #random: () => number;
  /** Acknowledged attempts that have not been settled. */
  #held: string[] = [];
  #lastName = 0;
  /** The number of responses of each kind. */
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

  /** Runs several clients, each with one request at a time, until the store is gone or `until` returns true. */
  async load(store: StoreProcess, clients: number, until: () => boolean): Promise<void> {
    const client = async (): Promise<void> => {
      while (!until()) {
        const alive = await this.#step(store);
        if (!alive) return;
      }
    };
    await Promise.all(Array.from({ length: clients }, client));
  }

  /** Returns false if the process died or refused the request. */
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
    // an attempt with an acknowledged lease can always be settled, whatever has happened to the store
    if (wrong.length > 0) throw new Error(`refused: ${JSON.stringify(wrong)}`);
    return this.#answered("settle", answer, { changes });
  }

  #answered(op: "add" | "claim" | "settle", answer: Answered | null, entry: object): boolean {
    if (answer === null) {
      this.done.unknown++;
      return false;
    }
    if (answer.error !== undefined) {
      // for an unknown outcome nothing is recorded: the ledger keeps only the request
      if (answer.error.code !== "unknown_outcome") this.#note({ op, phase: "refused", ...entry });
      this.done.refused++;
      this.refusals.push(answer.error);
      return false;
    }
    this.done[op]++;
    this.#note({ op, phase: "ok", ...entry });
    return true;
  }

  /** After a refused settle its attempts still run and may be settled again. */
  holdAgain(attempts: readonly string[]): void {
    this.#held.push(...attempts);
  }
}
