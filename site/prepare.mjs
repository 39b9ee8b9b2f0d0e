// Copies docs/ to pages/: what VitePress builds must be below its own folder, and the reference of the API is written beside it.
import { cpSync, rmSync } from "node:fs";
import path from "node:path";

const pages = path.join(import.meta.dirname, "pages");
rmSync(pages, { recursive: true, force: true });
cpSync(path.join(import.meta.dirname, "..", "docs"), pages, { recursive: true });
