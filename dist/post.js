// After the job, whatever became of it: has loopexec complete what a cancelled or killed step left undone.
'use strict';

const { finish } = require('./launcher.js');

finish();
