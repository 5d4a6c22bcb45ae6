// What is typed wrong, names that nobody expects, and links that ask for too much.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandLine } from '../lab/js/command-line.js';
import { backend, initial } from '../lab/js/state.js';
import { NARROW, four, open } from './page.js';

test('a refused size is forgotten once a good one is given, be it the one that was there', async () => {
  const { page, close } = await open(four('draft', 31));
  const size = page.locator('#size');
  const refused = page.getByText('nearest sizes are 31 and 37');
  const type = async (text) => {
    await size.fill(text);
    await page.keyboard.press('Tab');
  };
  await type('32');
  await refused.waitFor();
  await type('31');
  await refused.waitFor({ state: 'hidden' });
  await type('32');
  await refused.waitFor();
  await page.locator('[data-size="31"]').click();
  await refused.waitFor({ state: 'hidden' });
  assert.equal(await size.inputValue(), '31');
  await close();
});

test('marks stand between thousands and nowhere else', async () => {
  const { page, close } = await open(four('draft', 31));
  for (const wrong of ['7.5', '', '-7', '1e3', '10,21']) {
    await page.locator('#size').fill(wrong);
    await page.keyboard.press('Tab');
    await page.getByText('Write a whole number.').waitFor();
    await page.locator('[data-size="31"]').click();
  }
  await page.locator('#size').fill('4,093');
  await page.keyboard.press('Tab');
  await page.locator('[data-size="4093"][aria-pressed="true"]').waitFor();
  await close();
});

test('a policy that has no figures to compare says why', async () => {
  const heavy = await open('#view=compare&b=a:1000000,b:1000000&change=1:remove&with=maglev,ring&seeds=1');
  await heavy.page.locator('.compare [role="status"]').getByText('Ring has no figures: the weights ask for a ring').waitFor();
  await heavy.close();
  const alone = await open('#view=compare&b=a&change=0:remove&with=maglev&seeds=1');
  await alone.page.locator('.compare [role="status"]').getByText('Maglev has no figures: none of the 1 candidates').waitFor();
  assert.match(await alone.page.locator('.compare .lead').innerText(), /^1 backend, of which 1 leaves/);
  await alone.close();
});

test('more backends than the page holds are cut, and that is said', async () => {
  const many = Array.from({ length: 1000 }, (_, i) => `b${i}`).join(',');
  const { page, close } = await open(`#view=draft&m=1021&b=${many}`);
  assert.equal(await page.locator('.backends li').count(), 120);
  await page.getByText('This page holds 120 backends').waitFor();
  await close();
});

test('on a phone long names are read to where they differ', async () => {
  const names = ['17', '18'].map((n) => `web-${n}.eu-west-1.prod.example.internal:8443`);
  const { page, close } = await open(`#view=change&m=31&b=${names.map(encodeURIComponent).join(',')}&change=0:remove`, { viewport: NARROW });
  for (const box of await page.locator('.changes .name').all()) {
    const [seen, whole] = await box.evaluate((e) => [[e.clientWidth, e.clientHeight], [e.scrollWidth, e.scrollHeight]]);
    assert.deepEqual(seen, whole);
    assert.ok(seen[0] > 200, `${seen}`);
  }
  await close();
});

test('the command names the same backends, whatever they are called', () => {
  const command = (backends, more = {}) => commandLine({ ...initial(), given: false, backends, ...more });
  assert.equal(command([backend('a'), backend('b', 2)]), 'guideway table build --backends=a,b=2 --size 7');
  assert.equal(command([backend('[2001:db8::1]:443'), backend('b')]), "guideway table build --backends='[2001:db8::1]:443,b' --size 7");
  assert.equal(command([backend('x=2')]), 'guideway table build --backends=x=2=1 --size 7');
  assert.equal(command([backend('a,b'), backend("it's", 3)]),
    `printf %s '[{"name":"a,b","weight":1},{"name":"it'\\''s","weight":3}]' | guideway table build --size 7`);
  assert.equal(command([backend('-a')], { policy: 'ring', key: '-k' }), "guideway table lookup --backends='-a' --policy ring --size 7 -- '-k'");
  const hands = { given: true, policy: 'maglev' };
  assert.equal(command([backend('A', 2, 3, 4), backend('B', 2, 0, 2)], hands), 'guideway table draft --preference A=3/4 --preference B=0/2 --size 7');
  assert.equal(command([backend('A', 1, 3, 4), backend('B', 2, 0, 2)], hands), null);
});
