/**
 * The commands against every kind of target: a daemon over REST, a daemon over CBOR-RPC, and a store. Each story is a list of command
 * lines in a new namespace, each with its expected output and exit code. The commands of two stories run as processes; the others run
 * in this process, because starting Node takes longer than the command.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { metaFields } from "../../src/core/index.ts";
import { splitWords } from "../../src/cli/shell.ts";
import { executable, startProcess, type Started } from "../daemon/built.ts";
import { run } from "./in-process.ts";
import { coordinate, type Ran } from "./run.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-cli-"));
let daemon: Started;
let http = "";
let rpc = "";

beforeAll(async () => {
  executable("coordinate");
  daemon = await startProcess([
    ...["--backend", `sqlite:${path.join(place, "daemon.sqlite")}`, "--data-dir", place],
    ...["--http", "127.0.0.1:0", "--cborrpc", "127.0.0.1:0", "--log-level", "error"],
  ]);
  http = daemon.url;
  await vi.waitFor(() => expect(daemon.output()).toMatch(/cbor-rpc:\/\/\S+/), 20_000);
  rpc = /cbor-rpc:\/\/\S+/.exec(daemon.output())?.[0] ?? "";
  writeFileSync(path.join(place, "crawl.yaml"), "name: crawl\nweight: 10\n");
}, 240_000);
afterAll(async () => {
  daemon.child.kill();
  await daemon.ended;
  rmSync(place, { recursive: true, force: true });
});

/** A command line with its expected output (a pattern, the whole text, or JSON), exit code and standard error. */
interface Line {
  run: string;
  /** Run only over REST: it tests another output format of the same data. */
  once?: true;
  code?: number;
  out?: RegExp | string;
  json?: unknown;
  err?: RegExp;
  input?: string;
}

type Way = "rest" | "cbor" | "store";

/** Units a to f of crawl: a is finished and made two units of index, b has failed, c runs, d is delayed, e is blocked, f is available. */
const setUp: readonly Line[] = [
  {
    run: `rpc setWorkSpecs '[{"data":{"name":"crawl","then":"index","weight":10,"ratio":1.0}},{"data":{"name":"index"}},{"data":{"name":"tick","continuous":true,"interval":60}}]'`,
    json: [
      expect.objectContaining({ name: "crawl" }),
      expect.objectContaining({ name: "index" }),
      expect.objectContaining({ name: "tick" }),
    ],
  },
  {
    run: `rpc addWorkUnits crawl '[{"name":"a","priority":9},{"name":"b","priority":8,"data":{"url":"http://b/"}},{"name":"c","priority":7},{"name":"d","delayMs":3600000},{"name":"e","dependencies":[{"workUnit":"c"}]},{"name":"f\\u001b[2J\\u202e","data":{"n":12345678901234567890}}]'`,
    out: /"name": "f\\u001b\[2J\\u202e"/,
  },
  { run: `rpc requestAttempts '{"worker":"w1","workSpecs":["crawl"],"number":3}'`, out: /"workUnit": "c"/ },
  {
    run: `rpc settleAttempts '[{"attempt":"ATTEMPT-a","action":"finish","data":{"output":{"p1":{"k":1},"p2":{}}}},{"attempt":"ATTEMPT-b","action":"fail","data":{"url":"http://b/","traceback":"Error: boom\\n  at \\u001b[31mx"}}]'`,
    out: /"outputs": 2/,
  },
];

const counts = (
  available: number,
  blocked: number,
  delayed: number,
  failed: number,
  finished: number,
  pending: number,
): object => ({
  num_available: available,
  num_blocked: blocked,
  num_delayed: delayed,
  num_failed: failed,
  num_finished: finished,
  num_pending: pending,
  num_tasks: available + blocked + delayed + failed + finished + pending,
});

interface Story {
  name: string;
  ways: readonly Way[];
  lines: readonly Line[];
}

