/** Tokens: their rights and expiry, and an action to revoke one. For administrators. */
import { useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { revoke, useTokens, type TokenRow } from "../data/admin.ts";
import { sayError } from "../data/connection.ts";
import { count, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Ago, Command, Link, Name, Trouble, useNow } from "../parts/text.tsx";
import { Table } from "../parts/table.tsx";

export default function Tokens(): ReactNode {
  const { ns, session } = useHere();
  const cache = useQueryClient();
  const tokens = useTokens();
  const now = useNow();
  const [asked, setAsked] = useState<TokenRow | null>(null);
  if (tokens.error !== null && tokens.data === undefined) return <Trouble text={sayError(tokens.error)} />;
  if (tokens.data === undefined) return null;
  return (
    <>
      <h1 className="sr">Tokens</h1>
      <section className="card tokens" aria-label="Tokens">
        <header>
          <h2>Tokens</h2>
          <span className="count quiet">{count(tokens.data.length)}</span>
          <span className="grow" />
          <span className="dim">a token is shown only once, when it is created</span>
        </header>
        <Table
          heads={[
            "Name",
            { text: "Id", className: "lo" },
            "Access",
            { text: "Created", className: "r lo" },
            { text: "Expires", className: "r lo" },
            { text: "Actions", className: "r", hidden: true },
          ]}
        >
          {tokens.data.map((token) => (
            <tr key={token.id} data-row tabIndex={-1}>
              <td className="strong">
                <Name text={token.name} max={40} />{" "}
                {token.id === session.token && <span className="dim">yours</span>}
              </td>
              <td className="mid lo">
                <Link to={{ ns, page: "audit", filters: { token: token.id } }} className="l">
                  <code>{visible(token.id)}</code>
                </Link>
              </td>
              <td>
                {token.grants.map(({ namespace, scopes }, i) => (
                  <span key={i} className="grant">
                    <b>{scopes.join(", ")}</b> in{" "}
                    {namespace === "*" ? "all namespaces" : <Name text={namespace} max={32} />}
                  </span>
                ))}{" "}
                {token.expires > 0 && token.expires <= now && (
                  <span className="narrow t-failed">expired</span>
                )}
              </td>
              <td className="r mid lo">
                <Ago time={token.created} />
              </td>
              <td className="r mid lo">
                {token.expires > 0 && token.expires <= now ? (
                  <span className="t-failed">
                    expired <Ago time={token.expires} />
                  </span>
                ) : (
                  <Ago time={token.expires} />
                )}
              </td>
              <td className="r">
                <button type="button" className="btn s d" onClick={() => setAsked(token)}>
                  Revoke…
                </button>
              </td>
            </tr>
          ))}
        </Table>
        <div className="blank">
          <p>To create a token, run this on the machine of the daemon:</p>
          <Command text="coordinate token create --name NAME --namespace NAMESPACE --scope work" />
        </div>
      </section>
      {asked !== null && (
        <Confirm
          title={`Revoke ${visible(asked.name).slice(0, 40)}`}
          danger
          facts={[
            {
              term: "Effect",
              text: "Within a second, all requests with this token are rejected. Other workers can claim the units that its workers hold when their leases expire.",
            },
            ...(asked.id === session.token
              ? [{ term: "Warning", text: "You are signed in with this token." }]
              : []),
            { term: "Undo", text: "Not possible. Create a new token for those who used this one." },
          ]}
          run={async () => {
            await revoke(asked.id);
            await cache.invalidateQueries({ queryKey: ["tokens"] });
          }}
          onClose={() => setAsked(null)}
        />
      )}
    </>
  );
}
