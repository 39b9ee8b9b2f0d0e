/**
 * The warden sees that no child outlives its supervisor.
 *
 * A child that watches its channel ends when the supervisor is killed, but one whose event loop is blocked does not look,
 * and a grandchild knows nothing. So one small process (a shell, 1.7 MB resident) is told every process group, over a pipe.
 * When the supervisor dies, by SIGKILL too, the system closes the pipe; the warden then kills the groups that are left,
 * and ends.
 *
 * It is told of a group before the group's child gets its first message: a pipe keeps what was written into it, so that
 * a supervisor that dies right after still leaves its word behind.
 *
 * Not promised: a grandchild that makes a session of its own (setsid, daemons) leaves the group and is not followed.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { Socket } from "node:net";

const script = `
trap '' HUP INT QUIT TERM PIPE
groups=' '
while read -r word group; do
  case $word in
    +) groups="$groups$group " ;;
    -) case $groups in *" $group "*) groups="\${groups%%" $group "*} \${groups#*" $group "}" ;; esac ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done 2>/dev/null
`;

export class Warden {
  readonly #groups = new Set<number>();
  #process: ChildProcess | null = null;
  #failed = false;

  /** The warden's process id, for those who look at processes; null while there is none. */
  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  /** Whether groups are looked after: false on a system without `sh`. */
  get works(): boolean {
    return !this.#failed;
  }

  watch(group: number): void {
    this.#groups.add(group);
    if (this.#process === null) this.#start();
    else this.#tell(`+ ${group}`);
  }

  /** To be called only when nobody of the group lives: the number may be given to others then. */
  forget(group: number): void {
    if (this.#groups.delete(group)) this.#tell(`- ${group}`);
  }

  /** Closes the pipe, as the system does when this process dies: all groups that it knows are killed. */
  hangUp(): void {
    const child = this.#process;
    this.#process = null;
    this.#groups.clear();
    child?.stdin?.end();
  }

  /** Starts the process and tells it all there is to know; also again, when somebody killed it. */
  #start(): void {
    if (this.#failed) return;
    // A session of its own, so that Ctrl-C in a terminal does not reach it; nothing inherited that it would keep open.
    const child = spawn("sh", ["-c", script], {
      cwd: "/",
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#process = child;
    child.once("error", () => {
      // There is no sh here. Children still end when their channel closes, unless they are blocked.
      this.#failed = true;
      this.#process = null;
    });
    child.once("exit", () => {
      if (this.#process !== child) return;
      this.#process = null;
      if (this.#groups.size > 0) this.#start();
    });
    // Its end is noticed by 'exit'; a write that meets it is no news.
    child.stdin.on("error", () => undefined);
    child.unref();
    if (child.stdin instanceof Socket) child.stdin.unref();
    for (const group of this.#groups) this.#tell(`+ ${group}`);
  }

  #tell(line: string): void {
    this.#process?.stdin?.write(`${line}\n`);
  }
}

/** One is enough for a process. It is started with the first group. */
export const warden = new Warden();
