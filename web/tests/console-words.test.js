// What the console makes of answers, without a browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ofBackend, ofService, ofTrial } from '../console/js/commands.js';
import { complaint, weightInEffect } from '../console/js/judge.js';
import { Reading } from '../console/js/rates.js';
import { parse, toBackend } from '../console/js/route.js';
import { age, short } from '../console/js/words.js';

const backend = (more = {}) => ({ service: 's', name: 'b', address: '10.0.0.1', weight: 4, slots: 10, packets_total: 0, bytes_total: 0, ...more });

test('ages and rates are written as the commands write them', () => {
  assert.deepEqual([0.4, 59.9, 61, 3600, 200_000, NaN].map(age), ['0s', '59s', '1m 1s', '1h 0m', '2d 7h', '0s']);
  assert.deepEqual([0, 9.4, 999, 1000, 12_340, 999_600, 2.5e9].map(short), ['0', '9', '999', '1.00k', '12.3k', '1.00M', '2.50G']);
});

test('an address names a service and a backend, whatever they are called', () => {
  for (const [service, name] of [['web', 'b3'], ['a/b', 'x y'], ['%', '#?'], ['é', '[::1]:80']]) {
    assert.deepEqual(parse(toBackend(service, name)), { service, backend: name });
  }
  for (const hash of ['', '#', '#/', '#/service', '#/service/', '#/other/web', '#view']) assert.deepEqual(parse(hash), { service: null, backend: null });
  assert.deepEqual(parse('#/service/web/backend/'), { service: 'web', backend: null });
  assert.deepEqual(parse('#/service/%E0%A4%A'), { service: '%E0%A4%A', backend: null });
});

test('a command names the same backend, whatever it is called', () => {
  const first = (names) => ofBackend(backend(names))[0][1];
  assert.equal(first({ service: 'web', name: 'b1' }), 'guideway drain web b1');
  assert.equal(first({ service: 'a b', name: "it's" }), "guideway drain 'a b' 'it'\\''s'");
  assert.equal(first({ service: 'web', name: '-b' }), "guideway drain -- web '-b'");
  assert.equal(first({ service: 'web', name: '$(reboot)' }), "guideway drain web '$(reboot)'");
  assert.deepEqual(ofBackend(backend({ removed: true })).map(([, command]) => command), ['guideway backend show s b']);
});

test('a command asks the daemon that the page is of', () => {
  const first = (socket) => ofBackend(backend(), socket)[0][1];
  assert.equal(first('/run/lb 1/s.sock'), "guideway drain --socket '/run/lb 1/s.sock' s b");
  assert.equal(first('/run/guideway/guideway.sock'), 'guideway drain s b');
  const asked = (socket) => [...ofService({ name: 's', listen: ['192.0.2.10:443/tcp'] }, socket), ...ofTrial(socket)].map(([, command]) => command);
  assert.ok(asked('/x.sock').every((command) => command.includes(' --socket /x.sock')), asked('/x.sock').join('\n'));
});

test('a flow is explained where the service has an address of its own', () => {
  const explained = (...listen) => ofService({ name: 's', listen }).map(([, command]) => command).filter((command) => command.includes('explain'));
  assert.deepEqual(explained('192.0.2.10:443/tcp', '192.0.2.11:80/tcp'), ['guideway explain 198.51.100.7:51514 192.0.2.10:443 tcp']);
  assert.deepEqual(explained('[2001:db8::10]:53/udp'), ["guideway explain '[2001:db8::7]:51514' '[2001:db8::10]:53' udp"]);
  assert.deepEqual(explained('[192.0.2.0/24]:80/tcp', '192.0.2.10:*/tcp'), ['guideway explain 198.51.100.7:51514 192.0.2.10:443 tcp']);
  assert.deepEqual(explained('[2001:db8::/64]:80/tcp'), []);
  assert.deepEqual(explained(), []);
});

test('no rate is told of a counter that began anew, or of who was not there', () => {
  const packets = (received_total) => ({ packets: { received_total } });
  const reading = (all, backends, at) => new Reading(packets(all), [{ name: 's', packets_total: 0, bytes_total: 0, backends }], at);
  const before = reading(10, [backend({ packets_total: 100, bytes_total: 1000 })], 0);
  const now = (more) => reading(20, [backend(more)], 2000).since(before);
  assert.deepEqual(now({ packets_total: 300, bytes_total: 2000 }).backend(backend()), { packets: 100, bits: 4000 });
  assert.equal(now({ packets_total: 300, bytes_total: 2000 }).total('received_total'), 5);
  assert.equal(now({ packets_total: 99, bytes_total: 2000 }).backend(backend()), null);
  assert.equal(now({ address: '10.0.0.2' }).backend(backend({ address: '10.0.0.2' })), null);
  assert.equal(before.since(null).backend(backend()), null);
  assert.equal(before.since(null).total('received_total'), null);
});

test('a slow start has part of the weight, and who takes no flows has none', () => {
  assert.equal(weightInEffect(backend()), 4);
  assert.equal(weightInEffect(backend({ health: { slow_start_step: 3 } })), 1.2);
  assert.equal(weightInEffect(backend({ slots: 0 })), 0);
});

test('the reason of the last failed check is told, while it fails and while it only contradicts', () => {
  const last = { reason: 'direct probe failed', detail: ['direct: connection refused'] };
  const why = 'direct probe failed: direct: connection refused';
  assert.equal(complaint(backend({ health: { verdict: 'down', contradicting: 0, last } })), why);
  assert.equal(complaint(backend({ health: { verdict: 'up', contradicting: 1, last } })), why);
  assert.equal(complaint(backend({ health: { verdict: 'up', contradicting: 0, last: { reason: 'ok', detail: [] } } })), null);
  assert.equal(complaint(backend({ health: { verdict: 'never-passed', contradicting: 0 } })), 'no check has passed yet');
  assert.equal(complaint(backend()), null);
});
