// The console in a real browser, before an API that answers what a daemon answered.

import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { noFaults } from './axe.js';
import { daemon, recordings } from './console-server.js';
import { open } from './page.js';

const TOKEN = '0123456789abcdef0123456789abcdef';
const NETWORK = /Failed to load resource|ERR_/;
const [first, second] = await recordings();
const daemons = [];
after(() => daemons.forEach((it) => it.close()));

/** The console at `hash`, of a daemon that answers so. */
async function consoleOf(hash = '', answers = first, { token, ...options } = {}) {
  const it = await daemon(structuredClone(answers), { token });
  daemons.push(it);
  return { it, ...await open(hash, { url: it.url, stands: true, ...options }) };
}

/** Lets two seconds pass, and waits for the answers that are asked for then. */
async function next(page, it) {
  const before = it.asked.filter((line) => line.includes('/v1/events')).length;
  const came = page.waitForResponse((response) => response.url().includes('/v1/events'));
  await page.clock.runFor(2000);
  await (await came).finished();
  assert.equal(it.asked.filter((line) => line.includes('/v1/events')).length, before + 1);
  await page.waitForFunction(() => true);
}

const fact = (page, name) => page.locator(`[data-fact="${name}"]`).filter({ visible: true });
const value = async (page, name) => (await fact(page, name).locator('.value').innerText()).replaceAll(',', '');
const note = async (page, name) => (await fact(page, name).locator('small').innerText()).replaceAll(',', '');
const cell = (page, backend, column) => page.locator(`tr[data-backend="${backend}"] [data-column="${column}"]`).filter({ visible: true });
const backends = (answers) => answers.services.flatMap((service) => service.backends);
const find = (answers, name) => backends(answers).find((backend) => backend.name === name);

test('the numbers are those of the API', async () => {
  const { page, close } = await consoleOf();
  const { status } = first;
  for (const [name, expected] of [
    ['Received', status.packets.received_total], ['Forwarded', status.packets.forwarded_total], ['Answered', status.packets.answered_total],
    ['Passed', status.packets.passed_total], ['Dropped', status.packets.dropped_total], ['Remembered flows', status.flow_table.entries],
    ['Services', status.services], ['Backends', status.backends.total], ['Take new flows', status.backends.eligible],
    ['Failing', status.backends.failing], ['Set to drain', status.backends.draining], ['In maintenance', status.backends.maintenance],
    ['Version', status.version], ['Engine', status.engine], ['Interface c0', status.interfaces[0].mode],
    ['Source', status.config.source], ['Revision', status.revision], ['Digest', status.digest],
  ]) assert.equal(await value(page, name), String(expected), name);
  assert.match(await note(page, 'Remembered flows'), new RegExp(`of ${status.flow_table.capacity}`));
  assert.equal(await note(page, 'Started'), status.started_at);
  assert.equal(await note(page, 'Received'), '– packets/s');
  for (const backend of backends(first)) {
    const text = async (column) => (await cell(page, backend.name, column).innerText()).replaceAll(',', '');
    assert.match(await text('Backend'), new RegExp(`${backend.name}\\s+${backend.address}`));
    assert.match(await text('State'), new RegExp(`\\S\\s*${backend.state}`));
    assert.match(await text('Admin'), new RegExp(`^${backend.admin}${backend.overridden ? '\\s+by an operator' : ''}$`));
    assert.match(await text('Weight'), new RegExp(`^${backend.weight}\\b`));
    assert.match(await text('Slots'), new RegExp(`^${backend.slots}\\s+${(backend.share * 100).toFixed(1)} %`));
    assert.equal(await text('Packets'), String(backend.packets_total));
    assert.match(await text('Drain'), backend.drain ? new RegExp(`^${backend.drain.phase} ${backend.drain.unsettled_slots} slots\\s+for 2s cut in 29m 57s ${backend.drain.ending_flows} ending flows`) : /^$/);
  }
  for (const service of first.services) {
    const head = (await page.locator(`[data-service="${service.name}"] .head`).innerText()).replaceAll(',', '');
    for (const told of [...service.listen, service.policy, service.slots, `${service.eligible} of ${service.backends.length}`, service.packets_total]) assert.ok(head.includes(String(told)), `${told} in ${head}`);
  }
  const events = await page.locator('.events .text').allInnerTexts();
  assert.equal(events.length, first.events.length);
  first.events.toReversed().forEach((event, i) => assert.ok(events[i].endsWith(event.by ? `${event.text} by ${event.by}` : event.text)));
  await close();
});

