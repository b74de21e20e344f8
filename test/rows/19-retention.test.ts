/** Section 19 of the requirements: retention. */
import { expect, it } from 'vitest';
import { useNode } from '../support/node.js';
import { fresh, JSON_TYPE, OCTETS, TEXT } from '../support/stream.js';

const node = useNode();
const pad = (offset: number): string => String(offset).padStart(20, '0');

const stream = async (type = OCTETS, body = 'abcdefghij', snapshotAt: number | null = 8) => {
  const s = fresh(node);
  await s.create({ type, body });
  if (snapshotAt !== null) expect((await s.publish(pad(snapshotAt), 'snap')).status).toBe(204);
  return s;
};

it('RET-01 RET-02 RET-12 RET-15 the boundary moves to the offset', async () => {
  const s = await stream();
  const answer = await s.retain(pad(5));
  expect([answer.status, answer.body.length, answer.header('stream-retained-offset')]).toEqual([204, 0, pad(5)]);
  expect(answer.incarnation).toBe(await s.token());
  expect((await s.head()).header('stream-retained-offset')).toBe(pad(5));
  expect((await s.retain(pad(8))).header('stream-retained-offset')).toBe(pad(8));
});

it('RET-03 RET-17 on a JSON stream only message boundaries; conflicts with state come first', async () => {
  const s = await stream(JSON_TYPE, '[{"a":1},{"b":2}]', 8);
  const inside = await s.retain(pad(3));
  expect([inside.status, inside.code]).toEqual([400, 'NOT_JSON_BOUNDARY']);
  expect((await s.head()).header('stream-retained-offset')).toBe(pad(0));
  expect((await s.retain(pad(11))).status).toBe(409);
  expect((await s.retain(pad(8))).status).toBe(204);
});

it('RET-04 RET-16 a boundary that moves backward answers 410', async () => {
  const s = await stream();
  await s.retain(pad(5));
  const answer = await s.retain(pad(4));
  expect([answer.status, answer.code]).toEqual([410, 'STREAM_GONE']);
  expect((await s.head()).header('stream-retained-offset')).toBe(pad(5));
});

it('RET-05 RET-06 RET-17 beyond the snapshot or the tail, or without a snapshot, it answers 409', async () => {
  const s = await stream();
  for (const offset of [9, 10, 11, 1_000]) {
    const answer = await s.retain(pad(offset));
    expect([offset, answer.status, answer.code, answer.next]).toEqual([offset, 409, 'SNAPSHOT_CONFLICT', pad(10)]);
  }
  expect((await (await stream(OCTETS, 'abc', null)).retain(pad(2))).status).toBe(409);
  expect((await s.retain('xyz')).status).toBe(400);
  expect((await s.head()).header('stream-retained-offset')).toBe(pad(0));
});

it('RET-08 a retention that names the old incarnation never touches the new stream', async () => {
  for (let round = 0; round < 5; round += 1) {
    const s = await stream();
    const old = await s.token();
    const racing = Promise.all([s.retain(pad(5), { 'stream-incarnation': old }), s.publish(pad(9), 'late', OCTETS, { 'stream-incarnation': old }), s.delete()]);
    await racing;
    await s.create({ type: OCTETS, body: '0123456789' });
    expect((await s.retain(pad(5), { 'stream-incarnation': old })).status).not.toBe(204);
    const head = await s.head();
    expect([head.header('stream-retained-offset'), head.header('stream-snapshot-offset')]).toEqual([pad(0), undefined]);
  }
});

it('RET-10 RET-11 RET-12 the boundary itself stays readable, and nothing below it', async () => {
  const s = await stream();
  await s.retain(pad(5));
  expect((await s.read({ offset: pad(5) })).text).toBe('fghij');
  for (let offset = 0; offset < 5; offset += 1) expect((await s.read({ offset: pad(offset) })).status).toBe(410);
});

it('RET-13 a missing stream answers 404', async () => {
  expect((await fresh(node).retain(pad(0))).code).toBe('STREAM_NOT_FOUND');
});

it('RET-14 once reads answer 410, the bootstrap covers the boundary', async () => {
  const s = await stream();
  await s.retain(pad(8));
  const boot = await s.bootstrap();
  expect(boot.status).toBe(200);
  expect(boot.need('stream-snapshot-offset') >= (await s.head()).need('stream-retained-offset')).toBe(true);
});

it('RET-18 the current boundary again succeeds, also without a snapshot', async () => {
  const s = await stream();
  for (let i = 0; i < 2; i += 1) expect((await s.retain(pad(5))).status).toBe(204);
  expect((await (await stream(OCTETS, 'abc', null)).retain(pad(0))).status).toBe(204);
});

it('RET-19 a superseded snapshot below the boundary is gone', async () => {
  const s = await stream(OCTETS, 'abcdefghij', 3);
  await s.publish(pad(8), 'newer');
  await s.retain(pad(8));
  expect((await s.sub('GET', `snapshot/${pad(3)}`)).code).toBe('SNAPSHOT_NOT_FOUND');
  expect((await s.sub('GET', `snapshot/${pad(8)}`)).text).toBe('newer');
});

it('R022 reads beside a moving boundary are complete, or 410, and nothing else', async () => {
  const s = fresh(node);
  await s.create({ type: TEXT });
  const body = Array.from({ length: 2_000 }, (_, i) => `${String(i).padStart(7, '0')}\n`).join('');
  await s.append(body);
  await s.publish(pad(body.length), 'snap');
  let over = false;
  const reading = Promise.all(
    [0, 1, 2].map(async () => {
      while (!over) {
        const from = Number((await s.head()).need('stream-retained-offset'));
        const read = await s.read({ offset: pad(from) });
        if (read.status === 410) continue;
        expect(read.status).toBe(200);
        expect(read.text).toBe(body.slice(from));
      }
    }),
  );
  for (let offset = 0; offset < body.length; offset += 333) expect((await s.retain(pad(offset))).status).toBe(204);
  over = true;
  await reading;
});
