// Elements without a framework.

/** An element: properties that begin with "on" are listeners, others attributes; children are nodes or texts. */
export function h(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(' ');
  for (const [key, value] of Object.entries(properties)) set(element, key, value);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** The same for SVG. */
export function s(tag, properties = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(properties)) set(element, key, value);
  element.append(...children.flat());
  return element;
}

function set(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
  else if (key === 'style') for (const [name, v] of Object.entries(value)) element.style.setProperty(name, v);
  else element.setAttribute(key, value === true ? '' : value);
}

/** Sets an input's value, unless somebody is typing in it. */
export function show(input, value) {
  if (document.activeElement !== input && input.value !== String(value)) input.value = value;
}

const groups = new Intl.NumberFormat('en', { useGrouping: true });

/** A whole number with its thousands apart. */
export const count = (n) => groups.format(n);

/** A share as a percentage, with as many digits as tell something. */
export function percent(share) {
  if (share === 0) return '0 %';
  const value = share * 100;
  const digits = value >= 10 ? 1 : value >= 1 ? 2 : value >= 0.1 ? 2 : 3;
  return `${value.toFixed(digits)} %`;
}