test('rates are what passed between two answers, and the rest follows', async () => {
  const { it, page, close } = await consoleOf();
  it.answers = second;
  await next(page, it);
  const received = second.status.packets.received_total;
  await page.getByText(received.toLocaleString('en'), { exact: true }).first().waitFor();
  const rate = (now, before) => String(Math.round((now - before) / 2));
  assert.equal(await note(page, 'Received'), `${rate(received, first.status.packets.received_total)} packets/s`);
  for (const backend of backends(second)) {
    assert.equal(await cell(page, backend.name, 'Packets/s').innerText(), rate(backend.packets_total, find(first, backend.name).packets_total));
  }
  // Only new events are asked for.
  assert.ok(it.asked.at(-1).includes(`after=${first.events.at(-1).number}&`), it.asked.at(-1));
  // Another daemon's counters began anew.
  it.answers = { ...structuredClone(first), events: first.events.slice(0, 3) };
  it.answers.status.started_at = '2026-11-30T19:00:00.000Z';
  await next(page, it);
  await page.getByText(first.status.packets.received_total.toLocaleString('en'), { exact: true }).first().waitFor();
  assert.equal(await note(page, 'Received'), '– packets/s');
  await close();
});

test('a failing backend is seen without colours, with the reason', async () => {
  const { page, close } = await consoleOf('', first, { forcedColors: 'active' });
  assert.match(await cell(page, 'be3', 'State').innerText(), /✗\s*down/);
  assert.match(await cell(page, 'be3', 'Health').innerText(), /\?\s*never-passed\s+for \d+s\s+direct probe failed: direct: status 503, not 200/);
  assert.match(await cell(page, 'be1', 'State').innerText(), /●\s*active/);
  assert.match(await cell(page, 'be1', 'Health').innerText(), /✓\s*up/);
  assert.match(await page.locator('[data-service="mail"] .wrong').innerText(), /✗ no backend takes new flows · 2 failing/);
  // What is wrong comes first.
  assert.equal(await page.locator('.service').first().getAttribute('data-service'), 'mail');
  await close();
});

test('what needs attention is said above all else, once', async () => {
  const answers = structuredClone(first);
  const { status } = answers;
  status.interfaces = [
    { name: 'eth0', index: 2, mode: 'generic', fell_back: 'the driver has no XDP' },
    { name: 'eth1', index: 3, mode: 'native', lost: 'somebody took it away' },
  ];
  status.faults = ['mail: no backend takes new flows'];
  status.notes = ['eth0 runs in generic mode, not in native; `guideway doctor eth0` tells more', ...status.faults];
  Object.assign(status.config, { last_reload_successful: false, last_reload_error: 'guideway.toml:3: no such policy' });
  status.drift = { rounds_total: 9, repairs_total: { slot: 2, pin: 0 }, failing: { link: 'cannot read the link' } };
  const { it, page, close } = await consoleOf('#/service/web', answers);
  const told = page.locator('.attention li:not(.commands li)');
  const texts = await told.allInnerTexts();
  assert.deepEqual(texts, [
    '✗ Fault: The last reload failed, and what was in force goes on: guideway.toml:3: no such policy',
    '✗ Fault: eth1: the program is not there: somebody took it away',
    '✗ Fault: mail: no backend takes new flows', '✗ Fault: cannot read the link',
    '· Note: eth0 runs in generic mode, not in native; `guideway doctor eth0` tells more',
  ]);
  assert.match(await page.locator('.trial').innerText(), new RegExp(`goes back in .+, at ${status.config.confirm_by}, unless somebody confirms it.*guideway confirm`, 's'));
  await page.getByRole('link', { name: 'All services' }).click();
  assert.match(await value(page, 'Interface eth1'), /lost: somebody took it away/);
  assert.match(await note(page, 'Interface eth0'), /not native: the driver has no XDP/);
  assert.equal(await value(page, 'Last reload'), '✗ failed');
  assert.match(await note(page, 'Compared with the kernel'), /put right: 2 slot$/);
  Object.assign(it.answers, structuredClone(first));
  it.answers.status.notes = it.answers.status.faults = [];
  delete it.answers.status.config.confirm_by;
  await next(page, it);
  await page.locator('.attention').waitFor({ state: 'hidden' });
  await close();
});

