/** The column heads of a table. */
import type { ReactNode } from "react";

export type Head =
  | string
  | {
      readonly text: string;
      readonly className?: string;
      /** For screen readers only. */
      readonly hidden?: boolean;
    };

export function Heads({ of }: { of: readonly Head[] }): ReactNode {
  return (
    <thead>
      <tr>
        {of.map((head) => {
          const { text, className, hidden = false } = typeof head === "string" ? { text: head } : head;
          return (
            <th key={text} className={className} scope="col">
              {hidden ? <span className="sr">{text}</span> : text}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}
