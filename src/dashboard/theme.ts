/** Dark or light: the system's preference until the user chooses. */
const key = "coordinate.theme";

const isDark = (): boolean => {
  const chosen = localStorage.getItem(key);
  return chosen === null ? matchMedia("(prefers-color-scheme: dark)").matches : chosen === "dark";
};

function applyTheme(): void {
  document.documentElement.classList.toggle("dark", isDark());
}

export function switchTheme(): void {
  localStorage.setItem(key, isDark() ? "light" : "dark");
  applyTheme();
}

export function followTheme(): void {
  applyTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
}
