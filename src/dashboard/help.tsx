/** The list of keys, opened with `?`. */
import type { ReactNode } from "react";
import { keys } from "./keys.ts";
import { Dialog } from "./parts/dialog.tsx";

export function Help({ onClose }: { onClose: () => void }): ReactNode {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose}>
      <dl className="keys-list">
        {keys.map((one) => (
          <div key={one.keys}>
            <dt>
              <kbd>{one.keys}</kbd>
            </dt>
            <dd>{one.does}</dd>
          </div>
        ))}
      </dl>
      <footer>
        <span className="grow" />
        <button type="button" className="btn" onClick={onClose}>
          Close
        </button>
      </footer>
    </Dialog>
  );
}
