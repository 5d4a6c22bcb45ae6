// Screenshots of every view of both pages at two widths, light and dark, for people to look at: `node look.js FOLDER`.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { daemon, recordings } from './console-server.js';
import { serve } from './server.js';

const folder = process.argv[2] ?? 'screenshots';
const shots = [
  ['draft', '#view=draft&policy=maglev&m=7&given=1&b=A:1:3:4,B:1:0:2,C:1:3:1&turn=4'],
  ['draft-31', '#view=draft&policy=maglev&m=31&b=small,medium:2,large:4&turn=20'],
  ['draft-bids', '#view=draft&policy=rendezvous-table&m=31&b=alpha,beta,gamma,delta&turn=12'],
  ['draft-map', `#view=draft&policy=maglev&m=65537&b=${Array.from({ length: 12 }, (_, i) => `10.0.0.${i + 1}`).join(',')}&turn=50000`],
  ['lookup', '#view=lookup&policy=maglev&m=31&b=alpha,beta,gamma,delta&key=user-42'],
  ['change', '#view=change&policy=maglev&m=31&b=alpha,beta,gamma,delta&change=3:remove&other=rendezvous-table'],
  ['change-map', '#view=change&policy=maglev&m=1021&b=alpha,beta,gamma,delta,epsilon&change=3:remove&other=rendezvous-table'],
  ['compare', '#view=compare&policy=maglev&m=31&b=alpha,beta,gamma,delta&change=3:remove&with=maglev,rendezvous-table,ring,modulo&seeds=3'],
  ['tour', '#view=tour'],
];

const consoleShots = [['console', ''], ['console-service', '#/service/web'], ['console-backend', '#/service/web/backend/be3']];

await mkdir(folder, { recursive: true });
const server = await serve();
const [answers] = await recordings();
const balancer = await daemon(answers);
const all = [...shots.map(([name, hash]) => [name, server.url + hash]), ...consoleShots.map(([name, hash]) => [name, balancer.url + hash])];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
for (const [width, height, colorScheme] of [[1280, 900, 'light'], [390, 844, 'light'], [1280, 900, 'dark'], [390, 844, 'dark']]) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme, reducedMotion: 'reduce' });
  page.on('pageerror', (error) => console.error(error));
  page.on('console', (message) => { if (message.type() === 'error') console.error(message.text()); });
  for (const [name, url] of all) {
    await page.goto('about:blank');
    await page.goto(url);
    await page.waitForSelector('html[data-ready]');
    if (name === 'compare') await page.waitForFunction(() => document.querySelector('.compare progress').value === 1);
    await page.screenshot({ path: join(folder, `${name}-${width}-${colorScheme}.png`), fullPage: true });
  }
  await page.close();
}
await browser.close();
server.close();
balancer.close();
