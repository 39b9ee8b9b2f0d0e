/** Tokens: their rights and expiry, and an action to revoke one. For administrators. */
import { useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { revoke, useTokens, type TokenRow } from "../data/admin.ts";
import { sayError } from "../data/connection.ts";
import { count, visible } from "../format.ts";
import { useHere } from "../here.ts";
import { Confirm } from "../parts/dialog.tsx";
import { Ago, Command, Link, Name, Trouble, useNow } from "../parts/text.tsx";
import { Heads } from "../parts/heads.tsx";

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
          <span className="dim">the text of a token is shown once, when it is made</span>
        </header>
        <div className="scroll">
          <table>
            <Heads
              of={[
                "Name",
                { text: "Id", className: "lo" },
                "May",
                { text: "Made", className: "r lo" },
                { text: "Ends", className: "r lo" },
                { text: "Actions", className: "r", hidden: true },
              ]}
            />
            <tbody>
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
                      <span className="narrow t-failed">ended</span>
                    )}
                  </td>
                  <td className="r mid lo">
                    <Ago time={token.created} />
                  </td>
                  <td className="r mid lo">
                    {token.expires > 0 && token.expires <= now ? (
                      <span className="t-failed">
                        ended <Ago time={token.expires} />
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
            </tbody>
          </table>
        </div>
        <div className="blank">
          <p>Tokens are made on the machine of the daemon:</p>
          <Command text="coordinate token create --name NAME --namespace NAMESPACE --scope work" />
        </div>
      </section>
      {asked !== null && (
        <Confirm
          title={`Revoke ${visible(asked.name).slice(0, 40)}`}
          danger
          facts={[
            {
              term: "Does",
              text: "Within a second every request with this token is refused. What its workers hold goes to others when the leases end.",
            },
            ...(asked.id === session.token
              ? [{ term: "Watch out", text: "It is the token that you have signed in with." }]
              : []),
            { term: "Way back", text: "None. Make another token and give it to whoever used this one." },
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
