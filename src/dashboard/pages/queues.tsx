/** Queues of outcomes: how many messages each has, since when, and an action to clear one. */
import { useState, type ReactNode } from "react";
import { nameToUrl } from "../../rest/client.ts";
import { sayError } from "../data/connection.ts";
import { clearQueue, useQueues } from "../data/queues.ts";
import { count, plural, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Ago, Command, Name, Trouble } from "../parts/text.tsx";
import type { QueueRow } from "../../core/index.ts";
import { Table } from "../parts/table.tsx";

export default function Queues(): ReactNode {
  const { ns, may, changed } = useHere();
  const queues = useQueues(ns);
  const [asked, setAsked] = useState<QueueRow | null>(null);
  if (queues.error !== null && queues.data === undefined) return <Trouble text={sayError(queues.error)} />;
  if (queues.data === undefined) return null;
  const { rows, more } = queues.data;
  if (rows.length === 0)
    return (
      <section className="card blank">
        <h1>No queue has messages</h1>
        <p>
          When a unit that names a queue ends, the queue gets a message. A queue exists while it has messages.
        </p>
        <Command
          text={`curl -d '{"workSpec":"hello","units":[{"name":"a","queues":["done"]}]}' -H 'content-type: application/json' ${location.origin}/v1/namespace/${nameToUrl(ns)}/add-work-units`}
        />
      </section>
    );
  return (
    <>
      <h1 className="sr">Queues</h1>
      <section className="card" aria-label="Queues">
        <header>
          <h2>Queues</h2>
          <span className="count quiet">{count(rows.length)}</span>
          <span className="grow" />
          <span className="dim">{more ? "the first thousand by name" : "only queues with messages"}</span>
        </header>
        <Table
          heads={[
            "Queue",
            { text: "Messages", className: "r" },
            { text: "Oldest", className: "r" },
            { text: "Actions", className: "r", hidden: true },
          ]}
        >
          {rows.map((queue) => (
            <tr key={queue.name} data-row tabIndex={-1}>
              <td className="strong">
                <Name text={queue.name} max={60} />
              </td>
              <td className="r">{count(queue.messages)}</td>
              <td className="r mid">
                <Ago time={queue.oldest} />
              </td>
              <td className="r">
                {may("write") && (
                  <button type="button" className="btn s d" onClick={() => setAsked(queue)}>
                    Empty…
                  </button>
                )}
              </td>
            </tr>
          ))}
        </Table>
      </section>
      {asked !== null && (
        <Confirm
          title={`Remove ${plural(asked.messages, "message")} from ${visible(asked.name).slice(0, 40)}`}
          danger
          {...(asked.messages > 1000 && { typed: asked.name })}
          facts={[
            {
              term: "Affects",
              text: (
                <>
                  All messages in the queue: <b>{count(asked.messages)}</b> now, and any that arrive while it
                  is emptied.
                </>
              ),
            },
            { term: "Undo", text: "Not possible. The units of the messages do not change." },
          ]}
          run={async () => {
            await clearQueue(ns, asked.name);
            changed("queues");
          }}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}
