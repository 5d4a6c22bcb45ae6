// The page in a real browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';
import { differences, records } from './golden.js';
import { NARROW, four, kinds, open, owners } from './page.js';
import { lab } from './server.js';

test('the seven slots of the specification play to the printed table', async () => {
  const { page, close } = await open();
  assert.equal(await owners(page, 'draft'), '.......');
  await page.getByLabel('Speed').selectOption('16');
  await page.getByRole('button', { name: 'Play' }).click();
  await page.getByText('7 / 7').waitFor();
  assert.equal(await owners(page, 'draft'), 'BABACCA');
  assert.match(await page.locator('.narration').innerText(), /A asks for 5, 2: taken\. It gets slot 6\. The table is full\./);
  assert.match(await page.locator('.play').innerText(), /Play again/);
  await close();
});

test('a step shows whose turn it is, what was taken, and what was got', async () => {
  const { page, close } = await open();
  const on = page.getByRole('button', { name: 'One turn on' });
  for (let i = 0; i < 4; i += 1) await on.click();
  assert.match(await page.locator('.narration').innerText(), /Round 2.*A asks for 0, 4: taken\. It gets slot 1\./s);
  assert.equal(await owners(page, 'draft'), 'BA.AC..');
  assert.deepEqual(await kinds(page, 'draft'), ['refused', 'fresh', '', '', 'refused', '', '']);
  const wants = await page.$$eval('.preference', (rows) => rows.map((row) => [...row.querySelectorAll('.want')].map((w) => w.textContent).join(' ')));
  assert.deepEqual(wants, ['3 0 4 1 5 2 6', '0 2 4 6 1 3 5', '3 4 5 6 0 1 2']);
  const told = await page.$$eval('.preference:first-of-type .want', (items) => items.map((w) => w.dataset.kind));
  assert.deepEqual(told, ['mine', 'lost', 'lost', 'mine', 'wanted', 'later', 'later']);
  await page.getByRole('button', { name: 'One turn back' }).click();
  assert.equal(await owners(page, 'draft'), 'B..AC..');
  await close();
});

test('playing can be paused, and goes on from there', async () => {
  const { page, close } = await open(four('draft', 31));
  await page.getByLabel('Speed').selectOption('8');
  await page.locator('.play').click();
  await page.waitForFunction(() => parseInt(document.querySelector('.counter').textContent, 10) >= 3);
  await page.locator('.play').click();
  const paused = await page.locator('.counter').innerText();
  assert.match(await page.locator('.play').innerText(), /^\s*Play$/);
  await page.keyboard.press('ArrowRight');
  assert.equal(parseInt(await page.locator('.counter').innerText(), 10), parseInt(paused, 10) + 1);
  await close();
});

test('each size button drafts a full table that is even to one slot', async () => {
  const { page, close } = await open(four('draft', 7));
  for (const size of [7, 11, 13, 17, 19, 23, 29, 31]) {
    await page.locator(`.size[data-size="${size}"]`).click();
    await page.getByRole('button', { name: 'To the end' }).click();
    const all = await owners(page, 'draft');
    const counts = ['a', 'b', 'g', 'd'].map((name) => all.split(name).length - 1);
    assert.equal(all.length, size);
    assert.equal(counts.reduce((a, b) => a + b), size);
    assert.ok(Math.max(...counts) - Math.min(...counts) <= 1, `${counts}`);
  }
  await close();
});

test('a table of 65537 slots is a map whose cells can be read by keyboard', async () => {
  const { page, close } = await open(four('draft', 65537, '&turn=65537'));
  const canvas = page.locator('[data-board="draft"] canvas');
  assert.match(await canvas.getAttribute('aria-label'), /65,537 slots/);
  await canvas.focus();
  await page.keyboard.press('ArrowRight');
  assert.match(await page.locator('[data-board="draft"] .readout').innerText(), /^slot 0: (alpha|beta|gamma|delta)$/);
  await page.keyboard.press('ArrowDown');
  assert.doesNotMatch(await page.locator('[data-board="draft"] .readout').innerText(), /^slot 0:/);
  await page.getByRole('button', { name: 'Only beta' }).click();
  assert.equal(await page.getByRole('button', { name: 'Only beta' }).getAttribute('aria-pressed'), 'true');
  await close();
});