test('a token is asked for, kept in the tab alone, and sent', async () => {
  const { it, page, close } = await consoleOf('', first, { token: TOKEN, expects: /401/, ready: '.token:visible' });
  assert.match(await page.locator('.token').innerText(), /token for readers suffices.*--read-token-file.*--listen/s);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'token');
  await page.keyboard.type('wrong');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('does not know this token').waitFor();
  await page.getByLabel('Token for readers').fill(TOKEN);
  await page.getByRole('button', { name: 'Open the console' }).click();
  await page.locator('tr[data-backend="be1"]').waitFor();
  assert.ok(await page.locator('.token').isHidden());
  const kept = await page.evaluate(() => [JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.cookie, location.href]);
  assert.deepEqual(kept.map((text) => text.includes(TOKEN)), [true, false, false, false]);
  await page.reload();
  await page.locator('tr[data-backend="be1"]').waitFor();
  await page.getByRole('button', { name: 'Forget token' }).click();
  await page.locator('.token').waitFor();
  assert.equal(await page.locator('tr[data-backend]').filter({ visible: true }).count(), 0);
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  assert.ok(it.asked.every((line) => line.startsWith('GET ')), 'it only reads');
  await close();
});

test('an address leads to a service or a backend, and back', async () => {
  const answers = structuredClone(first);
  Object.assign(find(answers, 'be4').drain, { phase: 'busy', live_flows: 1234 });
  const { page, close } = await consoleOf('#/service/web/backend/be4', answers);
  // What a changed address does comes after whatever changed it has returned.
  const titled = (text) => page.getByRole('heading', { level: 2 }).first().filter({ hasText: new RegExp(`^${text}$`) }).waitFor();
  await titled('web › be4');
  const { health, next_hop } = find(first, 'be4');
  assert.equal(await value(page, 'Address'), '10.77.1.14');
  assert.equal(await value(page, 'Drain'), '1234 live flows');
  assert.equal(await value(page, 'Decided by'), health.reason);
  assert.equal(await value(page, 'Next hop'), next_hop.mac);
  assert.equal(await value(page, 'Weight in effect'), '0');
  await page.getByRole('link', { name: 'web', exact: true }).click();
  await titled('web');
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'H2');
  assert.equal(await value(page, 'Digest'), first.services.find((service) => service.name === 'web').digest);
  await page.getByRole('link', { name: 'be2', exact: true }).click();
  assert.match(await note(page, 'Weight'), /2 by the configuration/);
  assert.match(await page.title(), /^be2 · web/);
  await page.goBack();
  await page.goBack();
  await titled('web › be4');
  await page.evaluate(() => { location.hash = '#/service/none/backend/x'; });
  await page.getByText('There is no backend x of a service none.').waitFor();
  await page.locator('#missing').getByRole('link', { name: 'All services' }).click();
  await page.locator('.service').first().waitFor();
  await close();
});

test('a daemon that goes away is said, with how old the numbers are, and that it is back', async () => {
  const { it, page, close } = await consoleOf('', first, { expects: NETWORK });
  it.away = true;
  await page.clock.runFor(2000);
  await page.getByRole('alert').getByText("The daemon can't be reached").waitFor();
  await page.clock.runFor(1000);
  await page.getByText('numbers are 3s old').waitFor();
  assert.equal(await value(page, 'Forwarded'), String(first.status.packets.forwarded_total));
  it.away = false;
  it.answers = second;
  await next(page, it);
  await page.locator('#away').waitFor({ state: 'hidden' });
  await page.getByText('● Live').waitFor();
  await close();
});

