// A plain file server, as any would do.

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const TYPES = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml',
  // Unknown to many plain servers, so the page must do without.
  '.wasm': 'application/octet-stream',
};

export const lab = fileURLToPath(new URL('../lab/', import.meta.url));

/** Serves the page on a free port of the loopback, unless LAB_URL names a server that does. */
export async function serve() {
  if (process.env.LAB_URL) return { url: process.env.LAB_URL, close: () => {} };
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://localhost').pathname));
    const file = join(lab, path.endsWith('/') ? `${path}index.html` : path);
    try {
      if (!(await stat(file)).isFile()) throw new Error('not a file');
      response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' });
      createReadStream(file).pipe(response);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() };
}