test('a number that is no table size is refused with its neighbours, and nothing changes', async () => {
  const { page, close } = await open();
  await page.getByLabel('Slots, M').fill('100');
  await page.keyboard.press('Enter');
  await page.getByText('the nearest sizes are 97 and 101').waitFor();
  assert.equal((await owners(page, 'draft')).length, 7);
  await page.getByLabel('Slots, M').fill('101');
  await page.keyboard.press('Enter');
  assert.equal((await owners(page, 'draft')).length, 101);
  await close();
});

test('a look-up is hash, remainder, slot, owner, with the cell lit, beside the bids', async () => {
  const { page, close } = await open(four('lookup', 31));
  for (const key of ['user-43', 'cart-7f3a', 'GET /index.html']) {
    await page.getByRole('button', { name: key, exact: true }).click();
    const hash = BigInt(await page.locator('[data-test="hash"]').innerText());
    const slot = Number(await page.locator('[data-test="slot"]').innerText());
    assert.equal(hash % 31n, BigInt(slot));
    const lit = await page.$$eval('[data-board="lookup"] .cell', (cells) => cells.flatMap((c, i) => (c.classList.contains('lit') ? [i] : [])));
    assert.deepEqual(lit, [slot]);
    const owner = await page.locator('[data-test="owner"]').innerText();
    assert.equal((await owners(page, 'lookup'))[slot], owner[0]);
    const scores = await page.$$eval('.bids .figure', (figures) => figures.map((f) => Number(f.textContent)));
    assert.equal(scores.length, 4);
    assert.deepEqual(scores, [...scores].sort((a, b) => b - a));
  }
  await page.getByLabel('A key').fill('typed');
  assert.notEqual(await page.locator('[data-test="hash"]').innerText(), '');
  await close();
});

test('without B its two slots go to A, and slot 6 moves needlessly to C', async () => {
  const { page, close } = await open('#view=change&policy=maglev&m=7&given=1&b=A:1:3:4,B:1:0:2,C:1:3:1');
  await page.getByText('Nothing changes yet').first().waitFor();
  await page.getByRole('button', { name: 'Remove B' }).click();
  assert.equal(await owners(page, 'policy'), 'AAAACCC');
  assert.deepEqual(await kinds(page, 'policy'), ['departed', 'stayed', 'departed', 'stayed', 'stayed', 'stayed', 'needless']);
  assert.match(await page.locator('[data-side="policy"] .summary').innerText(), /1 needless of 3 moved; 4 of 7 keep/);
  assert.match(await page.locator('[data-side="policy"] > .note').innerText(), /6 \(A → C\)/);
  assert.match(await page.locator('[data-side="other"] .summary').innerText(), /^0 needless/);
  await page.getByRole('button', { name: 'Remove B' }).click();
  await page.getByText('Nothing changes yet').first().waitFor();
  await close();
});

test('draining, weights and newcomers are changes as well', async () => {
  const { page, close } = await open(four('change', 251));
  const figure = (row, side = 'other') => page.locator(`[data-side="${side}"] tr[data-row="${row}"] td`).first().innerText().then((t) => parseInt(t, 10));
  await page.getByRole('button', { name: 'Drain gamma' }).click();
  assert.ok(await figure('had to move') > 30);
  assert.equal(await figure('moved needlessly'), 0);
  await page.getByRole('button', { name: 'Undo all' }).click();
  await page.getByLabel('New weight of alpha').fill('3');
  await page.keyboard.press('Enter');
  assert.ok(await figure('asked to move') > 30);
  assert.equal(await figure('moved needlessly'), 0);
  await page.getByRole('button', { name: 'Undo all' }).click();
  await page.getByRole('button', { name: 'Let a new backend join' }).click();
  assert.ok(await figure('asked to move') > 20);
  assert.equal(await figure('moved needlessly'), 0);
  await close();
});

test('policies are compared over 20,000 flows at each size', async () => {
  const { page, close } = await open(four('compare', 31, '&change=3:remove&with=maglev,rendezvous-table,modulo&seeds=3'));
  await page.getByText('20,000 flows, 3 seeds').waitFor();
  const cell = (id) => page.locator(`[data-cell="${id}"]`).textContent().then((t) => parseFloat(t));
  for (const size of [7, 251, 65537]) assert.equal(await cell(`churn rendezvous-table ${size}`), 0);
  assert.ok(await cell('churn maglev 65537') < 0.5);
  assert.ok(await cell('churn maglev 65537') < await cell('churn maglev 31') / 10);
  assert.ok(await cell('churn modulo 31') > 40);
  assert.ok(await cell('balance maglev 65537') < 5);
  assert.equal(await page.locator('.chart .series').count(), 6);
  await close();
});

