import ms from 'ms';

/** Returns a sentence that says how long to wait, for a number of milliseconds. */
export function sentence(time) {
  if (time <= 0) return 'no wait';
  return `please wait ${ms(time)}`;
}
