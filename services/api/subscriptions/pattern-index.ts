/**
 * Which patterns match a stream path: `*` is one segment, `**` any number of them, none included (SUB-07).
 *
 * Owns: the tree of all patterns by segment. Promises: a match walks the tree along the path, whatever the number of patterns that share segments, and visits each node once a segment, so that no
 * pattern can make it explode.
 */
import { FirnError } from '../../../shared/protocol/errors.js';
import { PATTERN_CHARS_MAX, PATTERN_SEGMENTS_MAX } from './limits.js';

const ONE = '*';
const MANY = '**';
const LONE_SURROGATE = /\p{Surrogate}/u;

/** The pattern in its normal form: without slashes at its ends. Throws INVALID_REQUEST. */
export function normalPattern(text: string): string {
  const pattern = text.replace(/^\/+|\/+$/g, '');
  if (pattern.length > PATTERN_CHARS_MAX || LONE_SURROGATE.test(pattern)) throw badPattern(`a pattern has at most ${PATTERN_CHARS_MAX} characters`);
  const segments = pattern.split('/');
  if (segments.length > PATTERN_SEGMENTS_MAX || segments.includes('')) throw badPattern(`a pattern has 1 to ${PATTERN_SEGMENTS_MAX} segments, none of them empty`);
  return pattern;
}

/** What every match begins with: the segments before the first wildcard, with the slash behind them. */
export function literalPrefix(pattern: string): string {
  const segments = pattern.split('/');
  const first = segments.findIndex((segment) => segment === ONE || segment === MANY);
  if (first < 0) return pattern;
  // `a/**` matches `a` itself.
  const literal = segments.slice(0, first);
  return segments[first] === MANY || literal.length === 0 ? literal.join('/') : `${literal.join('/')}/`;
}

class Node<T> {
  readonly children = new Map<string, Node<T>>();
  value: T | null = null;

  /** `many`: stands for `**`. */
  constructor(readonly many: boolean) {}
}

/** Adds a node, and what is behind it without taking a segment. */
function enter<T>(nodes: Set<Node<T>>, node: Node<T>): void {
  nodes.add(node);
  const many = node.children.get(MANY);
  if (many !== undefined) enter(nodes, many);
}

export class PatternIndex<T> {
  readonly #root = new Node<T>(false);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** `pattern` in its normal form, not there yet. */
  add(pattern: string, value: T): void {
    let node = this.#root;
    for (const segment of pattern.split('/')) {
      let next = node.children.get(segment);
      if (next === undefined) node.children.set(segment, (next = new Node(segment === MANY)));
      node = next;
    }
    if (node.value !== null) throw new Error('a pattern is there twice');
    node.value = value;
    this.#size++;
  }

  remove(pattern: string): void {
    const way: { readonly parent: Node<T>; readonly segment: string }[] = [];
    let node = this.#root;
    for (const segment of pattern.split('/')) {
      const next = node.children.get(segment);
      if (next === undefined) throw new Error('a pattern is not there');
      way.push({ parent: node, segment });
      node = next;
    }
    node.value = null;
    this.#size--;
    for (const { parent, segment } of way.reverse()) {
      const child = parent.children.get(segment)!;
      if (child.value !== null || child.children.size > 0) return;
      parent.children.delete(segment);
    }
  }

  /** Values of all patterns that match. */
  match(path: string): T[] {
    let nodes = new Set<Node<T>>();
    enter(nodes, this.#root);
    for (const segment of path.split('/')) {
      const next = new Set<Node<T>>();
      for (const node of nodes) {
        const literal = node.children.get(segment);
        // A stream may be called `*`; only a pattern's own stars are wild.
        if (literal !== undefined && segment !== ONE && segment !== MANY) enter(next, literal);
        const one = node.children.get(ONE);
        if (one !== undefined) enter(next, one);
        if (node.many) enter(next, node);
      }
      if (next.size === 0) return [];
      nodes = next;
    }
    const values: T[] = [];
    for (const { value } of nodes) if (value !== null) values.push(value);
    return values;
  }
}

function badPattern(detail: string): FirnError {
  return new FirnError('INVALID_REQUEST', { detail });
}
