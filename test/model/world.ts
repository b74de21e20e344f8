/** What a sequence works on: the node, and the model beside it. */
import { Stream } from '../support/stream.js';
import { Ledger } from './ledger.js';
import { Places } from './places.js';
import type { Rig } from './rig.js';
import { Spec } from './spec.js';

export const PATHS = Array.from({ length: 7 }, (_, i) => `/mod-${'abc'[i % 3]!}/s${i}`);

export class World {
  readonly spec = new Spec();
  readonly places: Places;
  readonly ledger = new Ledger(PATHS);
  #made = 0;

  constructor(readonly rig: Rig) {
    this.places = new Places(rig, this.spec);
  }

  stream(path: string, base = false): Stream {
    return new Stream(this.rig.node.http, base ? `/v1/stream${path}` : path);
  }

  /** Seals by an operator's hand: what is below the prefix survives the machine from now on. */
  async seal(prefix = ''): Promise<void> {
    await this.rig.node.seal(prefix);
    this.ledger.sealed(this.spec, prefix);
  }

  /** A number that no other body of this world holds. */
  unique(): number {
    return (this.#made += 1);
  }
}
