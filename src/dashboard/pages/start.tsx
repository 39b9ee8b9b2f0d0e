/** An empty namespace: what to do next, with commands to copy. The page watches the namespace and ticks off each step. */
import { useState, type ReactNode } from "react";
import { client, sayError } from "../data/connection.ts";
import { encodeData } from "../../core/index.ts";
import { commandLine, nsTitle, shellWord } from "../format.ts";
import { useHere } from "../here.ts";
import { Icon } from "../parts/icon.tsx";
import { Command, Link, Trouble } from "../parts/text.tsx";
import { go } from "../route.ts";

export function Start({ ns }: { ns: string }): ReactNode {
  const { look, session, may, changed } = useHere();
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const act = async (work: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (failed) {
      setError(sayError(failed));
    }
    setBusy(false);
    changed("specs", "counts", "namespaces");
  };
  const makeSpec = (): Promise<void> =>
    act(async () => {
      await client.setWorkSpecs(ns, [{ data: encodeData({ name: "hello", desc: "A first work spec." }) }]);
    });
  const spec = look.specs?.[0]?.name ?? "hello";
  const done = [true, (look.specs?.length ?? 0) > 0, look.units > 0, (look.workers ?? 0) > 0];
  const now = done.indexOf(false);
  const store = {
    memory: "It keeps its data in memory. The data is lost when the daemon stops.",
    sqlite: "It keeps its data in an SQLite file. No database server is needed.",
    postgres: "It keeps its data in PostgreSQL. Other daemons can share the database.",
  }[session.store];
  const steps = [
    { title: "The daemon is running", text: store ?? "", commands: [] },
    {
      title: "Define the work",
      text: "A work spec describes one kind of job. A flow file defines one or more.",
      commands: [
        "echo 'flows: { hello: { max_retries: 3 } }' > flow.yaml",
        commandLine(ns, "flow", "flow.yaml"),
      ],
    },
    {
      title: "Add work",
      text: "Units are the jobs themselves: one line each, in a file or a pipe, up to millions of them.",
      commands: [`seq 100 | ${commandLine(ns, "addwork", spec, "-u", "-")}`],
    },
    {
      title: "Run it",
      text: "A worker claims units, runs the task of their work spec and reports the results. Start as many as you need.",
      commands: [
        `echo ${shellWord(`export default { ${JSON.stringify(spec)}: ({ name }) => ({ said: name }) };`)} > tasks.mjs`,
        commandLine(ns, "worker", "--tasks", "./tasks.mjs"),
      ],
    },
  ];
  const waitsFor = ["", "the first work spec", "the first unit", "the first worker"][now] ?? "";
  return (
    <div className="start">
      <div className="hd">
        <h1>{nsTitle(ns)} is empty</h1>
        <p>Four steps to a first result. This page checks off each step when it is done.</p>
      </div>
      <section className="card">
        <ol>
          {steps.map(({ title, text, commands }, i) => (
            <li key={title} className={done[i] === true ? "done" : i === now ? "now" : "later"}>
              <span className="no">{done[i] === true ? <Icon name="tick" label="done" /> : i + 1}</span>
              <div>
                <h2>{title}</h2>
                <p>{text}</p>
                {done[i] !== true &&
                  commands.map((command) => <Command key={command} text={command} later={i !== now} />)}
                {i === 1 && now === 1 && may("write") && (
                  <p className="or">
                    or{" "}
                    <button type="button" className="plain l" disabled={busy} onClick={() => void makeSpec()}>
                      create one here, named hello
                    </button>
                  </p>
                )}
                {i === 2 && done[1] === true && done[2] !== true && (
                  <p className="or">
                    or{" "}
                    <Link to={{ ns, page: "units", spec, filters: { add: "1" } }} className="l">
                      paste or drop them here
                    </Link>
                  </p>
                )}
              </div>
            </li>
          ))}
        </ol>
        <footer>
          <span className="pulse" />
          <span>
            Waiting for {waitsFor} in <b>{nsTitle(ns)}</b>
          </span>
          <span className="grow" />
          <span>
            <span className="dim">Stuck?</span> <code>coordinate doctor</code>
          </span>
        </footer>
      </section>
      {error !== null && <Trouble text={error} />}
      {session.everywhere.includes("write") && (
        <p className="alt">
          Or look around first:{" "}
          <button type="button" className="btn s" disabled={busy} onClick={() => void act(fillDemo)}>
            Fill a namespace “demo” with a pipeline of 4 work specs and 2,000 units
          </button>
        </p>
      )}
    </div>
  );
}

/** A chain of work specs to watch, for a worker without tasks of its own; nothing runs until a worker is started. */
async function fillDemo(): Promise<void> {
  const chain = ["fetch", "parse", "index", "report"];
  await client.setWorkSpecs(
    "demo",
    chain.map((name, i) => ({
      data: encodeData({
        name,
        weight: 20 + i * 10,
        ...(chain[i + 1] !== undefined && { then: chain[i + 1] }),
      }),
    })),
  );
  const units = Array.from({ length: 2000 }, (_, i) => ({
    name: `https://example.org/page/${String(i).padStart(6, "0")}`,
    data: encodeData({ depth: i % 7 }),
    labels: [i % 3 === 0 ? "eu" : "us"],
  }));
  await client.addWorkUnits("demo", "fetch", units);
  go({ ns: "demo", page: "home" });
}
