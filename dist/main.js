// The step itself: finds loopexec, runs it, ends as it ends.
'use strict';

const { run } = require('./launcher.js');

run();
