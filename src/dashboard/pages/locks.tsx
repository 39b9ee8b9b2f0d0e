/** Locks: who holds which path, and until when; and an action to release abandoned locks. */
import { useState, type SyntheticEvent, type ReactNode } from "react";
import { sayError } from "../data/connection.ts";
import { clearLocks, useLocks } from "../data/queues.ts";
import { commandLine, count, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { Ago, Command, Link, Name, Trouble } from "../parts/text.tsx";
import { go } from "../route.ts";
import { Table } from "../parts/table.tsx";
import "./units.css";

const readPath = (text: string): string[] => text.split("/").filter((label) => label !== "");

export default function Locks(): ReactNode {
  const { ns, route, may } = useHere();
  const wanted = route.filters?.path ?? "";
  const path = readPath(wanted);
  const [typed, setTyped] = useState({ over: wanted, text: wanted });
  // Back and links change the URL: the text field follows it
  const text = typed.over === wanted ? typed.text : wanted;
  const [asked, setAsked] = useState(false);
  const locks = useLocks(ns, path);
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    setTyped({ over: text, text });
    go({ ns, page: "locks", filters: { path: text } });
  };
  const { above, rows, more } = locks.data ?? { above: [], rows: [], more: false };
  return (
    <>
      <h1 className="sr">Locks</h1>
      <form className="qbar" role="search" onSubmit={submit}>
        <div className="qbox">
          <Icon name="search" />
          <input
            data-search
            className="mono"
            aria-label="Path of a lock"
            placeholder="Path of a lock, such as shard/3"
            value={text}
            spellCheck={false}
            onChange={(event) => setTyped({ over: wanted, text: event.target.value })}
          />
          <kbd>/</kbd>
        </div>
        <button type="submit" className="btn">
          Look up
        </button>
      </form>
      {locks.error !== null && <Trouble text={sayError(locks.error)} />}
      {locks.data === undefined ? null : path.length === 0 && rows.length === 0 ? (
        <section className="card blank">
          <p>
            Nothing is locked. A lock covers a path in a tree. Its owner holds it until a deadline. A path
            cannot be locked while a path above or below it is locked. Take a lock for ten minutes:
          </p>
          <Command text={commandLine(ns, "lock", "take", "shard/3", "--for", "10m")} />
        </section>
      ) : (
        <section className="card" aria-label="Locks">
          <header>
            <h2>{path.length === 0 ? "Locks" : <Name text={path.join(" / ")} max={80} />}</h2>
            <span className="count quiet">{count(above.length + rows.length)}</span>
            <span className="grow" />
            {more && <span className="dim">the first thousand by path</span>}
            {path.length > 0 && may("write") && (
              <button type="button" className="btn s d" onClick={() => setAsked(true)}>
                Release it and all below…
              </button>
            )}
          </header>
          <Table heads={["Path", "Held by", { text: "Until", className: "r" }]}>
            {[...above, ...rows].map((lock) => (
              <Row key={JSON.stringify(lock.path)} ns={ns} {...lock} />
            ))}
          </Table>
          {above.length + rows.length === 0 && <p className="blank">Not locked.</p>}
        </section>
      )}
      {asked && (
        <Confirm
          title={`Release ${visible(path.join("/")).slice(0, 60)} and all below`}
          danger
          facts={[
            { term: "Affects", text: "All locks at this path and below it, of any owner." },
            { term: "Warning", text: "An owner that is still running notices only when it renews its lock." },
            { term: "Undo", text: "Not possible. Owners must acquire their locks again." },
          ]}
          run={async () => {
            await clearLocks(ns, path);
            await locks.refetch();
          }}
          onClose={() => setAsked(false)}
        />
      )}
    </>
  );
}

/** A lock; of one above the path, only the owner is known. */
function Row(props: { ns: string; path: readonly string[]; owner: string; deadline?: number }): ReactNode {
  const { ns, path, owner, deadline } = props;
  return (
    <tr data-row tabIndex={-1}>
      <td className="mono">
        <Link to={{ ns, page: "locks", filters: { path: path.join("/") } }} className="l">
          <Name text={path.join(" / ")} max={80} />
        </Link>
      </td>
      <td>
        <b>
          <Name text={owner} max={60} />
        </b>
      </td>
      <td className="r mid">{deadline !== undefined && <Ago time={deadline} />}</td>
    </tr>
  );
}
