/** The icons, 12 by 12, in the colour of the text. Each is one SVG symbol, used by reference. */
import type { ReactNode } from "react";

const shapes = {
  available: (
    <>
      <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="1.5" />
    </>
  ),
  delayed: (
    <>
      <circle cx="6" cy="6" r="4.75" fill="none" stroke="currentColor" strokeWidth="1.3" />
      <path d="M6 3.4V6l1.9 1.2" fill="none" stroke="currentColor" strokeWidth="1.3" strokeLinecap="round" />
    </>
  ),
  blocked: (
    <>
      <rect
        x="1.75"
        y="1.75"
        width="8.5"
        height="8.5"
        rx="1"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
      />
      <path d="M4 6h4" stroke="currentColor" strokeWidth="1.6" />
    </>
  ),
  pending: (
    <>
      <path d="M2.5 1.2 10.8 6 2.5 10.8Z" fill="currentColor" />
    </>
  ),
  finished: (
    <>
      <circle cx="6" cy="6" r="5.4" fill="currentColor" />
      <path d="m3.5 6.2 1.8 1.8 3.3-3.8" fill="none" stroke="var(--surface)" strokeWidth="1.5" />
    </>
  ),
  failed: (
    <>
      <path d="M6 .3 11.7 6 6 11.7.3 6Z" fill="currentColor" />
      <path d="m4.4 4.4 3.2 3.2m0-3.2L4.4 7.6" stroke="var(--surface)" strokeWidth="1.3" />
    </>
  ),
  retryable: (
    <>
      <path
        d="M9.9 4.2A4.4 4.4 0 1 0 10.4 6.6M10.3 1.4v3H7.4"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
      />
    </>
  ),
  expired: (
    <>
      <path
        d="M2.5 1h7M2.5 11h7M3.2 1.2c0 3 5.6 6.6 5.6 9.6M8.8 1.2c0 3-5.6 6.6-5.6 9.6"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.3"
      />
    </>
  ),
  nobody: (
    <>
      <circle cx="6" cy="6" r="4.9" fill="none" stroke="currentColor" strokeWidth="1.6" />
      <path d="m2.6 9.4 6.8-6.8" stroke="currentColor" strokeWidth="1.6" />
    </>
  ),
  paused: (
    <>
      <rect x="2.2" y="1.5" width="2.6" height="9" rx=".6" fill="currentColor" />
      <rect x="7.2" y="1.5" width="2.6" height="9" rx=".6" fill="currentColor" />
    </>
  ),
  behind: (
    <>
      <path d="M1 10.5h3V7.2h3V4h4" fill="none" stroke="currentColor" strokeWidth="1.6" />
      <path d="M8.6 1.4 11.2 4 8.6 6.6" fill="none" stroke="currentColor" strokeWidth="1.4" />
    </>
  ),
  lease: (
    <>
      <path
        d="M2.5 1h7M2.5 11h7M3.2 1.2c0 3 5.6 6.6 5.6 9.6M8.8 1.2c0 3-5.6 6.6-5.6 9.6"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.3"
      />
    </>
  ),
  ok: (
    <>
      <circle cx="6" cy="6" r="2" fill="currentColor" />
    </>
  ),
  cont: (
    <>
      <path
        d="M9.9 4.2A4.4 4.4 0 1 0 10.4 6.6M10.3 1.4v3H7.4"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.3"
      />
    </>
  ),
  chev: (
    <>
      <path d="m3 4.5 3 3 3-3" fill="none" stroke="currentColor" strokeWidth="1.5" />
    </>
  ),
  right: (
    <>
      <path d="m4.5 3 3 3-3 3" fill="none" stroke="currentColor" strokeWidth="1.5" />
    </>
  ),
  updown: (
    <>
      <path
        d="m3.5 4.6 2.5-2.4 2.5 2.4M3.5 7.4 6 9.8l2.5-2.4"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.3"
      />
    </>
  ),
  search: (
    <>
      <circle cx="5" cy="5" r="3.6" fill="none" stroke="currentColor" strokeWidth="1.4" />
      <path d="m7.8 7.8 3 3" stroke="currentColor" strokeWidth="1.4" />
    </>
  ),
  x: (
    <>
      <path d="m2.5 2.5 7 7m0-7-7 7" stroke="currentColor" strokeWidth="1.4" />
    </>
  ),
  plus: (
    <>
      <path d="M6 1.5v9M1.5 6h9" stroke="currentColor" strokeWidth="1.4" />
    </>
  ),
  copy: (
    <>
      <rect
        x="3.8"
        y="3.8"
        width="7"
        height="7"
        rx="1.2"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.2"
      />
      <path d="M8.2 1.2H2.4a1.2 1.2 0 0 0-1.2 1.2v5.8" fill="none" stroke="currentColor" strokeWidth="1.2" />
    </>
  ),
  edit: (
    <>
      <path d="m1.6 10.4.5-2.4 6-6 1.9 1.9-6 6Z" fill="none" stroke="currentColor" strokeWidth="1.2" />
    </>
  ),
  tick: (
    <>
      <path d="m2 6.4 2.7 2.7L10 3.2" fill="none" stroke="currentColor" strokeWidth="1.7" />
    </>
  ),
  home: (
    <>
      <path d="M1.5 5.8 6 1.8l4.5 4v4.7h-9Z" fill="none" stroke="currentColor" strokeWidth="1.3" />
    </>
  ),
  flow: (
    <>
      <rect x=".8" y="3.9" width="3.6" height="3.6" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <rect x="7.6" y=".9" width="3.6" height="3.6" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <rect x="7.6" y="7.4" width="3.6" height="3.6" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <path d="M4.4 5.7H6M7.6 2.7H6v6.5h1.6" fill="none" stroke="currentColor" strokeWidth="1.2" />
    </>
  ),
  units: (
    <>
      <path d="M1 2.5h10M1 6h10M1 9.5h10" stroke="currentColor" strokeWidth="1.5" />
    </>
  ),
  jobs: (
    <>
      <rect x="1" y="3.4" width="10" height="7" rx="1" fill="none" stroke="currentColor" strokeWidth="1.3" />
      <path d="M4.2 3.2V1.6h3.6v1.6" fill="none" stroke="currentColor" strokeWidth="1.3" />
    </>
  ),
  sched: (
    <>
      <circle cx="6" cy="6" r="4.8" fill="none" stroke="currentColor" strokeWidth="1.3" />
      <path d="M6 3v3l2.2 1.3" fill="none" stroke="currentColor" strokeWidth="1.3" />
    </>
  ),
  limits: (
    <>
      <path d="M1.5 10a5 5 0 1 1 9 0M6 8.6 8.4 5" fill="none" stroke="currentColor" strokeWidth="1.4" />
    </>
  ),
  workers: (
    <>
      <circle cx="6" cy="2.6" r="1.7" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <circle cx="2.4" cy="9.4" r="1.7" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <circle cx="9.6" cy="9.4" r="1.7" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <path d="M6 4.3v1.9M2.4 7.7V6.2h7.2v1.5" fill="none" stroke="currentColor" strokeWidth="1.2" />
    </>
  ),
  system: (
    <>
      <path d="M.8 6.4h2.4L4.8 2l2.4 8 1.6-3.6h2.4" fill="none" stroke="currentColor" strokeWidth="1.3" />
    </>
  ),
  theme: (
    <>
      <circle cx="6" cy="6" r="4.8" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <path d="M6 1.2a4.8 4.8 0 0 1 0 9.6Z" fill="currentColor" />
    </>
  ),
  more: (
    <>
      <circle cx="2" cy="6" r="1.2" fill="currentColor" />
      <circle cx="6" cy="6" r="1.2" fill="currentColor" />
      <circle cx="10" cy="6" r="1.2" fill="currentColor" />
    </>
  ),
  batches: (
    <>
      <rect
        x="1.2"
        y="5"
        width="9.6"
        height="5.6"
        rx="1"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.2"
      />
      <path d="M2.6 3.1h6.8M4 1.3h4" fill="none" stroke="currentColor" strokeWidth="1.2" />
    </>
  ),
  queues: (
    <>
      <rect
        x="1"
        y="1.6"
        width="10"
        height="2.6"
        rx=".8"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.2"
      />
      <path d="M2 6.4h8M3 8.6h6M4 10.8h4" stroke="currentColor" strokeWidth="1.2" />
    </>
  ),
  audit: (
    <>
      <path d="M2.2 1.2h5.2l2.4 2.4v7.2H2.2Z" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <path d="M4.2 5.4h3.6M4.2 7.6h3.6" fill="none" stroke="currentColor" strokeWidth="1.2" />
    </>
  ),
  key: (
    <>
      <circle cx="3.9" cy="8.1" r="2.6" fill="none" stroke="currentColor" strokeWidth="1.2" />
      <path d="m5.8 6.2 4.8-4.8M8.2 3.8l1.7 1.7" fill="none" stroke="currentColor" strokeWidth="1.2" />
    </>
  ),
  lock: (
    <>
      <rect x="2" y="5.2" width="8" height="5.8" rx="1" fill="none" stroke="currentColor" strokeWidth="1.3" />
      <path
        d="M3.8 5V3.600a2.200 2.200 0 0 1 4.400 0V5"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.3"
      />
    </>
  ),
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof shapes;

/** The symbols; rendered once per page. */
export function IconShapes(): ReactNode {
  return (
    <svg className="shapes" width="0" height="0" aria-hidden="true">
      {Object.entries(shapes).map(([name, shape]) => (
        <symbol key={name} id={`i-${name}`} viewBox="0 0 12 12">
          {shape}
        </symbol>
      ))}
    </svg>
  );
}

/** With a label, screen readers read it; without one, the text beside the icon says the same. */
export function Icon({ name, large, label }: { name: IconName; large?: boolean; label?: string }): ReactNode {
  const said = label === undefined ? { "aria-hidden": true } : { role: "img", "aria-label": label };
  return (
    <svg className={large === true ? "i i16" : "i"} {...said}>
      <use href={`#i-${name}`} />
    </svg>
  );
}
