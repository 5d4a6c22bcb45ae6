// Light, dark, or as the system says; remembered where the browser lets us.

const ORDER = ['auto', 'light', 'dark'];
const TEXT = { auto: '◐ Auto', light: '☀ Light', dark: '☾ Dark' };
const KEY = 'guideway-theme';

export function attachTheme(button, redraw) {
  let theme = remembered();
  const apply = () => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = TEXT[theme];
    button.setAttribute('aria-label', `Colours: ${theme}. Change`);
    redraw();
  };
  button.addEventListener('click', () => {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // Storage may be forbidden; the choice then lasts as long as the page.
    }
    apply();
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  apply();
}

function remembered() {
  try {
    const kept = localStorage.getItem(KEY);
    return ORDER.includes(kept) ? kept : 'auto';
  } catch {
    return 'auto';
  }
}