const stories: readonly Story[] = [
  {
    name: "looking in",
    ways: ["rest", "cbor", "store"],
    lines: [
      ...setUp,
      { run: "work_specs", out: "crawl\nindex\ntick\n" },
      { once: true, run: "work-specs --json", json: ["crawl", "index", "tick"] },
      {
        once: true,
        run: "work_specs --details",
        out: /crawl +10 +0 +index\n[\s\S]*tick +20 +0 +continuous every 1 min\n$/,
      },
      { run: "work_spec crawl", out: "name: crawl\nthen: index\nweight: 10\nratio: 1.0\n" },
      {
        once: true,
        run: "work_spec -W crawl --json",
        out: /^\{\n {4}"name": "crawl",\n[\s\S]*"ratio": 1\.0\n\}\n$/,
      },
      {
        run: "work_spec -w PLACE/crawl.yaml --meta --json",
        json: {
          data: { name: "crawl", then: "index", weight: 10, ratio: 1 },
          meta: {
            ...Object.fromEntries(metaFields.map(({ name }) => [name, expect.anything() as unknown])),
            weight: 10,
            then: "index",
            can_be_continuous: false,
            runtime: "",
          },
        },
      },
      { run: "status crawl", json: counts(1, 1, 1, 1, 1, 1) },
      { once: true, run: "status -W index --json", json: counts(2, 0, 0, 0, 0, 0) },
      { once: true, run: "status crwal", code: 1, err: /No such work spec crwal; did you mean crawl\?/ },
      {
        run: "summary --json",
        json: {
          crawl: counts(1, 1, 1, 1, 1, 1),
          index: counts(2, 0, 0, 0, 0, 0),
          tick: counts(0, 0, 0, 0, 0, 0),
          _NOW: expect.any(Number) as number,
        },
      },
      { run: "summary", out: /^Work spec +Avail +Delayed.*\ncrawl +1 +1 +1 +1 +1 +1 +6\nindex/ },
      {
        once: true,
        run: "summary --compat",
        out: /^Work spec {25} {4}Avail {2}Pending {3}Failed Finished {4}Total\n={34}( ={8}){5}\ncrawl {37}1( {8}1){3} {8}6\n/,
      },
      { once: true, run: "--json summary --text", out: /^\{"crawl".*\}\nWork spec/ },
      { once: true, run: "summary --watch 0.05 --times 3 --json", out: /^(\{"crawl".*\}\n){3}$/ },
      { run: "work_units crawl", out: "a\nb\nc\nd\ne\nf\\x1b[2J\\u{202e}\n" },
      { run: "work_units -W crawl -s failed", out: "b\n" },
      { once: true, run: "work_units crawl -s delayed,blocked", out: "d\ne\n" },
      {
        run: "work_units crawl -n 2",
        out: "a\nb\n",
        err: /^… and 4 more; -n N shows more, --all everything\n$/,
      },
      { once: true, run: "work_units crawl -s finished -n 1", out: "a\n", err: /^$/ },
      {
        run: "work_units crawl --prefix f --json",
        json: [expect.objectContaining({ name: "f\u001b[2J\u202e", status: "available" })],
      },
      {
        run: "work_units crawl -s failed --details",
        out: /^b \(failed; priority 8, 1 attempt\)\n {2}\{\n {4}"url": "http:\/\/b\/"\n {2}\}\n {2}Traceback:\n {4}Error: boom\n {6}at \\x1b\[31mx\n$/,
      },
      { run: "work_units crawl -s available --details --json", out: /"data":\{"n":12345678901234567890\}/ },
      { run: "work_units crawl --print0 -s available", out: "f\u001b[2J\u202e\0" },
      { once: true, run: "work_units index --all", out: "p1\np2\n" },
      {
        run: "work_unit crawl b",
        out: /^b {2}failed\n[\s\S]*Priority: +8\n[\s\S]*1 {2}failed {2}w1 [\s\S]*Traceback of attempt 1:\n {2}Error: boom\n {4}at \\x1b\[31mx\n$/,
      },
      { run: "work_unit -W index p1", out: /Made by: +crawl \/ a, attempt \d+\.1 \(finished\)/ },
      {
        run: "work_unit crawl c e",
        out: /^c {2}pending[\s\S]*lease ends in[\s\S]*\ne {2}blocked[\s\S]*Waits for: +crawl \/ c \(pending\)/,
      },
      {
        once: true,
        run: "work_unit crawl d --json",
        json: [expect.objectContaining({ name: "d", status: "delayed", attempts: [], lineage: [] })],
      },
      {
        run: `work_unit crawl -e 'f\\x1b[2J\\u{202e}' --data`,
        out: /^f\\x1b\[2J\\u\{202e\} {2}available[\s\S]*\{"n":12345678901234567890\}/,
      },
      {
        run: "work_unit crawl a nope",
        code: 1,
        out: /^a {2}finished/,
        err: /No such work unit nope in crawl/,
      },
      {
        run: "explain",
        out: /^A worker that claims now gets work from one of 2 work specs\. 1 work unit is running\.\n1 worker is active\.\n[\s\S]*chance/,
      },
      {
        run: "explain crawl",
        out: /\ncrawl {2}not now\n {2}It has more than its share of pending work units\. Weight 10, priority 0; 1 available, 1 pending, 1 delayed, 1 blocked, 1 failed\.\n {2}Its turn comes when others/,
      },
      {
        once: true,
        run: "explain index --json",
        json: expect.objectContaining({ desired: "run", activeWorkers: 1 }),
      },
      { run: "workers", out: /^Worker +Mode +Last seen +Desired\nw1 .*run\n$/ },
      { once: true, run: "workers --json", json: [expect.objectContaining({ name: "w1", active: true })] },
      { run: "worker w1", out: /^w1 {2}active\n[\s\S]*crawl +c +pending/ },
      { run: "worker_stats", json: { num_workers: 1, num_children: 0, num_expirable: 1 } },
      { run: "namespaces --json", out: /"workSpecs": 3,\n {4}"workUnits": 8/ },
      { run: "mode", out: "RUN\n", err: /1 active worker/ },
    ],
  },
  {
    name: "limits",
    ways: ["rest", "store"],
    lines: [
      { run: "limits", out: "", err: /There are no limits/ },
      {
        run: `rpc setWorkSpecs '[{"data":{"name":"a","limits":["api"]}},{"data":{"name":"b","limits":["api"]}}]'`,
      },
      { run: `rpc addWorkUnits a '[{"name":"u"}]'` },
      { run: `rpc addWorkUnits b '[{"name":"v"}]'` },
      {
        run: "limits api max_running=1 rate=100 period=60 burst=10",
        out: /^Limit +Running +Max +Rate +Work specs *\napi +0 +1 +100 in 1 min, 10 at once +a, b\n$/,
      },
      { run: `rpc requestAttempts '{"worker":"w1","workSpecs":["a"]}'`, out: /"workUnit": "u"/ },
      { run: "limits api rate=0", out: /^Limit.*\napi +1 +1 +a, b\n$/ },
      { run: "explain b", out: /It has reached the shared limit api/ },
      { once: true, run: "work_specs --details", out: /a +20 +0 +limits api\n/ },
      { once: true, run: "limits --json", json: [expect.objectContaining({ name: "api", running: 1 })] },
      { run: "limits other", code: 1, err: /no such limit/ },
      { once: true, run: "limits api speed=5", code: 2, err: /expected max_running=/ },
      { run: "limits api --delete", out: /Deleted/ },
      { run: "limits one max_running=1", out: /one/ },
      { once: true, run: "limits one --delete --json", json: { deleted: "one" } },
      { run: "limits api --delete", code: 1, err: /no such limit/ },
    ],
  },
  {
    name: "logs",
    ways: ["rest", "store"],
    lines: [
      ...setUp,
      { run: "logs crawl", code: 2, err: /expected the name of one work unit/ },
      { run: "logs crawl nope", code: 1, err: /No such work unit nope in crawl/ },
      { run: "logs crawl c", out: "", err: /The task logged nothing/ },
      { run: "logs crawl d", out: "", err: /No attempts yet/ },
      { run: "logs crawl c --attempt 2", code: 1, err: /c has no attempt 2/ },
      { run: "logs crawl c --attempt x", code: 2, err: /--attempt: expected a number/ },
      {
        run: `rpc writeAttemptLogs '[{"attempt":"ATTEMPT-c","lines":[{"text":"one","time":1},{"text":"a\\u001b[2J","level":"warn"}]}]'`,
        json: [true],
      },
      { run: "logs crawl c", out: /^1970-01-01[^\n]* {2}one\n[^\n]* {2}warn: a\\x1b\[2J\n$/ },
      {
        run: "logs crawl c --json",
        out: /"line":1,[^\n]*"text":"one"\}\n[^\n]*"line":2,[^\n]*"level":"warn"/,
      },
      { run: `rpc settleAttempts '[{"attempt":"ATTEMPT-c","action":"finish"}]'`, out: /"finished"/ },
      { run: "logs crawl c --follow --all", out: /one\n[^\n]*warn/ },
    ],
  },
  {
    name: "cancel",
    ways: ["rest", "cbor", "store"],
    lines: [
      ...setUp,
      {
        run: "cancel crawl",
        code: 2,
        err: /no units given: use their names, --status, --prefix, --label or --all/,
      },
      { run: "cancel crawl c nope", code: 1, err: /No such work unit nope in crawl; nothing was cancelled/ },
      { run: "cancel crawl c --by alice --why 'wrong file'", out: "Cancelled 1 work unit.\n" },
      { run: "work_unit crawl c", out: /failed[^]*cancelled by alice: wrong file/ },
      // e depends on c
      { run: "work_unit crawl e", out: /failed[^]*dependency c of work spec crawl failed/ },
      { run: "cancel crawl a b c", out: "Nothing to do: these units have already ended.\n", code: 2 },
      {
        run: `rpc addWorkUnits crawl '[{"name":"in a batch","batch":"b"},{"name":"in it too","batch":"b"}]'`,
        out: /"in a batch"/,
      },
      { run: "batches b --cancel --json", json: { cancelled: 2 } },
      { run: "batches b --retry --json", json: { retried: 2 } },
      { run: "batches b --cancel", out: /^Cancelled 2 work units\.$/m },
      { run: "cancel crawl --all --json", json: { cancelled: 2 } },
      {
        run: "cancel crawl --all",
        out: "Nothing to do: no such unit, or all have already ended.\n",
        code: 2,
      },
      { run: `rpc addWorkUnits crawl '[{"name":"l1","labels":["red"]},{"name":"l2"}]'`, out: /l1/ },
      { run: "work_units crawl --label red", out: "l1\n" },
    ],
  },
  {
    name: "retry and clear",
    ways: ["rest", "store"],
    lines: [
      ...setUp,
      { run: "retry crawl nope b", code: 1, err: /No such work unit nope in crawl; nothing was retried/ },
      { run: "retry crawl c", code: 1, err: /c: running now, on w1; nothing was retried; --force/ },
      { run: "retry -W crawl b", out: "Retried 1 work unit.\n" },
      { run: "retry -W crawl -a", out: "Nothing to do.\n", code: 2 },
      { run: "retry crawl c --force --json", json: { retried: 1 } },
      { run: "status crawl", json: counts(3, 1, 1, 0, 1, 0) },
      { run: `rpc requestAttempts '{"worker":"w2","workSpecs":["crawl"],"number":2}'`, out: /"b"[\s\S]*"c"/ },
      {
        run: `rpc settleAttempts '[{"attempt":"ATTEMPT-b","action":"fail"},{"attempt":"ATTEMPT-c","action":"fail"}]'`,
        out: /"changed": true/,
      },
      { run: "work_unit crawl b", out: /1 {2}failed {2}w1[\s\S]*2 {2}failed {2}w2/ },
      { run: "retry -W - -a", out: "crawl index tick\nRetried 3 work units.\n" },
      { run: "retry crawl d", out: "Retried 1 work unit.\n" },
      { run: "retry crawl d", out: "Nothing to do.\n", code: 2 },
      { run: `rpc requestAttempts '{"worker":"w3","workSpecs":["crawl"],"number":2}'`, out: /"pending"/ },
      { run: "retry crawl --prefix b", out: "Nothing to do.\n", code: 2, err: /0 units selected/ },
      { run: "retry crawl --prefix b --force", out: "Retried 1 work unit.\n" },
      { run: "retry crawl -a --force", out: "Retried 1 work unit.\n" },
      { run: "clear -W crawl -s finished", out: "Removed 1 work unit.\n" },
      { run: "clear crawl b c", out: "Removed 2 work units.\n" },
      { run: "clear crawl b", code: 1, out: "Removed 0 work units.\n", err: /did not exist/ },
      { run: "clear crawl --json", json: { removed: 3 } },
      { run: "status crawl", json: counts(0, 0, 0, 0, 0, 0) },
    ],
  },
  {
    name: "as the Python tool answered",
    ways: ["rest"],
    lines: [
      ...setUp,
      { run: "--compat work_spec nope", out: "null\n...\n" },
      { run: "--compat retry -W nope x", out: "Retried 1 work unit.\n" },
      { run: "--compat retry -W nope -a", out: "Nothing to do.\n" },
      { run: "--compat retry -W crawl c", out: "Retried 1 work unit.\n" },
      { run: "--compat clear -W nope", out: "Removed 0 work units.\n" },
      { run: "--compat pause nope", out: "" },
      { run: "--compat resume crawl", out: "" },
      { run: "--compat prioritize nope x", out: "" },
      { run: "--compat prioritize crawl nope", out: "" },
      { run: "--compat status nope", code: 1, err: /No such work spec/ },
      { run: "--compat work_units -W nope", out: "" },
      { run: "rpc control_work_spec index '{weight: 7, status: 2}'", json: [true, null] },
      { run: "rpc get_work_spec_meta index", out: /"weight": 7/ },
      { run: "--compat rpc count_work_units index", json: [{ "1": 2 }, null] },
      { run: "--compat rpc get_work_units index '{limit: 1}'", out: /^\[\n {2}\[\n {4}\[\n/ },
      { run: "rpc del_work_spec index", json: [true, null] },
      {
        run: "rpc del_work_spek index",
        code: 2,
        err: /no such verb del_work_spek; did you mean del_work_spec\?/,
      },
      { run: "rpc control_work_spec", code: 1, err: /control_work_spec: expected 2 parameters, got 0/ },
      { run: "policy", out: "weighted\n" },
      { run: "policy python", out: "set policy to 'python'\n" },
      { run: "policy", out: "python\n" },
      { run: "policy weighted --share time", out: "set policy to 'weighted'\nset share to 'time'\n" },
      { run: "policy", out: "weighted, share of time\n" },
      { run: "policy --json", json: { policy: "weighted", share: "time" } },
      { run: "policy --share choices", out: "set share to 'choices'\n" },
      { run: "--quiet --debug coordinate.server.rpc summary", out: /^Work spec/ },
      { run: "--compat workers", out: "" },
      { run: "--compat worker_stats", out: /"num_workers": 0/ },
      { run: `rpc updateWorkers '[{"name":"w1","active":true,"mode":"RUN"}]'`, out: /"w1"/ },
      { run: "--compat workers", out: "w1 (RUN)\n" },
      {
        run: "--compat work_unit crawl b d",
        out: /^b \(5\)\n {2}Expires: [A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\n {2}Worker: w1 \(No information\)\n {2}Traceback:\nError: boom\n[\s\S]*\nd \(1\)\n {2}Expires: .*\n$/,
      },
    ],
  },
  {
    name: "pause, priorities and settings",
    ways: ["rest", "store"],
    lines: [
      ...setUp,
      { run: "explain index", out: /\n {2}Share of choices: \d+ % by its weight.*\.\n/ },
      { run: "policy --share time", out: "set share to 'time'\n" },
      { run: "explain index", out: /\n {2}Share of worker time: \d+ % by its weight.*\.\n/ },
      { run: "policy --share choices", out: "set share to 'choices'\n" },
      { run: "pause crawl", out: "paused crawl; 1 work unit still running\n" },
      {
        run: "explain crawl",
        out: /crawl {2}not now\n {2}It is paused\.[\s\S]*Resume it with coordinate resume crawl\.\n$/,
      },
      { run: "pause crawl", out: /no change/ },
      { run: "doctor", out: /note +work +crawl: paused, and units are waiting\n +coordinate resume crawl\n/ },
      { run: "resume crawl --json", json: { paused: false, workSpecs: ["crawl"], changed: 1 } },
      { run: "resume crawl", out: "resumed crawl (no change)\n" },
      { run: "pause --all", out: /^paused crawl, index, tick; 1 work unit still running\n$/ },
      {
        run: "explain",
        out: /^A worker that claims now gets nothing, although 3 work units are available/,
      },
      { run: "resume -a", out: "resumed crawl, index, tick\n" },
      { run: "prioritize index p1", out: "Changed the priority of 1 work unit.\n" },
      { run: "prioritize index p2 --priority -2.5", out: /1 work unit/ },
      { run: "prioritize index --all --adjust 10 --json", json: { changed: 2 } },
      {
        run: "work_units index --json",
        json: [expect.objectContaining({ priority: 11 }), expect.objectContaining({ priority: 7.5 })],
      },
      { run: "prioritize index --prefix zz", code: 2, out: "Changed the priority of 0 work units.\n" },
      { run: "prioritize index nope", code: 1, err: /nothing was changed/ },
      { run: "set crawl weight=3 max_running=1 interval=5m", out: "weight=3\nmax_running=1\ninterval=300\n" },
      {
        run: "explain crawl",
        out: /It has 1 pending work units; max_running is 1\.[\s\S]*coordinate set crawl max_running=N/,
      },
      {
        run: "set crawl continuous=true",
        out: "continuous=false\n",
        err: /crawl cannot be continuous because its data does not allow it/,
      },
      {
        run: "set tick continuous=off next-continuous=2030-01-02",
        out: /^continuous=false\nnext_continuous=2030-01-02T00:00:00.000Z/,
      },
      { run: "set tick continuous=on --json", out: /"continuous": true/ },
      { run: "explain tick", out: /generates its next work unit in [\s\S]*next_continuous=now/ },
      { run: "set index priority=5", out: "priority=5\n" },
      // the names of these settings in the Go and Python tools
      {
        run: "set index max_attempts_returned=7 min_memory_gb=0.5 disabled=on",
        out: "max_getwork=7\nmin_gb=0.5\npaused=true\n",
      },
      { run: "set index max_getwork=0 min_gb=0 paused=off", out: "max_getwork=0\nmin_gb=0\npaused=false\n" },
      { run: "set index not_before=2030-01-02T03:04:05Z", out: /^not_before=2030-01-02T03:04:05.000Z \(/ },
      {
        run: "explain index",
        out: /It starts at 2030-01-02T03:04:05\.000Z\.[\s\S]*coordinate set index not_before=now/,
      },
      { run: "set index not_before=now", out: "not_before=0\n" },
      { run: "set crawl max_running=0", out: "max_running=0\n" },
      { run: "explain crawl", out: /Other work specs with work have a higher priority\./ },
      { run: "set crawl", out: /^priority=0\nweight=3\npaused=false\n/ },
      { run: "set crawl weight=0", out: "weight=0\n" },
      {
        run: "explain crawl",
        out: /It has weight 0; only weights above 0 are scheduled\.[\s\S]*coordinate set crawl weight=20/,
      },
    ],
  },
  {
    name: "which workers could take it",
    ways: ["rest", "store"],
    lines: [
      {
        run: `rpc setWorkSpecs '[{"data":{"name":"node","runtime":"node"}},{"data":{"name":"go","runtime":"go"}},{"data":{"name":"huge","runtime":"node","min_gb":64}},{"data":{"name":"python","min_gb":5}}]'`,
        out: /"name": "go"/,
      },
      ...["node", "go", "huge", "python"].map((spec) => ({
        run: `rpc addWorkUnits ${spec} '[{"name":"u"}]'`,
        out: /"created": true/,
      })),
      {
        run: `rpc updateWorkers '[{"name":"a","active":true,"mode":"run","data":{"asks":[{"runtimes":["node"],"availableGb":4},{"runtimes":["command"],"availableGb":4}]}},{"name":"a/1","parent":"a","active":true,"mode":"ready"},{"name":"b","active":true,"mode":"run","data":{"asks":[{"runtimes":["node"],"workSpecs":["other"]}]}}]'`,
        out: /"a"/,
      },
      {
        run: "explain",
        out: /^Work is waiting and no active worker can take it: 1 unit of go, 1 unit of huge, 1 unit of python\.\n/,
      },
      {
        run: "explain go",
        out: /\n {2}No active worker can take it:\n {4}a: it has runtime "go"; the request is for \["node","command"\]\n {4}b: it is not one of the requested work specs\n/,
      },
      {
        run: "explain huge",
        out: /\n {4}a: it needs 64 GB; 4 GB are available\n {4}b: .*\n {2}Start a worker with more memory, or remove the requirement with coordinate set huge min_gb=0\.\n/,
      },
      {
        run: "explain node",
        out: /\n {2}a can take it; not:\n {4}b: it is not one of the requested work specs\n/,
      },
      {
        run: "doctor",
        code: 1,
        out: /^wrong +workers +work is waiting and no active worker can take it: 1 unit of go, .*\n +coordinate explain go shows why\.\n/,
      },
      {
        run: `rpc updateWorkers '[{"name":"py","active":true,"mode":"RUN","data":{"memory":[8589934592,4294967296,50.0],"hostname":"h"}}]'`,
        out: /"py"/,
      },
      { run: "explain python", out: /\n {4}py: it needs 5 GB; 4 GB are available\n/ },
      { run: "set python min_gb=0", out: "min_gb=0\n" },
      { run: "explain python", out: /\n {2}py can take it; but not:\n/ },
      {
        run: "mode idle --worker py",
        out: "set mode to 'idle' for py\n",
        err: /^It takes no more work after its current units/,
      },
      { run: "explain python", out: /\n {4}py: told to idle\n/ },
      {
        run: `rpc setWorkSpecs '[{"data":{"name":"new","runtime":"node","requires":["version>=2"]}}]'`,
        out: /"version>=2"/,
      },
      { run: `rpc addWorkUnits new '[{"name":"u"}]'`, out: /"created": true/ },
      {
        run: "explain new",
        out: /\n {4}a: it requires version>=2; the worker has no label version\n[\s\S]*No worker has the required labels/,
      },
      {
        run: "explain new --labels gpu,version=1.9",
        out: /It requires version>=2; the worker has version=1\.9\./,
      },
      {
        run: "explain python --json",
        out: /"workers": \{\s+"able": \[\],\s+"unable": \[/,
      },
    ],
  },
  {
    name: "workers and modes",
    ways: ["rest", "store"],
    lines: [
      { run: `rpc setWorkSpecs '[{"data":{"name":"s"}}]'`, out: /"name": "s"/ },
      { run: `rpc addWorkUnits s '[{"name":"u"}]'`, out: /"created": true/ },
      { run: "workers", out: "", err: /No worker is active/ },
      { run: "explain", out: /^Work is waiting and no worker is active: 1 unit of s\.\n/ },
      { run: "doctor", out: /^note +workers +work is waiting and no worker is active: 1 unit of s\n/ },
      {
        run: `rpc updateWorkers '[{"name":"boss","active":true,"mode":"run","data":{"host":"h1","pid":7}},{"name":"kid-1","parent":"boss","active":true,"mode":"run"},{"name":"kid-2","parent":"boss","active":true,"mode":"idle"},{"name":"old","active":false}]'`,
        out: /"boss"/,
      },
      { run: "workers", out: /^Worker +Mode.*\nboss +run .*\n├─ kid-1 .*\n└─ kid-2 +idle/ },
      { run: "workers --all", out: /old +gone/ },
      { run: "workers --details", out: /^boss \(run\)\n {2}host: h1\n {2}pid: 7\nkid-1 \(run\)\n/ },
      { run: "worker boss", out: /Children: +kid-1, kid-2\n[\s\S]*host: h1\n[\s\S]*No attempts yet/ },
      {
        run: "worker kid-1 --json",
        json: expect.objectContaining({ name: "kid-1", parent: "boss", children: [] }),
      },
      { run: "worker_stats", json: { num_workers: 3, num_children: 2, num_expirable: 3 } },
      { run: "mode", out: "RUN\n", err: /3 active workers: 2 run, 1 idle/ },
      {
        run: "mode terminate",
        out: "set mode to 'terminate'\n",
        err: /^All workers of the namespace exit when they have finished their current units\. This also applies to workers that start later, until coordinate mode run\.\n$/,
      },
      { run: "mode idle", out: "set mode to 'idle'\n" },
      { run: "mode --json", json: { mode: "idle", workers: { run: 2, idle: 1 } } },
      {
        run: "explain",
        out: /All workers of this namespace were told to idle; start them again with coordinate mode run/,
      },
      { run: "doctor", out: /note +workers +all workers were told to idle/ },
      { run: "mode run", out: "set mode to 'run'\n" },
      {
        run: "mode terminate --worker kid-1 --worker kid-2",
        out: "set mode to 'terminate' for kid-1, kid-2\n",
      },
      { run: "mode --worker kid-1", out: "kid-1: desired terminate, reports run\n" },
      { run: "explain", out: /1 worker is active, with 2 slots; 2 of them were told not to run/ },
      { run: "mode default --worker kid-1", out: "set mode to 'default' for kid-1\n" },
      { run: "mode --worker kid-1 --json", json: [{ name: "kid-1", mode: "run", desired: "run" }] },
    ],
  },
  {
    name: "a breaker, and a schedule that is over",
    ways: ["rest"],
    lines: [
      {
        run: `rpc setWorkSpecs '[{"data":{"name":"calls","breaker":{"failures":1,"min":1}}},{"data":{"name":"past","schedule":{"at":["2001-01-01T00:00:00Z"],"catch_up":"skip"}}}]'`,
        out: /"calls"/,
      },
      { run: `rpc addWorkUnits calls '[{"name":"a"},{"name":"b"}]'`, out: /"a"/ },
      { run: `rpc requestAttempts '{"worker":"w1","workSpecs":["calls"]}'`, out: /"a"/ },
      { run: `rpc settleAttempts '[{"attempt":"ATTEMPT-a","action":"fail"}]'`, out: /"changed": true/ },
      { run: "resume calls", out: "resumed calls\n" },
      { run: "resume calls", out: "resumed calls (no change)\n" },
      { run: "explain past", out: /no available work units, and its schedule has no more runs/ },
    ],
  },
  {
    name: "locks",
    ways: ["rest", "cbor", "store"],
    lines: [
      { run: "lock show nightly/import", out: "nightly/import: (unlocked)\n" },
      { run: "lock take nightly/import --owner me --for 5m", out: "nightly/import: taken by me for 5 min\n" },
      {
        run: "lock take nightly --owner you",
        code: 1,
        err: /nightly: cannot take: a path above or below it is locked; nothing was changed/,
      },
      { run: "lock renew nightly --owner you", code: 1, err: /nightly: cannot renew: it is not locked;/ },
      {
        run: "lock take nightly/import --owner you --json",
        code: 1,
        json: { done: false, refused: { path: ["nightly", "import"], owner: "me" } },
        err: /me holds it/,
      },
      {
        run: `lock show '["nightly","import"]' other --json`,
        json: [
          { path: ["nightly", "import"], owner: "me" },
          { path: ["other"], owner: null },
        ],
      },
      { run: "lock renew nightly/import --owner me", out: /me holds it for another 1 min/ },
      { run: "lock release nightly/import --owner me", out: "nightly/import: released\n" },
      { run: "lock take a b --owner me", out: /a, b: taken/ },
      { run: "lock show", out: /^Path +Owner +Ends\na +me +in \d+ s\nb +me +in \d+ s\n$/ },
      {
        run: "lock show --json",
        json: ["a", "b"].map((path) => ({
          path: [path],
          owner: "me",
          deadline: expect.any(Number) as number,
        })),
      },
      { run: "lock clear", code: 2, err: /lock clear: expected a path/ },
      { run: "lock clear a", out: "a: cleared\n" },
      { run: "lock show a b", out: "a: (unlocked)\nb: me\n" },
    ],
  },
  {
    name: "deleting",
    ways: ["rest", "store"],
    lines: [
      ...setUp,
      {
        run: "delete index",
        input: "no\n",
        code: 2,
        out: "not deleting anything\n",
        err: /This deletes index with 2 work units/,
      },
      { run: "delete index", code: 1, out: "not deleting anything\n" },
      { run: "delete index", input: "index\n", out: "deleted index with 2 work units\n" },
      { run: "delete tick nope -y", code: 1, err: /No such work spec nope; nothing was deleted/ },
      { run: "delete tick -y --json", json: { workSpecs: 1, workUnits: 0 } },
      {
        run: "delete",
        input: "yes\n",
        code: 2,
        out: "not deleting anything\n",
        err: /namespace NAMESPACE with 1 work spec and 6 work units/,
      },
      { run: "delete", input: "NAMESPACE\n", out: /^deleting all: 1 work specs?, 6 work units\n$/ },
      { run: "summary", out: "", err: /^Nothing to show: namespace \S+ has no work specs/ },
      { run: "delete --yes", out: /^deleting all: 0/ },
    ],
  },
  {
    name: "pruning, measuring, calling verbs",
    ways: ["rest", "store"],
    lines: [
      ...setUp,
      { run: "prune --older-than 1d", out: /^Removed 0 work units\.\n/ },
      { run: "prune --older-than 0s --dry-run", out: /^crawl: 1 work unit\nWould remove 1 work unit\.\n/ },
      { run: "prune crawl --older-than 0s -s finished,failed --json", out: /"crawl": 2/ },
      { run: "status crawl", json: counts(1, 1, 1, 0, 0, 1) },
      {
        run: "bench --units 50 --work 30 --batch 7 --json",
        out: /^\{"units":50,.*"add_per_s":\d+,"work":30,.*"work_per_s":\d+.*\}\n$/,
        err: /^$/,
      },
      {
        run: "bench add --units 20 --spec load",
        out: /\{"units":20,.*"add_per_s":\d+/,
        err: /adding 20 units to load/,
      },
      { run: "bench --spec load", code: 1, err: /load exists/ },
      { run: "bench do --spec load --batch 3", out: /"work":20,/ },
      { run: "bench clear --spec load", out: '{"cleared":true}\n' },
      { run: "work_specs", out: "crawl\nindex\ntick\n" },
      { run: "rpc list_work_units crawl '{\"limit\":1}'", out: /"next": "c"/ },
      { run: "rpc tally", out: /"workSpec": "crawl"/ },
      { run: "rpc get-work-specs '[\"nope\"]'", json: [null] },
      { run: "rpc list-namespaces", out: /"policy": "weighted"/ },
      { run: "rpc listWorkUnits nope", code: 1, err: /No such work spec nope/ },
      { run: 'rpc addWorkUnits crawl \'[{"name":"x","data":[1]}]\'', code: 2, err: /Bad data/ },
    ],
  },
];

const environment = { HOME: "/nonexistent", TZ: "UTC" };
const here = (words: string, input: string): Promise<Ran> => run(splitWords(words), environment, input);
const asProcess = (words: string, input: string): Promise<Ran> => coordinate(words, { input });

/** Stories that run as processes: they test the exit code, complete output at exit, and standard input. */
const processes = new Set(["locks", "deleting"]);

const cases = stories.flatMap((story) => story.ways.map((way) => ({ ...story, way })));

describe("stories", { concurrent: true }, () => {
  test.each(cases)("$name, by $way", { timeout: 480_000 }, async ({ name, way, lines }) => {
    const ns = `${name} by ${way}`;
    const where: Record<Way, string[]> = {
      rest: ["--address", http],
      cbor: ["--address", rpc],
      // the `bench` command below creates the file
      store: ["--backend", `sqlite:${path.join(place, `${name}.sqlite`)}`],
    };
    const command = processes.has(name) ? asProcess : here;
    if (way === "store") await coordinate(["bench", ...where.store, "--units", "1"]);
    // attempt ids contain the unit's number, which counts across all namespaces of a store
    const attempts = new Map<string, string>();
    for (const line of lines) {
      if (line.once === true && way !== "rest") continue;
      const words = line.run
        .replaceAll("PLACE", place)
        .replace(/ATTEMPT-(\w+)/g, (_word, unit: string) => attempts.get(unit) ?? "none");
      const { code, out, err } = await command(
        `--namespace '${ns}' ${where[way].map((word) => `'${word}'`).join(" ")} ${words}`,
        line.input?.replaceAll("NAMESPACE", ns) ?? "",
      );
      const what = `${words}\n${err}`;
      expect(code, what).toBe(line.code ?? 0);
      if (line.json !== undefined) expect(JSON.parse(out), what).toEqual(line.json);
      if (line.out instanceof RegExp) expect(out, what).toMatch(line.out);
      else if (line.out !== undefined) expect(out, what).toBe(line.out);
      if (line.err !== undefined) expect(err.replaceAll(`"${ns}"`, "NAMESPACE"), what).toMatch(line.err);
      if (words.startsWith("rpc requestAttempts"))
        for (const { id, workUnit } of JSON.parse(out) as { id: string; workUnit: string }[])
          attempts.set(workUnit, id);
    }
  });
});
