import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Rig } from './cold-rig.contract.js';

let dir: string;
let rig: Rig | null = null;

beforeEach(async () => {
  dir = await Rig.dir();
});
afterEach(async () => {
  await rig?.close();
  rig = null;
  await Rig.remove(dir);
});

describe('sealing through a real log', () => {
  it('moves the frontier, evicts, and reads the same bytes (I1, I3)', async () => {
    rig = await Rig.open(dir, { hotKeepMs: 0 });
    await rig.create('demo/a');
    let expected = '';
    for (let n = 0; n < 50; n++) {
      const line = `record ${n} of a\n`;
      expected += line;
      await rig.append('demo/a', line, { id: 'p', epoch: 0, seq: n });
    }
    const report = await rig.seal();
    expect(report).toEqual({ segments: 1, bytes: expected.length, streams: 1 });
    const record = await rig.head('demo/a');
    expect(record.sealed).toBe(expected.length);
    expect(record.hotStart).toBe(expected.length);
    expect(record.change).toBe(record.loggedChange);
    expect((await rig.read('demo/a')).toString()).toBe(expected);
    await rig.append('demo/a', 'more\n');
    expect((await rig.read('demo/a', 100)).toString()).toBe(`${expected}more\n`);
    expect(await rig.seal()).toEqual({ segments: 1, bytes: 5, streams: 1 });
    expect(await rig.seal()).toEqual({ segments: 0, bytes: 0, streams: 0 });
    expect((await rig.read('demo/a')).toString()).toBe(`${expected}more\n`);
  });
});
