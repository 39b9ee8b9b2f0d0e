/** An error boundary: a page that fails to render shows its error in its place; the rest of the application goes on. */
import { Component, type ReactNode } from "react";
import { messageOf } from "../data/connection.ts";
import { Trouble } from "./text.tsx";

export class ErrorBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  /** Reports the error to the browser's console too, like an uncaught error. */
  override componentDidCatch(error: unknown): void {
    reportError(error);
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return <Trouble text={`This page could not be displayed (${messageOf(error)}). Reload to try again.`} />;
  }
}
