// What axe-core knows to be wrong with a page.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { NARROW, WIDE } from './page.js';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** There is none, in light and dark, wide and narrow. */
export async function noFaults(page) {
  await page.evaluate(axe);
  for (const [viewport, colorScheme] of [[WIDE, 'light'], [WIDE, 'dark'], [NARROW, 'light'], [NARROW, 'dark']]) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    const faults = await page.evaluate(async () => {
      const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
      return violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html.slice(0, 120)} ${n.any[0]?.message ?? ''}`).join(' | ')}`);
    });
    assert.deepEqual(faults, [], `${viewport.width} ${colorScheme}`);
  }
}
