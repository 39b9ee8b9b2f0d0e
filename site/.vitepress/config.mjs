// The documentation site: the pages of docs/ as they are, with search. `npm ci && npm run build` in this folder writes it to dist.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const pages = path.join(here, "..", "pages");

/** @param {string} page */
const title = (page) =>
  /^# (.*)$/m.exec(readFileSync(path.join(pages, page), "utf8"))?.[1]?.replaceAll("`", "") ?? page;

/** @param {string} page */
const item = (page) => ({ text: title(page), link: `/${page.replace(/\.md$/, "")}` });

const pagesIn = (/** @type {string} */ folder) =>
  readdirSync(path.join(pages, folder))
    .filter((name) => name.endsWith(".md") && name !== "README.md")
    .map((name) => path.posix.join(folder, name));

const concepts = pagesIn(".").filter((page) => page !== "tutorial.md");

export default {
  title: "Coordinate",
  description: "Job coordination: work specs, work units, attempts and workers",
  srcDir: "./pages",
  outDir: "./dist",
  cacheDir: "./.cache",
  cleanUrls: true,
  // README.md is the first page of its folder
  rewrites: { "README.md": "index.md", "decisions/README.md": "decisions/index.md" },
  // links to files of the repository are checked by a test of the project; all others must lead somewhere
  ignoreDeadLinks: [
    /(^|\/)(examples|deploy|bench|schema|python)(\/|$)/,
    /(ARCHITECTURE|CHANGELOG)$/,
    // addresses of a daemon on the reader's own machine
    /^http:\/\/(127\.0\.0\.1|localhost)/,
  ],
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Tutorial", link: "/tutorial" },
      { text: "Deployment", link: "/guides/deployment" },
      { text: "Decisions", link: "/decisions/" },
    ],
    sidebar: [
      { text: "Start", items: [{ text: "Overview", link: "/" }, item("tutorial.md")] },
      { text: "Guides", items: pagesIn("guides").map(item) },
      { text: "Concepts", items: concepts.map(item) },
      { text: "Reference", items: [{ text: "API", link: "/api/" }] },
    ],
  },
};
