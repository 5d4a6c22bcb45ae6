// Which part of the page the address names: `#/`, `#/service/web`, `#/service/web/backend/b3`.

export const toService = (name) => `#/service/${encodeURIComponent(name)}`;
export const toBackend = (service, name) => `${toService(service)}/backend/${encodeURIComponent(name)}`;

/** The service and backend that are asked for, each null where none is. */
export function parse(hash) {
  const parts = hash.replace(/^#\/?/, '').split('/').map(decoded);
  const [word, service, more, backend] = parts;
  if (word !== 'service' || !service) return { service: null, backend: null };
  return { service, backend: more === 'backend' && backend ? backend : null };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
