/** Loaded before a program: its wall clock is wrong by `FIRN_TEST_SKEW_MS`. */
const shiftMs = Number(process.env.FIRN_TEST_SKEW_MS);
const RealDate = Date;

globalThis.Date = class Date extends RealDate {
  constructor(...parts) {
    if (parts.length === 0) super(RealDate.now() + shiftMs);
    else super(...parts);
  }

  static now() {
    return RealDate.now() + shiftMs;
  }
};
