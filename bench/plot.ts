/** Bar charts as SVG, readable on light and dark pages, without a library, a script or an embedded font. */
export interface Bar {
  label: string;
  value: number;
  low: number;
  high: number;
  isOurs: boolean;
}

const width = 760;
const left = 250;
const right = 90;
const rowHeight = 26;
const top = 44;

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

export function bars(
  title: string,
  note: string,
  all: readonly Bar[],
  shown: (value: number) => string,
): string {
  const highest = Math.max(...all.map(({ high }) => high));
  const scale = (value: number): number => (value / highest) * (width - left - right);
  const rows = all.map(({ label, value, low, high, isOurs }, i) => {
    const y = top + i * rowHeight;
    const [from, to] = [left + scale(low), left + scale(high)];
    const middle = y + rowHeight / 2 - 3;
    return [
      `<text class="label" x="${left - 10}" y="${middle + 4}" text-anchor="end">${escaped(label)}</text>`,
      `<rect class="${isOurs ? "ours" : "peer"}" x="${left}" y="${y}" width="${Math.max(1, scale(value)).toFixed(1)}" height="${rowHeight - 8}" rx="2"/>`,
      `<path class="spread" d="M${from.toFixed(1)} ${middle}H${to.toFixed(1)}"/>`,
      `<text class="value" x="${(Math.max(to, left + scale(value)) + 8).toFixed(1)}" y="${middle + 4}">${escaped(shown(value))}</text>`,
    ].join("\n  ");
  });
  const height = top + all.length * rowHeight + 12;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escaped(title)}">
  <style>
    text { font: 12px system-ui, sans-serif; fill: #1f2933; }
    .title { font-size: 14px; font-weight: 600; }
    .note { fill: #616e7c; }
    .ours { fill: #2563a8; }
    .peer { fill: #9aa5b1; }
    .spread { stroke: #1f2933; stroke-width: 1.5; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e7eb; }
      .note { fill: #9aa5b1; }
      .ours { fill: #5b9bd9; }
      .peer { fill: #616e7c; }
      .spread { stroke: #e4e7eb; }
    }
  </style>
  <text class="title" x="0" y="16">${escaped(title)}</text>
  <text class="note" x="0" y="33">${escaped(note)}</text>
  ${rows.join("\n  ")}
</svg>
`;
}
