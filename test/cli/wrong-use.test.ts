/** Wrong usage: the command prints one line that says what was wrong, exits with 2, and prints no stack trace. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { splitWords } from "../../src/cli/shell.ts";
import { executable } from "../daemon/built.ts";
import { run } from "./in-process.ts";
import { coordinate } from "./run.ts";

const place = mkdtempSync(path.join(tmpdir(), "coordinate-cli-"));
const file = (name: string): string => path.join(place, name);

beforeAll(() => {
  executable("coordinate");
  writeFileSync(file("nameless.yaml"), "weight: 3\n");
  writeFileSync(file("broken.yaml"), "name: [unclosed\n");
  writeFileSync(file("list.yaml"), "- 1\n");
  writeFileSync(file("bad-config.yaml"), "coordinate:\n  address: 5\n");
}, 240_000);
afterAll(() => rmSync(place, { recursive: true, force: true }));

/** The command line, the exit code and the error output. `memory:` is a store that every command can open. */
const wrong: readonly [words: string, code: number, said: RegExp][] = [
  ["", 2, /Usage: coordinate/],
  ["sumary", 2, /no such command sumary; did you mean summary\?/],
  ["sumary a b --backend memory:", 2, /no such command sumary; did you mean summary\?/],
  ["sumary a -n 2", 2, /no such command sumary; did you mean summary\?/],
  ["sumary --help", 2, /no such command sumary; did you mean summary\?/],
  ["juggle", 2, /no such command juggle\n/],
  ["--colour summary", 2, /unknown option '--colour'/],
  ["summary --colour", 2, /unknown option '--colour'/],
  ["summary --jsn", 2, /did you mean --json/i],
  ["summary extra", 2, /too many arguments/],
  ["summary --watch soon --backend memory:", 2, /--watch: expected a time/],
  ["summary --times 0 --backend memory:", 2, /--times: expected a whole number of 1 or more/],
  ["summary --namespace", 2, /argument missing/],
  ["summary --address ftp://x", 2, /--address ftp:\/\/x: expected http:/],
  ["summary --address x", 2, /--address x: expected/],
  ["summary --address http://localhost:1 --backend memory:", 2, /use only one of them/],
  ["summary --backend ''", 2, /--backend: empty/],
  ["summary --backend floppy:a", 1, /floppy:…: unknown store; expected one of memory:/],
  ["summary --backend sqlite:PLACE/none.sqlite", 1, /no store at .*none\.sqlite; a daemon creates one/],
  ["summary --backend sqlite:PLACE/list.yaml", 1, /list\.yaml/],
  ["summary --config PLACE/none.yaml", 1, /none\.yaml/],
  ["summary --config PLACE/broken.yaml", 1, /broken\.yaml/],
  ["summary --config PLACE/list.yaml", 1, /expected a mapping of settings/],
  ["summary --config PLACE/bad-config.yaml", 1, /address: expected text/],
  ["summary --token @PLACE/none --address http://127.0.0.1:1", 1, /--token/],
  ["status --backend memory:", 2, /no work spec given/],
  ["status a b --backend memory:", 2, /too many arguments/],
  ["status a -W b --backend memory:", 2, /expected one work spec; unexpected argument/],
  ["status -W a -w b --backend memory:", 2, /use only one of them/],
  ["status -w PLACE/none.yaml --backend memory:", 2, /no such file/],
  ["status -w PLACE/nameless.yaml --backend memory:", 1, /the file has no name of a work spec/],
  ["status -w PLACE/broken.yaml --backend memory:", 1, /broken\.yaml/],
  ["status nope --backend memory:", 1, /No such work spec nope; namespace \(default\) has no work specs/],
  ["work_spec --backend memory:", 2, /no work spec given/],
  ["work_spec nope --backend memory:", 1, /No such work spec nope/],
  ["work_specs extra --backend memory:", 2, /too many arguments/],
  ["work_units --backend memory:", 2, /no work spec given/],
  ["work_units x -s done --backend memory:", 2, /--status: expected one of available, delayed/],
  ["work_units x -n many --backend memory:", 2, /--limit: expected a whole number/],
  ["work_units x -n 3 --all --backend memory:", 2, /use only one of them/],
  ["work_units 'a\\q' -e --backend memory:", 2, /\\\\q is not a valid escape/],
  ["work_unit --backend memory:", 2, /no work spec given/],
  ["work_unit x --backend memory:", 2, /expected the name of a work unit/],
  ["work_unit x y --backend memory:", 1, /No such work spec x/],
  ["retry --backend memory:", 2, /no work spec given/],
  ["retry x --backend memory:", 2, /no units given/],
  ["retry x y --all --backend memory:", 2, /use only one of them/],
  ["retry -W - --backend memory:", 2, /-W - needs --all/],
  ["retry nope --all --backend memory:", 1, /No such work spec nope/],
  ["clear --backend memory:", 2, /no work spec given/],
  ["clear nope --backend memory:", 1, /No such work spec nope/],
  ["clear nope -s dead --backend memory:", 2, /--status: expected one of/],
  ["delete nope -y --backend memory:", 1, /No such work spec nope; nothing was deleted/],
  ["pause --backend memory:", 2, /expected names of work specs, or --all/],
  ["pause a --all --backend memory:", 2, /expected names of work specs, or --all/],
  ["pause nope --backend memory:", 1, /No such work spec nope/],
  ["resume --backend memory:", 2, /expected names of work specs, or --all/],
  ["resume nope --backend memory:", 1, /No such work spec nope/],
  ["prioritize x --backend memory:", 2, /no units given/],
  ["prioritize x y --priority high --backend memory:", 2, /--priority: expected a number/],
  ["prioritize x y --priority 1 --adjust 2 --backend memory:", 2, /use only one of them/],
  ["prioritize x y --all --backend memory:", 2, /use only one of them/],
  ["prioritize nope y --backend memory:", 1, /No such work spec nope/],
  ["set --backend memory:", 2, /missing required argument/],
  ["set nope --backend memory:", 1, /No such work spec nope/],
  ["set x weight --backend memory:", 2, /expected KEY=VALUE/],
  ["set x wait=1 --backend memory:", 2, /wait is not a setting; expected one of priority/],
  ["set x wieght=1 --backend memory:", 2, /did you mean weight\?/],
  ["set x weight=heavy --backend memory:", 2, /weight: expected a number/],
  ["set x max_running=-1 --backend memory:", 2, /max_running: expected a whole number/],
  ["set x paused=maybe --backend memory:", 2, /paused: expected true or false/],
  ["set x interval=often --backend memory:", 2, /interval: expected a time/],
  ["set x min_gb=-1 --backend memory:", 2, /min_gb: expected 0 or more/],
  ["set x next_continuous=someday --backend memory:", 2, /expected now or a date/],
  ["explain nope --backend memory:", 1, /No such work spec nope/],
  ["explain --gb lots --backend memory:", 2, /--gb: expected a number/],
  ["workers -n 0 --backend memory:", 2, /--limit: expected a whole number of 1/],
  ["worker nobody --backend memory:", 1, /No such worker nobody; coordinate workers --all lists them/],
  ["mode sleep --backend memory:", 2, /expected run, idle, terminate, got sleep/],
  ["mode default --backend memory:", 2, /expected run, idle, terminate/],
  ["mode --worker nobody --backend memory:", 1, /No such worker nobody/],
  ["tail -n 0 --backend memory:", 2, /--count: expected a whole number of 1/],
  ["tail --for ever --backend memory:", 2, /--for: expected a time/],
  ["top --backend memory:", 2, /top needs a terminal/],
  [
    "lock --backend memory:",
    2,
    /^coordinate lock: missing required argument.*\nSee coordinate lock --help\.\n$/,
  ],
  ["lock take --backend memory:", 2, /lock take: expected a path/],
  ["lock pick a --backend memory:", 2, /expected one of show, take, renew, release, clear, got pick/],
  ["lock pick --backend memory:", 2, /expected one of show, take, renew, release, clear, got pick/],
  ["lock take a --for 0s --backend memory:", 2, /--for: expected more than 0/],
  ["tail --type attemps --backend memory:", 2, /--type: expected one of workSpecs, .* got attemps/],
  ["schedules --next 0 --backend memory:", 2, /--next: expected a whole number of 1 or more/],
  ["help sumary", 2, /no such command sumary; did you mean summary\?/],
  ["lock take [1] --backend memory:", 2, /expected a JSON list of labels/],
  ["lock take a --for long --backend memory:", 2, /--for: expected a time/],
  ["lock release a --owner me --backend memory:", 1, /cannot release/],
  ["backup --backend memory:", 2, /missing required argument/],
  ["backup PLACE/copy --backend memory:", 1, /backup copies SQLite stores/],
  [
    "prune --status pending --older-than 1d --backend memory:",
    2,
    /--status: expected finished or failed, got pending/,
  ],
  ["prune --older-than ever --backend memory:", 2, /--older-than: expected a time/],
  ["prune nope --older-than 1d --backend memory:", 1, /No such work spec nope/],
  ["bench fly --backend memory:", 2, /expected add, do, clear/],
  ["bench --units none --backend memory:", 2, /--units: expected a whole number/],
  ["bench --batch 0 --backend memory:", 2, /--batch: expected a whole number of 1/],
  ["bench do --backend memory:", 1, /bench does not exist/],
  ["bench clear --backend memory:", 2, /^$/],
  ["rpc fly --backend memory:", 2, /no such verb fly/],
  ["rpc getWorkSpec --backend memory:", 2, /did you mean getWorkSpecs\?/],
  ["policy best --backend memory:", 2, /expected weighted or python, got best/],
  ["policy --share tme --backend memory:", 2, /expected choices or time, got tme.*did you mean time\?/],
  ["policy weigted --backend memory:", 2, /did you mean weighted\?/],
  ["rpc getWorkSpecs --backend memory:", 2, /expected getWorkSpecs WORKSPECS/],
  ["rpc getWorkSpecs '[1' --backend memory:", 2, /\[1: /],
  ["rpc getWorkSpecs 5 --backend memory:", 1, /Bad argument/],
  ["rpc tally 5 6 --backend memory:", 2, /expected tally/],
  ["job wait --backend memory:", 2, /job wait: expected the id or name of a job/],
  ["completion csh", 2, /expected bash, zsh or fish, got csh/],
  ["completion", 2, /missing required argument/],
  ["token dance --data-dir PLACE", 2, /expected create, list or revoke/],
  ["token revoke 1 --data-dir PLACE", 1, /no such token 1/],
  ["serve --colour", 78, /no such option/],
  ["serve --http nowhere --backend memory: --data-dir PLACE", 78, /expected HOST:PORT/],
  [
    "summary --address http://127.0.0.1:1",
    1,
    /ECONNREFUSED.*; is a daemon running at http:\/\/127\.0\.0\.1:1\?/,
  ],
  ["summary --address cborrpc://127.0.0.1:1", 1, /ECONNREFUSED.*; is a daemon running/],
  ["summary --address unix:PLACE/none.sock", 1, /ENOENT.*; is a daemon running/],
  ["doctor --address http://127.0.0.1:1", 1, /^$/],
];

describe("wrong use", { concurrent: true }, () => {
  test.each(wrong)("coordinate %s -> %i", { timeout: 120_000 }, async (words, code, said) => {
    const line = words.replaceAll("PLACE", place);
    // `serve` needs a separate process; the other commands take less time than starting a process
    const isDaemon = line.startsWith("serve");
    const ran = await (isDaemon ? coordinate(line) : run(splitWords(line), { HOME: "/nonexistent" }));
    expect(ran.err).toMatch(said);
    expect(ran.code).toBe(code);
    expect(ran.err).not.toMatch(/^ +at .*:\d+/m);
    // programs read standard output: a failed command prints nothing there, except doctor and bench, which report the failure
    if (code !== 0 && !/^(doctor|bench clear)/.test(words)) expect(ran.out).toBe("");
  });
});

describe("asking for help", { concurrent: true }, () => {
  test.each([
    ["--help", /Work:[\s\S]*Inspect:[\s\S]*Workers:[\s\S]*Administration:[\s\S]*Options:[\s\S]*Examples:/],
    ["help", /Inspect:/],
    ["help --help", /Inspect:/],
    ["help work_units", /Usage: coordinate work_units \[options\]/],
    ["work-units --help", /-s, --status <status>/],
    // each short option has one meaning
    ["flow --help", /-c, --embed-config <file>[\s\S]*\n {2}--config <file>/],
    ["summary -h", /Global options:/],
    ["serve --help", /coordinated: serves work units/],
    ["--version", /^\d+\.\d+\.\d+\n$/],
    ["completion bash", /complete -o default -F _coordinate coordinate/],
    ["completion zsh", /#compdef coordinate/],
    ["completion fish", /complete -c coordinate/],
    ["complete_words -- su", /^summary\n$/],
    ["complete_words -- rpc listWorkS", /^listWorkSpecs\n$/],
    ["complete_words -- work_", /^work_spec\nwork_specs\nwork_unit\nwork_units\n$/],
    ["complete_words -- work_units x -s f", /^failed\nfinished\n$/],
    ["complete_words -- work_units --pre", /^--prefix\n$/],
    ["complete_words -- mode ''", /^idle\nrun\nterminate\n$/],
    ["rpc", /listWorkUnits WORKSPEC \[\{…\}\] +read/],
  ])("coordinate %s", { timeout: 120_000 }, async (words, printed) => {
    const ran = await coordinate(words);
    expect(ran.err).toBe("");
    expect(ran.out).toMatch(printed);
    expect(ran.code).toBe(0);
  });

  test("the examples fit a window of 80 columns", async () => {
    const { out } = await coordinate("--help");
    // the path of the documentation is as long as that of the installation
    const [, examples = ""] = /Examples:(.*)Documentation:/s.exec(out) ?? [];
    expect(examples).toContain("coordinate ");
    for (const line of examples.split("\n")) expect(line.length, line).toBeLessThanOrEqual(80);
  });

  test("-v tells where it happened", async () => {
    const { err, code } = await coordinate("summary --address http://127.0.0.1:1 -v");
    expect(err).toMatch(/^ +at .*:\d+/m);
    expect(code).toBe(1);
  });
});