test('an experiment is predicted, verified, and shown', async () => {
  const { page, close } = await open('#view=tour');
  const first = page.locator('[data-experiment="draft"]');
  await first.getByRole('button', { name: 'Verify' }).click();
  await first.getByText('Choose what you expect first').waitFor();
  await first.getByText('5 times').click();
  await first.getByRole('button', { name: 'Verify' }).click();
  await first.getByText('As you said. 5 refusals in 7 turns').waitFor();
  for (const [id, guess, outcome] of [['lookup', 'nearly all', '“about 1 in 100”'], ['change', 'they fall below a tenth', 'As you said']]) {
    const card = page.locator(`[data-experiment="${id}"]`);
    await card.getByText(guess).click();
    await card.getByRole('button', { name: 'Verify' }).click();
    await card.getByText(outcome).waitFor();
  }
  await page.locator('[data-experiment="change"]').getByRole('button', { name: 'See which cells' }).click();
  assert.equal(await page.getByRole('tab', { name: 'Change' }).getAttribute('aria-selected'), 'true');
  assert.equal((await owners(page, 'policy')).length, 31);
  await close();
});

test('questions have answers', async () => {
  const { page, close } = await open('#view=tour');
  const cards = page.locator('.question');
  assert.ok(await cards.count() >= 5);
  for (let i = 0; i < await cards.count(); i += 1) {
    await cards.nth(i).locator('.choice').first().click();
    await cards.nth(i).getByRole('button', { name: 'Answer' }).click();
    assert.match(await cards.nth(i).locator('.outcome').innerText(), /^(✓ Yes\.|✗ No: “.+\.”) .{40}/);
  }
  await close();
});

test('a link shows what its sender saw', async () => {
  const sender = await open(four('draft', 7));
  await sender.page.locator('.size[data-size="23"]').click();
  await sender.page.getByRole('button', { name: 'Add a backend' }).click();
  await sender.page.getByLabel('weight of backend g').fill('3');
  await sender.page.keyboard.press('Enter');
  await sender.page.getByLabel('Seed, which').fill('0xfeed');
  await sender.page.keyboard.press('Enter');
  for (let i = 0; i < 9; i += 1) await sender.page.getByRole('button', { name: 'One turn on' }).click();
  await sender.page.getByRole('button', { name: 'Copy link' }).click();
  const hash = new URL(sender.page.url()).hash;
  const seen = [await owners(sender.page, 'draft'), await sender.page.locator('.narration').innerText()];
  assert.equal(await sender.page.locator('.counter').innerText(), '9 / 23');
  const receiver = await open(hash, { viewport: NARROW, colorScheme: 'dark' });
  assert.deepEqual([await owners(receiver.page, 'draft'), await receiver.page.locator('.narration').innerText()], seen);
  await sender.close();
  await receiver.close();
});

test('names from a link are text, whatever they look like', async () => {
  const name = '<img src=x onerror=alert(1)>';
  const { page, close } = await open(`#view=change&policy=maglev&m=7&b=${encodeURIComponent(name)},b&change=0:remove`);
  assert.equal(await page.locator('.changes .name').first().textContent(), name);
  assert.equal(await page.locator('img[src="x"]').count(), 0);
  await close();
});

test('what the library refuses is said, and undone when it is put right', async () => {
  const { page, close } = await open(four('draft', 7));
  await page.getByLabel('name of backend b').fill('alpha');
  await page.keyboard.press('Enter');
  await page.locator('#problem').getByText('same identity').waitFor();
  await page.locator('.backends [data-field="name"]').nth(1).fill('other');
  await page.keyboard.press('Enter');
  await page.locator('#problem').waitFor({ state: 'hidden' });
  assert.equal((await owners(page, 'draft')).length, 7);
  await close();
});

test('golden records hold in the page', async () => {
  const { page, close } = await open();
  const all = await records();
  const found = await check(page, all);
  assert.deepEqual(found, []);
  await close();
});

const check = (page, all) => page.evaluate(`(async () => {
  const { Library } = await import('./js/library.js');
  return (${differences})(await Library.load(), ${JSON.stringify(all)});
})()`);

test('opened as a file, the page says what to do', async () => {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
  const page = await browser.newPage();
  await page.goto(pathToFileURL(`${lab}index.html`).href);
  await page.getByText('Serve the folder instead').waitFor();
  await browser.close();
});
