/**
 * The warden ensures that no child outlives its supervisor.
 *
 * A child exits when its channel closes, but not while its event loop is blocked, and grandchildren have no channel. So the supervisor
 * sends the id of every process group over a pipe to one small process, the warden (a shell, 1.7 MB resident). When the supervisor
 * dies, even by SIGKILL, the system closes the pipe; the warden then kills the remaining groups and exits.
 *
 * The supervisor writes a group's id before it sends the first message to the group's child. A pipe keeps what was written to it, so
 * the id arrives even if the supervisor dies right after.
 *
 * Limit: a grandchild that starts its own session (setsid, daemons) leaves the group and is not killed.
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

  /** The warden's process id, for diagnostics; null while it does not run. */
  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  /** Whether groups are watched: false on a system without `sh`. */
  get works(): boolean {
    return !this.#failed;
  }

  watch(group: number): void {
    this.#groups.add(group);
    if (this.#process === null) this.#start();
    else this.#tell(`+ ${group}`);
  }

  /** Call this only when no process of the group is left: the system may reuse the id, and the warden must not kill another group. */
  forget(group: number): void {
    if (this.#groups.delete(group)) this.#tell(`- ${group}`);
  }

  /** Closes the pipe, as the system does when this process dies: the warden kills all watched groups. */
  killAll(): void {
    const child = this.#process;
    this.#process = null;
    this.#groups.clear();
    child?.stdin?.end();
  }

  /** Starts the process, also after it was killed, and sends it all groups. */
  #start(): void {
    if (this.#failed) return;
    // its own session, so that Ctrl-C in a terminal does not reach it; no inherited files or folder that it would keep open
    const child = spawn("sh", ["-c", script], {
      cwd: "/",
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#process = child;
    child.once("error", () => {
      // there is no `sh`: children still exit when their channel closes, unless they are blocked
      this.#failed = true;
      this.#process = null;
    });
    child.once("exit", () => {
      if (this.#process !== child) return;
      this.#process = null;
      if (this.#groups.size > 0) this.#start();
    });
    // ignore failed writes: 'exit' handles the end of the process
    child.stdin.on("error", () => undefined);
    child.unref();
    if (child.stdin instanceof Socket) child.stdin.unref();
    for (const group of this.#groups) this.#tell(`+ ${group}`);
  }

  #tell(line: string): void {
    this.#process?.stdin?.write(`${line}\n`);
  }
}

/** Shared by the whole process. Its shell is started with the first group. */
export const warden = new Warden();
