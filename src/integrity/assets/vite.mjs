// Gives vitest a `createServer` that adds one plugin, and with it one reporter.
//
// Loaded twice: as the hooks of a loader, in whose thread nothing of vitest is, and as the module
// that stands in vite's place, with the address of the real one behind `?`.
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const OURS = join(dirname(fileURLToPath(import.meta.url)), 'vitest.mjs');

export async function resolve(specifier, context, next) {
  const found = await next(specifier, context);
  if (specifier !== 'vite' || !/[\\/]vitest[\\/]|[\\/]vitest[^\\/]*[\\/]dist[\\/]/.test(context.parentURL ?? '')) return found;
  return { ...found, url: `loopexec:${found.url}`, format: 'module', shortCircuit: true };
}

export async function load(url, context, next) {
  if (!url.startsWith('loopexec:')) return next(url, context);
  const real = JSON.stringify(url.slice('loopexec:'.length));
  const source = `export * from ${real};
import { createServer as create } from ${real};
import { plugin } from ${JSON.stringify(import.meta.url)};
export const createServer = (config) => create(plugin(config));
`;
  return { format: 'module', source, shortCircuit: true };
}

let added = false;

/** Adds our plugin to the first server, which is that of the whole run. */
export function plugin(config) {
  if (added || !config || !Array.isArray(config.plugins)) return config;
  added = true;
  let pushed = false;
  const ours = { name: 'loopexec', enforce: 'pre' };
  if (process.env.LOOPEXEC_VITEST === 'hook') {
    ours.configureVitest = ({ vitest }) => {
      if (!pushed && Array.isArray(vitest?.config?.reporters)) vitest.config.reporters.push([OURS, {}]);
      pushed = true;
    };
  } else {
    ours.config = (user) => {
      const own = user.test?.reporters;
      if (own && (!Array.isArray(own) || own.length > 0)) return { test: { reporters: [OURS] } };
      const more = process.env.GITHUB_ACTIONS === 'true' ? ['github-actions'] : [];
      return { test: { reporters: ['default', ...more, OURS] } };
    };
  }
  return { ...config, plugins: [ours, ...config.plugins] };
}
