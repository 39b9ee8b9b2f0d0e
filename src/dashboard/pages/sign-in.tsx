/** Asks for a token when the daemon requires one. The token is kept for this tab only. */
import { useState, type ReactNode } from "react";
import { setToken } from "../data/connection.ts";
import { Command, Trouble } from "../parts/text.tsx";

export function SignIn({ refused }: { refused: string | null }): ReactNode {
  const [text, setText] = useState("");
  return (
    <main className="alone">
      <div className="start">
        <div className="hd">
          <h1>Sign in to Coordinate</h1>
          <p>This daemon asks for a token. It stays in this tab and is forgotten when you close it.</p>
        </div>
        <form
          className="card sign-in"
          onSubmit={(event) => {
            event.preventDefault();
            if (text.trim() !== "") setToken(text.trim());
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
          {refused !== null && <Trouble text={refused} />}
          <p className="dim">On the machine of the daemon, this makes one that may look and steer:</p>
          <Command text="coordinate token create dashboard --grant '*:write,work'" />
        </form>
      </div>
    </main>
  );
}
