// Gives vitest what makes its server with one plugin more, and with it one reporter.
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
import { createServer as create, resolveConfig as resolve } from ${real};
import { forServer, forResolved } from ${JSON.stringify(import.meta.url)};
export const createServer = (config) => create(forServer(config));
export const resolveConfig = (config, ...rest) => resolve(forResolved(config), ...rest);
`;
  return { format: 'module', source, shortCircuit: true };
}

let added = false;

// From version 5 on the settings are complete before there is a server.
export const forServer = (config) => (process.env.LOOPEXEC_VITEST === 'resolved' ? config : plugin(config));
export const forResolved = (config) => (process.env.LOOPEXEC_VITEST === 'resolved' ? plugin(config) : config);

/** Adds our plugin to the settings of a run; in old versions the first server reads them. */
function plugin(config) {
  const hook = process.env.LOOPEXEC_VITEST !== 'config';
  if (!config || !Array.isArray(config.plugins) || (added && !hook)) return config;
  added = true;
  const ours = { name: 'loopexec', enforce: 'pre' };
  if (hook) {
    // Each project of a run calls it, and not every server has a project.
    ours.configureVitest = ({ vitest }) => {
      const reporters = vitest?.config?.reporters;
      if (Array.isArray(reporters) && !reporters.some((one) => one[0] === OURS)) reporters.push([OURS, {}]);
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
