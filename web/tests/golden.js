// Golden records against the module: the same function runs in Node and in the page.

import { readFile, readdir } from 'node:fs/promises';

const folder = new URL('../../crates/guideway-hash/vectors/', import.meta.url);

/** All golden records of the repository. */
export async function records() {
  const files = (await readdir(folder)).filter((name) => name.endsWith('.json'));
  const lists = await Promise.all(files.map(async (name) => JSON.parse(await readFile(new URL(name, folder), 'utf8'))));
  return lists.flat();
}

/** What of `records` does not hold. It refers to nothing outside itself, so that it can be sent to the page. */
export async function differences(library, all) {
  const found = [];
  for (const record of all) {
    const { profile, table_size: size, params, backends } = record;
    const wrong = (what) => found.push(`${profile}, ${record.case}: ${what}`);
    const owners = library.profile({ profile, size, params, backends });
    const sum = await crypto.subtle.digest('SHA-256', owners.slice());
    const hex = [...new Uint8Array(sum)].map((b) => b.toString(16).padStart(2, '0')).join('');
    if (owners.length !== size) wrong('size');
    if (hex !== record.sha256_le_u32.toLowerCase()) wrong('checksum');
    if ((record.first32 ?? []).some((owner, slot) => owners[slot] !== owner)) wrong('first slots');
    const counts = new Array(backends.length).fill(0);
    for (const owner of owners) counts[owner] += 1;
    if ((record.counts_by_input_index ?? []).some((n, i) => counts[i] !== n)) wrong('counts');
    for (const flow of record.flow_slots ?? []) {
      if (library.profileFlow({ profile, size, params, flow }) !== flow.slot) wrong(`slot of the flow from ${flow.src}`);
    }
  }
  return found;
}
