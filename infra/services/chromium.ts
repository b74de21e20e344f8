/**
 * A real browser for tests: the `chromium` of this machine, installed by apt where there is none and the user may.
 */
import { ensurePrograms } from './debian.js';

export interface Launch {
  readonly executablePath: string;
  readonly args: string[];
}

/** How to launch it. The flags keep it from phoning home, and make it run as root and without a display. */
export async function ensureChromium(): Promise<Launch> {
  await ensurePrograms(['chromium'], ['chromium']);
  return {
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  };
}
