<?php
// Stands before every PHP program of the check; where that is PHPUnit, asks it for two logs more.
// Written for PHP 5.4 and later: what does not parse would stop every program.
call_user_func(function () {
    try {
        $folder = getenv('LOOPEXEC_RESULTS');
        $argv = isset($_SERVER['argv']) ? $_SERVER['argv'] : null;
        if (PHP_SAPI !== 'cli' || !$folder || getenv('LOOPEXEC_RESULTS_PHP') || !is_array($argv) || !isset($argv[0])) {
            return;
        }
        if (preg_match('/^phpunit(-[0-9.]+)?(\.phar)?$/', basename((string) $argv[0])) !== 1) {
            return;
        }
        $only = ['--version', '--help', '-h', '--list-tests', '--list-tests-xml', '--list-suites', '--list-groups', '--list-test-files', '--generate-configuration', '--migrate-configuration', '--check-version', '--warm-coverage-cache', '--atleast-version'];
        $config = null;
        foreach ($argv as $at => $arg) {
            $arg = (string) $arg;
            if (in_array(explode('=', $arg)[0], $only, true)) {
                return;
            }
            if ($arg === '-c' || $arg === '--configuration') {
                $config = isset($argv[$at + 1]) ? (string) $argv[$at + 1] : '';
            } elseif (strpos($arg, '--configuration=') === 0) {
                $config = substr($arg, 16);
            }
        }
        // A log that the command or the settings ask for stays theirs.
        $asked = implode("\n", $argv);
        $settings = '';
        $places = $config === null ? ['phpunit.xml', 'phpunit.dist.xml', 'phpunit.xml.dist'] : [$config];
        foreach ($places as $place) {
            if (is_dir($place)) {
                $place .= is_file("$place/phpunit.xml") ? '/phpunit.xml' : '/phpunit.xml.dist';
            }
            if (is_file($place) && filesize($place) < 1 << 20) {
                $settings = (string) file_get_contents($place);
                break;
            }
        }
        $name = sprintf('%s/%020d-%d-phpunit', $folder, (int) (microtime(true) * 1e9), getmypid());
        $more = [];
        foreach (['teamcity' => '<teamcity', 'junit' => '<junit'] as $log => $tag) {
            if (strpos($asked, "--log-$log") === false && strpos($settings, $tag) === false) {
                array_push($more, "--log-$log", "$name.$log");
            }
        }
        if ($more === []) {
            return;
        }
        putenv('LOOPEXEC_RESULTS_PHP=' . getmypid());
        if (in_array('--log-teamcity', $more, true)) {
            touch("$name.teamcity");
        }
        array_splice($argv, 1, 0, $more);
        $_SERVER['argv'] = $argv;
        $_SERVER['argc'] = count($argv);
        $GLOBALS['argv'] = $argv;
        $GLOBALS['argc'] = count($argv);
    } catch (\Throwable $error) {
        // The command runs as if we were not there.
    }
});
