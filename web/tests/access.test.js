// Who can use the page: by keyboard, on a phone, with other eyes.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noFaults } from './axe.js';
import { four, open, owners } from './page.js';

const views = [
  ['draft', four('draft', 31, '&turn=12')],
  ['draft of bids', '#view=draft&policy=rendezvous-table&m=31&b=alpha,beta,gamma,delta&turn=12'],
  ['map', four('draft', 1021, '&turn=600')],
  ['look-up', four('lookup', 31)],
  ['change', four('change', 31, '&change=3:remove')],
  ['change of a map', four('change', 65537, '&change=3:remove')],
  ['compare', four('compare', 31, '&change=3:remove&with=maglev,rendezvous-table,ring&seeds=1')],
  ['tour', '#view=tour'],
];

for (const [name, hash] of views) {
  test(`${name}: no faults that axe knows, in light and dark, wide and narrow`, async () => {
    const { page, close } = await open(hash);
    await page.evaluate(() => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
    await noFaults(page);
    await close();
  });

  test(`${name}: nothing is wider than a phone of 320 pixels`, async () => {
    const { page, close } = await open(hash, { viewport: { width: 320, height: 640 } });
    await page.evaluate(() => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
    const [inner, whole] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
    assert.equal(whole, inner);
    await close();
  });
}

test('tabs, player and cells are reached and worked by keyboard alone', async () => {
  const { page, close } = await open();
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  await page.keyboard.press('Tab');
  assert.equal(await focused(), 'To the experiments');
  while (await focused() !== 'tab-draft') await page.keyboard.press('Tab');
  await page.keyboard.press('ArrowRight');
  assert.equal(await focused(), 'tab-lookup');
  assert.equal(await page.getByRole('tab', { name: 'Look-up' }).getAttribute('aria-selected'), 'true');
  await page.keyboard.press('End');
  assert.equal(await focused(), 'tab-tour');
  await page.keyboard.press('ArrowRight');
  assert.equal(await focused(), 'tab-draft');
  for (let i = 0; i < 60 && await focused() !== 'Play'; i += 1) await page.keyboard.press('Tab');
  assert.equal(await focused(), 'Play');
  for (let i = 0; i < 3; i += 1) await page.keyboard.press('ArrowRight');
  assert.equal(await owners(page, 'draft'), 'B..AC..');
  await page.keyboard.press('ArrowLeft');
  assert.equal(await owners(page, 'draft'), 'B..A...');
  await close();
});

test('who owns a cell is written in it, whatever its colour', async () => {
  const { page, close } = await open(four('draft', 31, '&turn=31'));
  const cells = await page.$$eval('[data-board="draft"] .cell', (all) => all.map((c) => [c.querySelector('.who').textContent, c.dataset.pattern]));
  assert.ok(cells.every(([label]) => 'abgd'.includes(label) && label.length === 1));
  assert.equal(new Set(cells.map(([, pattern]) => pattern)).size, 4);
  await close();
});

test('colours follow the system, and can be chosen', async () => {
  const { page, close } = await open('', { colorScheme: 'dark' });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const dark = await paper();
  await page.getByRole('button', { name: 'Colours' }).click();
  const light = await paper();
  assert.notEqual(light, dark);
  await page.reload();
  await page.waitForSelector('html[data-ready]');
  assert.equal(await paper(), light);
  await close();
});
