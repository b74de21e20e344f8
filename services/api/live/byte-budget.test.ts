import { describe, expect, it } from 'vitest';
import { ByteBudget } from './byte-budget.js';

describe('a budget of bytes', () => {
  const granted: string[] = [];
  const ask = (budget: ByteBudget, name: string, bytes: number) => {
    const claim = budget.claim(bytes);
    void claim.granted.then((is) => granted.push(is ? name : `not ${name}`));
    return claim;
  };
  const settled = async (): Promise<string[]> => {
    await Promise.resolve();
    await Promise.resolve();
    return granted.splice(0);
  };

  it('serves in order, and nobody overtakes', async () => {
    const budget = new ByteBudget(10);
    const a = ask(budget, 'a', 6);
    const b = ask(budget, 'b', 5);
    const c = ask(budget, 'c', 1);
    expect([await settled(), budget.heldBytes]).toEqual([['a'], 6]);
    a.release();
    expect([await settled(), budget.heldBytes]).toEqual([['b', 'c'], 6]);
    b.release();
    c.release();
    expect(budget.heldBytes).toBe(0);
  });

  it('serves one that is larger than all of it alone', async () => {
    const budget = new ByteBudget(10);
    const a = ask(budget, 'a', 1);
    const b = ask(budget, 'b', 50);
    const c = ask(budget, 'c', 1);
    expect(await settled()).toEqual(['a']);
    a.release();
    expect(await settled()).toEqual(['b']);
    b.release();
    expect([await settled(), budget.heldBytes]).toEqual([['c'], 1]);
    c.release();
  });

  it('forgets who gives up, and serves those behind', async () => {
    const budget = new ByteBudget(10);
    const a = ask(budget, 'a', 8);
    const b = ask(budget, 'b', 8);
    ask(budget, 'c', 2);
    b.giveUp();
    expect([await settled(), budget.heldBytes]).toEqual([['a', 'not b', 'c'], 10]);
    a.giveUp();
    expect(budget.heldBytes).toBe(10);
    a.release();
    expect(budget.heldBytes).toBe(2);
  });
});
