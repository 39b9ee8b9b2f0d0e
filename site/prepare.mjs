// Copies docs/ to pages/: VitePress builds only files below its own folder, and typedoc writes the API reference there too.
import { cpSync, rmSync } from "node:fs";
import path from "node:path";

const pages = path.join(import.meta.dirname, "pages");
rmSync(pages, { recursive: true, force: true });
cpSync(path.join(import.meta.dirname, "..", "docs"), pages, { recursive: true });
