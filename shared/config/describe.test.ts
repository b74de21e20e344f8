import { describe, expect, it } from 'vitest';
import { loadConfig } from './config.js';
import { configurationPage, describeConfig } from './describe.js';

describe('description of the settings', () => {
  it('names each variable and flag once', () => {
    const rows = describeConfig();
    expect(new Set(rows.map((row) => row.variable)).size).toBe(rows.length);
    expect(rows.find((row) => row.key === 'sealAgeMs')).toMatchObject({ variable: 'FIRN_SEAL_AGE_MS', flag: '--seal-age-ms', defaultText: '60000' });
    for (const row of rows) expect(configurationPage()).toContain(`| \`${row.variable}\` |`);
  });

  it('states as default what the schema gives, wherever the default is a plain value', () => {
    const config = loadConfig({ env: {} }) as unknown as Record<string, unknown>;
    const plain = describeConfig().filter((row) => row.key in config && /^(\d+|[\d.]+|\.\/\w+|info)$/.test(row.defaultText));
    expect(plain.length).toBeGreaterThanOrEqual(14);
    for (const row of plain) {
      const value = config[row.key];
      expect(typeof value === 'boolean' ? String(Number(value)) : String(value), row.variable).toBe(row.defaultText);
    }
  });
});
