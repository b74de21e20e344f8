/** Limits of a request to a webhook, each with its unit (I11). */

/** Characters of a webhook's URL. */
export const URL_CHARS_MAX = 2_048;
/** Longest delivery, ms; never longer than the lease that it starts. */
export const DELIVERY_MS_MAX = 30_000;
/** Time for a receiver to be resolved and connected to, ms. */
export const CONNECT_MS = 5_000;
/** Bytes of a receiver's answer that are read: beyond them it says nothing. */
export const ANSWER_BYTES_MAX = 65_536;

if (CONNECT_MS > DELIVERY_MS_MAX) throw new Error('a connection is a part of a delivery');