test('nothing is asked while the page is paused or out of sight', async () => {
  const { it, page, close } = await consoleOf();
  const pause = page.getByRole('button', { name: 'Pause' });
  await pause.click();
  const asked = it.asked.length;
  await page.clock.runFor(10_000);
  assert.equal(it.asked.length, asked);
  await page.getByText('numbers are 10s old').waitFor();
  await pause.click();
  await page.getByText('● Live').waitFor();
  await next(page, it);
  const sight = (hidden) => page.evaluate((value) => {
    Object.defineProperty(document, 'hidden', { value, configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await sight(true);
  const before = it.asked.length;
  await page.clock.runFor(10_000);
  assert.equal(it.asked.length, before);
  const again = page.waitForResponse(/events/);
  await sight(false);
  await again;
  await close();
});

/** Many of what was recorded. */
function many(services, each) {
  const answers = structuredClone(first);
  const [, , web] = answers.services;
  const [be1, , be3] = web.backends;
  answers.services = Array.from({ length: services }, (_, s) => ({
    ...web, name: `s${s}`,
    backends: Array.from({ length: each }, (_, b) => ({ ...(b % 100 === 99 ? be3 : be1), service: `s${s}`, name: `b${b}`, address: `10.${s % 256}.${b >> 8}.${b % 256}` })),
  }));
  return answers;
}

test('of 5,000 backends some hundred rows are shown, and the others are counted', async () => {
  const { it, page, close } = await consoleOf('', many(1, 5000));
  await page.getByRole('button', { name: 'Backends of s0' }).click();
  const rows = page.locator('tr[data-backend]').filter({ visible: true });
  assert.equal(await rows.count(), 299);
  await page.getByText('4,701 more backends are hidden: filter').waitFor();
  // Those that fail come first.
  assert.match(await rows.nth(49).innerText(), /never-passed/);
  assert.doesNotMatch(await rows.nth(50).innerText(), /never-passed/);
  await page.locator('#services-order').selectOption('name');
  assert.equal(await rows.first().getAttribute('data-backend'), 'b0');
  await page.getByText('4,701 more backends are hidden, 48 of them failing').waitFor();
  await page.locator('#services-filter').fill('10.0.19.77');
  assert.deepEqual(await rows.evaluateAll((all) => all.map((row) => row.dataset.backend)), ['b4941']);
  await next(page, it);
  await page.getByText('1 service fits, of 1.').waitFor();
  await close();
});

test('of 10,000 services the first hundreds are shown, and one is found by its name', async () => {
  const { page, close } = await consoleOf('', many(10_000, 1));
  assert.equal(await page.locator('.service').count(), 300);
  await page.getByText('9,700 more services are hidden').waitFor();
  await page.locator('#services-filter').fill('s9876');
  assert.deepEqual(await page.locator('.service').evaluateAll((all) => all.map((row) => row.dataset.service)), ['s9876']);
  assert.equal(await page.locator('tr[data-backend]').filter({ visible: true }).count(), 1);
  await close();
});

test('commands are copied as they stand, or selected where the browser lets nobody copy', async () => {
  const { page, close } = await consoleOf('#/service/web/backend/be2', first, { permissions: ['clipboard-read', 'clipboard-write'] });
  const commands = await page.locator('section:visible > .commands code').allInnerTexts();
  assert.deepEqual(commands, [
    'guideway drain web be2', 'guideway drain --wait web be2', 'guideway ready web be2', 'guideway maintenance web be2',
    'guideway weight web be2 3', 'guideway reset web be2', 'guideway backend show web be2',
  ]);
  await page.getByRole('button', { name: 'Copy as command: guideway drain web be2' }).click();
  await page.getByText('Copied.', { exact: true }).waitFor({ state: 'attached' });
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'guideway drain web be2');
  await page.evaluate(() => Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true }));
  await page.getByRole('button', { name: 'Copy as command: guideway reset web be2' }).click();
  assert.equal(await page.evaluate(() => getSelection().toString()), 'guideway reset web be2');
  await close();
});

for (const [name, hash] of [['all services', ''], ['a service', '#/service/web'], ['a backend', '#/service/web/backend/be3']]) {
  test(`${name}: no faults that axe knows, and nothing wider than a phone`, async () => {
    // Axe waits by the page's clock.
    const { page, close } = await consoleOf(hash, first, { stands: false });
    await noFaults(page);
    for (const width of [320, 360, 700, 900]) {
      await page.setViewportSize({ width, height: 640 });
      const [inner, whole] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth]);
      assert.equal(whole, inner);
    }
    await close();
  });
}

test('the token form has no faults that axe knows', async () => {
  const { page, close } = await consoleOf('', first, { token: TOKEN, expects: /401/, ready: '.token:visible', stands: false });
  await noFaults(page);
  await close();
});

test('services are opened and closed by keyboard, and stay so while numbers change', async () => {
  const { it, page, close } = await consoleOf();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'view');
  const toggle = page.getByRole('button', { name: 'Backends of web' });
  for (let i = 0; i < 60 && !await toggle.evaluate((e) => e === document.activeElement); i += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  assert.equal(await toggle.getAttribute('aria-expanded'), 'false');
  it.answers = second;
  await next(page, it);
  await page.getByText(second.status.packets.received_total.toLocaleString('en'), { exact: true }).first().waitFor();
  assert.equal(await toggle.getAttribute('aria-expanded'), 'false');
  assert.ok(await toggle.evaluate((e) => e === document.activeElement));
  assert.ok(await page.locator('tr[data-backend="be1"]').isHidden());
  await close();
});

test('the console and the laboratory lead to each other', async () => {
  const { page, close } = await consoleOf('', first, { stands: false });
  await page.getByRole('link', { name: 'To the laboratory' }).click();
  await page.getByRole('heading', { name: 'Laboratory' }).waitFor();
  await page.getByRole('link', { name: 'To the console' }).click();
  await page.locator('.service').first().waitFor();
  await close();
});
