/** Locks: shows the holder of a path that the user enters, and can release abandoned locks. */
import { useState, type SyntheticEvent, type ReactNode } from "react";
import { sayError } from "../data/connection.ts";
import { clearLocks, useLocks } from "../data/queues.ts";
import { visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Icon } from "../parts/icon.tsx";
import { Command, Name, Trouble } from "../parts/text.tsx";
import { go } from "../route.ts";
import { Heads } from "../parts/table.tsx";
import "./units.css";

const readPath = (text: string): string[] => text.split("/").filter((label) => label !== "");

export default function Locks(): ReactNode {
  const { ns, route, may } = useHere();
  const wanted = route.filters?.path ?? "";
  const path = readPath(wanted);
  const [text, setText] = useState(wanted);
  const [asked, setAsked] = useState(false);
  const locks = useLocks(ns, path);
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    go({ ns, page: "locks", filters: { path: text } });
  };
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
            onChange={(event) => setText(event.target.value)}
          />
          <kbd>/</kbd>
        </div>
        <button type="submit" className="btn">
          Look up
        </button>
      </form>
      {locks.error !== null && <Trouble text={sayError(locks.error)} />}
      {path.length === 0 ? (
        <section className="card blank">
          <p>
            A lock covers a path in a tree. Its owner holds it until a deadline. A path cannot be locked while
            a path above or below it is locked. Look up a path, or run a command under a lock:
          </p>
          <Command text="coordinate lock shard/3 -- ./nightly.sh" />
        </section>
      ) : (
        <section className="card" aria-label="Holders">
          <header>
            <h2>
              <Name text={path.join(" / ")} max={80} />
            </h2>
            <span className="grow" />
            {may("write") && (
              <button type="button" className="btn s d" onClick={() => setAsked(true)}>
                Release it and all below…
              </button>
            )}
          </header>
          <table>
            <Heads of={["Path", "Held by"]} />
            <tbody>
              {(locks.data ?? []).map((lock) => (
                <tr key={lock.path.join("/")} data-row tabIndex={-1}>
                  <td className="mono">
                    <Name text={lock.path.join(" / ")} max={80} />
                  </td>
                  <td>
                    {lock.owner === null ? (
                      <span className="z">not locked</span>
                    ) : (
                      <b>
                        <Name text={lock.owner} max={60} />
                      </b>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
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
