// The commands that do and tell what this page shows: each with what it is for.

import { quoted } from '../../lab/js/shell.js';

/** Where the commands ask without being told: `DEFAULT_SOCKET` of the command line. */
const DEFAULT_SOCKET = '/run/guideway/guideway.sock';

/** `words` for the daemon at a socket: about whom, where `names` says so. */
const line = (socket, words, ...names) => {
  const where = socket && socket !== DEFAULT_SOCKET ? ` --socket ${quoted(socket)}` : '';
  // Behind two dashes a name with a dash at its beginning is no option.
  const dashed = names.some((name) => String(name).startsWith('-')) ? ' --' : '';
  return `guideway ${words}${where}${dashed}${names.map((name) => ` ${quoted(String(name))}`).join('')}`;
};

export function ofBackend({ service, name, weight, removed }, socket) {
  const show = ['Tell all that is known of it', line(socket, 'backend show', service, name)];
  // One that has left the configuration drains by itself; it takes no orders.
  if (removed) return [show];
  return [
    ['Drain: keep its flows, take no new ones', line(socket, 'drain', service, name)],
    ['Drain, and wait until nothing lives there', line(socket, 'drain --wait', service, name)],
    ['Ready: take flows while its checks pass', line(socket, 'ready', service, name)],
    ['Maintenance: its flows end at once', line(socket, 'maintenance', service, name)],
    ['Weight: put in the one that you want', line(socket, 'weight', service, name, weight)],
    ['Reset: what the configuration says', line(socket, 'reset', service, name)],
    show,
  ];
}

export function ofService({ name, listen }, socket) {
  const commands = [
    ['Tell all that is known of it', line(socket, 'service', name)],
    ['Show who owns which slot', line(socket, 'table show', name)],
    ['Watch what passes', line(socket, 'top', name)],
  ];
  const flow = exampleFlow(listen);
  if (flow) commands.push(["Explain a flow: put in the client's address", line(socket, 'explain', ...flow)]);
  return commands;
}

/** A made-up client, the first place of one address, and its protocol; null where there is none. */
function exampleFlow(listen) {
  for (const place of listen) {
    const [, at, v6, port, protocol] = /^((?:\[([^\]/]+)\]|[\d.]+):)(\d+|\*)\/(\w+)$/.exec(place) ?? [];
    if (at) return [v6 ? '[2001:db8::7]:51514' : '198.51.100.7:51514', `${at}${port === '*' ? 443 : port}`, protocol];
  }
  return null;
}

export const ofTrial = (socket) => [['Keep it', line(socket, 'confirm')], ['Go back now', line(socket, 'rollback')]];
