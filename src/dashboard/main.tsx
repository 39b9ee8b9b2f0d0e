/** Starts the dashboard. */
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { isTransient } from "./data/connection.ts";
import "./style.css";
import { followTheme } from "./theme.ts";

followTheme();

const cache = new QueryClient({
  defaultOptions: {
    queries: {
      // events invalidate old data; until then, going back to a page shows the cached data and reads again in the background
      staleTime: 1000,
      retry: (failures, error) => isTransient(error) && failures < 3,
      refetchOnWindowFocus: true,
    },
  },
});

const root = document.getElementById("root");
if (root !== null)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={cache}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
