/** Asks for a token when the daemon requires one. The token is kept for this tab only. */
import { useState, type ReactNode } from "react";
import { setToken } from "../data/connection.ts";
import { Command, Trouble } from "../parts/text.tsx";

export function SignIn({ refused }: { refused: string | null }): ReactNode {
  const [text, setText] = useState("");
  const [odd, setOdd] = useState(false);
  return (
    <main className="alone">
      <div className="start">
        <div className="hd">
          <h1>Sign in to Coordinate</h1>
          <p>This daemon requires a token. It is kept in this tab until you close it.</p>
        </div>
        <form
          className="card sign-in"
          onSubmit={(event) => {
            event.preventDefault();
            const token = text.trim();
            // other characters cannot be sent: they come from copying formatted text
            setOdd(!/^[\x21-\x7e]*$/.test(token));
            if (/^[\x21-\x7e]+$/.test(token)) setToken(token);
          }}
        >
          <label htmlFor="token">Token</label>
          <div className="row">
            <input
              id="token"
              type="password"
              autoComplete="off"
              spellCheck={false}
              placeholder="cjt_…"
              value={text}
              onChange={(event) => setText(event.target.value)}
              autoFocus
            />
            <button type="submit" className="btn p">
              Sign in
            </button>
          </div>
          {odd ? (
            <Trouble text="The token contains characters that no token has, perhaps invisible ones. Copy it again." />
          ) : (
            refused !== null && <Trouble text={refused} />
          )}
          <p className="dim">To create a token, run this on the machine of the daemon:</p>
          <Command text="coordinate token create --name dashboard --scope write --scope work" />
        </form>
      </div>
    </main>
  );
}
