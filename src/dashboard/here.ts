/** The context of every part of a page: its location, the user's rights, and the state of the namespace. */
import { createContext, use } from "react";
import type { NamespaceLook } from "./data/look.ts";
import type { Scope, Session } from "./data/session.ts";
import type { Undo } from "./parts/undo.tsx";
import type { Route } from "./route.ts";

export interface Here {
  readonly ns: string;
  readonly route: Route;
  readonly session: Session;
  readonly look: NamespaceLook;
  readonly may: (scope: Scope) => boolean;
  /** Reads the data again that an action has changed. */
  readonly changed: (...kinds: string[]) => void;
  readonly undo: Undo;
}

export const HereContext = createContext<Here | null>(null);

export function useHere(): Here {
  const here = use(HereContext);
  if (here === null) throw new Error("a page is drawn outside of the application");
  return here;
}
