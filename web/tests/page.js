// A browser, a server, and pages that tell when something goes wrong in them.

import assert from 'node:assert/strict';
import { after } from 'node:test';
import { chromium } from 'playwright-core';
import { serve } from './server.js';

const server = await serve();
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  // CI runs as root, where Chromium has no sandbox.
  args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
});

after(async () => {
  await browser.close();
  server.close();
});

export const WIDE = { width: 1280, height: 900 };
export const NARROW = { width: 390, height: 844 };

/**
 * Opens the laboratory at `hash`, or the page at `url`. Errors but those that `expects` fits, and requests to anywhere else, fail the test
 * when it closes. With `stands`, the page's clock moves only as `page.clock` is told.
 */
export async function open(hash = '', { url = server.url, expects = null, stands = false, ready = 'html[data-ready]', viewport = WIDE, colorScheme = 'light', ...options } = {}) {
  const context = await browser.newContext({ viewport, colorScheme, reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('console', (message) => { if (message.type() === 'error' && !expects?.test(message.text())) wrong.push(message.text()); });
  const { origin } = new URL(url);
  page.on('request', (request) => { if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) wrong.push(`request to ${request.url()}`); });
  if (stands) {
    await page.clock.install();
    await page.clock.pauseAt(Date.now() + 1000);
  }
  await page.goto(url + hash);
  await page.waitForSelector(ready);
  return {
    page,
    close: async () => {
      await context.close();
      assert.deepEqual(wrong, []);
    },
  };
}

/** The owners shown on a board of cells, as one string; '.' for a free cell. */
export const owners = (page, board) => page.$$eval(`[data-board="${board}"] .cell`, (cells) => cells.map((c) => c.dataset.owner || '.').join(''));

/** What kind each cell of a board is. */
export const kinds = (page, board) => page.$$eval(`[data-board="${board}"] .cell`, (cells) => cells.map((c) => c.dataset.kind));

/** A link to a setup of four backends. */
export const four = (view, size, more = '') => `#view=${view}&policy=maglev&m=${size}&b=alpha,beta,gamma,delta${more}`;
