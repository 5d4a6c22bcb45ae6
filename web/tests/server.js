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

/** The folder of both pages, and that of the laboratory. */
export const web = fileURLToPath(new URL('../', import.meta.url));
export const lab = join(web, 'lab/');

/** Serves the laboratory on a free port of the loopback, unless LAB_URL names a server that does. */
export async function serve() {
  if (process.env.LAB_URL) return { url: process.env.LAB_URL, close: () => {} };
  return listen(files(lab));
}

/** Answers requests on a free port of the loopback. */
export async function listen(answer) {
  const server = createServer(answer);
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => { server.close(); server.closeAllConnections(); } };
}

/** Answers with the files of a folder. */
export const files = (folder) => async (request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url, 'http://localhost').pathname));
  const file = join(folder, path.endsWith('/') ? `${path}index.html` : path);
  try {
    if (!(await stat(file)).isFile()) throw new Error('not a file');
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' });
    createReadStream(file).pipe(response);
  } catch {
    response.writeHead(404).end();
  }
};
