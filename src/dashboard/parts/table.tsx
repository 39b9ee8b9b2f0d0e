/** A table, its column heads, and the button for more rows. */
import type { UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import type { WorkUnitStatus } from "../../core/index.ts";
import { StatusGlyph } from "./status.tsx";

export type Head =
  | string
  | {
      readonly text: string;
      readonly className?: string;
      /** Shows the sign of a status before the text. */
      readonly status?: WorkUnitStatus;
      /** Explains the column. */
      readonly title?: string;
      /** For screen readers only. */
      readonly hidden?: boolean;
    };

/** A table that scrolls sideways inside its card. The children are its rows. */
export function Table({ heads, children }: { heads: readonly Head[]; children: ReactNode }): ReactNode {
  return (
    <div className="scroll">
      <table>
        <Heads of={heads} />
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export function Heads({ of }: { of: readonly Head[] }): ReactNode {
  return (
    <thead>
      <tr>
        {of.map((head) => {
          const given = typeof head === "string" ? { text: head } : head;
          const { text, className, status, title, hidden = false } = given;
          return (
            <th key={text} className={className} title={title} scope="col">
              {status !== undefined && <StatusGlyph status={status} />}
              {hidden ? <span className="sr">{text}</span> : text}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

/** Loads the next page of a table that has its newest rows first. */
export function LoadOlder({ query }: { query: UseInfiniteQueryResult }): ReactNode {
  if (!query.hasNextPage) return null;
  return (
    <p className="blank">
      <button
        type="button"
        className="btn"
        disabled={query.isFetchingNextPage}
        onClick={() => void query.fetchNextPage()}
      >
        Load older
      </button>
    </p>
  );
}
