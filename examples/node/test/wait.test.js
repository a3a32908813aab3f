import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sentence } from '../src/wait.js';

test('nothing to wait for', () => {
  assert.equal(sentence(0), 'no wait');
});

test('the unit is written out', () => {
  assert.equal(sentence(60_000), 'please wait 1 minute');
  assert.equal(sentence(7_200_000), 'please wait 2 hours');
});
