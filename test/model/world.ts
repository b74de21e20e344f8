/** What a sequence works on: the node, and the model beside it. */
import { Stream } from '../support/stream.js';
import { Places } from './places.js';
import type { Rig } from './rig.js';
import { Spec } from './spec.js';

export class World {
  readonly spec = new Spec();
  readonly places: Places;
  #made = 0;

  constructor(readonly rig: Rig) {
    this.places = new Places(rig, this.spec);
  }

  stream(path: string, base = false): Stream {
    return new Stream(this.rig.node.http, base ? `/v1/stream${path}` : path);
  }

  /** A number that no other body of this world holds. */
  unique(): number {
    return (this.#made += 1);
  }
}
