// Both pages beside an API that says what a test wants: answers that a daemon gave, recorded in `console/`.

import { readFile } from 'node:fs/promises';
import { files, listen, web } from './server.js';

const recorded = async (name) => JSON.parse(await readFile(new URL(`console/${name}.json`, import.meta.url), 'utf8'));
const page = files(web);

/** Two answers of one daemon, the later one 2 s after the first: `{ status, services, events }` each. */
export const recordings = async () => [await recorded('first'), await recorded('second')];

/** A daemon. Its fields say what it answers: `answers`, `token` (null lets everybody in), `away` (it closes connections). */
export async function daemon(answers, { token = null } = {}) {
  const it = { answers, token, away: false, asked: [] };
  const server = await listen((request, response) => {
    const { pathname, searchParams } = new URL(request.url, 'http://localhost');
    if (!pathname.startsWith('/v1/')) return page(request, response);
    it.asked.push(`${request.method} ${request.url}`);
    if (it.away) return request.socket.destroy();
    if (it.token !== null && request.headers.authorization !== `Bearer ${it.token}`) {
      response.writeHead(401, { 'content-type': 'application/problem+json', 'www-authenticate': 'Bearer' });
      return response.end('{"type":"unauthorized","title":"Unauthorized","status":401,"detail":"give a token: `Authorization: Bearer <token>`"}');
    }
    const what = pathname.slice('/v1/'.length);
    const value = what === 'events' ? it.answers.events.filter((event) => event.number > Number(searchParams.get('after'))) : it.answers[what];
    response.writeHead(value ? 200 : 404, { 'content-type': 'application/json' });
    return response.end(JSON.stringify(value ?? {}));
  });
  return Object.assign(it, { url: `${server.url}console/`, close: server.close });
}
